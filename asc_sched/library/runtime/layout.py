"""How results lie in memory: torch's rule for elementwise functions, for real and for traced (symbolic) tensors.

The rule (TensorIterator's): dimensions are ordered by the strides of the inputs, the first input that tells two of them
apart decides, and the result is dense in that order. Both the kernels' outputs and the fake implementation use this one
function, so they can't disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def result_layout(tensors: Sequence[torch.Tensor]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of an elementwise function's result. Raises torch's RuntimeError for shapes that don't fit."""
    first = tensors[0]
    shape: tuple[int, ...] = tuple(first.shape)
    if all(t.shape == first.shape for t in tensors):
        alike = _alike(tensors)
        if alike is not None:
            return shape, alike
    else:
        shape = tuple(torch.broadcast_shapes(*(t.shape for t in tensors)))  # type: ignore[no-untyped-call]
    order = _order(shape, [_strides(t, shape) for t in tensors])
    return shape, _dense(shape, order)


def _alike(tensors: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
    """The strides of dense tensors of one shape that are all laid out alike."""
    first = tensors[0]
    if all(t.is_contiguous() for t in tensors):
        return _dense(tuple(first.shape), range(first.dim() - 1, -1, -1))
    if first.dim() == 4 and all(t.is_contiguous(memory_format=torch.channels_last) for t in tensors):
        return _dense(tuple(first.shape), (1, 3, 2, 0))
    if all(t.stride() == first.stride() for t in tensors) and _is_dense(first):
        return tuple(first.stride())
    return None


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a piece of memory, each once, in some order of dimensions."""
    step: Any = 1
    for stride, size in sorted((st, sz) for st, sz in zip(tensor.stride(), tensor.shape, strict=True) if sz > 1):
        if stride != step:
            return False
        step = step * size
    return True


def _strides(tensor: torch.Tensor, shape: tuple[int, ...]) -> list[int]:
    """Strides over the result's dimensions; 0 where the tensor is repeated."""
    missing = len(shape) - tensor.dim()
    own = zip(tensor.shape, tensor.stride(), shape[missing:], strict=True)
    return [0] * missing + [0 if size == 1 and whole != 1 else stride for size, stride, whole in own]


def _order(shape: tuple[int, ...], operands: list[list[int]]) -> list[int]:
    """Dimensions from the innermost on."""
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        here = i
        for before in range(i - 1, -1, -1):
            swap = _compare(shape, operands, order[before], order[here])
            if swap < 0:
                break
            if swap > 0:
                order[before], order[here] = order[here], order[before]
                here = before
    return order


def _compare(shape: tuple[int, ...], operands: list[list[int]], a: int, b: int) -> int:
    """Above 0 where dimension `a` belongs outside of `b`, below 0 where inside, 0 where no input tells."""
    for strides in operands:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] < strides[b]:
            return -1
        if strides[a] > strides[b]:
            return 1
        if shape[a] > shape[b]:
            return 1
    return 0


def _dense(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    strides: list[Any] = [0] * len(shape)
    contiguous = all(d == len(shape) - 1 - i for i, d in enumerate(order))
    step: Any = 1
    for d in order:
        strides[d] = step
        # torch's own strides for empty tensors: a contiguous one's are of sizes of at least 1.
        step = step * (shape[d] if not contiguous or shape[d] != 0 else 1)
    return tuple(strides)


def flat(tensor: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor's elements, repeated to `shape`, as a 1-d tensor in the order in which `strides` lays them out.

    A view where that is possible, else a copy.
    """
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d], d))
    return tensor.expand(shape).permute(order).reshape(-1).contiguous()
