"""Tilings of rows: which rectangle of rows and columns each core and tile has, with the proof of coverage.

All rows of all groups (outer dimensions and column tiles) are numbered through, and this run of rows is split over the
cores by the same exact formulas as a flat run of elements; a core's rows are cut into tiles of `tile_rows`, which
don't reach over the end of a group.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator

import attrs

from asc_sched.errors import CoverageError, ScheduleError
from asc_sched.schedule import Schedule
from asc_sched.target import Target
from asc_sched.tiling.binding import check_core_num
from asc_sched.tiling.coverage import Coverage, prove_coverage
from asc_sched.tiling.symbolic import Alignment, formula_names, integer_function
from asc_sched.tiling.types import Tiling

ROW = (32,)
"""Rows are tiled as items of 32 bytes: any number of them is whole data blocks."""


@attrs.frozen(kw_only=True)
class RowTiling:
    """Which rows and columns each core and tile has.

    `rows` is the split of `group_count` x `row_count` rows, its lengths in rows. A group is one index of the outer
    dimensions and one column tile; `width` elements of a row are cut into column tiles of `column_tile`.
    """

    rows: Tiling
    outer_count: int
    row_count: int
    width: int
    column_tile: int

    @property
    def schedule(self) -> Schedule:
        return self.rows.schedule

    @property
    def column_count(self) -> int:
        """Column tiles of a row."""
        return -(-self.width // self.column_tile)

    @property
    def group_count(self) -> int:
        return self.outer_count * self.column_count

    @property
    def tile_rows(self) -> int:
        """Rows of one tile, at most."""
        return self.rows.tile_length

    @property
    def total_length(self) -> int:
        """Elements in all."""
        return self.outer_count * self.row_count * self.width

    @property
    def core_num(self) -> int:
        """Cores that are launched."""
        return self.rows.core_num

    @property
    def requested_core_num(self) -> int:
        return self.rows.requested_core_num

    @property
    def block_length(self) -> int:
        """Elements of the longest block, at most."""
        return self.rows.block_length * self.column_tile

    @property
    def tile_length(self) -> int:
        """Elements of one tile, at most."""
        return self.tile_rows * self.column_tile

    def tiles(self, core: int) -> Iterator[tuple[int, int, int, int, int]]:
        """(outer index, first row, rows, first column, columns) of each tile of a core, in the order it runs them."""
        start, length = self.rows.block(core)
        stop = start + length
        for group in range(start // self.row_count, -(-stop // self.row_count)):
            first = max(start, group * self.row_count)
            last = min(stop, (group + 1) * self.row_count)
            outer, column = divmod(group, self.column_count)
            column *= self.column_tile
            columns = min(self.column_tile, self.width - column)
            for row in range(first, last, self.tile_rows):
                yield outer, row - group * self.row_count, min(self.tile_rows, last - row), column, columns

    def tile_count(self, core: int) -> int:
        """How many tiles a launched core has."""
        start, length = self.rows.block(core)
        parts = _parts(start, start + length, self.row_count)
        return sum(times * -(-rows // self.tile_rows) for rows, times in parts)

    @property
    def max_tile_count(self) -> int:
        """The most tiles of a core."""
        return max((self.tile_count(c) for c in range(self.core_num)), default=0)

    def tail(self, core: int) -> int:
        """The elements of a launched core's last tile."""
        start, length = self.rows.block(core)
        group, last = divmod(start + length - 1, self.row_count)
        first = max(start - group * self.row_count, 0)
        rows = (last - first) % self.tile_rows + 1
        column = group % self.column_count * self.column_tile
        return rows * min(self.column_tile, self.width - column)

    def __str__(self) -> str:
        return row_tiling_text(self)


