"""The rule behind Schedule.auto: always valid, always within the UB, few cores for little work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asc_sched import Schedule, get_target
from asc_sched.errors import UbOverflowError
from asc_sched.target import TARGETS
from asc_sched.tiling import auto_schedule, prove_coverage, resolve
from tests.tiling.plain import steady

CHIP = get_target("Ascend910B1")
SIZES = (0, 1, 100, 1000, 16384, 100_000, 1_000_003, 10**7, 8192 * 8192, 3_270_680_000)


@steady
@given(
    total_length=st.sampled_from(SIZES) | st.integers(0, 10**9),
    itemsizes=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=9).map(tuple),
    temporaries=st.integers(0, 64),
    fixed=st.integers(0, 16384),
    target=st.sampled_from(sorted(TARGETS)),
    max_buffer_num=st.sampled_from([1, 2]),
)
def test_the_rules_schedule_resolves_covers_and_fits(
    total_length: int, itemsizes: tuple[int, ...], temporaries: int, fixed: int, target: str, max_buffer_num: int
) -> None:
    chip, per_element = get_target(target), sum(itemsizes) + temporaries
    schedule = auto_schedule(total_length, itemsizes, per_element, fixed, chip, max_buffer_num=max_buffer_num)
    tiling = resolve(schedule, total_length=total_length, itemsizes=itemsizes, target=chip)
    assert prove_coverage(tiling).ok
    ub_bytes = tiling.tile_length * (sum(itemsizes) * schedule.buffer_num + temporaries) + fixed
    assert ub_bytes <= chip.ub_bytes
    assert schedule.buffer_num <= max_buffer_num
    if schedule.buffer_num == 2:
        assert tiling.max_tile_count >= 2, "two buffers need two tiles"
    if max_buffer_num == 2 and schedule.buffer_num == 1:
        assert tiling.max_tile_count <= 1


def test_little_work_takes_few_cores_and_much_work_all() -> None:
    def cores(total_length: int) -> int | None:
        return auto_schedule(total_length, (4, 4, 4), 12, 0, CHIP).core_num

    counts = [cores(size) for size in SIZES]
    assert counts == sorted(counts, key=lambda c: c or 0)
    assert counts[:4] == [1, 1, 1, 1]
    assert 2 <= (cores(16384) or 0) <= 16
    assert counts[-4:] == [48] * 4


def test_large_sizes_copy_16_to_32_kb_in_tiles_and_double_buffered() -> None:
    for itemsizes in ((4, 4, 4), (2, 2, 2), (4, 4), (2, 4)):
        schedule = auto_schedule(8192 * 8192, itemsizes, sum(itemsizes), 1024, CHIP)
        assert schedule.buffer_num == 2
        assert 16 * 1024 <= (schedule.tile_length or 0) * max(itemsizes) <= 32 * 1024
        tiling = resolve(schedule, total_length=8192 * 8192, itemsizes=itemsizes)
        assert tiling.tile_length * max(itemsizes) % 512 == 0


def test_one_tile_needs_one_buffer() -> None:
    assert auto_schedule(1000, (4, 4, 4), 12, 0, CHIP) == Schedule(core_num=1, tile_length=1024, buffer_num=1)


def test_what_cannot_fit_is_refused_with_the_bytes() -> None:
    with pytest.raises(UbOverflowError) as caught:
        auto_schedule(10**6, (4,) * 370, 4 * 370, 196608 - 8000, CHIP)
    assert str(caught.value) == (
        "a tile takes 1480 bytes of the UB per element and 188608 are taken anyway: the shortest tile, 8 "
        "elements, doesn't "
        "fit into 196608 bytes"
    )
