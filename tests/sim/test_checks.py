"""Each check of the simulator, provoked by a kernel written by hand that is broken in one way."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asc_sched.errors import ArgumentError, AscSchedError, SimulationError
from asc_sched.sim import CHECKS, HardwareError, errors
from tests.sim.lowering import FILE, compute, line_of, run

KERNELS = Path(__file__).parent / "kernels"
QUEUE = (KERNELS / "queue_add.py").read_text()
MANUAL = (KERNELS / "manual_add.py").read_text()


# lines of the kernels that several tests change
LENGTH = "length = total_length - start if total_length - start < block_length else block_length"
STORE = "asc.data_copy_pad(z_gm[at:], z_out, params)"
ADD = "asc.add(z_ub, x_in, y_in, count)"
FREE_X = "        x_queue.free_tensor(x_in)\n"
FREE_Z = "        z_queue.free_tensor(z_out)\n"
ENQUE_X = "        x_queue.enque(x_ub)\n"
ENQUE_Z = "        z_queue.enque(z_ub)\n"
INIT_Z = "    pipe.init_buffer(que=z_queue, num=2, len=TILE * 4)\n"
LOADED = "        asc.set_flag(asc.HardEvent.MTE2_V, half)\n        asc.wait_flag(asc.HardEvent.MTE2_V, half)\n"
ADDED = "        asc.set_flag(asc.HardEvent.V_MTE3, half)\n        asc.wait_flag(asc.HardEvent.V_MTE3, half)\n"


def without_flags(event: str) -> str:
    """The manual kernel without any flag of one kind."""
    return "".join(line for line in MANUAL.splitlines(True) if f"HardEvent.{event}," not in line)


def broken(source: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


def add(source: str, total: int, core_num: int = 1, **options: Any) -> Any:
    rng = np.random.default_rng(3)
    x, y = rng.random(total, np.float32), rng.random(total, np.float32)
    z = np.full(total, 7, np.float32)
    report = run(source, [x, y, z, total], core_num, outputs=options.pop("outputs", [2]), **options)
    if not options:
        np.testing.assert_array_equal(z, x + y)
    return report


def finding(
    kind: type[HardwareError], source: str, total: int = 4096, core_num: int = 1, at: str = "", **options: Any
) -> str:
    """Runs the kernel, wants this error at the line that contains `at`, and gives the message's first line."""
    with pytest.raises(kind) as caught:
        add(source, total, core_num, **options)
    error = caught.value
    assert type(error) is kind and isinstance(error, SimulationError) and isinstance(error, AscSchedError)
    if at:
        assert error.loc.line == line_of(source, at), str(error)
        assert at.strip() in str(error)  # the source line is quoted
    assert str(error).startswith(f"{FILE}:{error.loc.line}: ")
    return str(error).splitlines()[0]


# -- kernels that are right ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("total", "core_num"), [(1, 1), (7, 1), (512, 1), (513, 2), (4096, 3), (100_003, 7)])
def test_the_queue_kernel_is_right_at_any_size(total: int, core_num: int) -> None:
    assert add(QUEUE, total, core_num).warnings == ()


def test_the_manual_kernel_is_right() -> None:
    report = add(MANUAL, 16384, 4)
    assert report.warnings == ()
    assert (report.bytes_read, report.bytes_written) == (2 * 65536, 65536)
    assert report.ub_bytes == 12288


# -- addresses and counts -----------------------------------------------------------------------------------------
def test_misaligned_ub_address() -> None:
    text = finding(
        errors.AlignmentError, broken(QUEUE, (ADD, "asc.add(z_ub, x_in[1:], y_in, 64)")),
        at="asc.add(",
    )  # fmt: skip
    assert "Add's source 0 is at UB byte 4, 4 past a multiple of 32 (core 0, iteration 0)" in text