def resolve_rows(
    schedule: Schedule,
    *,
    outer_count: int,
    row_count: int,
    width: int,
    column_tile: int,
    tile_rows: int,
    unit_rows: int,
    target: Target,
) -> RowTiling:
    """The tiling of `outer_count` x `row_count` rows of `width` elements in tiles of `tile_rows` x `column_tile`.

    Blocks are multiples of `unit_rows` where there are as many of those as cores. Raises `CoreNumError` for more cores
    than the target has.
    """
    for name, value in (("tile_rows", tile_rows), ("column_tile", column_tile), ("unit_rows", unit_rows)):
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ScheduleError(f"{name}={value!r} must be a positive integer")
    core_num = check_core_num(schedule, target)
    total = outer_count * row_count * (-(-width // column_tile))
    function, inputs = integer_function(schedule.core_split, Alignment(unit_rows, 1), "tile_length")
    known = {"total_length": total, "core_num": core_num, "tile_length": tile_rows}
    names = formula_names(schedule.core_split, "tile_length")
    values = dict(zip(names, function(*(known[n] for n in inputs)), strict=True)) if total else {}
    rows = Tiling(
        schedule=schedule,
        target_name=target.name,
        itemsizes=ROW,
        tile_by="tile_length",
        total_length=total,
        requested_core_num=core_num,
        core_num=values.get("used_cores", 0),
        unit_length=values.get("unit_length", 1),
        units=values.get("units", 0),
        base_units=values.get("base_units", 0),
        extra_units=values.get("extra_units", 0),
        block_length=values.get("block_length", 0),
        tile_length=tile_rows,
        tile_num=schedule.tile_num,
        buffer_num=schedule.buffer_num,
    )
    return RowTiling(rows=rows, outer_count=outer_count, row_count=row_count, width=width, column_tile=column_tile)


def prove_row_coverage(tiling: RowTiling) -> Coverage:
    """Prove that the tiles of all cores cover every element of every row exactly once, or raise `CoverageError`.

    1. Columns: with c column tiles of T and a last one of t, (c - 1) T + t is the width and 0 < t <= T.
    2. Rows: there are `group_count` x `row_count` of them, a number stands for one row of one group (division with
       remainder), and the cores' blocks and their tiles partition the numbers (`prove_coverage`); cutting tiles at the
       ends of groups keeps them disjoint and loses none.
    3. So the tiles are the products of a partition of rows and one of columns, for every outer index.
    """
    count, last = tiling.column_count, tiling.width - tiling.column_tile * (tiling.column_count - 1)
    if not 0 < last <= tiling.column_tile:
        raise CoverageError(
            f"{count} column tiles of {tiling.column_tile} elements with a tail of {last} don't make up rows of "
            f"{tiling.width}"
        )
    if tiling.rows.total_length != tiling.group_count * tiling.row_count:
        raise CoverageError(
            f"{tiling.rows.total_length} rows are split, of {tiling.group_count} groups of {tiling.row_count}"
        )
    proved = prove_coverage(tiling.rows)
    tiles = sum(tiling.tile_count(c) for c in range(tiling.core_num)) if tiling.rows.total_length else 0
    return Coverage(
        ok=True, total_length=tiling.total_length, core_num=tiling.core_num, tile_count=tiles,
        argument=f"{count} column tiles make a row; {tiling.group_count} x {tiling.row_count} rows: {proved.argument}",
    )  # fmt: skip


def row_tiling_text(tiling: RowTiling) -> str:
    """A row tiling as people read it."""
    t, rows = tiling, tiling.rows
    head = f"{t.outer_count * t.row_count} rows of {t.width} elements on {t.core_num} of {t.requested_core_num} cores"
    head += f" ({rows.target_name})"
    if not rows.total_length:
        return f"{head}: nothing is launched"
    facts = [
        ("tile_rows", t.tile_rows, "rows of a tile"),
        ("column_tile", t.column_tile, f"columns of a tile, {t.column_count} to a row"),
        ("tile_length", t.tile_length, "elements of a tile in UB or more, with rows padded to 32 bytes"),
        ("groups", t.group_count, f"of {t.row_count} rows: outer dimensions {t.outer_count} x column tiles"),
        ("unit_rows", rows.unit_length, "rows that the cores' blocks are multiples of"),
        ("block_rows", rows.block_length, "rows of the longest block"),
    ]
    lines = [f"  {name:<12} {value:>10}  {what}" for name, value, what in facts]
    for core, (first, last, length) in _runs(rows):
        names = f"{first}" if first == last else f"{first}..{last}"
        lines.append(f"  core {names:<8} from row {core}: {length} rows in {t.tile_count(first)} tiles")
    return "\n".join([head, *lines])


def _parts(start: int, stop: int, row_count: int) -> list[tuple[int, int]]:
    """Rows [start, stop) by the groups that they lie in: (rows, how many groups in a row with so many)."""
    first, last = -(-start // row_count), stop // row_count
    if first > last:  # within one group
        return [(stop - start, 1)]
    parts = [(first * row_count - start, 1), (row_count, last - first), (stop - last * row_count, 1)]
    return [(rows, times) for rows, times in parts if rows and times]


def _runs(rows: Tiling) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Runs of cores with blocks of one length: first row, (first core, last core, rows)."""
    first = 0
    for core in range(1, rows.core_num + 1):
        length = rows.block(first)[1]
        if core == rows.core_num or rows.block(core)[1] != length:
            yield rows.block(first)[0], (first, core - 1, length)
            first = core


def rows_to(step_bytes: int, row_bytes: int) -> int:
    """The least number of rows, side by side, that is a multiple of `step_bytes`."""
    return step_bytes // math.gcd(step_bytes, row_bytes)
