"""A schedule bound to a size: exact, aligned, equal to the plain integer split, and refused with reasons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import Schedule, get_target
from asc_sched.errors import CoreNumError, ScheduleError, ShapeError, TargetError, TileLengthError
from asc_sched.tiling import Tiling, prove_coverage, resolve, symbolic_tiling
from asc_sched.tiling.symbolic import Alignment
from tests.tiling.plain import covers_once, plain_blocks, plain_tile_length, plain_tiles, steady

FLOAT = (4, 4, 4)
WIDE = get_target("Ascend910B1").evolve(vector_cores=64)


def blocks(tiling: Tiling) -> list[tuple[int, int]]:
    return [tiling.block(core) for core in range(tiling.core_num)]


@settings(steady, max_examples=300)
@given(
    total_length=st.integers(0, 3000) | st.integers(0, 2**45),
    core_num=st.integers(1, 48),
    tile_num=st.integers(1, 64),
    buffer_num=st.integers(1, 8),
    split=st.sampled_from(["even", "ceil"]),
    itemsizes=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4),
)
def test_blocks_and_tiles_equal_the_plain_integer_split(
    total_length: int, core_num: int, tile_num: int, buffer_num: int, split: str, itemsizes: list[int]
) -> None:
    tile_num = max(tile_num, (total_length >> 30) + 1)  # a tile's length is int32
    schedule = Schedule(core_num=core_num, tile_num=tile_num, buffer_num=buffer_num, core_split=split)
    tiling = resolve(schedule, total_length=total_length, itemsizes=tuple(itemsizes))
    unit, expected = plain_blocks(total_length, core_num, split, min(itemsizes))
    assert blocks(tiling) == expected
    if total_length:
        longest = max(length for _, length in expected)
        assert (tiling.unit_length, tiling.block_length) == (unit, longest)
        assert tiling.tile_length == plain_tile_length(longest, tile_num, buffer_num, min(itemsizes))
        core = tiling.core_num - 1
        tiles = plain_tiles(expected[core], tiling.tile_length)[:10]
        assert [tile for tile, _ in zip(tiling.tiles(core), range(10), strict=False)] == tiles
    assert prove_coverage(tiling).ok


@steady
@given(
    total_length=st.integers(0, 600),
    core_num=st.integers(1, 48),
    tile_length=st.integers(1, 12).map(lambda n: 32 * n),
    split=st.sampled_from(["even", "ceil"]),
    itemsize=st.sampled_from([1, 2, 4, 8]),
)
def test_every_element_is_in_exactly_one_tile(
    total_length: int, core_num: int, tile_length: int, split: str, itemsize: int
) -> None:
    schedule = Schedule(core_num=core_num, tile_length=tile_length, core_split=split)
    tiling = resolve(schedule, total_length=total_length, itemsizes=(itemsize,))
    tiles = [tile for core in range(tiling.core_num) for tile in tiling.tiles(core)]
    assert covers_once(total_length, tiles)
    assert prove_coverage(tiling).tile_count == len(tiles)
    for core in range(tiling.core_num):
        own = list(tiling.tiles(core))
        assert (tiling.tile_count(core), tiling.tail(core)) == (len(own), own[-1][1])
        assert {length for _, length in own[:-1]} <= {tile_length}


@steady
@given(total_length=st.integers(1, 2**40), core_num=st.integers(1, 48), split=st.sampled_from(["even", "ceil"]))
def test_each_cores_part_equals_the_symbolic_formulas(total_length: int, core_num: int, split: str) -> None:
    schedule = Schedule(core_num=core_num, tile_num=600, core_split=split)
    tiling = resolve(schedule, total_length=total_length, itemsizes=FLOAT)
    symbolic = symbolic_tiling(split, Alignment(128, 8))
    for core in {0, tiling.core_num // 2, tiling.core_num - 1}:
        values = symbolic.bind(core, total_length=total_length, core_num=core_num, tile_num=600, buffer_num=2)
        assert (values["block_start"], values["core_length"]) == tiling.block(core)
        assert (values["core_tile_count"], values["core_tail"]) == (tiling.tile_count(core), tiling.tail(core))


@steady
@given(total_length=st.integers(1, 10**7), core_num=st.integers(1, 48))
def test_even_cores_differ_by_at_most_one_unit(total_length: int, core_num: int) -> None:
    tiling = resolve(Schedule(core_num=core_num, tile_num=1), total_length=total_length, itemsizes=FLOAT)
    lengths = [length for _, length in blocks(tiling)]
    assert max(lengths) - min(lengths[:-1] or lengths) in (0, tiling.unit_length)
    assert max(lengths) - lengths[-1] < 2 * tiling.unit_length


def test_blocks_start_on_gm_lines_where_every_core_has_one() -> None:
    for itemsizes in ((4, 4), (2, 4), (1, 4), (8,)):
        line = 512 // min(itemsizes)
        enough = resolve(Schedule(core_num=8, tile_num=1), total_length=7 * line + 1, itemsizes=itemsizes)
        assert (enough.core_num, enough.unit_length) == (8, line)
        assert all(start * size % 512 == 0 for start, _ in blocks(enough) for size in itemsizes)
        too_few = resolve(Schedule(core_num=8, tile_num=1), total_length=7 * line, itemsizes=itemsizes)
        assert (too_few.core_num, too_few.unit_length) == (8, line // 16)
        assert all(start * size % 32 == 0 for start, _ in blocks(too_few) for size in itemsizes)


def test_the_tutorials_schedule_on_the_tutorials_size() -> None:
    tiling = resolve(Schedule(core_num=8, tile_num=8, buffer_num=2), total_length=8 * 2048, itemsizes=FLOAT)
    assert blocks(tiling) == [(core * 2048, 2048) for core in range(8)]
    assert (tiling.tile_length, tiling.tile_count(7), tiling.tail(7)) == (128, 16, 128)


def test_sizes_that_do_not_divide_by_the_cores_or_tiles() -> None:
    for total_length in (1, 7, 8, 9, 255, 256, 257, 10000, 13243, 1000003):
        for itemsize in (1, 2, 4):
            for schedule in (Schedule(core_num=8, tile_num=8), Schedule(core_num=20, tile_num=4, buffer_num=1)):
                tiling = resolve(schedule, total_length=total_length, itemsizes=(itemsize,) * 3)
                assert blocks(tiling) == plain_blocks(total_length, schedule.core_num or 0, "even", itemsize)[1]


def test_the_ceil_split_gives_no_core_more_than_is_left() -> None:
    tiling = resolve(
        Schedule(core_num=64, tile_num=1, buffer_num=1, core_split="ceil"),
        total_length=264 * 8,
        itemsizes=(4,),
        target=WIDE,
    )
    assert tiling.core_num == 53
    assert tiling.block(51) == (51 * 5 * 8, 5 * 8)
    assert tiling.block(52) == (260 * 8, 4 * 8)
    with pytest.raises(IndexError, match="core 53 isn't launched: cores are 0 to 52"):
        tiling.block(53)


def test_the_even_split_uses_all_cores_where_ceil_leaves_some_idle() -> None:
    tiling = resolve(Schedule(core_num=64, tile_num=1, buffer_num=1), total_length=264 * 8, itemsizes=(4,), target=WIDE)
    assert tiling.core_num == 64
    assert sorted({length for _, length in blocks(tiling)}) == [4 * 8, 5 * 8]


@pytest.mark.parametrize("split", ["even", "ceil"])
def test_fewer_elements_than_cores(split: str) -> None:
    one = resolve(Schedule(core_num=48, tile_num=8, core_split=split), total_length=1, itemsizes=FLOAT)
    assert blocks(one) == [(0, 1)]
    nine = resolve(Schedule(core_num=8, tile_num=1, buffer_num=1, core_split=split), total_length=9, itemsizes=FLOAT)
    assert blocks(nine) == [(0, 8), (8, 1)]


@pytest.mark.parametrize("split", ["even", "ceil"])
def test_nothing_is_launched_for_no_elements(split: str) -> None:
    for schedule in (Schedule(tile_num=8, core_split=split), Schedule(tile_length=64, core_split=split)):
        tiling = resolve(schedule, total_length=0, itemsizes=FLOAT)
        assert (tiling.core_num, tiling.block_length) == (0, 0)
        assert prove_coverage(tiling).ok
        assert str(tiling) == "0 elements on 0 of 48 cores (Ascend910B1): nothing is launched"


def test_offsets_beyond_2_to_the_31() -> None:
    total_length = 3_270_680_000
    tiling = resolve(Schedule(core_num=40, tile_length=16384), total_length=total_length, itemsizes=(2, 2))
    start, length = list(tiling.tiles(39))[-1]
    assert start + length - 1 == 3_270_679_999
    assert start > 2**31


def test_without_core_num_every_core_of_the_target_works() -> None:
    assert resolve(Schedule(tile_num=1), total_length=10**6, itemsizes=FLOAT).core_num == 48
    assert resolve(Schedule(tile_num=1), total_length=10**6, itemsizes=FLOAT, target="Ascend910B3").core_num == 40


def test_tiles_fill_the_ub_when_nothing_is_said() -> None:
    tiling = resolve(Schedule(core_num=8), total_length=10**6, itemsizes=FLOAT, max_tile_length=8191)
    assert tiling.tile_length <= 8184
    assert tiling.tile_count(0) == 16
    small = resolve(Schedule(core_num=8), total_length=100, itemsizes=FLOAT, max_tile_length=8191)
    assert small.tile_length == 8


def test_numpy_lengths_are_lengths() -> None:
    tiling = resolve(Schedule(core_num=8, tile_num=8), total_length=np.int64(100), itemsizes=FLOAT)
    assert tiling == resolve(Schedule(core_num=8, tile_num=8), total_length=100, itemsizes=FLOAT)
    assert type(tiling.total_length) is int


def test_a_tiling_reads_like_this() -> None:
    tiling = resolve(Schedule(core_num=8, tile_num=8), total_length=1000003, itemsizes=FLOAT)
    assert str(tiling) == (
        "1000003 elements on 8 of 8 cores (Ascend910B1)\n"
        "  unit_length      128  = 128 if ceil_div(total_length, 128) >= core_num else 8\n"
        "  units           7813  = ceil_div(total_length, unit_length)\n"
        "  used_cores         8  = minimum(core_num, units)\n"
        "  base_units       976  = floor_div(units, used_cores)\n"
        "  extra_units        5  = mod(units, used_cores)\n"
        "  block_length  125056  = minimum(unit_length*ceil_div(units, used_cores), total_length)\n"
        "  tile_length     7816  = 8*ceil_div(ceil_div(block_length, buffer_num*tile_num), 8)\n"
        "  tile_count        16  = ceil_div(block_length, tile_length)\n"
        "  tail            7816  = block_length - tile_length*(tile_count - 1)\n"
        "  core 0..4  from 0: 125056 elements = 16 x 7816\n"
        "  core 5..6  from 625280: 124928 elements = 15 x 7816 + 1 x 7688\n"
        "  core 7     from 875136: 124867 elements = 15 x 7816 + 1 x 7627"
    )


def test_more_cores_than_the_target_has_are_refused_with_both_numbers() -> None:
    with pytest.raises(CoreNumError) as caught:
        resolve(Schedule(core_num=49, tile_num=1), total_length=2**20, itemsizes=FLOAT)
    assert str(caught.value) == (
        "core_num=49 is more than the 48 vector cores of Ascend910B1 (the launcher itself takes at most 65535); "
        "nearest "
        "valid: core_num=48"
    )
    with pytest.raises(CoreNumError, match=r"core_num=65535 is more than the 40 vector cores of Ascend910B3"):
        resolve(Schedule(core_num=65535, tile_num=1), total_length=2**20, itemsizes=FLOAT, target="Ascend910B3")


@pytest.mark.parametrize(
    ("tile_length", "itemsizes", "text"),
    [
        (1001, (4, 1), "tile_length=1001 is not a multiple of 32 elements (32 bytes of the smallest item, which "
         "has 1); "
         "nearest valid: tile_length=992 or 1024"),
        (7, (4,), "tile_length=7 is not a multiple of 8 elements (32 bytes of the smallest item, which has 4); nearest "
         "valid: tile_length=8"),
        (2000, (2, 4), None),
        (8, (2, 4), "tile_length=8 is not a multiple of 16 elements (32 bytes of the smallest item, which has "
         "2); nearest "
         "valid: tile_length=16"),
    ],
)  # fmt: skip
def test_a_tile_length_must_be_32_bytes_of_every_tensor(
    tile_length: int, itemsizes: tuple[int, ...], text: str
) -> None:
    schedule = Schedule(core_num=8, tile_length=tile_length)
    if text is None:
        assert resolve(schedule, total_length=10**5, itemsizes=itemsizes).tile_length == tile_length
        return
    with pytest.raises(TileLengthError) as caught:
        resolve(schedule, total_length=10**5, itemsizes=itemsizes)
    assert str(caught.value) == text


def test_tile_counts_are_int32() -> None:
    edge = 8 * (2**31 - 1)
    assert resolve(Schedule(core_num=1, tile_length=8), total_length=edge, itemsizes=(4,)).max_tile_count == 2**31 - 1
    with pytest.raises(TileLengthError) as caught:
        resolve(Schedule(core_num=1, tile_length=8), total_length=edge + 1, itemsizes=(4,))
    assert str(caught.value) == (
        "tiles of 8 elements cut a core's block of 17179869177 elements into 2147483648 tiles; at most 2147483647 are "
        "possible; nearest valid: tile_length=16"
    )
    assert resolve(Schedule(core_num=1, tile_length=16), total_length=edge + 1, itemsizes=(4,)).core_num == 1


def test_tile_lengths_are_int32() -> None:
    with pytest.raises(TileLengthError) as caught:
        resolve(Schedule(core_num=1, tile_num=1, buffer_num=1), total_length=2**32, itemsizes=(1,))
    assert str(caught.value) == (
        "a block of 4294967296 elements in tile_num=1 x buffer_num=1 tiles makes tiles of 4294967296 elements; at most "
        "2147483616 are possible; nearest valid: tile_num=3"
    )
    assert resolve(Schedule(core_num=1, tile_num=3, buffer_num=1), total_length=2**32, itemsizes=(1,)).core_num == 1


def test_other_arguments_are_refused_by_name() -> None:
    schedule = Schedule(core_num=8, tile_num=8)
    with pytest.raises(ShapeError) as caught:
        resolve(schedule, total_length=2**62, itemsizes=(4, 2))
    assert str(caught.value) == (
        "total_length=4611686018427387904 is out of range: allowed is 0 to 2305843009213693951 elements of 4 "
        "bytes (byte "
        "offsets are int64)"
    )
    with pytest.raises(ShapeError, match=r"total_length=-1 is out of range: allowed is 0 to"):
        resolve(schedule, total_length=-1, itemsizes=(4,))
    with pytest.raises(ShapeError, match=r"total_length=8\.0 is not an integer but float"):
        resolve(schedule, total_length=8.0, itemsizes=(4,))  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=r"itemsizes=\(\): needs at least one, each 1, 2, 4, 8, 16 or 32 bytes"):
        resolve(schedule, total_length=8, itemsizes=())
    with pytest.raises(ScheduleError, match=r"itemsizes=\(3,\)"):
        resolve(schedule, total_length=8, itemsizes=(3,))
    with pytest.raises(
        ScheduleError, match=r"Schedule\(\) has neither tile_num nor tile_length, so its tiles fill the UB"
    ):
        resolve(Schedule(), total_length=8, itemsizes=(4,))
    with pytest.raises(TileLengthError, match="a tile of at most 7 elements is left by the UB, and the shortest valid"):
        resolve(Schedule(), total_length=8, itemsizes=(4,), max_tile_length=7)
    with pytest.raises(TargetError, match="unknown target 'Ascend910B9'"):
        resolve(schedule, total_length=8, itemsizes=(4,), target="Ascend910B9")
