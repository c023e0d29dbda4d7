"""Kernels written by hand in unusual styles: right results and no finding, also when they are timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from asc_sched.sim import ArraySpec, errors, time_kernel
from tests.sim.lowering import TARGET, asc_ir, run

HEAD = "import asc\n@asc.jit\n"
BARRIER = "    asc.pipe_barrier(asc.PipeID.PIPE_ALL)\n"
RNG = np.random.default_rng(0)


def gm(*names: str) -> str:
    return "".join(f"    {n}_gm = asc.GlobalTensor()\n    {n}_gm.set_global_buffer({n})\n" for n in names)


def floats(count: int) -> np.ndarray:
    return RNG.standard_normal(count).astype(np.float32)


def check(source: str, args: Sequence[Any], want: np.ndarray, core_num: int = 1) -> None:
    """The kernel's last array is `want`, there is no warning, and the time model follows the kernel, too."""
    place = max(i for i, a in enumerate(args) if isinstance(a, np.ndarray))
    report = run(source, args, core_num, outputs=[place])
    np.testing.assert_array_equal(args[place], want)
    assert report.warnings == ()
    types = tuple(
        f"*{a.dtype.name}" if isinstance(a, np.ndarray) else "float32" if isinstance(a, float) else "int32"
        for a in args
    )
    specs = [ArraySpec(a.dtype.name, a.nbytes) if isinstance(a, np.ndarray) else a for a in args]
    timing = time_kernel(asc_ir(source, types), specs, core_num=core_num, target=TARGET)
    assert timing.bytes_written == report.bytes_written
    assert timing.bytes_read == report.bytes_read


BRANCHES = (
    HEAD
    + "def k(x: asc.GlobalAddress, z: asc.GlobalAddress, total_length: int, tile_length: int):\n"
    + gm("x", "z")
    + """\
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(x_queue, 2, 2048)
    pipe.init_buffer(z_queue, 2, 2048)
    for i in range(asc.get_block_idx(), asc.ceildiv(total_length, tile_length), asc.get_block_num()):
        left = total_length - i * tile_length
        count = tile_length if left > tile_length else left
        params = asc.DataCopyExtParams(1, count * 4, 0, 0, 0)
        x_in = x_queue.alloc_tensor(asc.float32)
        pad = asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0)
        asc.data_copy_pad(x_in, x_gm[i * tile_length:], params, pad)
        x_queue.enque(x_in)
        x_ub = x_queue.deque(asc.float32)
        z_ub = z_queue.alloc_tensor(asc.float32)
        if i % 2 == 0:
            if i > 4:
                asc.muls(z_ub, x_ub, 3.0, count)
            else:
                asc.adds(z_ub, x_ub, 1.0, count)
        else:
            asc.abs(z_ub, x_ub, count)
        z_queue.enque(z_ub)
        x_queue.free_tensor(x_ub)
        z_out = z_queue.deque(asc.float32)
        asc.data_copy_pad(z_gm[i * tile_length:], z_out, params)
        z_queue.free_tensor(z_out)
"""
)


