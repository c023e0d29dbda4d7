"""Row tilings: every element of every row has one tile, in the tiling and in what the kernel computes."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import Schedule, get_target
from asc_sched.errors import CoreNumError, CoverageError, ScheduleError
from asc_sched.tiling.rows import RowTiling, prove_row_coverage, resolve_rows, rows_to
from asc_sched.tiling.rows_device import RowFormulas, dynamic_row_formulas, static_row_formulas
from tests.tiling.device_model import Typed, _Evaluator

CHIP = get_target()
Rectangle = tuple[int, int, int, int, int]  # outer index, first row, rows, first column, columns


def tiling(
    outer: int, rows: int, width: int, column_tile: int, tile_rows: int, unit: int, schedule: Schedule
) -> RowTiling:
    return resolve_rows(
        schedule, outer_count=outer, row_count=rows, width=width, column_tile=column_tile, tile_rows=tile_rows,
        unit_rows=unit, target=CHIP,
    )  # fmt: skip


@st.composite
def tilings(draw: st.DrawFn) -> RowTiling:
    width = draw(st.integers(1, 40))
    cut = draw(st.booleans())
    return tiling(
        draw(st.integers(1, 5)),
        draw(st.integers(1, 60)),
        width,
        draw(st.integers(1, width)) if cut else width,
        1 if cut else draw(st.integers(1, 70)),
        draw(st.sampled_from((1, 2, 8, 16))),
        Schedule(core_num=draw(st.integers(1, 48)), core_split=draw(st.sampled_from(("even", "ceil")))),
    )


def elements(tiles: list[Rectangle]) -> list[tuple[int, int, int]]:
    return [
        (outer, row, column)
        for outer, row0, rows, column0, columns in tiles
        for row in range(row0, row0 + rows)
        for column in range(column0, column0 + columns)
    ]


def all_tiles(t: RowTiling) -> list[Rectangle]:
    return [tile for core in range(t.core_num) for tile in t.tiles(core)]


@settings(max_examples=100)
@given(tilings())
def test_every_element_has_exactly_one_tile(t: RowTiling) -> None:
    whole = [(o, r, c) for o in range(t.outer_count) for r in range(t.row_count) for c in range(t.width)]
    tiles = all_tiles(t)
    assert sorted(elements(tiles)) == whole
    proof = prove_row_coverage(t)
    assert proof.ok and proof.total_length == len(whole) == t.total_length
    assert proof.tile_count == len(tiles) == sum(t.tile_count(c) for c in range(t.core_num))
    assert all(list(t.tiles(c)) for c in range(t.core_num)), "every launched core has work"
    assert t.max_tile_count == max(len(list(t.tiles(c))) for c in range(t.core_num))
    for core in range(t.core_num):
        *_, (_, _, rows, _, columns) = t.tiles(core)
        assert t.tail(core) == rows * columns


def run(formulas: RowFormulas, t: RowTiling, core: int, total_rows: int) -> list[Rectangle]:
    """The tiles that a core's scalar unit comes to."""
    arguments: dict[str, Any] = {name: Typed(total_rows, 64) for name, _ in formulas.arguments}
    evaluator = _Evaluator(arguments, core, t.core_num)

    def value(text: str) -> int:
        found = evaluator.run(ast.parse(text, mode="eval").body)
        return found if isinstance(found, int) else found.value

    def assign(pairs: tuple[tuple[str, str], ...]) -> None:
        for name, text in pairs:
            arguments[name] = evaluator.run(ast.parse(text, mode="eval").body)

    assign(formulas.setup)
    tiles = []
    for group in range(value(formulas.group_count) if formulas.group_count else 1):
        arguments["group_idx"] = Typed(group, 32)
        assign(formulas.group)
        for tile in range(value(formulas.tile_count)):
            arguments["tile"] = Typed(tile, 32)
            assign(formulas.loop)
            assert arguments["row"].bits == 64
            tiles.append(_rectangle(formulas, t, arguments, value))
    return tiles


def _rectangle(formulas: RowFormulas, t: RowTiling, names: dict[str, Any], value: Any) -> Rectangle:
    row, rows = names["row"].value, value(formulas.length)
    if not formulas.group_count:
        return 0, row, rows, 0, t.width
    group = names["group"].value
    outer = names["outer"].value if "outer" in names else group if t.column_count == 1 else 0
    column = names["column"].value if "column" in names else 0
    return outer, row - names["group_start"].value, rows, column, value(formulas.columns)


@settings(max_examples=100)
@given(tilings())
def test_a_static_kernel_computes_the_tilings_tiles(t: RowTiling) -> None:
    formulas = static_row_formulas(t)
    for core in range(t.core_num):
        assert run(formulas, t, core, 0) == list(t.tiles(core))


