"""What an op's result must be: its graph evaluated by torch on the CPU.

The contract: 16-bit floating-point values are widened to float32 at the inputs, every function is evaluated in
float32, and the result is rounded once, at the output or at an explicit cast. Every other dtype is torch's, step by
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from asc_sched.lang.dtypes import DType
from asc_sched.lang.functions import FUNCTIONS
from asc_sched.lang.graph import Constant, Node
from asc_sched.lang.infer import TypedGraph, as_tensors

if TYPE_CHECKING:
    import torch


def evaluate(
    typed: TypedGraph, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, Constant]
) -> dict[str, torch.Tensor]:
    """The outputs by name, broadcast as torch does. `scalars` are rounded to their declared dtype first."""
    import torch

    values: list[Any] = []
    last_use = _last_uses(typed)
    with torch.no_grad():
        for i, node in enumerate(typed.graph.nodes):
            values.append(_value(torch, typed, node, i, values, tensors, scalars))
            for a in set(node.args):
                if last_use[a] == i:
                    values[a] = None
        shape = torch.broadcast_shapes(*(t.shape for t in tensors.values()))  # type: ignore[no-untyped-call]
        return {
            o.name: _finish(torch, values[o.node], typed.types[o.node].dtype, shape) for o in typed.graph.outputs
        }


def _last_uses(typed: TypedGraph) -> list[int]:
    last = [-1] * len(typed.graph.nodes)
    for i, node in enumerate(typed.graph.nodes):
        for a in node.args:
            last[a] = i
    for output in typed.graph.outputs:
        last[output.node] = len(last)
    return last


def _finish(torch: Any, value: Any, dtype: DType, shape: Any) -> torch.Tensor:
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    return tensor.to(dtype.torch).broadcast_to(shape).clone(memory_format=torch.contiguous_format)  # type: ignore[no-any-return]


def _value(
    torch: Any,
    typed: TypedGraph,
    node: Node,
    index: int,
    values: list[Any],
    tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, Constant],
) -> Any:
    dtype = typed.types[index].dtype
    if node.fn == "const":
        return node.attr
    if node.fn == "scalar":
        return torch.tensor(scalars[str(node.attr)]).to(dtype.torch).item()
    if node.fn == "input":
        return _widen(tensors[str(node.attr)].to(dtype.torch), dtype)
    if node.fn == "cast":
        value = values[node.args[0]]
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        return _widen(tensor.to(dtype.torch), dtype)
    args = [values[a] for a in node.args]
    if not any(isinstance(a, torch.Tensor) for a in args):
        args[0] = torch.tensor(args[0])
    function = FUNCTIONS[node.fn]
    if function.own_dtype and dtype.is_half:
        return _widen(function.torch(*(a.to(dtype.torch) for a in args)), dtype)
    result = function.torch(*as_tensors(torch, node.fn, args))
    return result if dtype.is_half else result.to(dtype.torch)


def _widen(tensor: torch.Tensor, dtype: DType) -> torch.Tensor:
    return tensor.float() if dtype.is_half else tensor