@pytest.mark.parametrize(("total", "tile", "cores"), [(1000, 100, 3), (5, 100, 4), (2049, 512, 48), (1, 1, 1)])
def test_loops_with_runtime_bounds_and_nested_branches(total: int, tile: int, cores: int) -> None:
    x = floats(total)
    want = np.abs(x)
    for i in range(0, -(-total // tile), 2):
        part = slice(i * tile, (i + 1) * tile)
        want[part] = x[part] * np.float32(3) if i > 4 else x[part] + np.float32(1)
    check(BRANCHES, [x, np.zeros_like(x), total, tile], want, cores)


PREFETCH = (
    HEAD
    + "def k(x: asc.GlobalAddress, z: asc.GlobalAddress):\n"
    + gm("x", "z")
    + """\
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 3)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(x_queue, 4, 256)
    pipe.init_buffer(z_queue, 2, 256)
    for i in range(3):
        early = x_queue.alloc_tensor(asc.float32)
        asc.data_copy(early, x_gm[i * 64:], 64)
        x_queue.enque(early)
    for i in range(8):
        x_ub = x_queue.deque(asc.float32)
        if i < 5:
            late = x_queue.alloc_tensor(asc.float32)
            asc.data_copy(late, x_gm[(i + 3) * 64:], 64)
            x_queue.enque(late)
        z_ub = z_queue.alloc_tensor(asc.float32)
        asc.adds(z_ub, x_ub, 1.0, 64)
        x_queue.free_tensor(x_ub)
        z_queue.enque(z_ub)
        z_out = z_queue.deque(asc.float32)
        asc.data_copy(z_gm[i * 64:], z_out, 64)
        z_queue.free_tensor(z_out)
"""
)


def test_a_deep_queue_that_loads_ahead() -> None:
    x = floats(512)
    check(PREFETCH, [x, np.zeros_like(x)], x + 1)


IN_PLACE = (
    HEAD
    + "def k(x: asc.GlobalAddress, z: asc.GlobalAddress):\n"
    + gm("x", "z")
    + """\
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 0)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 0)
    pipe.init_buffer(x_queue, 1, 256)
    pipe.init_buffer(z_queue, 1, 256)
    x_ub = asc.LocalTensor(asc.float32)
    z_ub = asc.LocalTensor(asc.float32)
    for i in range(4):
        x_queue.alloc_tensor(x_ub)
        asc.data_copy(x_ub, x_gm[i * 64:], 64)
        x_queue.enque(x_ub)
        x_queue.deque(x_ub)
        z_queue.alloc_tensor(z_ub)
        asc.adds(z_ub, x_ub, 1.0, 64)
        z_queue.enque(z_ub)
        x_queue.free_tensor(x_ub)
        z_queue.deque(z_ub)
        asc.data_copy(z_gm[i * 64:], z_ub, 64)
        z_queue.free_tensor(z_ub)
"""
)


def test_in_place_queues_of_depth_zero() -> None:
    x = floats(256)
    check(IN_PLACE, [x, np.zeros_like(x)], x + 1)


def test_in_place_calls_need_depth_zero() -> None:
    x = floats(256)
    with pytest.raises(
        errors.UnsupportedError, match=r"alloc_tensor with a tensor of the caller's needs .* has depth 1"
    ):
        run(IN_PLACE.replace("VECIN, 0", "VECIN, 1"), [x, np.zeros_like(x)])


STATIC = (
    HEAD
    + "def k(x: asc.GlobalAddress, z: asc.GlobalAddress):\n"
    + gm("x", "z")
    + """\
    allocator = asc.LocalMemAllocator()
    x_ub = allocator.alloc(asc.TPosition.VECCALC, asc.float32, 250)
    z_ub = allocator.alloc(asc.TPosition.VECCALC, asc.float32, 256)
    asc.data_copy(x_ub, x_gm, 248)
"""
    + BARRIER
    + "    asc.abs(z_ub, x_ub, 248)\n    asc.abs(z_ub[248:], x_ub, 8)\n"
    + BARRIER
    + "    asc.data_copy(z_gm, z_ub, 256)\n"
)


def test_static_tensors_from_an_allocator_start_on_blocks() -> None:
    x = floats(256)
    check(STATIC, [x, np.zeros_like(x)], np.abs(np.concatenate([x[:248], x[:8]])))


def test_an_allocator_that_gives_more_than_ub_has_is_found() -> None:
    source = STATIC.replace("asc.float32, 256)", "asc.float32, 49152)")
    with pytest.raises(errors.UbOverflowError, match="alloc of UB bytes 1024 to 197632; UB has 196608"):
        run(source, [floats(256), np.zeros(256, np.float32)])


def one_instruction(body: str, dst: str = "float32", head: str = "") -> str:
    return (
        f"import asc\n{head}@asc.jit\ndef k(x: asc.GlobalAddress, z: asc.GlobalAddress):\n"
        + gm("x", "z")
        + "    a = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 256)\n"
        + f"    o = asc.LocalTensor(asc.{dst}, asc.TPosition.VECCALC, 4096, 256)\n    asc.data_copy(a, x_gm, 256)\n"
        + BARRIER
        + "".join(f"    {line}\n" for line in body.splitlines())
        + BARRIER
        + "    asc.data_copy(z_gm, o, 256)\n"
    )


def test_several_functions_in_a_file() -> None:
    helper = "@asc.jit\ndef twice(o: asc.LocalTensor, a: asc.LocalTensor, n: int):\n    asc.muls(o, a, 2.0, n)\n\n"
    x = floats(256)
    check(one_instruction("twice(o, a, 256)", head=helper), [x, np.zeros_like(x)], x * 2)


def test_a_finding_in_a_helper_names_the_line_of_the_helper() -> None:
    helper = "@asc.jit\ndef twice(o: asc.LocalTensor, a: asc.LocalTensor, n: int):\n    asc.muls(o, a[1:], 2.0, n)\n\n"
    with pytest.raises(errors.AlignmentError, match=r"^kernel_under_test.py:4: .*\n    asc.muls\(o, a\[1:\], 2.0, n\)"):
        run(one_instruction("twice(o, a, 128)", head=helper), [floats(256), np.zeros(256, np.float32)])


def test_questions_with_one_answer_on_a_vector_core() -> None:
    body = "n = asc.get_data_block_size_in_bytes()\nif asc.ascend_is_aiv():\n    asc.abs(o, a, n * 8)"
    x = floats(256)
    check(one_instruction(body), [x, np.zeros_like(x)], np.abs(x))


def test_a_trap_stops_the_kernel_where_it_is_reached() -> None:
    body = "asc.abs(o, a, 256)\nif asc.get_block_idx() > {}:\n    asc.trap()"
    x = floats(256)
    check(one_instruction(body.format(0)), [x, np.zeros_like(x)], np.abs(x))
    with pytest.raises(errors.ScalarError, match="trap: the kernel stops here"):
        run(one_instruction(body.format(-1)), [x, np.zeros_like(x)])


def test_quant_rounds_and_saturates() -> None:
    x = np.linspace(-20, 20, 256).astype(np.float32)
    held = (x * np.float32(10) + np.float32(1)).astype(np.float16).astype(np.float32)
    source = one_instruction("asc.adv.quant(o, a, 10.0, 1.0, 256)", "int8")
    check(source, [x, np.zeros(256, np.int8)], np.clip(np.rint(held), -128, 127).astype(np.int8))


def test_copies_between_different_element_types_are_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="DataCopy with element types float, double: they must be equal"):
        run(one_instruction("asc.abs(o, a, 256)"), [floats(256).astype(np.float64), np.zeros(256, np.float32)])
    source = STATIC.replace("asc.data_copy(x_ub, x_gm, 248)", (
        "asc.data_copy_pad(x_ub, x_gm, asc.DataCopyExtParams(1, 992, 0, 0, 0), "
        "asc.DataCopyPadExtParams(asc.float16, False, 0, 0, 0))"
    ))  # fmt: skip
    with pytest.raises(errors.UnsupportedError, match="DataCopyPad with element types float, float, half"):
        run(source, [floats(256), np.zeros(256, np.float32)])


def test_a_negative_element_is_named_as_such() -> None:
    source = HEAD + "def k(z: asc.GlobalAddress, n: int):\n" + gm("z") + "    z_gm.set_value(n, 1.0)\n"
    with pytest.raises(errors.GmBoundsError, match="set_value writes elements -2 to -1 of z, which has 4"):
        run(source, [np.zeros(4, np.float32), -2])


def test_scalar_code_on_elements_is_executed_and_timed() -> None:
    body = "asc.abs(o, a, 256)\nfor i in range(256):\n    o.set_value(i, a.get_value(i) * 2.0 + 1.0)"
    x = floats(256)
    check(one_instruction(body), [x, np.zeros_like(x)], x * np.float32(2) + np.float32(1))


def test_a_scalar_operand_that_changes_with_the_loop_is_timed_at_once() -> None:
    source = (
        HEAD
        + "def k(z: asc.GlobalAddress, tiles: int):\n"
        + gm("z")
        + "    o = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64)\n    for i in range(tiles):\n"
        + "        asc.duplicate(o, i.cast(asc.float32) * 0.5, 64)\n    "
        + BARRIER
        + "        asc.data_copy(z_gm[asc.number(64, asc.int64) * i :], o, 64)\n    "
        + BARRIER
    )
    check(source, [np.zeros(640, np.float32), 10], np.repeat(np.arange(10), 64).astype(np.float32) / 2)
    text = asc_ir(source, ("*float32", "int32"))
    begin = time.perf_counter()
    time_kernel(text, [ArraySpec("float32", 64 * 4 * 10**6), 10**6], core_num=1, target=TARGET)
    assert time.perf_counter() - begin < 0.5


@pytest.mark.parametrize("loads", [False, True])
def test_many_copies_that_nothing_orders_are_checked_and_timed_quickly(loads: bool) -> None:
    count = 3000
    body = "        asc.data_copy(z_gm[i * 64:], a, 64)\n"
    if loads:
        body += "        asc.data_copy(o, x_gm[i * 64:], 64)\n        asc.pipe_barrier(asc.PipeID.PIPE_MTE2)\n"
    source = one_instruction("asc.duplicate(o, 3.0, 256)").replace(
        "    asc.data_copy(z_gm, o, 256)\n", f"    for i in range({count}):\n{body}"
    )
    x = np.tile(floats(64), count)
    begin = time.perf_counter()
    run(source, [x, np.zeros_like(x)])
    text = asc_ir(source, ("*float32", "*float32"))
    time_kernel(text, [ArraySpec("float32", x.nbytes)] * 2, core_num=1, target=TARGET)
    assert time.perf_counter() - begin < 10  # 0.5 s on an idle machine; pairwise checks would take a minute


def ping_pong(body: str) -> str:
    """Two buffers in turn with flags; `body` is the loop's text."""
    first = [f"    asc.set_flag(asc.HardEvent.{e}, {n})\n" for e in ("V_MTE2", "MTE3_V") for n in (0, 1)]
    last = [line.replace("set_flag", "wait_flag") for line in first]
    return (
        HEAD
        + "def k(x: asc.GlobalAddress, z: asc.GlobalAddress, tiles: int):\n"
        + gm("x", "z")
        + "    x_all = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 128)\n"
        + "    z_all = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, 4096, 128)\n"
        + "".join(first)
        + "    for i in range(tiles):\n"
        + "".join(f"        {line}\n" for line in body.strip().splitlines())
        + "".join(last)
    )


TURNS = """\
turn = i % 2
a = x_all[turn * 64:]
o = z_all[turn * 64:]
asc.wait_flag(asc.HardEvent.V_MTE2, turn)
asc.data_copy(a, x_gm[i * 64:], 64)
asc.set_flag(asc.HardEvent.MTE2_V, turn)
asc.wait_flag(asc.HardEvent.MTE2_V, turn)
asc.wait_flag(asc.HardEvent.MTE3_V, turn)
asc.adds(o, a, 1.0, 64)
asc.set_flag(asc.HardEvent.V_MTE2, turn)
asc.set_flag(asc.HardEvent.V_MTE3, turn)
asc.wait_flag(asc.HardEvent.V_MTE3, turn)
asc.data_copy(z_gm[i * 64:], o, 64)
asc.set_flag(asc.HardEvent.MTE3_V, turn)
"""


def swap(first: str, second: str) -> str:
    """`TURNS` with two of its lines, named by a part of their text, in each other's place."""
    lines = TURNS.splitlines()
    a, b = (next(i for i, line in enumerate(lines) if part in line) for part in (first, second))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


@pytest.mark.parametrize("tiles", [1, 2, 7, 50])
def test_static_tensors_used_in_turn(tiles: int) -> None:
    x = floats(64 * tiles)
    check(ping_pong(TURNS), [x, np.zeros_like(x), tiles], x + 1)


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (
            swap("set_flag(asc.HardEvent.MTE2_V", "wait_flag(asc.HardEvent.MTE2_V"),
            errors.DeadlockError,
            "waits for ever",
        ),
        (swap("asc.adds", "set_flag(asc.HardEvent.V_MTE3"), errors.DataRaceError, "MTE3 reads UB bytes 4096 to 4352"),
        (swap("asc.adds", "set_flag(asc.HardEvent.V_MTE2"), errors.DataRaceError, "MTE2 writes UB bytes 0 to 256"),
        (swap("asc.adds", "wait_flag(asc.HardEvent.MTE2_V"), errors.DataRaceError, "V reads UB bytes 0 to 256"),
        (swap("asc.data_copy(z_gm", "set_flag(asc.HardEvent.MTE3_V"), errors.DataRaceError, "V writes UB bytes 4096"),
        (TURNS.replace("V_MTE3, turn", "V_MTE3, turn + 7"), errors.EventLimitError, "event number 8 of V_MTE3"),
        (TURNS.replace("V_MTE3", "MTE2_V"), errors.DataRaceError, "nothing orders MTE3 after V"),
    ],
)
def test_flags_in_a_wrong_order_are_found(body: str, error: type[Exception], text: str) -> None:
    x = floats(64 * 7)
    with pytest.raises(error, match=text):
        run(ping_pong(body), [x, np.zeros_like(x), 7])
