"""`resolve`: a Schedule, a size and a chip to a `Tiling`, by running the integer function of the formulas."""

from __future__ import annotations

import numbers
from typing import cast

from asc_sched.errors import CoreNumError, ScheduleError, ShapeError, TileLengthError
from asc_sched.schedule import MAX_TILE, Schedule
from asc_sched.target import Target, get_target
from asc_sched.tiling.symbolic import Alignment, TileBy, formula_names, integer_function
from asc_sched.tiling.types import Tiling

MAX_BYTES = 2**63 - 1
"""Byte offsets are int64 in the kernel."""


def resolve(
    schedule: Schedule,
    *,
    total_length: int,
    itemsizes: tuple[int, ...],
    target: str | Target = "Ascend910B1",
    max_tile_length: int | None = None,
) -> Tiling:
    """The tiling of `total_length` elements under `schedule` on `target`.

    `itemsizes` are the bytes per element of all tensors in GM (powers of two; they decide the alignment).
    `max_tile_length`, the longest tile that the UB takes, is needed only by a schedule without tile_num and
    tile_length, whose tiles fill the UB.

    Raises `CoreNumError` (more cores than the target or the launcher has), `TileLengthError` (not a multiple of
    32 bytes, or too many tiles), `ScheduleError`, `ShapeError` (a length that int64 offsets can't reach).
    """
    chip = get_target(target)
    length = check_total_length(total_length, itemsizes)
    align = Alignment.of(itemsizes, chip)
    core_num = check_core_num(schedule, chip)
    tile_by = _tile_by(schedule, max_tile_length)
    if schedule.tile_length is not None:
        check_tile_length(schedule.tile_length, align)
    if max_tile_length is not None:
        max_tile_length = round_down_tile_length(max_tile_length, align)
    known = {
        "total_length": length,
        "core_num": core_num,
        "tile_num": schedule.tile_num,
        "tile_length": schedule.tile_length,
        "buffer_num": schedule.buffer_num,
        "max_tile_length": max_tile_length,
    }
    values = _bind(schedule.core_split, align, tile_by, cast("dict[str, int]", known))
    tiling = Tiling(
        schedule=schedule,
        target_name=chip.name,
        itemsizes=tuple(itemsizes),
        tile_by=tile_by,
        total_length=length,
        requested_core_num=core_num,
        core_num=values["used_cores"],
        unit_length=values["unit_length"],
        units=values["units"],
        base_units=values["base_units"],
        extra_units=values["extra_units"],
        block_length=values["block_length"],
        tile_length=values.get("tile_length", schedule.tile_length or 0),
        tile_num=schedule.tile_num,
        buffer_num=schedule.buffer_num,
    )
    _check_tile_count(tiling)
    return tiling


def check_total_length(total_length: int, itemsizes: tuple[int, ...]) -> int:
    """`total_length` as a plain int, if it is a length whose byte offsets are int64, and `itemsizes` make sense."""
    if not itemsizes or any(size < 1 or size > 32 or size & (size - 1) for size in itemsizes):
        raise ScheduleError(f"itemsizes={itemsizes!r}: needs at least one, each 1, 2, 4, 8, 16 or 32 bytes")
    if not isinstance(total_length, numbers.Integral) or isinstance(total_length, bool):
        raise ShapeError(f"total_length={total_length!r} is not an integer but {type(total_length).__name__}")
    length, widest = int(total_length), max(itemsizes)
    if not 0 <= length <= MAX_BYTES // widest:
        raise ShapeError(
            f"total_length={length} is out of range: allowed is 0 to {MAX_BYTES // widest} elements of {widest} bytes "
            "(byte offsets are int64)"
        )
    return length


def check_core_num(schedule: Schedule, target: Target) -> int:
    """How many cores the schedule asks for on this target: all of them if it doesn't say."""
    limit = min(target.vector_cores, target.max_block_dim)
    if schedule.core_num is None:
        return limit
    if schedule.core_num > limit:
        raise CoreNumError(
            f"core_num={schedule.core_num} is more than the {target.vector_cores} vector cores of {target.name} "
            f"(the launcher itself takes at most {target.max_block_dim}); nearest valid: core_num={limit}"
        )
    return schedule.core_num


def check_tile_length(tile_length: int, align: Alignment) -> None:
    """Refuse a tile_length that isn't whole 32-byte data blocks in every tensor."""
    step = align.datablock_length
    if tile_length % step == 0:
        return
    below = tile_length // step * step
    nearest = f"{below} or {below + step}" if below else f"{step}"
    raise TileLengthError(
        f"tile_length={tile_length} is not a multiple of {step} elements (32 bytes of the smallest item, which has "
        f"{32 // step}); nearest valid: tile_length={nearest}"
    )


def round_down_tile_length(tile_length: int, align: Alignment) -> int:
    """The longest valid tile_length up to this one; refuses one below a single data block."""
    step = align.datablock_length
    if tile_length < step:
        raise TileLengthError(
            f"a tile of at most {tile_length} elements is left by the UB, and the shortest valid tile_length is {step} "
            "(32 bytes of the smallest item)"
        )
    return min(tile_length, MAX_TILE) // step * step


def _tile_by(schedule: Schedule, max_tile_length: int | None) -> TileBy:
    if schedule.tile_length is not None:
        return "tile_length"
    if schedule.tile_num is not None:
        return "tile_num"
    if max_tile_length is None:
        raise ScheduleError(
            f"{schedule!r} has neither tile_num nor tile_length, so its tiles fill the UB, and resolve needs "
            "max_tile_length, the longest tile that fits"
        )
    return "fill"


def _bind(core_split: str, align: Alignment, tile_by: TileBy, known: dict[str, int]) -> dict[str, int]:
    """The formulas' values. No formula holds for a length of 0: nothing is launched, and a tile is the shortest."""
    if known["total_length"] == 0:
        shortest = align.datablock_length
        return {
            "unit_length": shortest,
            **dict.fromkeys(("units", "used_cores", "base_units", "extra_units", "block_length"), 0),
            **({} if tile_by == "tile_length" else {"tile_length": shortest}),
        }
    function, inputs = integer_function(core_split, align, tile_by)
    return dict(zip(formula_names(core_split, tile_by), function(*(known[name] for name in inputs)), strict=True))


def _check_tile_count(tiling: Tiling) -> None:
    """Tile counts and lengths are int32 in the kernel."""
    block, count, step = tiling.block_length, tiling.max_tile_count, tiling.datablock_length
    longest = MAX_TILE // step * step
    if tiling.tile_length > longest:
        least = -(-block // (longest * tiling.buffer_num))
        raise TileLengthError(
            f"a block of {block} elements in tile_num={tiling.tile_num} x buffer_num={tiling.buffer_num} tiles makes "
            f"tiles of {tiling.tile_length} elements; at most {longest} are possible; nearest valid: tile_num={least}"
        )
    if count > MAX_TILE:
        shortest = -(-block // (MAX_TILE * step)) * step
        most = MAX_TILE // tiling.buffer_num
        nearest = f"tile_length={shortest}" if tiling.tile_num is None else f"tile_num={most}"
        raise TileLengthError(
            f"tiles of {tiling.tile_length} elements cut a core's block of {block} elements into {count} tiles; at "
            f"most {MAX_TILE} are possible; nearest valid: {nearest}"
        )
