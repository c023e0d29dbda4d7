"""How the tensors of a kernel lie in memory: one iteration space, collapsed to the fewest dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import attrs

Ints: TypeAlias = tuple[int, ...]


@attrs.frozen
class Geometry:
    """The dimensions that a kernel runs over, outermost first, and each tensor's stride in every one of them.

    `sizes` and `strides` are in elements; a stride of 0 is a broadcast dimension. `strides` has one entry per tensor,
    inputs first. Dimensions of size 1 are gone, and neighbours that are one run of memory in every tensor are one
    dimension, so equal geometries are the same work. There is always at least one dimension.
    """

    sizes: Ints
    strides: tuple[Ints, ...]
    input_count: int

    @property
    def total_length(self) -> int:
        return math.prod(self.sizes)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def outputs(self) -> range:
        """The indices of the output tensors."""
        return range(self.input_count, len(self.strides))

    def is_scalar(self, tensor: int) -> bool:
        """Whether a tensor is one element for the whole space."""
        return self.total_length > 1 and not any(self.strides[tensor])

    def is_full(self, tensor: int) -> bool:
        """Whether a tensor has an element of its own at every place."""
        return all(self.strides[tensor])

    @property
    def is_flat(self) -> bool:
        """One dimension, in which every tensor is one run of memory (or a single element)."""
        return self.rank == 1 and all(s in ((0,), (1,)) for s in self.strides)


def dense_strides(sizes: Sequence[int]) -> Ints:
    """The strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def compact_strides(sizes: Sequence[int], strides: Sequence[int]) -> Ints:
    """The strides of a tensor after its elements are copied together; its broadcast dimensions stay at stride 0."""
    own = iter(dense_strides([n for n, s in zip(sizes, strides, strict=True) if s and n > 1]))
    return tuple(next(own) if s and n > 1 else 0 for n, s in zip(sizes, strides, strict=True))


def collapse(sizes: Sequence[int], strides: Sequence[Sequence[int]], input_count: int) -> Geometry:
    """The geometry of tensors with these strides over `sizes` (outermost first; stride 0 where broadcast)."""
    if math.prod(sizes) == 0:
        return Geometry((0,), ((1,),) * len(strides), input_count)
    dims: list[tuple[int, Ints]] = []
    for size, *steps in zip(sizes, *strides, strict=True):
        if size == 1:
            continue
        inner = tuple(steps)
        if dims and all(outer == step * size for outer, step in zip(dims[-1][1], inner, strict=True)):
            dims[-1] = (dims[-1][0] * size, inner)
        else:
            dims.append((size, inner))
    if not dims:
        return Geometry((1,), ((1,),) * len(strides), input_count)
    columns = tuple(tuple(inner[i] for _, inner in dims) for i in range(len(strides)))
    return Geometry(tuple(size for size, _ in dims), columns, input_count)


def _broadcast_strides(own: Sequence[int], shape: Sequence[int]) -> Ints:
    missing = len(shape) - len(own)
    steps = dense_strides(own)
    return (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(own, steps, strict=True))


@attrs.frozen
class Arrangement:
    """Tensors over the dimensions of a call, not collapsed yet, and which of them are copied before the launch.

    `strides` are those of the copies, in which a tensor's elements lie together; a dimension of stride 0 isn't copied
    out.
    """

    sizes: Ints
    strides: tuple[Ints, ...]
    input_count: int
    copied: frozenset[int] = frozenset()

    @property
    def geometry(self) -> Geometry:
        return collapse(self.sizes, self.strides, self.input_count)

    def with_copy(self, tensor: int, expand: bool) -> Arrangement:
        """The same with a tensor copied: together, or if that isn't new or `expand` says so, to every place."""
        own = self.strides[tensor]
        together = compact_strides(self.sizes, own)
        return self.with_strides(tensor, dense_strides(self.sizes) if expand or together == own else together)

    def with_strides(self, tensor: int, new: Ints) -> Arrangement:
        """The same with a tensor copied to these strides."""
        strides = (*self.strides[:tensor], new, *self.strides[tensor + 1 :])
        return attrs.evolve(self, strides=strides, copied=self.copied | {tensor})

    def is_expanded(self, tensor: int) -> bool:
        """Whether a tensor has an element of its own at every place."""
        return all(s for n, s in zip(self.sizes, self.strides[tensor], strict=True) if n > 1)


def contiguous_arrangement(shape: Sequence[int], inputs: Sequence[Sequence[int]], output_count: int) -> Arrangement:
    """Contiguous inputs of these shapes, broadcast to contiguous outputs of `shape`."""
    rows = [_broadcast_strides(s, shape) for s in inputs]
    rows += [dense_strides(shape)] * output_count
    return Arrangement(tuple(shape), tuple(rows), len(inputs))
