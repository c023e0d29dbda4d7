"""How a value that needs few elements is spread over a whole tile.

Three ways, by what the chip does well: rows that are whole 32-byte blocks are repeated by copies that double what is
there; one value per row becomes a block (Brcb) and the block a row (Copy with a source stride of 0); anything else is
fetched by Gather, whose offsets are computed once per core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asc_sched.lower.spaces import FULL, WHOLE_ONCE, CannotSpreadError, Extent, Phase, Space, Spread
from asc_sched.target.instructions import CARRIER_BITS

if TYPE_CHECKING:
    from asc_sched.lower.spaces import _Placer

BLOCK_BITS = 256


class Spreader:
    """Adds the steps that spread registers to a tile program."""

    def __init__(self, placer: _Placer) -> None:
        self.placer = placer
        self.form = placer.form
        self._offsets: dict[tuple[object, ...], int] = {}

    def spread(self, register: int, own: Space) -> int:
        """A register of a whole tile with the values of `register`, which has the elements of the space `own`."""
        carrier = self.placer.registers[register]
        bits = CARRIER_BITS[carrier]
        row_blocks = self.form.single or self.form.pitch * bits % BLOCK_BITS == 0
        if own.dims and own.once and self._whole_row(own) and row_blocks:
            return self._emit("repeat", own, carrier, register, numbers=(self.form.pitch,))
        if bits == 8:
            return self._as_float16(register, own, carrier)
        if bits not in (16, 32):
            raise CannotSpreadError(self.placer.origin.get(register, ""))
        if not own.dims:
            return self._emit("fill", own, carrier, register)
        if own.dims == {0} and row_blocks:
            return self._by_blocks(register, own, carrier, bits)
        return self._by_gather(register, own, carrier, bits)

    def _whole_row(self, own: Space) -> bool:
        return len(own.dims - {0}) == len(self.form.inner)

    def _emit(
        self, kind: str, own: Space, carrier: str, *srcs: int, numbers: tuple[int, ...] = ()
    ) -> int:
        """A step whose result is a whole tile."""
        space, phase = (WHOLE_ONCE, Phase.ONCE) if own.once else (FULL, Phase.TILE)
        dst = self.placer.new(carrier, self.placer.extent(space))
        return self.placer.emit(phase, Spread(kind, dst, srcs, numbers))

    def _as_float16(self, register: int, own: Space, carrier: str) -> int:
        """8-bit elements, which neither Brcb nor Gather nor Duplicate know: exact in float16, there and back."""
        phase = Phase.ONCE if own.once else Phase.TILE
        placer = self.placer
        half = placer.instruction(phase, "cast", "float16", placer.extents[register], register, mode="CAST_NONE")
        wide = self.spread(half, own)
        return placer.instruction(phase, "cast", carrier, placer.extents[wide], wide, mode="CAST_RINT")

    def _by_blocks(self, register: int, own: Space, carrier: str, bits: int) -> int:
        """One value per row: a 32-byte block of each, then a row of each block."""
        block = BLOCK_BITS // bits
        if self.form.pitch == block:  # a row is a block; Brcb writes eight at a time
            dst = self.placer.new(carrier, Extent(block, per_row=True, row_step=8))
            return self.placer.emit(Phase.TILE, Spread("blocks", dst, (register,)))
        blocks = self.placer.new(carrier, Extent(block, per_row=True, row_step=8))
        self.placer.hint(blocks, register, "blocks")
        self.placer.emit(Phase.TILE, Spread("blocks", blocks, (register,)))
        return self._emit("rows", own, carrier, blocks, numbers=(self.form.pitch,))

    # -- gather ------------------------------------------------------------------------------------------------
    def _by_gather(self, register: int, own: Space, carrier: str, bits: int) -> int:
        """Element i of the tile is element ``offset[i]`` of the register."""
        if own.once:
            period = self._period(bits)
            offsets = self._offsets_of(own, bits, Extent(self.form.width, per_row=True, max_rows=period))
            self.placer.hint(offsets, register, "offsets")
            return self._emit("gather_period", own, carrier, register, offsets, numbers=(self.form.width, period))
        offsets = self._offsets_of(own, bits, self.placer.extent(FULL))
        self.placer.hint(offsets, register, "offsets")
        return self._emit("gather", own, carrier, register, offsets)

    def _period(self, bits: int) -> int:
        """The rows after which a row starts at a 32-byte block again."""
        row_bits = self.form.width * bits
        return BLOCK_BITS // math.gcd(BLOCK_BITS, row_bits)

    def _offsets_of(self, own: Space, bits: int, extent: Extent) -> int:
        """The byte offsets, computed once per core: for the rows until the pattern lies at a block again, then on."""
        key = (own, bits, extent)
        if key not in self._offsets:
            self._offsets[key] = self._make_offsets(own, bits, extent)
        return self._offsets[key]

    def _make_offsets(self, own: Space, bits: int, extent: Extent) -> int:
        placer, period = self.placer, self._period(32)
        base = Extent(self.form.width, per_row=True, max_rows=min(period, extent.max_rows or period))
        index = placer.emit(Phase.SETUP, Spread("index", placer.new("int32", base), ()))
        terms = [self._term(index, base, *term) for term in self._terms(own)]
        offset = terms[0]
        for term in terms[1:]:
            offset = placer.instruction(Phase.SETUP, "add", "int32", base, offset, term)
        row_step = 0 if own.once else math.prod(self.form.inner[d - 1] for d in own.dims - {0})
        dst = placer.new("int32", extent)
        numbers = (bits // 8, self.form.width, base.max_rows, row_step * base.max_rows * bits // 8)
        return placer.emit(Phase.SETUP, Spread("offsets", dst, (offset,), numbers))

    def _terms(self, own: Space) -> list[tuple[int, int, int]]:
        """(divisor, modulus or 0, factor) per run of dimensions: offset = sum of (i // divisor % modulus) * factor."""
        sizes = (0, *self.form.inner)
        terms: list[tuple[int, int, int]] = []
        divisor = factor = 1
        run: list[int] | None = None  # of dimensions side by side: [divisor, modulus, factor]
        for dim in range(len(sizes) - 1, -1, -1):
            if dim in own.dims:
                if run is None:
                    run = [divisor, 1, factor]
                run[1] = 0 if dim == 0 else run[1] * sizes[dim]
                factor *= sizes[dim] or 1
            if run is not None and (dim == 0 or dim not in own.dims):
                terms.append((run[0], run[1], run[2]))
                run = None
            divisor *= sizes[dim] or 1
        return terms

    def _term(self, index: int, base: Extent, divisor: int, modulus: int, factor: int) -> int:
        found = self._divided(index, base, divisor)
        if modulus:
            placer = self.placer
            whole = self._divided(found, base, modulus)
            below = placer.instruction(Phase.SETUP, "muls", "int32", base, whole, imm=modulus)
            found = placer.instruction(Phase.SETUP, "sub", "int32", base, found, below)
        if factor == 1:
            return found
        return self.placer.instruction(Phase.SETUP, "muls", "int32", base, found, imm=factor)

    def _divided(self, index: int, base: Extent, divisor: int) -> int:
        """index // divisor. (i + 0.5) / d is at least 0.5 / d off any whole number, and float32 rounds it by less for
        i < 2**22, far beyond what UB holds."""
        if divisor == 1:
            return index
        placer = self.placer
        real = placer.instruction(Phase.SETUP, "cast", "float32", base, index, mode="CAST_RINT")
        middle = placer.instruction(Phase.SETUP, "adds", "float32", base, real, imm=0.5)
        quotient = placer.instruction(Phase.SETUP, "muls", "float32", base, middle, imm=_float32(1.0 / divisor))
        return placer.instruction(Phase.SETUP, "cast", "int32", base, quotient, mode="CAST_FLOOR")


def _float32(value: float) -> float:
    import numpy as np

    return float(np.float32(value))