def test_plain_data_copy_of_a_count_that_is_not_whole_blocks() -> None:
    source = broken(QUEUE, (STORE, "asc.data_copy(z_gm[at:], z_out, count)"))
    add(source, 4096)
    text = finding(errors.CountError, source, 1030, at="asc.data_copy(z_gm")
    assert "DataCopy of 6 float = 24 bytes moves whole 32-byte blocks only: 0 bytes (0 elements)" in text
    assert "iteration 2" in text


def test_a_negative_count() -> None:
    text = finding(errors.CountError, broken(QUEUE, ("y_in, count)", "y_in, 0 - count)")), at="asc.add(")
    assert "Add of -512 elements" in text


def test_compare_counts_in_256_byte_steps() -> None:
    a = np.ones(100, np.float32)
    says = r"Compare of 100 float = 400 bytes; it needs a multiple of 256 bytes \(next: 128 elements\)"
    with pytest.raises(errors.CountError, match=says):
        compute("asc.compare(z, a, a, asc.CMPMODE.EQ, 100)", [a], "uint8", 13)


def test_a_parameter_that_its_field_cuts_off() -> None:
    old = "asc.data_copy_pad(z_gm[at:], z_out, params)"
    source = broken(QUEUE, (old, "asc.data_copy_pad(z_gm[at:], z_out, asc.DataCopyParams(1, count * 160, 0, 0))"))
    assert "81920 doesn't fit its field and becomes 16384" in finding(errors.CountError, source, at="count * 160")


def test_gm_read_out_of_bounds() -> None:
    source = broken(QUEUE, ("asc.data_copy_pad(x_ub, x_gm[at:]", "asc.data_copy_pad(x_ub, x_gm[at + 8:]"))
    text = finding(errors.GmBoundsError, source, at="asc.data_copy_pad(x_ub")
    assert "DataCopyPad reads elements 3592 to 4104 of x, which has 4096" in text and "iteration 7" in text


def test_gm_write_out_of_bounds_by_a_ceil_split() -> None:
    source = broken(QUEUE, (LENGTH, "length = block_length"))
    text = finding(errors.GmBoundsError, source, 1001, 2)
    assert "(core 1, iteration 0)" in text and "of x, which has 1001" in text


def test_more_elements_than_the_buffer_holds() -> None:
    text = finding(errors.UbBoundsError, broken(QUEUE, (INIT_Z, INIT_Z.replace("TILE * 4", "TILE * 2"))),
                   at="asc.add(")  # fmt: skip
    assert "Add's destination: 2048 bytes (512 float) of a tensor of 1024 bytes" in text


def test_a_static_tensor_beyond_the_unified_buffer() -> None:
    source = broken(MANUAL, ("asc.TPosition.VECOUT, 8192, 1024", "asc.TPosition.VECOUT, 196608 - 2048, 1024"))
    assert "UB bytes 196608 to 198656; UB has 196608" in finding(errors.UbBoundsError, source, at="asc.add(")


def test_partial_overlap_of_destination_and_source() -> None:
    source = broken(QUEUE, (ADD, "asc.add(x_in[8:], x_in, y_in, 64)"))
    assert "may be the same but not overlap in part" in finding(errors.OverlapError, source, at="asc.add(")
    add(broken(QUEUE, (ADD, "asc.add(x_in, x_in, y_in, count)\n        asc.adds(z_ub, x_in, 0.0, count)")), 4096)


def test_adv_functions_must_not_work_in_place() -> None:
    a = np.ones(64, np.float32)
    with pytest.raises(errors.OverlapError, match=r"Tanh: destination .* must not overlap"):
        compute("asc.adv.tanh(a, a, n, t)\nasc.adds(z, a, 0.0, n)", [a], "float32")
    with pytest.raises(errors.OverlapError, match=r"Tanh: the temporary buffer .* overlaps an operand"):
        compute("asc.adv.tanh(z, a, n, z.reinterpret_cast(asc.uint8))", [a], "float32")


