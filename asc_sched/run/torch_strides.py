"""The strides that torch gives to the result of an elementwise function: the rule of its TensorIterator, on plain ints.

Asking torch itself (on tensors without memory) loads its compiler, two seconds at a process's first call. The rule,
from the public behaviour of torch: inputs of one shape that are all contiguous, all channels-last, or dense with equal
strides pass their layout on; else dimensions are sorted by the inputs' strides, the first input that has an opinion
deciding, and the result is dense in that order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Ints: TypeAlias = tuple[int, ...]
Spec: TypeAlias = tuple[Ints, Ints]
"""A tensor's shape and strides."""


def result_spec(inputs: Sequence[Spec]) -> Spec:
    """Shape and strides of an elementwise function's result. The shapes broadcast."""
    shape = _broadcast([s for s, _ in inputs])
    if all(s == shape for s, _ in inputs):
        alike = _alike(shape, [strides for _, strides in inputs])
        if alike is not None:
            return shape, alike
    steps = [_over(spec, shape) for spec in inputs]
    order = _order(shape, steps)
    if order == list(range(len(shape) - 1, -1, -1)):
        return shape, contiguous(shape)
    result, step = [0] * len(shape), 1
    for dim in order:
        result[dim] = step
        step *= shape[dim]
    return shape, tuple(result)


def contiguous(shape: Sequence[int]) -> Ints:
    """torch's strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _broadcast(shapes: Sequence[Ints]) -> Ints:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))


def _over(spec: Spec, shape: Ints) -> Ints:
    """A tensor's strides over the broadcast shape: 0 where it is broadcast."""
    own, strides = spec
    missing = len(shape) - len(own)
    inner = (0 if n == 1 and full != 1 else s for n, s, full in zip(own, strides, shape[missing:], strict=True))
    return (0,) * missing + tuple(inner)


def _alike(shape: Ints, strides: Sequence[Ints]) -> Ints | None:
    """The layout that all inputs share, if they do."""
    if all(is_contiguous(shape, s) for s in strides):
        return contiguous(shape)
    if len(shape) == 4 and all(_is_channels_last(shape, s) for s in strides):
        _, c, h, w = shape
        return (h * w * c, 1, w * c, c)
    if all(s == strides[0] for s in strides) and is_dense(shape, strides[0]):
        return strides[0]
    return None


def is_contiguous(shape: Ints, strides: Ints) -> bool:
    """Whether a tensor is contiguous; strides of dimensions of size 1 don't matter."""
    if math.prod(shape) == 0:
        return True
    return all(n == 1 or s == c for n, s, c in zip(shape, strides, contiguous(shape), strict=True))


def _is_channels_last(shape: Ints, strides: Ints) -> bool:
    expected = 1
    for dim in (1, 3, 2, 0):
        if shape[dim] != 1:
            if strides[dim] != expected:
                return False
            expected *= shape[dim]
    return True


def is_dense(shape: Ints, strides: Ints) -> bool:
    """Whether a tensor fills its memory without gaps or overlaps, whatever the order of its dimensions."""
    expected = 1
    for step, size in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n > 1):
        if step != expected:
            return False
        expected *= size
    return True


def overlaps_itself(shape: Ints, strides: Ints) -> bool:
    """Whether two elements may share memory: after sorting by stride, some dimension steps inside another."""
    span = 1
    for stride, size in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n > 1):
        if stride < span:
            return math.prod(shape) > 0
        span += stride * (size - 1)
    return False


def _order(shape: Ints, steps: Sequence[Ints]) -> list[int]:
    """The dimensions, fastest first: insertion sort, since the comparison isn't a total order."""
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        moving = i
        for other in range(i - 1, -1, -1):
            found = _compare(shape, steps, order[other], order[moving])
            if found > 0:
                order[other], order[moving] = order[moving], order[other]
                moving = other
            elif found < 0:
                break
    return order


def _compare(shape: Ints, steps: Sequence[Ints], a: int, b: int) -> int:
    """-1 where dimension `a` is to stay before `b`, 1 where they are to be swapped, 0 where no input tells."""
    for own in steps:
        if own[a] == 0 or own[b] == 0:
            continue
        if own[a] != own[b]:
            return -1 if own[a] < own[b] else 1
        if shape[a] > shape[b]:
            return 1
    return 0
