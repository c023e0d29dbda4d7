"""A good schedule by rule, without a search."""

from __future__ import annotations

import math

from asc_sched.errors import UbOverflowError
from asc_sched.schedule import Schedule
from asc_sched.target import Target
from asc_sched.tiling.symbolic import Alignment

LAUNCH_US_PER_CORE = 0.0235
"""What one more core adds to a launch (fit to msprof runs on 12, 16, 20 and 40 cores)."""
COPY_BYTES_PER_CYCLE = 60.0
"""GM bytes, read and written, that one core streams per cycle: copies of 16 KB reach 41 to 55 (MSKPP, 910B1 and B3)
to 110 / 86 at best (CANN's `l2_read_rate` and `l2_write_rate`)."""
CORE_BYTES = 4096
"""Least bytes of the widest tensor that are worth a core (ops-math's elementwise tilings use 4 KB per core)."""
COPY_BYTES = 16 * 1024
"""Least copy that comes near the full bandwidth ("16 KB and more", Ascend C guide)."""
MAX_COPY_BYTES = 32 * 1024
"""Longer copies gained nothing (8192 x 8192 half add of asc-devkit: 16512 halves against 16384)."""
OVERLAPPED_TILES = 8
"""Tiles per core that hide the first copy in and the last copy out; short of them, tiles stay short."""


def auto_schedule(
    total_length: int,
    gm_itemsizes: tuple[int, ...],
    ub_bytes_per_element: int,
    ub_fixed_bytes: int,
    target: Target,
    *,
    max_buffer_num: int = 2,
) -> Schedule:
    """A schedule for `total_length` elements, near the best of a search.

    - `gm_itemsizes`: bytes per element of each tensor that is read or written, one entry for each.
    - `ub_bytes_per_element`: UB bytes that one element of a tile takes with single buffers, temporaries included.
    - `ub_fixed_bytes`: UB bytes that don't grow with the tile.
    - `max_buffer_num`: 1 where the kernel has no queue buffers left for double buffering.

    The rule: as many cores as pay for their launch; tiles whose copies are 16 to 32 KB, all alike; two buffers where
    there are two tiles to overlap. Raises `UbOverflowError` when not even the shortest tile fits.
    """
    align = Alignment.of(gm_itemsizes, target)
    widest = max(gm_itemsizes)
    core_num = balanced_core_num(total_length, gm_itemsizes, target)
    block_length = -(-max(total_length, 1) // core_num)
    copy_bytes = min(max(block_length * widest // OVERLAPPED_TILES, COPY_BYTES), MAX_COPY_BYTES)

    def longest_tile(buffer_num: int) -> int:
        per_element = ub_bytes_per_element + (buffer_num - 1) * sum(gm_itemsizes)
        fitting = max(target.ub_bytes - ub_fixed_bytes, 0) // per_element
        return _round_down(min(fitting, copy_bytes // widest), align)

    single = longest_tile(1)
    if single == 0:
        raise UbOverflowError(
            f"a tile takes {ub_bytes_per_element} bytes of the UB per element and {ub_fixed_bytes} are taken anyway: "
            f"the shortest tile, {align.datablock_length} elements, doesn't fit into {target.ub_bytes} bytes"
        )
    double = longest_tile(2) if max_buffer_num >= 2 else 0
    buffer_num, longest = (2, double) if double and block_length > single else (1, single)
    tiles = -(-block_length // longest)
    step = align.step(longest)
    tile_length = -(-block_length // (tiles * step)) * step
    return Schedule(core_num=core_num, tile_length=tile_length, buffer_num=buffer_num)


def _round_down(length: int, align: Alignment) -> int:
    """To whole GM lines, or to data blocks below one line."""
    step = align.step(length)
    return length // step * step


def balanced_core_num(total_length: int, gm_itemsizes: tuple[int, ...], target: Target) -> int:
    """The cores with the shortest launch plus streaming time: c cores take c * launch + work / c."""
    work_us = total_length * sum(gm_itemsizes) / COPY_BYTES_PER_CYCLE / target.clock_mhz
    balanced = round(math.sqrt(work_us / LAUNCH_US_PER_CORE))
    filled = total_length * max(gm_itemsizes) // CORE_BYTES
    return max(1, min(balanced, filled, target.vector_cores))