# -- resources ----------------------------------------------------------------------------------------------------
def test_buffers_beyond_the_unified_buffer() -> None:
    text = finding(
        errors.UbOverflowError, broken(QUEUE, ("num=2, len=TILE * 4)\n    for", "num=2, len=100000)\n    for"))
    )
    assert "buffers take 208192 bytes, 11584 more than the 196608 bytes of UB" in text


def test_select_needs_8_kib_of_ub_left_over() -> None:
    a = np.ones(64, np.float32)
    body = "extra = asc.TBuf(asc.TPosition.VECCALC)\npipe.init_buffer(extra, 180000)\n"
    compute(body + "asc.adds(z, a, 0.0, n)", [a], "float32")
    select = "asc.compare(t, a, a, asc.CMPMODE.EQ, 64)\nasc.select(z, t, a, a, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, n)"
    with pytest.raises(errors.UbOverflowError, match="8192 bytes of reserve for select"):
        compute(body + select, [a], "float32")


def test_more_queue_buffers_than_a_position_has() -> None:
    source = broken(QUEUE, ("x_queue, num=2,", "x_queue, num=5,"), ("y_queue, num=2,", "y_queue, num=4,"))
    text = finding(errors.QueueBufferLimitError, source, at="que=y_queue")
    assert "9 VECIN queue buffers; Ascend910B1 has 8 per position" in text


def test_more_buffers_than_a_pipe_has() -> None:
    a = np.ones(64, np.float32)
    many = "\n".join(f"e{i} = asc.TBuf(asc.TPosition.VECCALC)\npipe.init_buffer(e{i}, 32)" for i in range(62))
    with pytest.raises(errors.QueueBufferLimitError, match="65 buffers in all; a TPipe has 64"):
        compute(many + "\nasc.adds(z, a, 0.0, n)", [a], "float32")


def test_an_event_number_that_the_chip_lacks() -> None:
    source = broken(
        MANUAL, ("asc.set_flag(asc.HardEvent.V_MTE3, half)", "asc.set_flag(asc.HardEvent.V_MTE3, half + 8)")
    )
    assert "event number 8 of V_MTE3; the chip has 8 (0 to 7)" in finding(errors.EventLimitError, source)


def test_more_events_taken_than_the_chip_has() -> None:
    a = np.ones(64, np.float32)
    with pytest.raises(errors.EventLimitError, match="event number 8 of V_MTE3"):
        body = "\n".join(f"e{i} = pipe.alloc_event_id(asc.HardEvent.V_MTE3)" for i in range(9))
        compute(body + "\nasc.adds(z, a, 0.0, n)", [a], "float32")


# -- queues -------------------------------------------------------------------------------------------------------
def test_alloc_when_no_buffer_is_free() -> None:
    source = broken(QUEUE, (FREE_X, ""))
    text = finding(errors.AllocError, source, at="x_ub = x_queue.alloc_tensor")
    assert "waits for ever: none of the queue's 2 buffers is free" in text and "iteration 2" in text


def test_enque_twice() -> None:
    source = broken(QUEUE, (ENQUE_Z, ENQUE_Z + "        z_queue.enque(z_ub)  # again\n"))
    assert "already queued" in finding(errors.EnqueError, source, at="# again")


def test_enque_beyond_the_depth() -> None:
    source = broken(
        QUEUE, (ENQUE_X, ENQUE_X + "        w = x_queue.alloc_tensor(asc.float32)\n        x_queue.enque(w)\n")
    )  # fmt: skip
    assert "enque of a second tensor without a deque; the queue's depth is 1" in finding(errors.EnqueError, source)


def test_enque_into_another_queue() -> None:
    source = broken(QUEUE, ("z_queue.enque(z_ub)", "z_queue.enque(x_in)"))
    text = finding(errors.EnqueError, source, at="z_queue.enque(x_in)")
    assert "enque into the VECOUT queue" in text and "the tensor belongs to the VECIN queue" in text


def test_deque_without_enque() -> None:
    source = broken(QUEUE, ("        y_queue.enque(y_ub)\n", ""))
    text = finding(errors.DequeError, source, at="y_in = y_queue.deque")
    assert "waits for ever: nothing is enqueued in the VECIN queue" in text


