"""A schedule decides how a kernel runs and never what it computes."""

from __future__ import annotations

import time
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import Schedule, get_target, op
from asc_sched.errors import CoverageError, QueueLimitError, ScheduleError, UbOverflowError
from asc_sched.kernel import generate
from asc_sched.sim import simulate
from asc_sched.tiling import Coverage, Tiling, prove_coverage, resolve
from tests.road.tensors import numbers, same_bits

OPS = {
    "add": op("z = x + y"),
    "mixed": op("t = x - y; u = t * t + 1; v = relu(t) / u"),
    "transcendental": op("z = exp(-abs(x)) * log(abs(y) + 1) - sqrt(abs(x * y))"),
    "scalar": op("z = alpha * x - y", scalars={"alpha": 1.5}),
    "copy": op("a = x; b = y; c = x + y"),
}
DTYPES = {"add": ("float32", "float16", "int32", "int16"), "copy": ("float32", "int16")}


def schedules() -> st.SearchStrategy[Schedule]:
    tiles = st.one_of(
        st.fixed_dictionaries({"tile_num": st.integers(1, 20)}),
        st.fixed_dictionaries({"tile_length": st.integers(1, 40).map(lambda n: 32 * n)}),
        st.just({}),
    )
    rest = st.fixed_dictionaries(
        {
            "core_num": st.integers(1, 48),
            "buffer_num": st.integers(1, 4),
            "core_split": st.sampled_from(["even", "ceil"]),
            "l2_cache": st.sampled_from(["normal", "bypass"]),
            "bank_pad": st.booleans(),
            "pack_inputs": st.booleans(),
        }
    )
    return st.tuples(tiles, rest).map(lambda pair: Schedule(**pair[0], **pair[1]))


def check_any_schedule(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(OPS)))
    declared = OPS[name]
    dtype = data.draw(st.sampled_from(DTYPES.get(name, ("float32", "float16"))))
    length = data.draw(st.one_of(st.integers(0, 300), st.integers(0, 20_000)))
    schedule = data.draw(schedules())
    inputs = [numbers(length, getattr(torch, dtype), seed) for seed in range(2)]
    expected = declared(*inputs)
    for shape in (length, None):
        try:
            kernel = declared.compile(shape, dtype, schedule=schedule)
        except (UbOverflowError, QueueLimitError):
            continue
        except ScheduleError:
            assert shape is None and schedule.tile_num is not None
            continue
        result = kernel(*inputs)
        pairs = zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]
        assert all(same_bits(a, b) for a, b in pairs), f"{name} {dtype} {length} {schedule!r}"


@settings(max_examples=60)
@given(st.data())
def test_every_schedule_gives_the_same_bits(data: st.DataObject) -> None:
    check_any_schedule(data)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@settings(max_examples=3000)
@given(st.data())
def test_every_schedule_gives_the_same_bits_many_times(data: st.DataObject) -> None:
    check_any_schedule(data)


# -- the Unified Buffer, to the byte -------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(core_num=2, tile_num=3),
        Schedule(core_num=2, tile_length=320, buffer_num=1),
        Schedule(core_num=2, tile_length=320, bank_pad=True),
        Schedule(core_num=2, tile_length=320, pack_inputs=True),
    ],
    ids=repr,
)
def test_the_plans_bytes_are_those_that_the_compiled_kernel_lays_out(name: str, schedule: Schedule) -> None:
    kernel = OPS[name].compile(1000, "float32", schedule=schedule)
    arrays = [np.ones(1000, np.float32)] * 2 + [np.zeros(1000, np.float32) for _ in kernel.plan.outputs]
    scalars = [np.float32(1.5) for _ in kernel.plan.scalars]
    report = simulate(kernel.asc_ir, [*arrays, *scalars], core_num=2, target=kernel.target)
    assert report.ub_bytes + kernel.plan.ub_reserve == kernel.plan.ub_bytes
    parts = [q.total_bytes for q in kernel.plan.queues] + [t.buffer_bytes for t in kernel.plan.temps]
    assert sum(parts) + kernel.plan.ub_reserve == kernel.plan.ub_bytes <= kernel.plan.ub_capacity


def test_a_tile_of_48000_floats_is_refused_with_its_bytes() -> None:
    with pytest.raises(UbOverflowError) as caught:
        op("z = x + 1").compile(96000, schedule=Schedule(tile_length=48000, buffer_num=2))
    assert str(caught.value) == (
        "add_float32: tile_length=48000 needs 768000 bytes of UB (x: 2 x 192000 = 384000, z: 2 x 192000 = 384000), and "
        "Ascend910B1 has 196608; the largest tile_length that fits at buffer_num=2 is 12288; nearest valid: "
        "tile_length=12288 or tile_num=1"
    )


