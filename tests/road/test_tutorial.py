"""The tutorials' add: right at the sizes it was written for, and found out at others."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from asc_sched import Schedule, get_target, op
from asc_sched.build import ArgType, LowerRequest, lower
from asc_sched.errors import AscSchedError
from asc_sched.sim import HardwareError, simulate
from tests.road.tensors import same_bits

# Queues of depth 2, plain data_copy, ceil over the cores, floor over the tiles: the shape that tutorials teach.
TUTORIAL = """
import asc


@asc.jit
def taught_add(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, total_length: int):
    block_length = asc.ceildiv(total_length, asc.get_block_num())
    tile_length = block_length // 8 // 2
    first = asc.get_block_idx() * block_length
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + first)
    y_gm = asc.GlobalTensor()
    y_gm.set_global_buffer(y + first)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z + first)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 2)
    in_y = asc.TQue(asc.TPosition.VECIN, 2)
    out_z = asc.TQue(asc.TPosition.VECOUT, 2)
    pipe.init_buffer(que=in_x, num=2, len=tile_length * 4)
    pipe.init_buffer(que=in_y, num=2, len=tile_length * 4)
    pipe.init_buffer(que=out_z, num=2, len=tile_length * 4)
    for i in range(16):
        x_local = in_x.alloc_tensor(asc.float32)
        y_local = in_y.alloc_tensor(asc.float32)
        asc.data_copy(x_local, x_gm[i * tile_length:], tile_length)
        asc.data_copy(y_local, y_gm[i * tile_length:], tile_length)
        in_x.enque(x_local)
        in_y.enque(y_local)
        a = in_x.deque(asc.float32)
        b = in_y.deque(asc.float32)
        c = out_z.alloc_tensor(asc.float32)
        asc.add(c, a, b, tile_length)
        out_z.enque(c)
        in_x.free_tensor(a)
        in_y.free_tensor(b)
        done = out_z.deque(asc.float32)
        asc.data_copy(z_gm[i * tile_length:], done, tile_length)
        out_z.free_tensor(done)
"""


@pytest.fixture(scope="module")
def asc_ir() -> str:
    pointer = ArgType("pointer", "float32")
    types = (pointer, pointer, pointer, ArgType("scalar", "int32"))
    return lower(LowerRequest(source=TUTORIAL, entry="taught_add", arg_types=types)).asc_ir


def line_of(text: str) -> int:
    lines = TUTORIAL.splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def run(asc_ir: str, length: int, *, strict: bool) -> tuple[np.ndarray, np.ndarray, tuple[HardwareError, ...]]:
    rng = np.random.default_rng(length)
    x, y = rng.random(length, np.float32), rng.random(length, np.float32)
    z = np.zeros(length, np.float32)
    report = simulate(asc_ir, [x, y, z, np.int32(length)], core_num=8, target=get_target(), strict=strict, outputs=[2])
    return x + y, z, report.warnings


def test_at_8x2048_it_is_right(asc_ir: str) -> None:
    expected, result, warnings = run(asc_ir, 8 * 2048, strict=True)
    assert (result == expected).all() and not warnings


def test_at_10000_the_simulator_says_what_goes_wrong_and_where(asc_ir: str) -> None:
    with pytest.raises(HardwareError) as caught:
        run(asc_ir, 10_000, strict=True)
    error = caught.value
    # 10000 / 8 cores = 1250, / 16 = 78 elements = 312 bytes, which data_copy cuts to 288.
    assert isinstance(error, AscSchedError)
    assert error.check == "count"
    assert error.loc.file == "taught_add.py" and error.loc.line == line_of("asc.data_copy(x_local")
    assert str(error).startswith(f"taught_add.py:{error.loc.line}: ")
    assert "312" in str(error)


def test_at_10000_everything_that_goes_wrong_is_listed(asc_ir: str) -> None:
    expected, result, warnings = run(asc_ir, 10_000, strict=False)
    assert not (result == expected).all()
    checks = {w.check for w in warnings}
    assert {"count", "not_written"} <= checks
    lines = {w.loc.line for w in warnings if w.check == "count"}
    assert lines == {line_of("asc.data_copy(x_local"), line_of("asc.data_copy(y_local"), line_of("asc.data_copy(z_gm")}


@pytest.mark.parametrize("length", [8 * 2048, 10_000])
def test_the_same_schedule_declared_is_right_at_both(length: int) -> None:
    x, y = torch.rand(length), torch.rand(length)
    kernel = op("z = x + y").compile(length, schedule=Schedule(core_num=8, tile_num=8, core_split="ceil"))
    result = kernel(x, y)
    assert isinstance(result, torch.Tensor) and same_bits(result, x + y)


def test_simulate_can_be_told_which_findings_raise(asc_ir: str) -> None:
    assert "strict" in inspect.signature(simulate).parameters
    with pytest.raises(HardwareError) as caught:
        rng = np.ones(10_000, np.float32)
        arrays = [rng, rng.copy(), np.zeros_like(rng), np.int32(10_000)]
        simulate(asc_ir, arrays, core_num=8, target=get_target(), strict={"not_written"}, outputs=[2])
    assert caught.value.check == "not_written"
