"""The proof of coverage: true for every resolved tiling, false for every changed one, and cheap."""

from __future__ import annotations

import time
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import Schedule
from asc_sched.errors import CoverageError
from asc_sched.tiling import Tiling, prove_coverage, resolve
from tests.tiling.plain import covers_once, steady

FLOAT = (4, 4, 4)
SIZES = ("total_length", "core_num", "unit_length", "units", "base_units", "extra_units", "block_length")
NUMBERS = (*SIZES, "tile_length")


def ragged() -> Tiling:
    """8 cores; the first five have a unit more; the last is ragged; tiles with tails."""
    return resolve(Schedule(core_num=8, tile_num=8), total_length=1000003, itemsizes=FLOAT)


def tiles(tiling: Tiling) -> list[tuple[int, int]]:
    return [tile for core in range(tiling.core_num) for tile in tiling.tiles(core)]


def test_the_argument_names_the_numbers() -> None:
    coverage = prove_coverage(ragged())
    assert (coverage.ok, coverage.total_length, coverage.core_num, coverage.tile_count) == (True, 1000003, 8, 128)
    assert coverage.argument == (
        "8 blocks, each starting where the one before stops, from 0 to 1000003, at multiples of 128 elements "
        "(512 bytes or "
        "more); in each block (tile_count - 1) x 7816 + tail is its length with 0 < tail <= 7816: 128 tiles, "
        "disjoint, in "
        "bounds and complete"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"total_length": 1000002 + 128}, "1000130 elements aren't units=7813 units of 128"),
        ({"total_length": 0}, "0 elements aren't units=7813 units of 128"),
        ({"total_length": -1, "units": 0}, "total_length=-1 on core_num=8 of requested_core_num=8"),
        ({"core_num": 9}, "total_length=1000003 on core_num=9 of requested_core_num=8"),
        ({"core_num": 7}, "elements [875136, 1000003) belong to no core: core 6, the last, stops at 875136, as "
         "the cores "
         "have 6837 of 7813 units"),
        ({"base_units": 975}, "elements [999040, 1000003) belong to no core: core 7, the last, stops at 999040"),
        ({"base_units": 977}, "core 7 has elements [876032, 1001088) by its units, as the cores have 7821, and "
         "there are "
         "7813 in [0, 1000003)"),
        ({"extra_units": 6}, "core 7 has elements [875264, 1000192) by its units, as the cores have 7814, and "
         "there are "
         "7813 in [0, 1000003)"),
        ({"base_units": 0}, "base_units=0 and extra_units=5 give some of the 8 cores no work"),
        ({"extra_units": 8}, "base_units=976 and extra_units=8 give some of the 8 cores no work"),
        ({"extra_units": 4}, "elements [999936, 1000003) belong to no core: core 7, the last, stops at 999936"),
        ({"unit_length": 64, "units": 15626}, "core 7, the last, stops at 500032, as the cores have 7813 of "
         "15626 units"),
        ({"unit_length": 0}, "unit_length=0 and tile_length=7816 must be positive multiples of 8 elements (32 "
         "bytes of the "
         "smallest item)"),
        ({"tile_length": 7817}, "unit_length=128 and tile_length=7817 must be positive multiples of 8 elements"),
        ({"block_length": 125184}, "the longest block has 125056 elements, but block_length=125184"),
    ],
)  # fmt: skip
def test_a_changed_number_is_found_with_its_core_and_range(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(CoverageError) as caught:
        prove_coverage(attrs.evolve(ragged(), **changes))
    assert text in str(caught.value)


class _Shifted(Tiling):
    """A tiling whose blocks are given by hand, as if `block` had a fault."""

    __slots__ = ()
    blocks: tuple[tuple[int, int], ...] = ()

    def block(self, core: int) -> tuple[int, int]:
        return self.blocks[core]


def by_hand(*blocks: tuple[int, int], **changes: Any) -> Tiling:
    tiling = resolve(Schedule(core_num=3, tile_length=64), total_length=384, itemsizes=FLOAT)
    fields = {f.name: getattr(tiling, f.name) for f in attrs.fields(Tiling)}
    return type("_Given", (_Shifted,), {"blocks": blocks})(**{**fields, **changes})  # type: ignore[no-any-return]


def test_blocks_are_proved_as_they_are_handed_out() -> None:
    assert prove_coverage(by_hand((0, 128), (128, 128), (256, 128))).ok
    with pytest.raises(CoverageError) as caught:
        prove_coverage(by_hand((0, 128), (0, 256), (256, 128)))
    assert str(caught.value) == "core 1 has elements [0, 256), which overlaps the block before it (that stops at 128)"
    with pytest.raises(CoverageError) as caught:
        prove_coverage(by_hand((0, 128), (128, 0), (256, 128)))
    assert str(caught.value) == "core 1 has elements [128, 128), of [0, 384) in all"
    with pytest.raises(CoverageError) as caught:
        prove_coverage(by_hand((0, 128), (136, 120), (256, 128)))
    assert str(caught.value) == (
        "core 1 has elements [136, 256), which leaves a gap to the block before it (that stops at 128)"
    )
    with pytest.raises(CoverageError) as caught:
        prove_coverage(by_hand((0, 128), (128, 128), (256, 129)))
    assert str(caught.value) == "core 2 has elements [256, 385), of [0, 384) in all"
    with pytest.raises(CoverageError) as caught:
        prove_coverage(by_hand((0, 120), (120, 136), (256, 128), block_length=136))
    assert str(caught.value) == "core 1 has elements [120, 256), which doesn't start at a multiple of unit_length=128"


@settings(steady, max_examples=400)
@given(
    total_length=st.integers(1, 700),
    core_num=st.integers(1, 12),
    tile_length=st.sampled_from([8, 16, 40, 128]),
    split=st.sampled_from(["even", "ceil"]),
    name=st.sampled_from(NUMBERS),
    change=st.integers(-9, 9).filter(bool) | st.sampled_from([-128, -16, 16, 128]),
    second=st.sampled_from(NUMBERS),
    again=st.integers(-2, 2),
)
def test_what_is_proved_of_a_changed_tiling_is_what_marking_every_element_says(
    total_length: int, core_num: int, tile_length: int, split: str, name: str, change: int, second: str, again: int
) -> None:
    schedule = Schedule(core_num=core_num, tile_length=tile_length, core_split=split)
    good = resolve(schedule, total_length=total_length, itemsizes=FLOAT)
    assert prove_coverage(good).ok
    bad = attrs.evolve(good, **{name: getattr(good, name) + change})
    bad = attrs.evolve(bad, **{second: getattr(bad, second) + again})
    try:
        assert prove_coverage(bad).ok
    except CoverageError:
        return
    assert covers_once(bad.total_length, tiles(bad))
    lengths = [bad.block(core)[1] for core in range(bad.core_num)]
    assert max(lengths, default=0) == bad.block_length
    assert all(start % 8 == 0 for start, _ in tiles(bad))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("change", [-1, 1])
def test_no_single_number_can_change_unnoticed(name: str, change: int) -> None:
    # A total_length in the same last unit is just another size of these blocks: it is changed by a whole unit.
    step = 128 * change if name in ("total_length", "unit_length") else change
    bad = attrs.evolve(ragged(), **{name: getattr(ragged(), name) + step})
    with pytest.raises(CoverageError):
        prove_coverage(bad)


def test_the_proof_costs_the_cores_and_not_the_tiles() -> None:
    tiling = resolve(Schedule(core_num=48, tile_length=64), total_length=10**11 + 7, itemsizes=FLOAT)
    assert prove_coverage(tiling).tile_count > 1.5e9
    best = min(_timed(tiling) for _ in range(50))
    assert best < 1e-3, f"{best * 1e6:.0f} us"


def _timed(tiling: Tiling) -> float:
    start = time.perf_counter()
    prove_coverage(tiling)
    return time.perf_counter() - start
