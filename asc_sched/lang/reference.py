"""What an op's result must be: its graph evaluated by torch on the CPU.

The contract: 16-bit floating-point values are widened to float32 at the inputs, every function is evaluated in
float32, and the result is rounded once, at the output or at an explicit cast. Every other dtype is torch's, step by
step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from asc_sched.errors import ArgumentError
from asc_sched.lang.dtypes import DType
from asc_sched.lang.functions import FUNCTIONS
from asc_sched.lang.graph import Constant, Node
from asc_sched.lang.infer import Type, TypedGraph, as_tensors, rounded_first

if TYPE_CHECKING:
    import torch


def evaluate(
    typed: TypedGraph, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, Constant]
) -> dict[str, torch.Tensor]:
    """The outputs by name, broadcast as torch does. `scalars` are rounded to their declared dtype first."""
    return _Evaluation(typed, tensors, scalars).run()


Perturb: TypeAlias = "Callable[[int, torch.Tensor], torch.Tensor]"


def evaluate_wide(
    typed: TypedGraph,
    tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, Constant],
    perturb: Perturb | None = None,
) -> dict[str, torch.Tensor]:
    """The same in float64, rounded only at explicit casts; `perturb` may change the float value of each function, given
    its node's index."""
    return _Evaluation(typed, tensors, scalars, wide=True, perturb=perturb).run()


class _Evaluation:
    """One walk over the graph. `wide`: floats are float64, and rounded only where the user rounds."""

    def __init__(
        self,
        typed: TypedGraph,
        tensors: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Constant],
        wide: bool = False,
        perturb: Perturb | None = None,
    ) -> None:
        self.typed = typed
        self.tensors = tensors
        self.scalars = scalars
        self.wide = wide
        self.perturb = perturb
        self.values: list[Any] = []

    def run(self) -> dict[str, torch.Tensor]:
        import torch

        last_use = _last_uses(self.typed)
        with torch.no_grad():
            for i, node in enumerate(self.typed.graph.nodes):
                self.values.append(self._value(i, node, self.typed.types[i]))
                for a in set(node.args):
                    if last_use[a] == i:
                        self.values[a] = None
            shape = torch.broadcast_shapes(*(t.shape for t in self.tensors.values()))  # type: ignore[no-untyped-call]
            outputs = self.typed.graph.outputs
            return {o.name: self._finish(self.values[o.node], self.typed.types[o.node].dtype, shape) for o in outputs}

    def _finish(self, value: Any, dtype: DType, shape: Any) -> torch.Tensor:
        import torch

        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        tensor = tensor.to(torch.float64 if self.wide and dtype.is_float else dtype.torch)
        return tensor.broadcast_to(shape).clone(memory_format=torch.contiguous_format)

    def _value(self, index: int, node: Node, type_: Type) -> Any:
        import torch

        if node.fn == "const":
            return node.attr
        if node.fn == "scalar":
            return torch.tensor(self.scalars[str(node.attr)]).to(type_.dtype.torch).item()
        if node.fn == "input":
            return self._widen(self.tensors[str(node.attr)].to(type_.dtype.torch), type_.dtype)
        if node.fn == "cast":
            value = self.values[node.args[0]]
            tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
            return self._widen(tensor.to(type_.dtype.torch), type_.dtype)
        return self._function(index, node, type_)

    def _function(self, index: int, node: Node, type_: Type) -> torch.Tensor:
        import torch

        dtype, function = type_.dtype, FUNCTIONS[node.fn]
        args = [self._argument(node, k, type_) for k in range(len(node.args))]
        if not any(isinstance(a, torch.Tensor) for a in args):
            args[0] = torch.tensor(args[0])
        if function.own_dtype:
            return self._widen(function.torch(*(a.to(dtype.torch) for a in args)), dtype)
        if self.wide and dtype.is_float:
            args = [a.double() if isinstance(a, torch.Tensor) and a.dtype is not torch.bool else a for a in args]
        try:
            result: torch.Tensor = function.torch(*as_tensors(torch, node.fn, args))
        except RuntimeError as error:
            raise ArgumentError(f"{node.fn} of these tensors: torch says {str(error).splitlines()[0]!r}") from None
        if dtype.is_float and self.wide:
            return result.double() if self.perturb is None else self.perturb(index, result.double())
        return result if dtype.is_half else result.to(dtype.torch)

    def _argument(self, node: Node, k: int, type_: Type) -> Any:
        """torch rounds what weighs less to the operands' dtype first: 0-d, integers, and numbers in comparisons."""
        import torch

        value, own, operands = self.values[node.args[k]], self.typed.types[node.args[k]], type_.operands
        if operands is None or not rounded_first(node.fn, k, own, type_):
            return value
        if not isinstance(value, torch.Tensor):
            return torch.as_tensor(value).to(operands.torch).item()
        return self._widen(value.to(operands.torch), operands)

    def _widen(self, tensor: torch.Tensor, dtype: DType) -> torch.Tensor:
        if self.wide and dtype.is_float:
            return tensor.double()
        return tensor.float() if dtype.is_half else tensor


def _last_uses(typed: TypedGraph) -> list[int]:
    last = [-1] * len(typed.graph.nodes)
    for i, node in enumerate(typed.graph.nodes):
        for a in node.args:
            last[a] = i
    for output in typed.graph.outputs:
        last[output.node] = len(last)
    return last
