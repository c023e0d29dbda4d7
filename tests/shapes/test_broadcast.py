"""Broadcasting on the device: right to the bit, and no input read more often than its tiles need."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from asc_sched import Schedule, op
from asc_sched.errors import ShapeError, UbOverflowError
from asc_sched.tiling.rows import RowTiling
from tests.road.tensors import same_bits
from tests.shapes.running import GuardedLayout, check, traffic
from tests.shapes.tensors import values

ADD = op("z = x + y")
LESS = op("z = x < y")
MIX = op("z = where(x < y, w, x * 2); v = x + w")
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8)
PAIRS = [
    ((100, 64), (64,)),
    ((100, 64), (100, 1)),
    ((50, 3), (3,)),
    ((50, 3), (50, 1)),
    ((300, 8), (8,)),
    ((300, 8), (300, 1)),
    ((3, 1000), (1000,)),
    ((3, 1001), (3, 1)),
    ((33,), ()),
    ((33,), (1,)),
    ((9, 1), (1, 17)),
    ((5, 7, 6), (7, 1)),
    ((5, 7, 6), (5, 1, 6)),
    ((5, 1, 6), (7, 1)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((2, 3, 4, 5), (2, 1, 4, 1)),
    ((1, 3, 1, 5), (2, 1, 4, 1)),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pairs_of_shapes_are_right_in_every_dtype(dtype: torch.dtype) -> None:
    for a, b in PAIRS:
        x, y = values(a, dtype), values(b, dtype, seed=1)
        check(ADD, ADD(x, y), x, y)


@pytest.mark.parametrize("schedule", [
    Schedule(core_num=1, tile_length=32, buffer_num=1),
    Schedule(core_num=7, tile_length=96),
    Schedule(core_num=48, tile_num=2, core_split="ceil"),
    Schedule(core_num=3, tile_num=1, buffer_num=1, bank_pad=True),
    Schedule(core_num=5, pack_inputs=True),
    Schedule(l2_cache="bypass"),
], ids=repr)  # fmt: skip
def test_the_schedule_changes_nothing(schedule: Schedule) -> None:
    for a, b in PAIRS[::2]:
        x, y = GuardedLayout(values(a, torch.float16)), GuardedLayout(values(b, torch.float16, seed=1))
        kernel = ADD.compile([a, b], "float16", schedule=schedule)
        out = GuardedLayout(torch.zeros(torch.broadcast_shapes(a, b), dtype=torch.float16))
        assert kernel(x.tensor, y.tensor, out=out.tensor) is out.tensor
        check(ADD, out.tensor, x.tensor, y.tensor)
        assert x.intact and y.intact and out.intact


def test_three_inputs_of_three_kinds() -> None:
    for shapes in ([(40, 30), (30,), (40, 1)], [(7, 1, 30), (40, 1), (7, 40, 1)], [(5, 1, 1), (4, 1), (3,)]):
        tensors = [values(s, torch.float32, seed=i) for i, s in enumerate(shapes)]
        check(MIX, MIX(*tensors), *tensors)
        kinds = (torch.int32, torch.int8, torch.float16)
        mixed = [values(s, d, i) for i, (s, d) in enumerate(zip(shapes, kinds, strict=True))]
        check(MIX, MIX(*mixed), *mixed)


def test_comparison_of_a_row_and_a_column() -> None:
    x, y = torch.tensor([[0, 1, 2]], dtype=torch.int32), torch.tensor([[1], [2]], dtype=torch.int32)
    result = LESS(x, y)
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == [[True, False, False], [True, True, False]]
    assert result.dtype is torch.bool


def test_masks_made_from_few_elements_are_spread_as_wholes() -> None:
    where = op("z = where(m, x, y)")
    for mask in ((40, 1), (30,), (), (40, 30)):
        tensors = [values(mask, torch.bool), values((40, 30), torch.float32), values((30,), torch.float32, 1)]
        check(where, where(*tensors), *tensors)
    compared = op("z = where(y > w, x, 0)")
    tensors = [values((40, 1), torch.float32), values((40, 1), torch.float32, 1), values((40, 30), torch.float32, 2)]
    check(compared, compared(*tensors), *tensors)


def test_what_few_elements_need_is_computed_on_those() -> None:
    """exp of a row is taken once per core, of a column on the rows of a tile, not on every element."""
    scaled = op("z = x * exp(y)")
    for y, rows in (((64,), "64"), ((1024, 1), "rows")):
        kernel = scaled.compile([(1024, 64), y])
        body = kernel.plan.prepare if y == (64,) else kernel.plan.compute
        assert any("asc.exp(" in line and f", {rows})" in line for line in body.statements), kernel.source


# -- GM traffic ----------------------------------------------------------------------------------------------------
def nbytes(*tensors: torch.Tensor) -> int:
    return sum(t.nbytes for t in tensors)


@pytest.mark.parametrize("core_num", [1, 6, 48])
@pytest.mark.parametrize("shape", [(600, 64), (600, 100), (601, 1000), (600, 3)])
def test_a_row_is_read_at_most_once_per_core(shape: tuple[int, int], core_num: int) -> None:
    x, y = values(shape, torch.float32), values(shape[1:], torch.float32, 1)
    kernel = ADD.compile([shape, shape[1:]], schedule=Schedule(core_num=core_num, tile_length=2048))
    report = traffic(kernel, x, y)
    tiling = kernel.tiling
    assert isinstance(tiling, RowTiling)
    assert tiling.max_tile_count > 1 or core_num == 48 or shape == (600, 3)
    assert report.core_num <= core_num
    assert report.bytes_read == x.nbytes + report.core_num * y.nbytes
    assert report.bytes_written == x.nbytes


def test_a_long_row_is_read_at_most_once_per_core_and_column_tile() -> None:
    x, y = values((10, 9000), torch.float32), values((9000,), torch.float32, 1)
    kernel = ADD.compile([(10, 9000), (9000,)], schedule=Schedule(core_num=4, tile_length=1024))
    report = traffic(kernel, x, y)
    tiling = kernel.tiling
    assert isinstance(tiling, RowTiling) and tiling.column_count == 9
    groups = [{(tile[0], tile[3]): tile[4] for tile in tiling.tiles(c)} for c in range(tiling.core_num)]
    assert report.bytes_read == x.nbytes + sum(4 * columns for core in groups for columns in core.values())
    assert report.bytes_read <= x.nbytes + y.nbytes + (report.core_num - 1) * 4096
    assert report.bytes_written == x.nbytes


def test_a_column_is_read_once() -> None:
    for shape in ((600, 64), (600, 100), (600, 3), (500, 601)):
        x, y = values(shape, torch.float32), values((shape[0], 1), torch.float32, 1)
        kernel = ADD.compile([shape, (shape[0], 1)], schedule=Schedule(core_num=6, tile_length=2048))
        assert traffic(kernel, x, y).bytes_read == nbytes(x, y)


def test_a_scalar_is_read_by_the_scalar_unit_once_per_core() -> None:
    x, y = values((70, 30), torch.float32), torch.tensor(2.5)
    kernel = ADD.compile([(70, 30), ()])
    assert traffic(kernel, x, y).bytes_read == x.nbytes
    assert kernel.source.count("y_gm.get_value(0)") == 1
    assert "asc.adds(" in kernel.source


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64], ids=str)
def test_a_scalar_that_is_no_immediate_is_read_once_too(dtype: torch.dtype) -> None:
    x, y = values((70, 30), dtype), values((), dtype, 1)
    check(ADD, ADD(x, y), x, y)


def test_a_batch_of_rows_is_read_once_per_batch() -> None:
    x, y = values((6, 40, 128), torch.float32), values((6, 1, 128), torch.float32, 1)
    kernel = ADD.compile([(6, 40, 128), (6, 1, 128)], schedule=Schedule(core_num=6, tile_length=1024))
    report = traffic(kernel, x, y)
    assert report.bytes_read == nbytes(x, y)
    assert kernel.plan.form.group_count == 6


def test_an_input_that_nothing_reads_is_not_read() -> None:
    kernel = op("z = x * 2 + (y - y) * 0", inputs=["x", "y"]).compile([(30, 40), (40,)])
    fixed = op("z = x + 1", inputs=["x", "y"]).compile([(30, 40), (40,)])
    x, y = values((30, 40), torch.float32), values((40,), torch.float32)
    assert traffic(kernel, x, y).bytes_read > x.nbytes
    assert traffic(fixed, x, y).bytes_read == x.nbytes


# -- sizes ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shapes", [[(0, 128), (128,)], [(0,), (1,)], [(3, 0, 5), (3, 1, 1)], [(4, 0), (0,)]], ids=str)
def test_no_elements(shapes: list[tuple[int, ...]]) -> None:
    tensors = [values(s, torch.float16) for s in shapes]
    result = ADD(*tensors)
    assert isinstance(result, torch.Tensor)
    assert result.shape == torch.broadcast_shapes(*shapes) and result.dtype is torch.float16
    kernel = ADD.compile(shapes, "float16")
    assert isinstance(kernel(*tensors), torch.Tensor)
    out = torch.empty(result.shape, dtype=torch.float16)
    assert ADD(*tensors, out=out) is out


def test_sizes_that_dont_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"shapes \(4, 3\) of x and \(4,\) of y don't fit: dimension -1 is 3 and 4"):
        ADD(torch.zeros(4, 3), torch.zeros(4))
    kernel = ADD.compile([(4, 3), (3,)])
    with pytest.raises(ShapeError, match=r"compiled for shape \(4, 3\), the tensors have \(5, 3\)"):
        kernel(torch.zeros(5, 3), torch.zeros(3))
    with pytest.raises(ShapeError, match=r"compiled for inputs of shapes \(4, 3\), \(3,\), which broadcast"):
        kernel(torch.zeros(4, 3), torch.zeros(4, 3))


def test_a_tile_that_is_too_large_names_one_that_fits() -> None:
    row, column, long = [(1000, 64), (64,)], [(1000, 64), (1000, 1)], [(4, 99999), (99999,)]
    for shapes, tile_length in ((row, 64000), (column, 64000), (long, 50000)):
        with pytest.raises(UbOverflowError, match="nearest valid: tile_length=") as caught:
            ADD.compile(shapes, schedule=Schedule(core_num=1, tile_length=tile_length))
        largest = int(str(caught.value).rpartition("tile_length=")[2].split()[0])
        kernel = ADD.compile(shapes, schedule=Schedule(core_num=1, tile_length=largest))
        assert kernel.plan.ub_bytes <= kernel.plan.ub_capacity


def test_rows_of_every_small_width() -> None:
    """Rows narrower than 32 bytes, and widths around it."""
    widths = {torch.float32: (2, 4, 7, 8, 9), torch.float16: (3, 15, 16, 17), torch.int8: (15, 31, 32, 33)}
    for dtype, some in widths.items():
        for width in some:
            x = GuardedLayout(values((21, width), dtype))
            for other in ((width,), (21, 1)):
                y = values(other, dtype, 1)
                out = GuardedLayout(torch.zeros(21, width, dtype=dtype))
                ADD(x.tensor, y, out=out.tensor)
                check(ADD, out.tensor, x.tensor, y)
                assert x.intact and out.intact


def test_two_rows_and_two_columns_at_once() -> None:
    wide = op("z = (a + b) * (c - d) + x")
    shapes: list[Any] = [(1, 50), (50,), (20, 1), (20, 1), (20, 50)]
    tensors = [values(s, torch.float32, i) for i, s in enumerate(shapes)]
    check(wide, wide(*tensors), *tensors)
    kernel = wide.compile(shapes)
    statements = kernel.plan.prepare.statements
    assert sum("asc.add(" in s for s in statements) == 1, "a + b is a row: added once, before the tiles"
    assert traffic(kernel, *tensors).bytes_read == nbytes(*tensors) + (kernel.tiling.core_num - 1) * 400  # type: ignore[union-attr]


def test_a_large_sum_of_a_row_and_a_column_is_right() -> None:
    x, y = values((700, 1), torch.float32), values((1, 900), torch.float32, 1)
    result = ADD(x, y)
    assert isinstance(result, torch.Tensor)
    assert same_bits(result, x + y)
    assert math.prod(result.shape) == 630000
