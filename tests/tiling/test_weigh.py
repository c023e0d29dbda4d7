"""The rule that weighs a flat kernel's own costs: always valid, few cores for little work, sensible knobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import Schedule, get_target, op
from asc_sched.errors import UbOverflowError
from asc_sched.kernel import generate
from asc_sched.target import TARGETS
from asc_sched.tiling import resolve
from asc_sched.tiling.estimate import Estimate, Split, Work
from asc_sched.tiling.symbolic import Alignment
from asc_sched.tiling.weigh import weighed_schedule

CHIP = get_target("Ascend910B1")
ADD, RELU = op("z = x + y"), op("z = relu(x)")
MANY = op("; ".join(f"o{i} = x + {i}.0" for i in range(10)), name="many")
LONG = op("z = exp(x) * sin(x) + log(abs(x) + 1.0) / (exp(y) + 2.0)")


def work(per_element: int, sizes: tuple[int, ...] = (4, 4, 4)) -> Work:
    """Work of a made-up op: `per_element` UB bytes per element and buffer, half a cycle per element."""
    return Work(
        in_sizes=sizes[:-1], out_sizes=sizes[-1:], smallest=min(sizes), instructions=1, view_ops=0, temps=0,
        has_pairs=False, vector_cycles=lambda schedule, tile, length: 20 + length / 2,
        longest_tile=lambda schedule, step: CHIP.ub_bytes // (per_element * schedule.buffer_num) // step * step,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    declared=st.sampled_from([ADD, RELU, MANY, LONG]),
    length=st.sampled_from([1, 7, 1009, 16384, 100_003, 1_000_003, 8192 * 8192, 3_270_680_000]) | st.integers(1, 10**8),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
    target=st.sampled_from(sorted(TARGETS)),
)
def test_the_rules_choice_always_compiles(declared: object, length: int, dtype: str, target: str) -> None:
    kernel = generate(declared, (length,), dtype, target=target)  # type: ignore[arg-type]  # every rule is checked here
    assert kernel.plan.ub_bytes <= kernel.target.ub_bytes
    assert kernel.schedule == Schedule.auto(declared, shape=(length,), dtype=dtype, target=target)
    if kernel.schedule.buffer_num == 2:
        assert kernel.tiling is not None and kernel.tiling.max_tile_count >= 2  # type: ignore[union-attr]


def test_little_work_takes_few_cores_and_much_work_all() -> None:
    counts = [Schedule.auto(ADD, shape=n, dtype="float32").core_num for n in (1, 100, 16384, 100_003, 8192 * 8192)]
    assert counts == sorted(counts, key=lambda c: c or 0)
    assert counts[:2] == [1, 1] and 2 <= (counts[2] or 0) <= 12 and counts[-1] == 48


def test_inputs_bypass_l2_only_where_it_cannot_hold_everything() -> None:
    assert Schedule.auto(ADD, shape=(4096, 4096), dtype="float16").l2_cache == "normal"
    assert Schedule.auto(ADD, shape=(8192, 8192), dtype="float16").l2_cache == "bypass"
    assert Schedule.auto(ADD, shape=(4096, 8192), dtype="float16", target="Ascend910B4").l2_cache == "bypass"


def test_several_inputs_share_a_queue_and_many_outputs_too() -> None:
    assert Schedule.auto(ADD, shape=1000, dtype="float32").pack_inputs
    assert not Schedule.auto(RELU, shape=1000, dtype="float32").pack_inputs
    assert Schedule.auto(MANY, shape=1000, dtype="float32").pack_inputs


def test_what_cannot_fit_is_refused_with_the_bytes() -> None:
    with pytest.raises(UbOverflowError, match=r"the shortest tile, 8 elements of 3 tensors .* 196608 bytes of UB"):
        weighed_schedule(1000, work(per_element=30_000), CHIP)


def test_one_tile_needs_one_buffer_and_long_blocks_get_two() -> None:
    assert weighed_schedule(1000, work(12), CHIP).buffer_num == 1
    assert weighed_schedule(10**7, work(12), CHIP).buffer_num == 2


def test_where_two_buffers_never_fit_there_is_one() -> None:
    tight = work(per_element=CHIP.ub_bytes // 8)
    schedule = weighed_schedule(10**4, tight, CHIP)
    assert (schedule.buffer_num, schedule.tile_length) == (1, 8)


@given(
    length=st.integers(1, 10**9), core_num=st.integers(1, 48), size=st.sampled_from([1, 2, 4, 8]),
    core_split=st.sampled_from(["even", "ceil"]),
)  # fmt: skip
def test_the_short_split_is_that_of_the_tiling(length: int, core_num: int, size: int, core_split: str) -> None:
    schedule = Schedule(core_num=core_num, tile_length=1024, core_split=core_split)
    tiling = resolve(schedule, total_length=length, itemsizes=(size,), target=CHIP)
    split = Split.of(length, core_num, Alignment.of((size,), CHIP), core_split)
    assert (split.core_num, split.block_length) == (tiling.core_num, tiling.block_length)
    assert split.alike == (len({tiling.block(c)[1] for c in (0, tiling.core_num - 1)}) == 1)


def test_the_estimate_knows_what_each_knob_is_for() -> None:
    def us(length: int, w: Work, **knobs: object) -> float:
        return Estimate(w, length, CHIP).task_us(Schedule(**{"core_num": 48, "tile_length": 4096, **knobs}))  # type: ignore[arg-type]

    much, two = 10**8, work(12)
    assert us(much, two) < us(much, two, buffer_num=1)
    assert us(much, two, pack_inputs=True) < us(much, two)
    assert us(much, two, l2_cache="bypass") < us(much, two)
    assert us(10**6, two) < us(10**6, two, l2_cache="bypass")
    assert us(1000, two, core_num=1) < us(1000, two)
    assert us(much, two, core_num=48) < us(much, two, core_num=8)
