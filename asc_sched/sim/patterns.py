"""How an instruction walks through memory: mask/repeat patterns of vector calls, block patterns of copies."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

Addresses: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

#: Bytes of a block and of one repeat of a vector instruction (8 blocks).
BLOCK_BYTES = 32
REPEAT_BYTES = 256
#: The register that holds the comparison bits of one repeat (CMPMASK). The simulator keeps it just beyond UB.
CMP_MASK_BYTES = 32


class Stride(NamedTuple):
    """One operand's steps in 32-byte blocks: between the blocks of a repeat, and between repeats."""

    block: int
    repeat: int


class Masked(NamedTuple):
    """The mask/repeat form of a vector call.

    `bits` has a bit per lane (element of a repeat), used in every repeat. In counter mode `total` is the number of
    elements in all and the number of repeats follows from it. `strides`: destination first, then the sources.
    """

    repeats: int
    bits: int
    total: int | None
    strides: tuple[Stride, ...]

    def lanes(self, size: int) -> int:
        """Elements of a repeat, where the widest operand has `size` bytes."""
        return REPEAT_BYTES // size

    def active(self, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which lanes of which repeat take part, shape (repeats, lanes)."""
        lanes = self.lanes(size)
        if self.total is not None:
            repeats = -(-self.total // lanes)
            return (np.arange(repeats * lanes) < self.total).reshape(repeats, lanes)
        one = np.array([self.bits >> i & 1 for i in range(lanes)], bool)
        return np.broadcast_to(one, (self.repeats, lanes))


def lane_addresses(base: int, stride: Stride, repeats: int, lanes: int, size: int) -> Addresses:
    """The byte address of every lane of every repeat of an operand, shape (repeats, lanes)."""
    per_block = BLOCK_BYTES // size
    lane = np.arange(lanes, dtype=np.int64)
    within = lane // per_block * (stride.block * BLOCK_BYTES) + lane % per_block * size
    start = np.arange(repeats, dtype=np.int64) * (stride.repeat * BLOCK_BYTES)
    found: Addresses = base + start[:, None] + within[None, :]
    return found


def address_spans(addresses: Addresses, size: int) -> list[tuple[int, int]]:
    """The contiguous byte ranges that elements of `size` bytes at these addresses cover, in order."""
    unique = np.unique(addresses)
    breaks = np.flatnonzero(np.diff(unique) != size)
    starts = unique[np.concatenate(([0], breaks + 1))]
    ends = unique[np.concatenate((breaks, [len(unique) - 1]))] + size
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


class MaskRegister(NamedTuple):
    """The vector unit's mask state: lane bits in normal mode, number of elements in counter mode."""

    bits: int
    counter: bool = False
    total: int = 0


FULL_MASK = MaskRegister((1 << 128) - 1)


class Padding(NamedTuple):
    """What `DataCopyPad` puts around each block in UB, in bytes, with the element's bytes as value."""

    left_bytes: int
    right_bytes: int
    value: bytes


class CopyPlan(NamedTuple):
    """A copy of `block_count` blocks of `block_bytes`.

    `gm_gap` and `ub_gap` are the bytes between the end of a block and the start of the next; in UB every block starts
    on 32 bytes. `padding` is None where the rest of the last 32 bytes isn't defined.
    """

    block_count: int
    block_bytes: int
    gm_gap: int = 0
    ub_gap: int = 0
    padding: Padding | None = None

    @property
    def ub_block_bytes(self) -> int:
        """Bytes that one block takes in UB: with padding, rounded up to 32."""
        extra = self.padding.left_bytes + self.padding.right_bytes if self.padding else 0
        return -(-(self.block_bytes + extra) // BLOCK_BYTES) * BLOCK_BYTES

    @property
    def gm_bytes(self) -> int:
        """Bytes from the first to the end of the last block in GM."""
        return self.block_count * (self.block_bytes + self.gm_gap) - self.gm_gap if self.block_count else 0

    def gm_spans(self, start: int) -> list[tuple[int, int]]:
        """The contiguous pieces of GM that the copy touches, from byte `start` on."""
        if self.gm_gap == 0 or self.block_count == 1:
            return [(start, start + self.gm_bytes)]
        step = self.block_bytes + self.gm_gap
        return [(at, at + self.block_bytes) for at in range(start, start + self.block_count * step, step)]

    def ub_spans(self, start: int) -> list[tuple[int, int]]:
        """The contiguous pieces of UB that the copy touches, from byte `start` on."""
        if self.ub_gap == 0 or self.block_count == 1:
            return [(start, start + self.ub_bytes)]
        step = self.ub_block_bytes + self.ub_gap
        return [(at, at + self.ub_block_bytes) for at in range(start, start + self.block_count * step, step)]

    @property
    def ub_bytes(self) -> int:
        """Bytes from the first to the end of the last block in UB."""
        return self.block_count * (self.ub_block_bytes + self.ub_gap) - self.ub_gap if self.block_count else 0
