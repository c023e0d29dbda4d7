"""A row tiling's arithmetic as a kernel computes it; the rules of `tiling/device.py` hold here too."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from asc_sched.errors import ScheduleError
from asc_sched.tiling.device import (
    _INT32_MAX,
    DeviceFormulas,
    _int64,
    _static_block_length,
    _static_block_start,
    dynamic_formulas,
    static_formulas,
)
from asc_sched.tiling.rows import RowTiling
from asc_sched.tiling.symbolic import Alignment

_ROW_NAMES = {
    "tile_start": "row", "length": "rows", "block_length": "block_rows", "tail": "tail_rows",
    "total_length": "total_rows", "unit_length": "unit_rows", "full_length": "full_rows",
}  # fmt: skip


@attrs.frozen(kw_only=True)
class RowFormulas(DeviceFormulas):
    """What a kernel computes to find its rows.

    `row` is the number of a tile's first row (int64), `length` how many it has. With `group_count` set there is a loop
    around the tiles, ``for group_idx in range(<group_count>)``, that begins with `group`. It defines `group` and
    `group_start` (its number and first row), and where rows are cut `outer` and `column` (all int64): the outer index
    (else that is `group`) and the first column. `columns` (int32) is a number or name.
    """

    group_count: str = ""
    group: tuple[tuple[str, str], ...] = ()
    columns: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        grouped = (*(name for name, _ in self.group), "group_idx") if self.group_count else ()
        return (*super().names, *grouped)

    def renamed(self, names: Mapping[str, str]) -> RowFormulas:
        both = attrs.evolve(self, setup=(*self.setup, *self.group), group=(), group_count="")
        known = {name: names[name] for name in self.names if name in names}
        new = DeviceFormulas.renamed(both, known)
        texts = DeviceFormulas.renamed(
            attrs.evolve(both, tile_count=self.group_count or "1", length=self.columns or "1"), known
        )
        split = len(self.setup)
        return RowFormulas(
            arguments=new.arguments, setup=new.setup[:split], tile_count=new.tile_count, loop=new.loop,
            length=new.length, group=new.setup[split:], group_count=texts.tile_count if self.group_count else "",
            columns=texts.length if self.columns else "",
        )  # fmt: skip


def literal(value: int) -> str:
    """A number on the right of an int64: pyasc takes no literals beyond int32."""
    return str(value) if value <= _INT32_MAX else _int64(value)


def static_row_formulas(tiling: RowTiling) -> RowFormulas:
    """For a kernel of this very tiling."""
    if tiling.core_num == 0:
        raise ScheduleError("no rows launch nothing, so there is no kernel to write")
    rows = tiling.rows
    if tiling.group_count == 1:
        return _one_group(static_formulas(rows), tiling)
    lengths = [rows.block(core)[1] for core in range(tiling.core_num)]
    setup = [("block_start", _int64(0))]
    if tiling.core_num > 1:
        setup = [("block_idx", "asc.get_block_idx()"), ("block_start", _static_block_start(rows))]
    length = _static_block_length(rows, lengths, narrow=rows.total_length + rows.tile_length <= _INT32_MAX)
    uniform = len(set(lengths)) == 1
    if not uniform:
        setup.append(("block_rows", length))
    return _grouped((), setup, length if uniform else "block_rows", tiling)


def dynamic_row_formulas(tiling: RowTiling, unit_rows: int) -> RowFormulas:
    """For any number of rows, `total_rows` (int64, all groups' together) an argument; see `dynamic_formulas`."""
    base = dynamic_formulas(tiling.rows.core_split, Alignment(unit_rows, 1), tiling.tile_rows)
    if tiling.group_count == 1:
        return _one_group(base, tiling)
    names = {old: new for old, new in _ROW_NAMES.items() if old in base.names}
    base = base.renamed(names)
    setup = [(name, text) for name, text in base.setup if name not in ("tile_count", "tail_rows")]
    return _grouped(base.arguments, setup, "block_rows", tiling)


def _one_group(base: DeviceFormulas, tiling: RowTiling) -> RowFormulas:
    base = base.renamed({old: new for old, new in _ROW_NAMES.items() if old in base.names})
    return RowFormulas(
        arguments=base.arguments, setup=base.setup, tile_count=base.tile_count, loop=base.loop, length=base.length,
        columns=str(tiling.column_tile),
    )  # fmt: skip


def _grouped(
    arguments: tuple[tuple[str, str], ...], setup: list[tuple[str, str]], block_rows: str, tiling: RowTiling
) -> RowFormulas:
    """Two loops: the groups that a core's rows lie in, and the tiles of its rows of each."""
    count = literal(tiling.row_count)
    setup = [
        *setup,
        ("block_stop", f"block_start + {block_rows}"),
        ("first_group", f"block_start // {count}"),
        ("group_count", f"((block_stop - 1) // {count} + 1 - first_group).cast(asc.int32)"),
    ]
    group = [("group", "first_group + group_idx"), ("group_start", f"group * {count}")]
    columns = str(tiling.column_tile)
    if tiling.column_count > 1:
        if tiling.outer_count > 1:
            group.append(("outer", f"group // {literal(tiling.column_count)}"))
        group.append(("column", f"group % {literal(tiling.column_count)} * {tiling.column_tile}"))
        tail = tiling.width - tiling.column_tile * (tiling.column_count - 1)
        if tail != tiling.column_tile:
            group.append(("columns", f"{columns} if column < {literal(tiling.width - tail)} else {tail}"))
            columns = "columns"
    one_tile = tiling.tile_rows >= tiling.row_count
    group += [
        ("row" if one_tile else "first_row", "block_start if block_start > group_start else group_start"),
        ("last_row", f"block_stop if block_stop < group_start + {count} else group_start + {count}"),
    ]
    tiles, tile_count, loop, rows = _group_tiles(tiling)
    return RowFormulas(
        arguments=arguments, setup=tuple(setup), group_count="group_count", group=(*group, *tiles),
        tile_count=tile_count, loop=loop, length=rows, columns=columns,
    )  # fmt: skip


def _group_tiles(
    tiling: RowTiling,
) -> tuple[list[tuple[str, str]], str, tuple[tuple[str, str], ...], str]:
    """The tiles of a core's rows in one group."""
    tile_rows = tiling.tile_rows
    if tile_rows >= tiling.row_count:
        return [], "1", (("rows", "(last_row - row).cast(asc.int32)"),), "rows"
    if tile_rows == 1:
        tiles = [("tile_count", "(last_row - first_row).cast(asc.int32)")]
        return tiles, "tile_count", (("row", "first_row + tile"),), "1"
    tiles = [
        ("tile_count", f"asc.ceildiv(last_row - first_row, {tile_rows}).cast(asc.int32)"),
        ("tail_rows", f"(last_row - first_row - {_int64(tile_rows)} * (tile_count - 1)).cast(asc.int32)"),
    ]
    loop = (
        ("row", f"first_row + {_int64(tile_rows)} * tile"),
        ("rows", f"{tile_rows} if tile < tile_count - 1 else tail_rows"),
    )
    return tiles, "tile_count", loop, "rows"