@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.parametrize("buffer_num", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("bank_pad", [False, True])
def test_the_largest_tile_that_a_refusal_names_fits_and_the_next_does_not(
    name: str, dtype: str, buffer_num: int, bank_pad: bool
) -> None:
    def tile(length: int) -> int:
        schedule = Schedule(core_num=1, tile_length=length, buffer_num=buffer_num, bank_pad=bank_pad)
        return generate(OPS[name], 10**6, dtype, schedule=schedule).plan.ub_bytes

    step = 8 if dtype == "float32" else 16
    with pytest.raises(UbOverflowError) as caught:
        tile(2**19)
    text = str(caught.value)
    largest = int(text.rpartition("nearest valid: tile_length=")[2].split()[0])
    assert tile(largest) <= 196608
    with pytest.raises(UbOverflowError):
        tile(largest + step)
    tile_num = int(text.rpartition("tile_num=")[2])
    named = Schedule(core_num=1, tile_num=tile_num, buffer_num=buffer_num, bank_pad=bank_pad)
    assert generate(OPS[name], 10**6, dtype, schedule=named).plan.ub_bytes <= 196608


def test_ub_doesnt_grow_with_the_number_of_tiles() -> None:
    widen = op("z = float32(x)")
    bytes_used = {
        generate(widen, length, "bfloat16", schedule=Schedule(core_num=cores, tile_length=8192)).plan.ub_bytes
        for length, cores in ((151936, 1), (151936, 8), (10**8, 48))
    }
    assert bytes_used == {2 * 8192 * 2 + 2 * 8192 * 4}
    kernel = widen.compile(151936, "bfloat16", schedule=Schedule(core_num=1, tile_length=8192))
    assert kernel.tiling is not None and kernel.tiling.tile_count(0) == 19
    x = numbers(151936, torch.bfloat16)
    result = kernel(x)
    assert isinstance(result, torch.Tensor) and same_bits(result, x.float())


def test_tiles_fill_the_ub_where_the_schedule_has_neither_number_nor_length() -> None:
    kernel = generate(OPS["add"], 10**7, "float32", schedule=Schedule(core_num=48))
    assert kernel.tiling is not None
    assert kernel.tiling.tile_length == 8016 <= 8192  # 26 tiles of one length, not 25 of 8192 and a rest
    assert kernel.plan.ub_bytes == 6 * 8016 * 4


# -- knobs and what they do ----------------------------------------------------------------------------------------
def test_tile_num_counts_tiles_of_a_core_in_buffer_nums() -> None:
    """TILE_NUM x BUFFER_NUM tiles in a block, as the tutorials have it."""
    tiling = generate(OPS["add"], (8, 2048), "float32", schedule=Schedule(core_num=8, tile_num=8, buffer_num=2)).tiling
    assert tiling is not None
    assert (tiling.core_num, tiling.block_length, tiling.max_tile_count, tiling.tile_length) == (8, 2048, 16, 128)


def test_bypass_is_emitted_for_its_effect_on_inputs_only() -> None:
    """pyasc 1.1.1 swaps the two hints: what counts is the C++."""
    bypass = OPS["add"].compile(10**4, schedule=Schedule(l2_cache="bypass")).ascendc
    assert bypass.count(".SetL2CacheHint<") == bypass.count("(AscendC::CacheMode::CACHE_MODE_DISABLE);") == 2
    assert "SetL2CacheHint" not in OPS["add"].compile(10**4, schedule=Schedule()).ascendc


def test_packed_inputs_share_the_buffers_of_one_queue() -> None:
    kernel = generate(OPS["add"], 10**4, "float32", schedule=Schedule(tile_length=512, pack_inputs=True))
    assert [q.packed for q in kernel.plan.queues] == [True, False]
    assert kernel.plan.queues[0].buffer_bytes == 2 * 512 * 4


def test_padding_puts_partners_256_bytes_apart() -> None:
    kernel = generate(OPS["add"], 10**4, "float32", schedule=Schedule(tile_length=512, bank_pad=True))
    offsets = [m.offset_bytes for q in kernel.plan.in_queues for m in q.members]
    assert sorted(offsets) == [0, 256]
    assert all(q.buffer_bytes % 512 == 0 for q in kernel.plan.queues)


@pytest.mark.parametrize("target", ["Ascend910B1", "Ascend910B3", "Ascend910B4", "Ascend910_9391"])
@pytest.mark.parametrize("shape", [1, 100, 13243, 10**6, 10**8, None])
def test_the_automatic_schedule_fits_every_target(shape: int | None, target: str) -> None:
    chip = get_target(target)
    for declared in OPS.values():
        kernel = generate(declared, shape, "float16", target=target)
        assert kernel.schedule == Schedule.auto(declared, shape=shape, dtype="float16", target=target)
        assert kernel.plan.ub_bytes <= chip.ub_bytes
        assert (kernel.schedule.core_num or 0) <= chip.vector_cores


def test_a_schedule_has_to_be_one() -> None:
    fields: Any = {"core_num": 8}
    with pytest.raises(ScheduleError, match=r"schedule must be a Schedule, not dict; Schedule.from_dict reads a dict"):
        OPS["add"].compile(100, schedule=fields)


# -- coverage ------------------------------------------------------------------------------------------------------
def test_coverage_is_proved_at_every_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = []

    def recording(tiling: Tiling) -> Coverage:
        proved.append(tiling)
        return prove_coverage(tiling)

    monkeypatch.setattr("asc_sched.lower.tiles.prove_coverage", recording)
    for length in (0, 1, 13243, 2**33 + 7):
        kernel = generate(OPS["add"], length, "float32", schedule=Schedule(core_num=20, tile_length=256))
        assert proved == [kernel.tiling]
        proved.clear()


def test_the_proof_takes_under_a_millisecond() -> None:
    tiling = generate(OPS["add"], 2**33 + 7, "float32", schedule=Schedule(core_num=48, tile_length=256)).tiling
    assert tiling is not None
    times = []
    for _ in range(20):
        start = time.perf_counter()
        assert prove_coverage(tiling).ok
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3


def test_a_tiling_that_misses_elements_stops_the_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any, **options: Any) -> Tiling:
        return attrs.evolve(resolve(*arguments, **options), extra_units=0)

    monkeypatch.setattr("asc_sched.lower.tiles.resolve", wrong)
    with pytest.raises(CoverageError):
        generate(OPS["add"], 13243, "float32", schedule=Schedule(core_num=20, tile_num=2))
