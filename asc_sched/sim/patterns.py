"""How an instruction walks through memory: mask/repeat patterns of vector calls, block patterns of copies."""

from __future__ import annotations

from typing import NamedTuple

#: Bytes of a block and of one repeat of a vector instruction (8 blocks).
BLOCK_BYTES = 32
REPEAT_BYTES = 256


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

    @property
    def ub_bytes(self) -> int:
        """Bytes from the first to the end of the last block in UB."""
        return self.block_count * (self.ub_block_bytes + self.ub_gap) - self.ub_gap if self.block_count else 0