def test_free_on_the_wrong_queue() -> None:
    swapped = FREE_X.replace("x_in", "y_in"), FREE_X.replace("x_queue", "y_queue")
    source = broken(QUEUE, (FREE_X + FREE_X.replace("x_", "y_"), "".join(swapped)))
    assert "but the tensor belongs to" in finding(errors.FreeError, source, at="x_queue.free_tensor(y_in)")


def test_free_twice() -> None:
    source = broken(QUEUE, (FREE_Z, FREE_Z + "        z_queue.free_tensor(z_out)  # again\n"))
    assert "free already" in finding(errors.FreeError, source, at="# again")


def test_free_before_enque_and_use_after_free() -> None:
    source = broken(QUEUE, (FREE_X, ""), ("        asc.add(z_ub", FREE_X + "        asc.add(z_ub"))  # fmt: skip
    assert "that is free since" in finding(errors.UseAfterFreeError, source, at="asc.add(")


def test_use_between_enque_and_deque() -> None:
    source = broken(QUEUE, (ENQUE_Z, ENQUE_Z + "        asc.adds(z_ub, z_ub, 1.0, count)\n"))
    assert "that is queued since" in finding(errors.UseAfterFreeError, source, at="asc.adds(")


def test_leaked_tensors() -> None:
    source = broken(QUEUE, (FREE_Z, ""))
    text = finding(errors.LeakError, source, 512, at="z_out = z_queue.deque")
    assert "a tensor of the VECOUT queue" in text and "is never freed" in text


def test_a_queue_without_init_buffer() -> None:
    source = broken(QUEUE, ("    pipe.init_buffer(que=y_queue, num=2, len=TILE * 4)\n", ""))
    assert "before init_buffer" in finding(errors.QueueSetupError, source, at="y_ub = y_queue.alloc_tensor")


def test_a_queue_set_up_inside_the_loop() -> None:
    source = broken(QUEUE, (INIT_Z, ""), ("        left =", "    " + INIT_Z + "        left ="))
    assert "a second time" in finding(errors.QueueSetupError, source)


# -- data and order -----------------------------------------------------------------------------------------------
def test_undefined_ub_that_reaches_gm() -> None:
    load = "        asc.data_copy_pad(y_ub, y_gm[at:], params, asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0))\n"
    text = finding(errors.UninitialisedReadError, broken(QUEUE, (load, "")), at="asc.data_copy_pad(z_gm")
    assert f"512 elements that nobody wrote (from UB byte 8192, first read by Add at {FILE}:" in text
    assert "go to z[0]" in text


def test_a_reused_buffer_holds_nothing_even_if_the_last_tile_left_something() -> None:
    source = broken(QUEUE, (ADD, "asc.add(z_ub, x_in, y_in, count - 8 if tile > 1 else count)"))
    text = finding(errors.UninitialisedReadError, source, at="asc.data_copy_pad(z_gm")
    assert "8 elements" in text and "iteration 2" in text


def test_undefined_lanes_that_go_nowhere_are_no_finding() -> None:
    a, b = np.arange(100, dtype=np.float32), np.full(100, 50, np.float32)
    body = """
    asc.compare(t, a, b, asc.CMPMODE.LT, 128)
    asc.select(z, t, a, b, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, 100)
    """
    np.testing.assert_array_equal(compute(body, [a, b], "float32"), np.minimum(a, b))


def test_an_undefined_scalar() -> None:
    a = np.ones(64, np.float32)
    with pytest.raises(errors.UninitialisedReadError, match="get_value of UB byte"):
        compute("asc.adds(z, a, z.get_value(3), n)", [a], "float32")


def test_an_output_that_is_read_before_it_is_written() -> None:
    source = broken(QUEUE, ("y_gm.set_global_buffer(y)", "y_gm.set_global_buffer(z)"))
    assert "reads z[0], an output that nobody has written there" in finding(errors.UninitialisedReadError, source)