@settings(max_examples=100)
@given(tilings(), st.sampled_from((1, 2, 8, 16)))
def test_a_kernel_of_any_number_of_rows_computes_the_tilings_tiles(t: RowTiling, unit: int) -> None:
    t = tiling(t.outer_count, t.row_count, t.width, t.column_tile, t.tile_rows, unit, t.schedule)
    formulas = dynamic_row_formulas(t, unit)
    for core in range(t.core_num):
        assert run(formulas, t, core, t.rows.total_length) == list(t.tiles(core))


def test_rows_beyond_int32_have_int64_places() -> None:
    wide = 3_000_000_000
    t = tiling(3, wide, 5, 5, 1000, 1, Schedule(core_num=7))
    formulas = static_row_formulas(t)
    last = run_last(formulas, t, 6)
    assert last == (2, wide - last[2], last[2], 0, 5)


def run_last(formulas: RowFormulas, t: RowTiling, core: int) -> Rectangle:
    """The last tile of a core, without running the others."""
    names: dict[str, Any] = {}
    evaluator = _Evaluator(names, core, t.core_num)

    def evaluate(text: str) -> Any:
        return evaluator.run(ast.parse(text, mode="eval").body)

    for name, text in formulas.setup:
        names[name] = evaluate(text)
    names["group_idx"] = Typed(names["group_count"].value - 1, 32)
    for name, text in formulas.group:
        names[name] = evaluate(text)
    names["tile"] = Typed(names["tile_count"].value - 1, 32)
    for name, text in formulas.loop:
        names[name] = evaluate(text)
    return _rectangle(formulas, t, names, lambda text: getattr(evaluate(text), "value", None) or int(text))


def test_names_can_be_changed() -> None:
    formulas = static_row_formulas(tiling(2, 30, 9, 4, 1, 1, Schedule(core_num=3)))
    changed = formulas.renamed({"group": "g", "row": "rows_2", "columns": "c", "group_count": "n", "column": "col"})
    assert changed.group_count == "n" and changed.columns == "c"
    assert ("g", "first_group + group_idx") in changed.group
    assert dict(changed.group)["col"] == "g % 3 * 4"
    assert changed.loop[0] == ("rows_2", "first_row + tile")


# -- what is refused -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bad", [{"tile_rows": 0}, {"column_tile": 0}, {"unit_rows": -1}])
def test_numbers_that_make_no_tiles_are_refused(bad: dict[str, int]) -> None:
    numbers = {"outer_count": 1, "row_count": 4, "width": 4, "column_tile": 4, "tile_rows": 2, "unit_rows": 1} | bad
    with pytest.raises(ScheduleError, match=f"{next(iter(bad))}="):
        resolve_rows(Schedule(), target=CHIP, **numbers)


def test_more_cores_than_the_chip_has_are_refused() -> None:
    with pytest.raises(CoreNumError, match="core_num=49"):
        tiling(1, 100, 4, 4, 2, 1, Schedule(core_num=49))


def test_the_proof_finds_rows_and_columns_that_are_missing() -> None:
    import attrs

    t = tiling(2, 30, 9, 4, 1, 1, Schedule(core_num=3))
    for broken in (attrs.evolve(t, row_count=29), attrs.evolve(t, outer_count=3), attrs.evolve(t, column_tile=2)):
        with pytest.raises(CoverageError, match="rows are split, of"):
            prove_row_coverage(broken)
    with pytest.raises(CoverageError):
        prove_row_coverage(attrs.evolve(t, rows=attrs.evolve(t.rows, base_units=1)))


def test_no_rows_launch_nothing() -> None:
    t = tiling(1, 0, 4, 4, 2, 1, Schedule())
    assert t.core_num == 0 and prove_row_coverage(t).ok
    assert "nothing is launched" in str(t)
    with pytest.raises(ScheduleError, match="no rows"):
        static_row_formulas(t)


def test_the_text_names_the_tiles() -> None:
    text = str(tiling(2, 30, 9, 4, 1, 1, Schedule(core_num=3)))
    assert text.splitlines()[0] == "60 rows of 9 elements on 3 of 3 cores (Ascend910B1)"
    assert "column_tile           4  columns of a tile, 3 to a row" in text
    assert "core 0..2" in text


@pytest.mark.parametrize(("row_bytes", "rows"), [(4, 128), (12, 128), (32, 16), (512, 1), (1536, 1), (2000, 32)])
def test_rows_to_a_line(row_bytes: int, rows: int) -> None:
    assert rows_to(512, row_bytes) == rows
    assert rows * row_bytes % 512 == 0
