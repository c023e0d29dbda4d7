"""Every size comes out right, to the last element and not one further."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asc_sched import Schedule, get_target, op
from asc_sched.errors import CoreNumError, TileLengthError
from asc_sched.kernel import Kernel
from asc_sched.sim import simulate
from tests.road.tensors import GUARD_BYTES, Guarded, numbers, same_bits

ADD = op("z = x + y")
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8)
LENGTHS = (1, 7, 8, 9, 31, 33, 127, 129, 255, 256, 257, 4097, 13243)
SCHEDULES = (
    Schedule(core_num=8, tile_num=8),
    Schedule(core_num=20, tile_num=4, buffer_num=1),
    Schedule(core_num=3, tile_num=2, core_split="ceil"),
    Schedule(core_num=48, tile_length=64),
)


def check_guarded(kernel: Kernel, *inputs: torch.Tensor) -> None:
    """Right to the bit, and nothing beside the arguments is touched."""
    ins = [Guarded(x) for x in inputs]
    out = Guarded(torch.zeros_like(inputs[0], dtype=kernel.plan.outputs[0].dtype.torch))
    result = kernel(*(g.tensor for g in ins), out=out.tensor)
    assert result is out.tensor
    assert same_bits(out.tensor, kernel.op.reference(*inputs)[0])
    assert all(g.intact for g in (*ins, out))
    assert all(same_bits(g.tensor, x) for g, x in zip(ins, inputs, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_add_is_right_at_every_length(schedule: Schedule, dtype: torch.dtype) -> None:
    for length in LENGTHS:
        kernel = ADD.compile(length, dtype, schedule=schedule)
        check_guarded(kernel, numbers(length, dtype), numbers(length, dtype, seed=1))


def test_13243_elements_are_seven_runs_of_2048() -> None:
    tiling = ADD.compile(13243, schedule=Schedule(core_num=1, tile_length=2048)).tiling
    assert tiling is not None
    assert tiling.tile_count(0) == 7
    assert tiling.tail(0) == 13243 - 6 * 2048


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_kernel_given_longer_arrays_writes_total_length_elements_and_no_more(schedule: Schedule) -> None:
    """The simulator can't report a write into memory that is there; the pattern behind the output can."""
    length, extra = 1003, GUARD_BYTES // 4
    kernel = ADD.compile(length, schedule=schedule)
    x = np.arange(length + extra, dtype=np.float32)
    z = np.full(length + extra, -7.0, np.float32)
    simulate(kernel.asc_ir, [x, x, z], core_num=kernel.tiling_for(length).core_num, target=kernel.target)
    assert (z[:length] == 2 * x[:length]).all()
    assert (z[length:] == -7.0).all()


# -- rows narrower than 32 bytes -----------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(16, 4), (16, 9), (5, 1), (7, 15), (3, 33)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_narrower_than_32_bytes_are_right(shape: tuple[int, int], dtype: torch.dtype) -> None:
    increment = op("z = x + 1")
    for schedule in (Schedule(core_num=shape[0], tile_num=1, buffer_num=1), Schedule(core_num=1, tile_num=shape[0])):
        check_guarded(increment.compile(shape, dtype, schedule=schedule), numbers(shape, dtype))


def test_a_tile_that_is_a_row_of_16_bytes_is_refused() -> None:
    with pytest.raises(TileLengthError, match=r"tile_length=4 is not a multiple of 8 elements .*tile_length=8"):
        op("z = x + 1").compile((16, 4), schedule=Schedule(tile_length=4))


# -- nothing to do -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(0,), (0, 128), (3, 0, 5)], ids=str)
@pytest.mark.parametrize("schedule", [None, *SCHEDULES], ids=repr)
def test_no_elements_launch_nothing(
    shape: tuple[int, ...], schedule: Schedule | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = ADD.compile(shape, "float16", schedule=schedule)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("launched for no elements")

    monkeypatch.setattr("asc_sched.run.sim.SimBackend.run", refuse)
    empty = torch.empty(shape, dtype=torch.float16)
    result = kernel(empty, empty)
    assert isinstance(result, torch.Tensor)
    assert result.shape == shape and result.dtype == torch.float16
    assert kernel.tiling is not None and kernel.tiling.core_num == 0
    assert "nothing is launched" in str(kernel.tiling)


def test_an_op_called_with_empty_tensors_is_right_before_and_after_others() -> None:
    for length in (0, 5, 0, 13243, 0):
        x = numbers(length)
        result = ADD(x, x)
        assert isinstance(result, torch.Tensor) and same_bits(result, x + x)


# -- more cores than work ------------------------------------------------------------------------------------------
def test_ceil_split_gives_the_last_core_what_is_left() -> None:
    many = get_target().evolve(vector_cores=64)
    schedule = Schedule(core_num=64, tile_num=1, buffer_num=1, core_split="ceil")
    kernel = op("z = x * 2").compile(264 * 8, schedule=schedule, target=many)
    tiling = kernel.tiling
    assert tiling is not None
    assert tiling.core_num == 53  # ceil(264 / ceil(264 / 64)): cores 53 to 63 would have nothing
    assert tiling.block(51) == (255 * 8, 5 * 8)
    assert tiling.block(52) == (260 * 8, 4 * 8)
    check_guarded(kernel, numbers(264 * 8))


def test_even_split_differs_by_at_most_one_unit() -> None:
    many = get_target().evolve(vector_cores=64)
    kernel = op("z = x * 2").compile(264 * 8, schedule=Schedule(core_num=64, tile_num=1, buffer_num=1), target=many)
    tiling = kernel.tiling
    assert tiling is not None and tiling.core_num == 64
    assert {tiling.block(core)[1] for core in range(64)} == {4 * 8, 5 * 8}
    check_guarded(kernel, numbers(264 * 8))


@pytest.mark.parametrize(("length", "cores"), [(1, 1), (8, 1), (9, 2)])
def test_cores_without_work_are_not_launched(length: int, cores: int) -> None:
    for schedule in (Schedule(core_num=8, tile_num=1, buffer_num=1), Schedule(core_num=48, tile_num=8)):
        kernel = ADD.compile(length, schedule=schedule)
        assert kernel.tiling is not None and kernel.tiling.core_num == cores
        check_guarded(kernel, numbers(length), numbers(length, seed=1))


# -- more blocks than the launcher takes ---------------------------------------------------------------------------
def test_65535_cores_is_the_launchers_limit_and_the_targets_is_smaller() -> None:
    with pytest.raises(CoreNumError, match=r"core_num=65536 is out of range.*1 to 65535.*core_num=65535"):
        Schedule(core_num=65536)
    with pytest.raises(CoreNumError, match=r"core_num=75264 is out of range"):
        Schedule(core_num=384 * -(-50001 // 256))
    most = Schedule(core_num=65535, tile_num=1, buffer_num=1)
    with pytest.raises(CoreNumError, match=r"core_num=65535 is more than the 48 .*nearest valid: core_num=48"):
        ADD.compile(2**20, schedule=most)
    huge = get_target().evolve(vector_cores=100_000)
    assert ADD.compile(2**20, schedule=most, target=huge).tiling_for(2**20).core_num == 65535


def test_384_rows_of_50001_loop_over_the_cores_that_there_are() -> None:
    x = torch.arange(384 * 50001, dtype=torch.int32).view(384, 50001)
    kernel = op("z = x + 1").compile((384, 50001), "int32", schedule=Schedule(tile_length=8192))
    assert kernel.tiling is not None and kernel.tiling.core_num == 48
    result = kernel(x)
    assert isinstance(result, torch.Tensor) and torch.equal(result, x + 1)
