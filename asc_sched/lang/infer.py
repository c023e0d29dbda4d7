"""Result dtypes, by asking torch: promotion, integer division, comparison and the refusals are all its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import attrs

from asc_sched.errors import DtypeError
from asc_sched.lang.dtypes import DTYPES, DType, get_dtype
from asc_sched.lang.functions import FUNCTIONS
from asc_sched.lang.graph import Constant, Graph, Node


@attrs.frozen
class Type:
    """A node's type: its dtype, and whether it is 0-dimensional (which weakens it in torch's promotion).

    A number (a constant, a runtime scalar, or what is made of these alone) has no tensor of its own. `operands` is the
    dtype in which torch combines a function's arguments, which for comparisons isn't the result's.
    """

    dtype: DType
    zero_dim: bool = False
    is_number: bool = False
    operands: DType | None = None


def rounded_first(fn: str, position: int, own: Type, function: Type) -> bool:
    """Whether torch rounds a function's argument, of type `own`, to the 16-bit floats that it computes with.

    It does so to numbers where the result is a bool; to 0-d floats of another dtype; and to integers that 16 bits may
    not hold; except to a 0-d factor or divisor on the right. Other numbers stay float32, and so do values of the
    operands' own dtype, which are rounded at the end.
    """
    operands = function.operands
    if operands is None or not operands.is_half or own.dtype is operands:
        return False
    if own.is_number:
        return function.dtype.name == "bool"
    if own.zero_dim and position == 1 and fn in ("mul", "div"):
        return False
    return own.zero_dim if own.dtype.is_float else own.dtype.itemsize > 1


@attrs.frozen
class TypedGraph:
    """A graph with one `Type` per node."""

    graph: Graph
    types: tuple[Type, ...]

    @property
    def input_dtypes(self) -> dict[str, DType]:
        return dict(zip(self.graph.inputs, self._inputs, strict=True))

    _inputs: tuple[DType, ...] = attrs.field(alias="inputs")

    @property
    def output_dtypes(self) -> dict[str, DType]:
        return {o.name: self.types[o.node].dtype for o in self.graph.outputs}


def infer(graph: Graph, inputs: Mapping[str, DType], zero_dim: frozenset[str] = frozenset()) -> TypedGraph:
    """Give every node its torch dtype, for inputs of the given dtypes (`zero_dim` names the 0-d ones).

    Raises `DtypeError` where torch refuses, with torch's reason.
    """
    types: list[Type] = []
    for node in graph.nodes:
        types.append(_node_type(graph, node, types, inputs, zero_dim))
    return TypedGraph(graph, tuple(types), inputs=tuple(inputs[n] for n in graph.inputs))


def _node_type(
    graph: Graph, node: Node, types: list[Type], inputs: Mapping[str, DType], zero_dim: frozenset[str]
) -> Type:
    if node.fn == "input":
        name = str(node.attr)
        return Type(inputs[name], name in zero_dim)
    if node.fn == "scalar":
        return Type(graph.scalar(str(node.attr)).dtype, zero_dim=True, is_number=True)
    if node.fn == "const":
        return Type(_constant_dtype(node.attr), zero_dim=True, is_number=True)
    if node.fn == "cast":
        arg = types[node.args[0]]
        return Type(get_dtype(str(node.attr)), arg.zero_dim)
    probes = tuple(_probe_key(graph, graph.nodes[a], types[a]) for a in node.args)
    dtype, zero, operands = _result(node.fn, probes)
    is_number = all(types[a].is_number for a in node.args)
    return Type(DTYPES[dtype], zero, is_number, DTYPES.get(operands))


def _constant_dtype(value: Any) -> DType:
    return DTYPES["bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"]


def _probe_key(graph: Graph, node: Node, type_: Type) -> tuple[str, Any]:
    # The kind names the number's type: 1, 1.0 and True are one key to a cache.
    if node.fn == "const":
        return (type(node.attr).__name__, node.attr)
    if node.fn == "scalar":
        return ("float", 1.0) if type_.dtype.is_float else ("int", 1)
    return ("zero_dim" if type_.zero_dim else "tensor", type_.dtype.name)


@lru_cache(maxsize=16384)
def _result(fn: str, probes: tuple[tuple[str, Any], ...]) -> tuple[str, bool, str]:
    import torch

    args = [_probe(torch, kind, value) for kind, value in probes]
    if not any(isinstance(a, torch.Tensor) for a in args):
        args[0] = torch.tensor(args[0])
    try:
        result = FUNCTIONS[fn].torch(*as_tensors(torch, fn, args))
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        shown = ", ".join(str(v) for _, v in probes)
        reason = str(error).splitlines()[0]
        raise DtypeError(f"{fn}({shown}) is not defined: torch says {reason!r}") from None
    name = str(result.dtype).removeprefix("torch.")
    if name not in DTYPES:
        shown = ", ".join(str(v) for _, v in probes)
        raise DtypeError(f"{fn}({shown}) gives {name}, which vector cores don't have; known: {', '.join(DTYPES)}")
    return name, result.dim() == 0, _common_dtype(torch, args[1:] if fn == "where" else args)


def _common_dtype(torch: Any, args: list[Any]) -> str:
    """torch's promotion of all arguments of one function."""
    common = args[0]
    for other in args[1:]:
        dtype = torch.result_type(common, other)
        # A tensor outweighs a 0-d one of its own category, and that one a number.
        dim = max((a.dim() if isinstance(a, torch.Tensor) else 0) for a in (common, other))
        common = torch.ones((1,) * dim, dtype=dtype)
    dtype = common.dtype if isinstance(common, torch.Tensor) else torch.result_type(common, common)
    return str(dtype).removeprefix("torch.")


def _probe(torch: Any, kind: str, value: Any) -> Any:
    if kind in ("bool", "int", "float"):
        return value
    return torch.ones(() if kind == "zero_dim" else (1,), dtype=DTYPES[value].torch)


def as_tensors(torch: Any, fn: str, args: list[Any]) -> list[Any]:
    """Arguments of a torch function, numbers as 0-d tensors where it takes none (few take one in first place)."""
    like = next(a for a in args if isinstance(a, torch.Tensor))
    weak = FUNCTIONS[fn].tensors_only
    return [
        weak_tensor(a, like) if not isinstance(a, torch.Tensor) and (weak or (i == 0 and fn != "where")) else a
        for i, a in enumerate(args)
    ]


def weak_tensor(number: Constant, like: Any) -> Any:
    """A 0-d tensor for a number that keeps `like`'s dtype where the number's kind doesn't force a wider one."""
    import torch

    dtype = torch.result_type(like, number)
    limits = None if dtype.is_floating_point or dtype == torch.bool else torch.iinfo(dtype)
    if limits is not None and not limits.min <= number <= limits.max:
        raise OverflowError(f"value {number} cannot be converted to {dtype} without overflow")
    return torch.tensor(number, dtype=dtype)
