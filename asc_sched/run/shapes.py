"""Shapes of a call: what the user gave, spelled out per input, and what the result has."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from asc_sched.errors import ShapeError

if TYPE_CHECKING:
    from asc_sched.declare import Op

Shape: TypeAlias = tuple[int, ...]


@attrs.frozen
class Shapes:
    """The shape of each input, in order, and of every output."""

    names: tuple[str, ...]
    inputs: tuple[Shape, ...]
    output: Shape

    @property
    def total_length(self) -> int:
        return math.prod(self.output)

    @property
    def zero_dim(self) -> frozenset[str]:
        """0-d inputs, which weigh less in torch's type promotion; none where every input is 0-d."""
        return frozenset(n for n, s in zip(self.names, self.inputs, strict=True) if s == ())


def resolve_shapes(op: Op, shape: Any) -> Shapes:
    """From one shape for all inputs, a list of shapes in order, or a mapping by name. Raises `ShapeError`."""
    if isinstance(shape, Mapping):
        if set(shape) != set(op.inputs):
            raise ShapeError(f"{op.name}: shapes for {', '.join(map(str, shape))}; inputs are {', '.join(op.inputs)}")
        inputs = tuple(as_shape(shape[n]) for n in op.inputs)
    elif isinstance(shape, (list, tuple)) and any(isinstance(s, (list, tuple)) for s in shape):
        if len(shape) != len(op.inputs):
            raise ShapeError(
                f"{op.name} takes {len(op.inputs)} inputs ({', '.join(op.inputs)}), {len(shape)} shapes given"
            )
        inputs = tuple(as_shape(s) for s in shape)
    else:
        inputs = (as_shape(shape),) * len(op.inputs)
    return Shapes(op.inputs, inputs, broadcast(op, inputs))


def as_shape(shape: Any) -> Shape:
    """A shape as a tuple of non-negative ints; an int is a 1-d shape. Raises `ShapeError`."""
    dims = shape if isinstance(shape, (list, tuple)) or hasattr(shape, "__iter__") else (shape,)
    try:
        result = tuple(operator.index(d) for d in dims)
    except TypeError:
        raise ShapeError(f"shape {shape!r} must be integers, such as (8, 2048)") from None
    if any(d < 0 for d in result):
        raise ShapeError(f"shape {result} has a negative dimension")
    return result


def broadcast(op: Op, shapes: tuple[Shape, ...]) -> Shape:
    """torch's broadcasting rule. Raises `ShapeError` naming the inputs and the dimension that don't fit."""
    rank = max(map(len, shapes))
    result: list[int] = []
    for d in range(-rank, 0):
        sizes = {s[d]: i for i, s in reversed(list(enumerate(shapes))) if len(s) >= -d and s[d] != 1}
        if len(sizes) > 1:
            (a, i), (b, j), *_ = sorted(sizes.items(), key=lambda pair: pair[1])
            raise ShapeError(
                f"{op.name}: shapes {shapes[i]} of {op.inputs[i]} and {shapes[j]} of {op.inputs[j]} don't fit: "
                f"dimension {d} is {a} and {b}; sizes must be equal, or one of them 1"
            )
        result.append(next(iter(sizes), 1))
    return tuple(result)
