"""shape=None: one kernel for every size, the length an argument."""

from __future__ import annotations

import pytest
import torch

from asc_sched import Schedule, op
from asc_sched.errors import ScheduleError
from asc_sched.kernel import Kernel
from tests.road.tensors import Guarded, numbers, same_bits

ADD = op("z = x + y")
LENGTHS = (0, 5, 0, 1, 8, 9, 4096, 13243, 0, 100_003)


def check(kernel: Kernel, length: int, dtype: torch.dtype) -> None:
    x, y = Guarded(numbers(length, dtype)), Guarded(numbers(length, dtype, seed=1))
    out = Guarded(torch.zeros(length, dtype=dtype))
    kernel(x.tensor, y.tensor, out=out.tensor)
    assert same_bits(out.tensor, x.tensor + y.tensor)
    assert x.intact and y.intact and out.intact


@pytest.mark.parametrize("core_split", ["even", "ceil"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_one_kernel_serves_all_lengths(dtype: torch.dtype, core_split: str) -> None:
    schedule = Schedule(core_num=20, tile_length=256, core_split=core_split)
    kernel = ADD.compile(None, dtype, schedule=schedule)
    for length in LENGTHS:
        check(kernel, length, dtype)


def test_the_schedule_is_chosen_for_large_tensors_and_holds_for_small_ones() -> None:
    kernel = ADD.compile(None)
    assert kernel.schedule.core_num == kernel.target.vector_cores
    for length in LENGTHS:
        check(kernel, length, torch.float32)


def test_any_shape_is_taken() -> None:
    kernel = ADD.compile(None)
    for shape in [(), (7,), (0, 3), (2, 3, 5), (8, 2048)]:
        x = torch.rand(shape)
        result = kernel(x, x)
        assert isinstance(result, torch.Tensor) and same_bits(result, x + x)


def test_static_and_any_size_kernels_have_the_same_tiles() -> None:
    """The device's arithmetic and the host's are two writings of one split."""
    for core_split in ("even", "ceil"):
        schedule = Schedule(core_num=20, tile_length=256, core_split=core_split)
        dynamic = ADD.compile(None, schedule=schedule)
        for length in (1, 13243, 2**33 + 7):
            static = ADD.compile(length, schedule=schedule).tiling
            tiling = dynamic.tiling_for(length)
            assert static is not None
            cores = range(tiling.core_num)
            assert [tiling.block(c) for c in cores] == [static.block(c) for c in range(static.core_num)]


def test_scalars_come_after_the_length() -> None:
    kernel = op("z = alpha * x + beta", scalars={"alpha": 2.0, "beta": 1.0}).compile(None)
    assert "(x: asc.GlobalAddress, z: asc.GlobalAddress, total_length: int, alpha: float, beta: float)" in kernel.source
    x = numbers(1000)
    result = kernel(x, alpha=3.0)
    assert isinstance(result, torch.Tensor) and same_bits(result, 3.0 * x + 1.0)


def test_the_text_has_no_size_and_says_so() -> None:
    kernel = ADD.compile(None, schedule=Schedule(core_num=8, tile_length=2048))
    assert "Any total_length; tiles of 2048 elements, the last one of a core shorter." in kernel.source
    assert kernel.tiling is None
    assert kernel.tiling_for(5).core_num == 1


def test_tile_num_needs_a_size() -> None:
    message = r"tile_num=8 needs a size.*a kernel of any size has none; nearest valid: tile_length=8192"
    with pytest.raises(ScheduleError, match=message):
        ADD.compile(None, schedule=Schedule(tile_num=8))
