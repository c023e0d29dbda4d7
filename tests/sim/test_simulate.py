"""Whole kernels, among them ones in other people's style: results, reports, arguments, scalar code, speed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from asc_sched.errors import ArgumentError
from asc_sched.sim import errors, simulate
from tests.sim.lowering import FILE, TARGET, asc_ir, compute, line_of, run

KERNELS = Path(__file__).parent / "kernels"
TUTORIAL = (KERNELS / "tutorial_add.py").read_text()
QUEUE = (KERNELS / "queue_add.py").read_text()
ARGS = ("*float32", "*float32", "*float32", "int32")


def tutorial(total: int, **options: Any) -> Any:
    x, y = torch.rand(total), torch.rand(total)
    z = torch.full((total,), 7.0)
    text = asc_ir(TUTORIAL, ARGS, "tutorial_add")
    arrays = [t.numpy() for t in (x, y, z)]
    report = simulate(
        text, [*arrays, total], core_num=8, target=TARGET, outputs=[2], sources={FILE: TUTORIAL}, **options
    )
    return z, x + y, report


# -- the tutorials' kernel ---------------------------------------------------------------------------------------
def test_the_tutorials_kernel_is_right_at_8x2048() -> None:
    z, want, report = tutorial(8 * 2048)
    assert torch.equal(z, want)
    assert report.warnings == () and report.bytes_written == 8 * 2048 * 4


def test_the_tutorials_kernel_at_10000_elements_is_reported_by_name_and_line() -> None:
    with pytest.raises(errors.CountError) as e:
        tutorial(10000)
    assert e.value.loc.line == line_of(TUTORIAL, "asc.data_copy(x_local")
    assert str(e.value).splitlines() == [
        f"{FILE}:{e.value.loc.line}: DataCopy of 78 float = 312 bytes moves whole 32-byte blocks only: 288 bytes "
        "(72 elements); the last 6 are dropped (use data_copy_pad) (core 0, iteration 0)",
        "    asc.data_copy(x_local, x_gm[progress * tile_length :], tile_length)",
    ]


def test_what_the_tutorials_kernel_leaves_out_at_10000_elements() -> None:
    z, want, report = tutorial(10000, strict=False)
    missing = next(w for w in report.warnings if w.check == "not_written")
    assert "784 of 10000 elements of z are never written: [72:78], [150:156]" in str(missing)
    assert int((z == 7).sum()) == 784 and torch.equal(z[:72], want[:72])


def test_the_tutorials_kernel_drops_elements_that_its_division_leaves_over() -> None:
    with pytest.raises(errors.NotWrittenError, match="8 of 16392 elements of z are never written"):
        tutorial(16392)


def test_without_declared_outputs_gaps_are_a_warning() -> None:
    x, y, z = (np.ones(16392, np.float32) for _ in range(3))
    text = asc_ir(TUTORIAL, ARGS, "tutorial_add")
    report = simulate(text, [x, y, z, 16392], core_num=8, target=TARGET)
    assert [w.check for w in report.warnings] == ["not_written"]
    assert "8 of 16392 elements of z are never written" in str(report.warnings[0])


# -- arguments ---------------------------------------------------------------------------------------------------
def good() -> list[Any]:
    return [np.ones(64, np.float32), np.ones(64, np.float32), np.zeros(64, np.float32), 64]


@pytest.mark.parametrize(
    ("position", "value", "says"),
    [
        (0, np.ones(64, np.float16), "x of kernel k is an array of float, got float16"),
        (0, 3, "x of kernel k is an array of float, got int"),
        (3, np.ones(3, np.int32), "total_length of kernel k is a int32_t, got ndarray"),
        (3, 1.5, "total_length of kernel k is a int32_t, got the float 1.5"),
        (1, np.ones((64, 2), np.float32)[:, 0], "y of kernel k must be contiguous"),
    ],
)
def test_arguments_of_the_wrong_kind(position: int, value: Any, says: str) -> None:
    args = good()
    args[position] = value
    with pytest.raises(ArgumentError, match=says):
        simulate(asc_ir(QUEUE, ARGS), args, core_num=1, target=TARGET)


def test_a_read_only_array_that_is_written() -> None:
    args = good()
    args[2].flags.writeable = False
    with pytest.raises(ArgumentError, match="writes z, but the array given for it is read-only"):
        simulate(asc_ir(QUEUE, ARGS), args, core_num=1, target=TARGET)
    with pytest.raises(ArgumentError, match="is an output and read-only"):
        simulate(asc_ir(QUEUE, ARGS), args, core_num=1, target=TARGET, outputs=[2])


def test_bool_and_bfloat16_arrays_stand_for_their_bits() -> None:
    move = ("asc.add(z_ub, x_in, y_in, count)", "asc.data_copy(z_ub, x_in, count)")
    for dtype, array in (("uint8", np.arange(64) % 3 == 0), ("uint16", np.arange(64).astype(ml_dtypes.bfloat16))):
        source = QUEUE.replace("float32", dtype).replace("* 4", f"* {array.itemsize}").replace(*move)
        z = np.zeros_like(array)
        text = asc_ir(source, (f"*{dtype}",) * 3 + ("int32",))
        simulate(text, [array, array, z, 64], core_num=1, target=TARGET, outputs=[2])
        np.testing.assert_array_equal(z, array)


def test_scalars_wrap_as_the_launcher_passes_them() -> None:
    with pytest.raises(errors.HardwareError):  # 2**32 + 64 arrives as 64 elements of arrays of 32
        run(QUEUE, [np.ones(32, np.float32)] * 2 + [np.zeros(32, np.float32), np.int32(2**32 + 64 & 0xFFFFFFFF)])


def test_no_cores_and_no_elements() -> None:
    empty = [np.zeros(0, np.float32)] * 3
    report = simulate(asc_ir(QUEUE, ARGS), [*empty, 0], core_num=0, target=TARGET, outputs=[2])
    assert report.instructions == 0
    assert simulate(asc_ir(QUEUE, ARGS), [*empty, 0], core_num=1, target=TARGET, outputs=[2]).instructions == 0


# -- styles of kernels -------------------------------------------------------------------------------------------
def test_in_place_queues() -> None:
    source = """import asc