def test_outputs_that_are_not_written_to_the_end() -> None:
    source = broken(QUEUE, ("asc.ceildiv(length, TILE)):", "length // TILE):"))
    with pytest.raises(errors.NotWrittenError, match=r"8 of 520 elements of z are never written: \[512:520\]"):
        add(source, 520)


@pytest.mark.parametrize(
    ("dropped", "pipes"),
    [
        (LOADED, ("V", "MTE2")),
        (ADDED, ("MTE3", "V")),
    ],
)  # fmt: skip
def test_a_missing_pair_of_flags_is_a_race(dropped: str, pipes: tuple[str, str]) -> None:
    text = finding(errors.DataRaceError, broken(MANUAL, (dropped, "")))
    assert f"{pipes[0]} reads UB bytes" in text and f"that {pipes[1]} has written at" in text


def test_reusing_a_buffer_before_its_reader_is_done_is_a_race() -> None:
    text = finding(errors.DataRaceError, without_flags("V_MTE2"), at="asc.data_copy(x_ub")
    assert "MTE2 writes UB bytes 0 to 2048 that V has read at" in text and "iteration 2" in text


def test_overwriting_a_result_that_is_still_being_stored_is_a_race() -> None:
    text = finding(errors.DataRaceError, without_flags("MTE3_V"))
    assert "V writes UB bytes 8192 to 10240 that MTE3 has read at" in text


def test_a_barrier_of_all_pipes_orders_them() -> None:
    add(broken(MANUAL, (LOADED, "        asc.pipe_barrier(asc.PipeID.PIPE_ALL)\n")), 8192)
    text = finding(errors.DataRaceError, broken(MANUAL, (LOADED, "        asc.pipe_barrier(asc.PipeID.PIPE_V)\n")))
    assert "V reads" in text  # a barrier of one pipe orders nothing between pipes


def test_reading_back_from_gm_what_a_store_may_not_have_written_yet() -> None:
    a = np.ones(64, np.float32)
    body = """
    asc.adds(z, a, 1.0, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(z_gm, z, n)
    asc.data_copy(a, z_gm, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.adds(z, a, 1.0, n)
    """
    with pytest.raises(errors.DataRaceError, match="reads elements 0 to 64 of z_addr that MTE3 has written at"):
        compute(body, [a], "float32")
    ordered = body.replace("    asc.data_copy(a,", "    asc.pipe_barrier(asc.PipeID.PIPE_ALL)\n    asc.data_copy(a,")
    np.testing.assert_array_equal(compute(ordered, [a], "float32"), a + 2)


def test_copies_of_one_pipe_to_the_same_place_need_a_barrier() -> None:
    a = np.arange(64, dtype=np.float32)
    twice = "asc.data_copy({0}, {1}, n)\nasc.data_copy({0}, {1}, n)"
    for code, pipe, says in (
        (twice.format("z", "a_gm"), "MTE2", "MTE2 writes UB bytes .* that MTE2 has written"),
        (twice.format("z_gm", "a") + "\nasc.adds(z, a, 0.0, n)", "MTE3", "of z_addr that MTE3 has written"),
    ):
        with pytest.raises(errors.DataRaceError, match=says):
            compute(code, [a], "float32")
        ordered = code.replace("\n", f"\nasc.pipe_barrier(asc.PipeID.PIPE_{pipe})\n", 1)
        np.testing.assert_array_equal(compute(ordered, [a], "float32"), a)


def test_two_cores_writing_the_same_elements() -> None:
    source = broken(QUEUE, (LENGTH, LENGTH.replace("block_length", "block_length + 8")))  # fmt: skip
    text = finding(errors.CoreOverlapError, source, 4096, 2, at="asc.data_copy_pad(z_gm")
    assert "writes z[2048:2056], which core 0 writes too (core 1, iteration 0)" in text


