"""The proof that a tiling covers every element exactly once, before anything is written."""

from __future__ import annotations

import attrs

from asc_sched.errors import CoverageError
from asc_sched.tiling.types import Tiling


@attrs.frozen(kw_only=True)
class Coverage:
    """What was proved: that the tiles of all cores are disjoint, aligned, and together are [0, total_length)."""

    ok: bool
    total_length: int
    core_num: int
    tile_count: int
    argument: str


def prove_coverage(tiling: Tiling) -> Coverage:
    """Prove that the tiles of all cores partition [0, total_length), or raise `CoverageError` naming core and range.

    The cost grows with the cores, not with the tiles. Three steps, from the tiling's integers alone:

    1. Blocks: core 0 starts at 0, each block is nonempty and stops where the next starts, the last stops at
       total_length; so the blocks are disjoint and their union is [0, total_length) (induction over the cores).
    2. Tiles of a block: with c tiles of T elements and a tail t, (c - 1) T + t is the block's length and 0 < t <= T;
       tile i is [i T, i T + T), the last one [i T, i T + t); so they partition the block.
    3. Starts: a block starts at a multiple of the unit, a tile at a multiple of tile_length after it, and both are
       whole 32-byte data blocks in every tensor.

    The stated numbers (units, the longest block, the cores launched) are held against the blocks too.
    """
    _check_sizes(tiling)
    tiles = position = longest = 0
    for core in range(tiling.core_num):
        start, length = tiling.block(core)
        if start != position:
            what = "overlaps the block before it" if start < position else "leaves a gap to the block before it"
            raise CoverageError(
                f"core {core} has elements [{start}, {start + length}), which {what} (that stops at {position})"
            )
        if length <= 0 or start + length > tiling.total_length:
            raise CoverageError(
                f"core {core} has elements [{start}, {start + length}), of [0, {tiling.total_length}) in all"
            )
        tiles += _check_tiles(tiling, core, start, length)
        position, longest = start + length, max(longest, length)
    if position != tiling.total_length:
        raise CoverageError(
            f"elements [{position}, {tiling.total_length}) belong to no core: core {tiling.core_num - 1}, the last, "
            f"stops at {position}"
        )
    if longest != tiling.block_length:
        raise CoverageError(f"the longest block has {longest} elements, but block_length={tiling.block_length}")
    return Coverage(
        ok=True,
        total_length=tiling.total_length,
        core_num=tiling.core_num,
        tile_count=tiles,
        argument=_argument(tiling, tiles),
    )


def _check_sizes(tiling: Tiling) -> None:
    """The numbers that the blocks follow from agree with each other."""
    t = tiling
    datablock = t.datablock_length
    if t.tile_length <= 0 or t.tile_length % datablock or t.unit_length <= 0 or t.unit_length % datablock:
        raise CoverageError(
            f"unit_length={t.unit_length} and tile_length={t.tile_length} must be positive multiples of {datablock} "
            "elements (32 bytes of the smallest item)"
        )
    if t.total_length < 0 or not 0 <= t.core_num <= t.requested_core_num:
        raise CoverageError(
            f"total_length={t.total_length} on core_num={t.core_num} of requested_core_num={t.requested_core_num}"
        )
    if t.units != -(-t.total_length // t.unit_length):
        raise CoverageError(f"{t.total_length} elements aren't units={t.units} units of {t.unit_length}")
    if not 0 <= t.extra_units < max(t.core_num, 1) or (t.core_num and t.base_units < 1):
        raise CoverageError(
            f"base_units={t.base_units} and extra_units={t.extra_units} give some of the {t.core_num} cores no work"
        )
    _check_units(t)


def _check_units(t: Tiling) -> None:
    """The cores' units are all there are, with none left over where the split is even."""
    last, dealt = t.core_num - 1, t.base_units * t.core_num + t.extra_units
    if dealt < t.units:
        raise CoverageError(
            f"elements [{dealt * t.unit_length}, {t.total_length}) belong to no core: core {last}, the last, stops at "
            f"{dealt * t.unit_length}, as the cores have {dealt} of {t.units} units"
        )
    if t.core_split == "even" and dealt > t.units:
        start = t.unit_length * (t.base_units * last + min(last, t.extra_units))
        raise CoverageError(
            f"core {last} has elements [{start}, {dealt * t.unit_length}) by its units, as the cores have {dealt}, and "
            f"there are {t.units} in [0, {t.total_length})"
        )


def _check_tiles(tiling: Tiling, core: int, start: int, length: int) -> int:
    """Step 2 and 3 for one block; returns its tiles."""
    tile_length, count, tail = tiling.tile_length, tiling.tile_count(core), tiling.tail(core)
    if not (count >= 1 and 0 < tail <= tile_length and (count - 1) * tile_length + tail == length):
        raise CoverageError(
            f"core {core}: {count} tiles of {tile_length} elements with a tail of {tail} don't make up its block "
            f"[{start}, {start + length})"
        )
    if start % tiling.unit_length:
        raise CoverageError(
            f"core {core} has elements [{start}, {start + length}), which doesn't start at a multiple of "
            f"unit_length={tiling.unit_length}"
        )
    return count


def _argument(tiling: Tiling, tiles: int) -> str:
    if tiling.core_num == 0:
        return "there are no elements and no core is launched"
    unit_bytes = tiling.unit_length * min(tiling.itemsizes)
    return (
        f"{tiling.core_num} blocks, each starting where the one before stops, from 0 to {tiling.total_length}, at "
        f"multiples of {tiling.unit_length} elements ({unit_bytes} bytes or more); in each block (tile_count - 1) x "
        f"{tiling.tile_length} + tail is its length with 0 < tail <= {tiling.tile_length}: {tiles} tiles, disjoint, in "
        f"bounds and complete"
    )