@asc.jit
def k(x: asc.GlobalAddress, z: asc.GlobalAddress):
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 0)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 0)
    pipe.init_buffer(x_queue, 2, 1024)
    pipe.init_buffer(z_queue, 2, 1024)
    x_ub = asc.LocalTensor(asc.float32)
    z_ub = asc.LocalTensor(asc.float32)
    for tile in range(4):
        x_queue.alloc_tensor(x_ub)
        asc.data_copy(x_ub, x_gm[tile * 256:], 256)
        x_queue.enque(x_ub)
        x_queue.deque(x_ub)
        z_queue.alloc_tensor(z_ub)
        asc.muls(z_ub, x_ub, 3.0, 256)
        x_queue.free_tensor(x_ub)
        z_queue.enque(z_ub)
        z_queue.deque(z_ub)
        asc.data_copy(z_gm[tile * 256:], z_ub, 256)
        z_queue.free_tensor(z_ub)
"""
    x, z = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    run(source, [x, z], outputs=[1])
    np.testing.assert_array_equal(z, x * 3)


def test_deeper_queues_keep_order() -> None:
    source = """import asc
@asc.jit
def k(x: asc.GlobalAddress, z: asc.GlobalAddress):
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 3)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(x_queue, 3, 1024)
    pipe.init_buffer(z_queue, 1, 1024)
    for tile in range(3):
        x_ub = x_queue.alloc_tensor(asc.float32)
        asc.data_copy(x_ub, x_gm[tile * 256:], 256)
        x_queue.enque(x_ub)
    for tile in range(3):
        x_in = x_queue.deque(asc.float32)
        z_ub = z_queue.alloc_tensor(asc.float32)
        asc.adds(z_ub, x_in, 1.0, 256)
        z_queue.enque(z_ub)
        x_queue.free_tensor(x_in)
        z_out = z_queue.deque(asc.float32)
        asc.data_copy(z_gm[tile * 256:], z_out, 256)
        z_queue.free_tensor(z_out)
