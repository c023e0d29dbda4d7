"""`Tiling`: a schedule bound to a size and a chip, in exact integers."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from asc_sched.schedule import Schedule
from asc_sched.tiling.symbolic import TileBy


@attrs.frozen(kw_only=True)
class Tiling:
    """Which elements each core and each tile has. Lengths and starts in elements, exact at any size.

    A core's block is a run of alignment units (`unit_length` elements: a 512 B line, or a 32 B data block where that
    many lines don't exist): the first `extra_units` cores have base_units + 1 of them, the others base_units, and the
    last core stops at total_length. Blocks are cut into tiles of `tile_length`, the last one (`tail`) shorter.

    `core_num` cores are launched, each with work; `requested_core_num` is what the schedule asked for. `block_length`
    is the longest block. A total_length of 0 launches no core.
    """

    schedule: Schedule
    target_name: str
    itemsizes: tuple[int, ...]
    tile_by: TileBy
    total_length: int
    requested_core_num: int
    core_num: int
    unit_length: int
    units: int
    base_units: int
    extra_units: int
    block_length: int
    tile_length: int
    tile_num: int | None
    buffer_num: int

    @property
    def core_split(self) -> str:
        return self.schedule.core_split

    @property
    def max_tile_count(self) -> int:
        """The tiles of the longest block."""
        return -(-self.block_length // self.tile_length)

    @property
    def datablock_length(self) -> int:
        """The least length that is 32 bytes in every tensor: tile lengths are multiples of it."""
        return 32 // min(self.itemsizes)

    def block(self, core: int) -> tuple[int, int]:
        """(start, length) of a launched core's block."""
        if not 0 <= core < self.core_num:
            raise IndexError(f"core {core} isn't launched: cores are 0 to {self.core_num - 1}")
        base, extra, unit = self.base_units, self.extra_units, self.unit_length
        start = unit * (base * core + min(core, extra))
        return start, min(start + unit * (base + (core < extra)), self.total_length) - start

    def tile_count(self, core: int) -> int:
        """How many tiles a launched core has, at least 1."""
        return -(-self.block(core)[1] // self.tile_length)

    def tail(self, core: int) -> int:
        """The length of a launched core's last tile: 1 to tile_length elements."""
        length = self.block(core)[1]
        return length - self.tile_length * (-(-length // self.tile_length) - 1)

    def tiles(self, core: int) -> Iterator[tuple[int, int]]:
        """(start, length) of each tile of a launched core, in the order in which it runs them."""
        start, length = self.block(core)
        stop = start + length
        for tile_start in range(start, stop, self.tile_length):
            yield tile_start, min(self.tile_length, stop - tile_start)

    def __str__(self) -> str:
        from asc_sched.tiling.text import tiling_text

        return tiling_text(self)
