"""What values integer nodes can have: int64 results that are known to fit are computed in int32.

torch's small integers become int64 easily (a sum of bools, ``where(c, 1, 0)``), and the chip has next to nothing for
int64.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from asc_sched.lang.dtypes import DType
from asc_sched.lang.graph import Graph, Node
from asc_sched.lang.infer import TypedGraph

Range: TypeAlias = "tuple[int, int]"

INT32: Range = (-(2**31), 2**31 - 1)
_LIMITS: dict[str, Range] = {
    "bool": (0, 1), "int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "int32": INT32,
    "int64": (-(2**63), 2**63 - 1),
}  # fmt: skip


def integer_ranges(typed: TypedGraph) -> tuple[Range | None, ...]:
    """The range of every integer or bool node; None for floats."""
    found: list[Range | None] = []
    for node, type_ in zip(typed.graph.nodes, typed.types, strict=True):
        found.append(_range(node, type_.dtype, found))
    return tuple(found)


def fits(range_: Range | None, limits: Range) -> bool:
    """Whether all values of a range lie within limits."""
    return range_ is not None and limits[0] <= range_[0] and range_[1] <= limits[1]


def _range(node: Node, dtype: DType, known: list[Range | None]) -> Range | None:
    if dtype.is_float:
        return None
    limits = _LIMITS[dtype.name]
    if node.fn == "const":
        value = int(node.attr)  # type: ignore[arg-type]
        return value, value
    args = [known[a] for a in node.args]
    values = args[1:] if node.fn == "where" else args
    if not values or any(v is None for v in values):
        return limits
    result = _combine(node.fn, [v for v in values if v is not None])
    return result if result is not None and fits(result, limits) else limits


def _combine(fn: str, args: list[Range]) -> Range | None:
    (a, b) = args[0]
    c, d = args[1] if len(args) > 1 else (0, 0)
    if fn == "add":
        return a + c, b + d
    if fn == "sub":
        return a - d, b - c
    if fn == "mul":
        corners = [p * q for p in (a, b) for q in (c, d)]
        return min(corners), max(corners)
    if fn == "neg":
        return -b, -a
    if fn in ("abs", "relu"):
        return (0 if fn == "relu" or a < 0 < b else min(abs(a), abs(b))), max(abs(a) if fn == "abs" else 0, b, 0)
    if fn in ("maximum", "fmax"):
        return max(a, c), max(b, d)
    if fn in ("minimum", "fmin"):
        return min(a, c), min(b, d)
    if fn in ("where",):
        return min(a, c), max(b, d)
    if fn == "sign":
        return (a > 0) - (a < 0), (b > 0) - (b < 0)
    if fn in ("cast", "floor", "ceil", "round", "trunc"):
        return a, b
    if fn in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        return _bit_limits(a, b, c, d)
    if fn == "bitwise_not":
        return ~b, ~a
    if fn == "pow" and c == d and 0 <= c <= 63:
        corners = [p**c for p in (a, b, 0 if a < 0 < b else a)]
        return min(corners), max(corners)
    return None


def _bit_limits(a: int, b: int, c: int, d: int) -> Range:
    bits = max(x.bit_length() for x in (a, b, c, d))
    return (0 if a >= 0 and c >= 0 else -(1 << bits)), (1 << bits) - 1


# -- floats --------------------------------------------------------------------------------------------------------
def float_bounds(graph: Graph) -> tuple[tuple[float, float] | None, ...]:
    """Limits of nodes that are clamped by literals: what their numbers (not NaN) lie between."""
    found: list[tuple[float, float] | None] = []
    for node in graph.nodes:
        found.append(_bounds(node, [found[a] for a in node.args]))
    return tuple(found)


def _bounds(node: Node, args: list[tuple[float, float] | None]) -> tuple[float, float] | None:
    anything = (-math.inf, math.inf)
    if node.fn == "const":
        value = float(node.attr)  # type: ignore[arg-type]
        return None if math.isnan(value) else (value, value)
    if node.fn in ("floor", "ceil", "round", "trunc") and args[0] is not None and all(map(math.isfinite, args[0])):
        return math.floor(args[0][0]), math.ceil(args[0][1])
    if node.fn in ("maximum", "minimum"):
        (a, b), (c, d) = (x if x is not None else anything for x in args)
        return (max(a, c), max(b, d)) if node.fn == "maximum" else (min(a, c), min(b, d))
    return None