"""
    x, z = np.arange(768, dtype=np.float32), np.zeros(768, np.float32)
    run(source, [x, z], outputs=[1])
    np.testing.assert_array_equal(z, x + 1)


PADDED = "asc.data_copy_pad(z, a_gm, asc.DataCopyExtParams({}, 0), asc.DataCopyPadExtParams(asc.float32, {}))"


def test_plain_copies_with_strides() -> None:
    a = np.arange(256, dtype=np.float32)
    rows = compute("asc.data_copy(z, a_gm, asc.DataCopyParams(4, 1, 7, 0))", [a], "float32", 32)
    np.testing.assert_array_equal(rows, a.reshape(4, 64)[:, :8].reshape(-1))


def test_padded_copies_with_strides() -> None:
    a = np.arange(256, dtype=np.float32)
    body = f"""
    asc.duplicate(z, 0.0, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    {PADDED.format("4, 20, 236, 1", "True, 1, 2, 9.0")}
    """  # 5 elements of every 64, a block of UB left out between them, 1 and 2 elements of padding
    got = compute(body, [a], "float32", 56).reshape(7, 8)
    np.testing.assert_array_equal(got[::2], [[9, *a[64 * i : 64 * i + 5], 9, 9] for i in range(4)])
    assert (got[1::2] == 0).all()


def test_bytes_that_padding_leaves_undefined_do_not_pass_for_data() -> None:
    a = np.arange(64, dtype=np.float32)
    with pytest.raises(errors.UninitialisedReadError, match="3 elements that nobody wrote"):
        compute(PADDED.format("1, 20, 0, 0", "False, 0, 0, 0"), [a], "float32", 8)


def test_scalar_access_to_ub_and_gm() -> None:
    a = np.arange(64, dtype=np.float32)
    body = """
    asc.adds(z, a, a.get_value(3) + a_gm.get_value(5), n)
    z.set_value(7, 100.0)
    """
    want = a + 8
    want[7] = 100
    np.testing.assert_array_equal(compute(body, [a], "float32"), want)
    body = "asc.adds(z, a, 0.0, n)\nasc.pipe_barrier(asc.PipeID.PIPE_ALL)\na_gm.set_value(0, 42.0)"
    compute(body, [a], "float32")
    assert a[0] == 42


def test_event_numbers_from_the_pipe() -> None:
    a = np.arange(64, dtype=np.float32)
    body = """
    e = pipe.alloc_event_id(asc.HardEvent.V_MTE3)
    asc.adds(z, a, 1.0, n)
    asc.set_flag(asc.HardEvent.V_MTE3, e)
    asc.wait_flag(asc.HardEvent.V_MTE3, e)
    asc.data_copy(a_gm, z, n)
    pipe.release_event_id(e, asc.HardEvent.V_MTE3)
    """
    compute(body, [a], "float32")
    np.testing.assert_array_equal(a, np.arange(64) + 1)


# -- scalar code -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "want"),
    [
        ("(s0 // 2) * 100 + s0 % 4", -303),  # C's division: toward zero
        ("asc.number(2147483647, asc.int32) + s0", 2147483647 - 7),
        ("(s0 * s0 * 100000000) // 1000", (49 * 10**8 - 2**32) // 1000),
        ("(s0 << 3) | 5", (-7 << 3) | 5),
        ("(s0 >> 1) ^ 3", (-7 >> 1) ^ 3),
        ("s0 if s0 > 0 else 0 - s0", 7),
        ("(s0 > -10) * 5 + 1", 1),  # bool arithmetic, as pyasc types it
        ("asc.number(3, asc.int64) * s0", -21),
        ("asc.ceildiv(s0 + 20, 4)", 4),
    ],
)
def test_scalar_integers_follow_c(code: str, want: int) -> None:
    a = np.zeros(8, np.int32)
    body = f"v = {code}\nasc.duplicate(z, v.cast(asc.int32), n)"
    assert compute(body, [a], "int32", scalars=[-7])[0] == want


def test_scalar_floats_are_rounded_to_their_type() -> None:
    a = np.zeros(8, np.float32)
    got = compute("asc.duplicate(z, s0 / 3.0 - s0 * 0.1, n)", [a], "float32", scalars=[0.7])
    s = np.float32(0.7)
    assert got[0] == s / np.float32(3) - s * np.float32(0.1)
    assert compute("asc.duplicate(z, s0.cast(asc.int32).cast(asc.float32), n)", [a], "float32", scalars=[-2.7])[0] == -2


def test_loops_carry_values_and_nest() -> None:
    a = np.zeros(8, np.int32)
    body = """
    total = asc.number(0, asc.int32)
    for i in range(2, 11, 3):
        for j in range(i):
            total = total + j
    asc.duplicate(z, total, n)
    """
    assert compute(body, [a], "int32")[0] == sum(j for i in range(2, 11, 3) for j in range(i))


def test_carried_values_are_assigned_one_after_the_other_as_the_cpp_does() -> None:
    # pyasc's C++ overwrites one carried value before the next is read; Python would give 5
    a = np.zeros(8, np.int32)
    body = """
    prev = asc.number(0, asc.int32)
    cur = asc.number(1, asc.int32)
    for i in range(5):
        prev = cur + 0
        cur = cur + 1
    asc.duplicate(z, prev, n)
    """
    assert compute(body, [a], "int32")[0] in (5, 6)


# -- speed -------------------------------------------------------------------------------------------------------
def test_a_published_size_takes_under_a_second() -> None:
    total = 786432
    x, y = np.ones(total, np.float32), np.ones(total, np.float32)
    z = np.zeros(total, np.float32)
    source = QUEUE.replace("TILE = 512", "TILE = 4096")
    text = asc_ir(source, ARGS)
    start = time.perf_counter()
    simulate(text, [x, y, z, total], core_num=20, target=TARGET, outputs=[2])
    assert time.perf_counter() - start < 1
    assert (z == 2).all()


@pytest.mark.nightly
def test_adding_8192x8192_halves_on_48_cores_takes_under_5_seconds_and_no_memory() -> None:
    import resource

    total = 8192 * 8192
    x = (np.arange(total, dtype=np.uint32) % 1024).astype(np.float16)
    y, z = np.ones_like(x), np.zeros_like(x)
    source = QUEUE.replace("float32", "float16").replace("* 4", "* 2").replace("TILE = 512", "TILE = 16384")
    text = asc_ir(source, ("*float16",) * 3 + ("int32",))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    simulate(text, [x, y, z, total], core_num=48, target=TARGET, outputs=[2])
    assert time.perf_counter() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    assert torch.equal(torch.from_numpy(z), torch.from_numpy(x) + torch.from_numpy(y))
