"""Tensors in guarded memory, and equality to the bit."""

from __future__ import annotations

import torch

GUARD_BYTES = 64
_PATTERN = 0xA5
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Guarded:
    """A tensor in the middle of a larger buffer: `tensor` is a view with an offset, 64 bytes around it are known."""

    def __init__(self, values: torch.Tensor) -> None:
        pad, count = GUARD_BYTES // values.element_size(), values.numel()
        self._bytes = torch.full((2 * GUARD_BYTES + count * values.element_size(),), _PATTERN, dtype=torch.uint8)
        self.tensor = self._bytes.view(values.dtype)[pad : pad + count].view(values.shape)
        self.tensor.copy_(values)

    @property
    def intact(self) -> bool:
        """Whether the memory around the tensor is as it was."""
        around = torch.cat([self._bytes[:GUARD_BYTES], self._bytes[-GUARD_BYTES:]])
        return bool((around == _PATTERN).all())


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers of their size, every NaN as one."""
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.full_like(tensor, float("nan")), tensor)
    return tensor.contiguous().view(_BITS[tensor.element_size()])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same dtype, shape and elements: -0.0 is not 0.0, NaN is NaN."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))


def numbers(length: int | tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Reproducible elements of any sign and size that the dtype's sums can hold."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.randn(length, generator=generator) * 100).to(dtype)
    limit = torch.iinfo(dtype).max // 2
    return torch.randint(-limit, limit, (length,) if isinstance(length, int) else length, generator=generator).to(dtype)