def test_a_core_reading_what_another_writes() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(4096, np.float32)
    y = x.copy()
    other = "asc.data_copy_pad(y_ub, y_gm[2048 - start + tile * TILE:]"
    source = broken(QUEUE, ("asc.data_copy_pad(y_ub, y_gm[at:]", other))
    with pytest.raises(errors.CoreOverlapError, match=r"which core 0 (reads|writes) too"):
        run(source, [x, y, y, 4096], 2)


def test_in_place_is_no_finding() -> None:
    x, y = np.arange(5000, dtype=np.float32), np.ones(5000, np.float32)
    want = x + y
    run(QUEUE, [x, y, x, 5000], 3, outputs=[2])
    np.testing.assert_array_equal(x, want)


def test_wait_for_a_flag_that_nobody_sets() -> None:
    source = broken(MANUAL, ("    asc.set_flag(asc.HardEvent.MTE3_V, 1)\n    for", "    for"))
    text = finding(errors.DeadlockError, source)
    assert "wait_flag MTE3_V event 1 waits for ever" in text and "iteration 1" in text


def test_flags_left_set_and_set_twice() -> None:
    source = broken(MANUAL, ("    asc.wait_flag(asc.HardEvent.MTE3_V, 1)\n", ""))
    assert "set_flag MTE3_V event 1 has no wait_flag" in finding(errors.FlagError, source)
    line = "        asc.set_flag(asc.HardEvent.V_MTE3, half)"
    again = broken(MANUAL, (line + "\n", line + "\n" + line + "  # again\n"))
    assert "is still set since" in finding(errors.FlagError, again, at="# again")


# -- scalar code --------------------------------------------------------------------------------------------------
def test_division_by_zero_in_scalar_code() -> None:
    source = broken(QUEUE, ("range(asc.ceildiv(length, TILE))", "range(length // (total_length - 4096))"))
    assert "divided by zero" in finding(errors.ScalarError, source)


def test_a_while_loop_that_pyasc_makes_endless() -> None:
    a = np.ones(64, np.float32)
    with pytest.raises(errors.ScalarError, match="tests its condition only once"):
        compute("i = asc.number(0, asc.int32)\nwhile i < n:\n    asc.adds(z, a, 1.0, n)\n    i = i + 1", [a], "float32")


def test_an_operation_without_a_model_is_named_with_its_line() -> None:
    source = broken(QUEUE, ("        asc.add(z_ub", "        asc.sync_all()\n        asc.add(z_ub"))
    with pytest.raises(errors.UnknownOperationError) as e:
        add(source, 512)
    line = line_of(source, "asc.sync_all()")
    want = f"{FILE}:{line}: the simulator has no model of ascendc.sync_all_hard\n    asc.sync_all()"
    assert str(e.value) == want


# -- strict -------------------------------------------------------------------------------------------------------
def test_findings_become_warnings_once_per_place(caplog: pytest.LogCaptureFixture) -> None:
    source = broken(QUEUE, (STORE, "asc.data_copy(z_gm[at:], z_out, count)"))
    with caplog.at_level(logging.WARNING, "asc_sched.sim"):
        report = add(source, 1030, 2, strict=False)
    assert [w.check for w in report.warnings] == ["count", "not_written"]
    assert len(caplog.records) == 2 and "moves whole 32-byte blocks" in caplog.text


def test_chosen_checks_stay_errors() -> None:
    source = broken(QUEUE, (STORE, "asc.data_copy(z_gm[at:], z_out, count)"))
    with pytest.raises(errors.NotWrittenError):
        add(source, 1030, strict=["not_written"])
    with pytest.raises(ArgumentError, match="unknown checks"):
        add(source, 1030, strict=["typo"])


def test_a_race_as_a_warning_still_computes() -> None:
    report = add(broken(MANUAL, (LOADED, "")), 4096, strict=False)
    assert {w.check for w in report.warnings} == {"race"}


def test_every_check_has_a_class_and_a_name() -> None:
    assert len(CHECKS) >= 25
    for name, cls in CHECKS.items():
        assert cls.check == name and issubclass(cls, SimulationError) and cls.__doc__
