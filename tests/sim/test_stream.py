"""The instruction stream: what is recorded, in which order, and without any tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asc_sched.errors import ArgumentError
from asc_sched.sim import ArraySpec, errors, stream
from asc_sched.sim.stream import Barrier, Compute, Copy, Flag, Init, LoopMark, Pipe, QueueOp, Record, ScalarWork, UbSpan
from tests.sim.lowering import FILE, TARGET, asc_ir, line_of

KERNELS = Path(__file__).parent / "kernels"
QUEUE = (KERNELS / "queue_add.py").read_text()
MANUAL = (KERNELS / "manual_add.py").read_text()
ARGS = ("*float32", "*float32", "*float32", "int32")


def records(source: str, total: int, core: int = 0, core_num: int = 1) -> list[Record]:
    arrays = [ArraySpec("float32", total * 4)] * 3
    return list(stream(asc_ir(source, ARGS), [*arrays, total], core=core, core_num=core_num, target=TARGET))


def only(found: list[Record], kind: type[Any]) -> list[Any]:
    return [r for r in found if isinstance(r, kind)]


def test_copies_carry_argument_offset_and_bytes() -> None:
    found = only(records(QUEUE, 1030, core=1, core_num=2), Copy)
    assert [(c.pipe, c.gm.arg, c.gm.offset, c.gm.nbytes) for c in found] == [
        (Pipe.MTE2, 0, 2080, 2040),
        (Pipe.MTE2, 1, 2080, 2040),
        (Pipe.MTE3, 2, 2080, 2040),
    ]
    assert found[0].ub == UbSpan(0, 2048, "float")  # whole 32-byte blocks in UB
    assert found[0].loc.file == FILE and found[0].loc.line == line_of(QUEUE, "asc.data_copy_pad(x_ub")


def test_queue_operations_go_round_the_buffers() -> None:
    found = [(q.kind, q.buffer) for q in only(records(QUEUE, 1536), QueueOp) if q.queue == 0]
    want = [(kind, i) for i in (0, 1, 0) for kind in ("alloc", "enque", "deque", "free")]
    assert found == want


def test_instructions_and_loops_in_program_order() -> None:
    found = records(QUEUE, 1030)
    assert [(m.iteration, m.total) for m in only(found, LoopMark)] == [(0, 3), (1, 3), (2, 3)]
    adds = only(found, Compute)
    assert [(a.name, a.count) for a in adds] == [("Add", 512), ("Add", 512), ("Add", 6)]
    assert [a.dst.addr for a in adds] == [8192, 10240, 8192]
    kinds = [type(r).__name__ for r in found if not isinstance(r, ScalarWork)]
    tile = kinds[kinds.index("LoopMark") + 1 :][:16]
    assert tile[:3] == ["QueueOp", "Copy", "QueueOp"] and tile.count("Compute") == 1
    assert [i.kind for i in only(found, Init)] == ["get_block_idx"] + ["global_buffer"] * 3 + ["tpipe"] + [
        "init_buffer"
    ] * 3


def test_flags_and_barriers() -> None:
    found = records(MANUAL, 1024)
    flags = only(found, Flag)
    assert (flags[0].kind, flags[0].src, flags[0].dst, flags[0].event) == ("set", Pipe.V, Pipe.MTE2, 0)
    assert sum(f.kind == "set" for f in flags) == sum(f.kind == "wait" for f in flags)
    for name, pipe in (("ALL", None), ("V", Pipe.V)):
        source = MANUAL.replace("    for tile", f"    asc.pipe_barrier(asc.PipeID.PIPE_{name})\n    for tile")
        assert [b.pipe for b in only(records(source, 1024), Barrier)] == [pipe]


def test_l2_hint_by_its_effect_in_the_emitted_cpp() -> None:
    # pyasc emits CACHE_MODE_NORMAL for CACHE_MODE_DISABLE and the other way round
    def bypass(mode: str, rw: str = "RW") -> list[bool]:
        line = f"    x_gm.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_{mode}, asc.CacheRwMode.{rw})\n    pipe ="
        return [c.gm.bypass for c in only(records(QUEUE.replace("    pipe =", line), 512), Copy)]

    assert bypass("DISABLE") == [False, False, False]
    assert bypass("NORMAL") == [True, False, False]
    assert bypass("NORMAL", "WRITE") == [False, False, False]


def test_details_that_costs_depend_on() -> None:
    body = (
        "a = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 256)\n"
        "h = asc.LocalTensor(asc.float16, asc.TPosition.VECIN, 1024, 256)\n"
        "m = asc.LocalTensor(asc.uint8, asc.TPosition.VECIN, 2048, 256)\n"
        "asc.cast(h, a, asc.RoundMode.CAST_RINT, 100)\n"
        "asc.compare(m, a, a, asc.CMPMODE.GE, 128)\n"
        "asc.select(a, m, a, 1.0, asc.SelMode.VSEL_TENSOR_SCALAR_MODE, 100)\n"
        "asc.adds(a, a, 1.0, 64, 3, asc.UnaryRepeatParams(1, 1, 8, 8))\n"
        "asc.axpy(a, a[128:], 2.0, 100)\n"
        "asc.adv.tanh(a, a[128:], 100, m)\n"
    )
    source = "import asc\n@asc.jit\ndef k(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, n: int):\n"
    source += "".join(f"    {line}\n" for line in body.splitlines())
    found = {(c.name, c.detail): c for c in only(records(source, 256), Compute)}
    assert set(found) == {
        ("Cast", "CAST_RINT"),
        ("Compare", "GE"),
        ("Select", "VSEL_TENSOR_SCALAR_MODE"),
        ("Adds", ""),
        ("Axpy", ""),
        ("Tanh", "adv"),
    }
    cast = found["Cast", "CAST_RINT"]
    assert (cast.dst.nbytes, cast.srcs[0].nbytes, cast.dst.dtype, cast.srcs[0].dtype) == (200, 400, "half", "float")
    assert found["Compare", "GE"].dst.nbytes == 16
    assert [s.nbytes for s in found["Select", "VSEL_TENSOR_SCALAR_MODE"].srcs] == [13, 400]
    adds = found["Adds", ""]
    assert (adds.repeats, adds.count, adds.dst.nbytes) == (3, 192, 768)
    assert len(found["Axpy", ""].srcs) == 1


def test_it_needs_no_tensors_and_is_lazy() -> None:
    total = 2**31 - 8  # 8 GiB an array, of which nothing exists
    arrays = [ArraySpec("float32", total * 4)] * 3
    found = stream(asc_ir(QUEUE, ARGS), [*arrays, total], core=0, core_num=1, target=TARGET)
    for _, record in zip(range(200), found, strict=False):
        assert record is not None


def test_arrays_are_not_touched() -> None:
    x = np.ones(512, np.float32)
    list(stream(asc_ir(QUEUE, ARGS), [x, x, x, 512], core=0, core_num=1, target=TARGET))
    assert (x == 1).all()


GM_VALUE = QUEUE.replace("asc.add(z_ub, x_in, y_in, count)", "{}")


def test_a_scalar_from_gm_may_be_computed_with_but_decides_nothing() -> None:
    for scalar in ("y_gm.get_value(0)", "y_gm.get_value(0) * 2.0 + 1.0"):
        operand = GM_VALUE.replace("{}", f"asc.adds(z_ub, x_in, {scalar}, count)")
        assert [c.name for c in only(records(operand, 512), Compute)] == ["Adds"]
    for use in (
        "if y_gm.get_value(0) > 0.0:\n            asc.adds(z_ub, x_in, 1.0, count)",
        "asc.adds(z_ub, x_in, 1.0, y_gm.get_value(0).cast(asc.int32))",
    ):
        with pytest.raises(
            errors.StreamDataError, match=rf"^{FILE}:\d+: get_value reads GM \(y\) and what the kernel does depends on"
        ):
            records(GM_VALUE.replace("{}", use), 512)


def test_core_differs_only_in_offsets() -> None:
    a, b = records(QUEUE, 4096, 0, 4), records(QUEUE, 4096, 3, 4)
    strip = [type(r).__name__ for r in a], [type(r).__name__ for r in b]
    assert strip[0] == strip[1]
    assert only(b, Copy)[0].gm.offset == 3 * 4096


def test_arguments_that_do_not_fit_are_refused() -> None:
    text = asc_ir(QUEUE, ARGS)
    with pytest.raises(ArgumentError, match=r"kernel k takes 4 arguments \(x, y, z, total_length\), got 1"):
        next(stream(text, [3], core=0, core_num=1, target=TARGET))
    with pytest.raises(ArgumentError, match="argument total_length of kernel k is a int32_t, got the float"):
        next(stream(text, [ArraySpec("float32", 4)] * 3 + [2.5], core=0, core_num=1, target=TARGET))
