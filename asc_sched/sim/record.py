"""A core that writes its instruction stream as `stream` records instead of executing it."""

from __future__ import annotations

from typing import Any

import attrs

from asc_sched.sim import errors, stream
from asc_sched.sim.core import Core
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.patterns import BLOCK_BYTES, FULL_MASK, REPEAT_BYTES, CopyPlan, Masked, Stride
from asc_sched.sim.queues import Buffer, Queue
from asc_sched.sim.stream import Loc, Pipe, Record
from asc_sched.sim.values import GlobalTensor, LocalTensor, Unknown

#: What reading or writing one element by scalar code takes, in scalar operations: asc-devkit's add_high_performance
#: README, case 0, takes 34 cycles per element for two reads, one write and about seven other operations.
ACCESS_OPS = 9


class RecordingCore(Core):
    """Collects records in `records`; whoever iterates takes them out."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.records: list[Record] = []
        self._ops = 0
        self._ops_loc: Loc | None = None

    def _emit(self, record: Record) -> None:
        if self._ops and self._ops_loc is not None:
            self.records.append(stream.ScalarWork(self._ops, self._ops_loc))
            self._ops = 0
        self.records.append(record)

    # -- instructions ------------------------------------------------------------------------------------------
    def vector(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        srcs: tuple[LocalTensor, ...],
        count: int,
        loc: Loc,
        scalar: Any = None,
        mode: int = 0,
        tmp: LocalTensor | None = None,
    ) -> None:
        if count <= 0:
            return
        srcs = srcs[:-1] if instruction.reads_dst else srcs
        spans = [stream.UbSpan(t.addr, count * t.dtype.size, t.dtype.c) for t in srcs]
        out = stream.UbSpan(dst.addr, count * dst.dtype.size, dst.dtype.c)
        if instruction.kind == "compare":
            out = stream.UbSpan(dst.addr, -(-count // 8), dst.dtype.c)
        elif instruction.kind == "select":
            spans[0] = stream.UbSpan(srcs[0].addr, -(-count // 8), srcs[0].dtype.c)
        self._emit(stream.Compute(instruction.name, out, tuple(spans), count, loc, None, _detail(instruction, mode)))
        self.mask = FULL_MASK

    def vector_repeat(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        srcs: tuple[LocalTensor, ...],
        masked: Masked,
        loc: Loc,
        scalar: Any = None,
        mode: int = 0,
    ) -> None:
        srcs = srcs[:-1] if instruction.reads_dst else srcs
        values = srcs[1:] if instruction.kind == "select" else srcs
        wide = max(t.dtype.size for t in ((dst, *values) if instruction.kind != "compare" else values))
        lanes = masked.lanes(wide)
        repeats = masked.repeats if masked.total is None else -(-masked.total // lanes)
        count = repeats * masked.bits.bit_count() if masked.total is None else masked.total
        if repeats <= 0 or count <= 0:
            return
        spans = []
        for tensor, stride in zip((dst, *srcs), masked.strides, strict=False):
            last = (repeats - 1) * stride.repeat * BLOCK_BYTES + 7 * stride.block * BLOCK_BYTES + BLOCK_BYTES
            spans.append(stream.UbSpan(tensor.addr, min(last, tensor.nbytes), tensor.dtype.c))
        bits = {"compare": 0, "select": 1}.get(instruction.kind)
        if bits is not None:
            spans[bits] = attrs.evolve(spans[bits], nbytes=-(-repeats * lanes // 8))
        detail = _detail(instruction, mode)
        strides = tuple((s.block, s.repeat) for s in masked.strides)
        self._emit(stream.Compute(instruction.name, spans[0], tuple(spans[1:]), count, loc, repeats, detail, strides))

    def gather(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        src: LocalTensor,
        offset: LocalTensor,
        base: int,
        masked: Masked,
        loc: Loc,
    ) -> None:
        lanes = masked.lanes(dst.dtype.size)
        count = masked.total if masked.total is not None else masked.repeats * masked.bits.bit_count()
        if count <= 0:
            return
        out = stream.UbSpan(dst.addr, count * dst.dtype.size, dst.dtype.c)
        table = stream.UbSpan(src.addr, src.nbytes, src.dtype.c)
        offsets = stream.UbSpan(offset.addr, count * offset.dtype.size, offset.dtype.c)
        repeats = None if masked.total is not None else max(1, -(-count // lanes))
        self._emit(stream.Compute(instruction.name, out, (table, offsets), count, loc, repeats))

    def gather_blocks(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        src: LocalTensor,
        offset: LocalTensor,
        repeats: int,
        stride: Stride,
        loc: Loc,
    ) -> None:
        if repeats > 0:
            out = stream.UbSpan(dst.addr, repeats * REPEAT_BYTES, dst.dtype.c)
            table = stream.UbSpan(src.addr, src.nbytes, src.dtype.c)
            offsets = stream.UbSpan(offset.addr, repeats * BLOCK_BYTES, offset.dtype.c)
            count = repeats * REPEAT_BYTES // dst.dtype.size
            self._emit(stream.Compute(instruction.name, out, (table, offsets), count, loc, repeats))

    def broadcast_blocks(
        self, instruction: Instruction, dst: LocalTensor, src: LocalTensor, repeats: int, stride: Stride, loc: Loc
    ) -> None:
        if repeats > 0:
            out = stream.UbSpan(dst.addr, repeats * REPEAT_BYTES, dst.dtype.c)
            span = stream.UbSpan(src.addr, repeats * 8 * src.dtype.size, src.dtype.c)
            count = repeats * REPEAT_BYTES // dst.dtype.size
            self._emit(stream.Compute(instruction.name, out, (span,), count, loc, repeats))

    def copy_in(self, ub: LocalTensor, gm: GlobalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        self._copy(Pipe.MTE2, ub, gm, gm.bypass_read, name, plan, loc)

    def copy_out(self, gm: GlobalTensor, ub: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        self._copy(Pipe.MTE3, ub, gm, gm.bypass_write, name, plan, loc)

    def _copy(
        self, pipe: Pipe, ub: LocalTensor, gm: GlobalTensor, bypass: bool, name: str, plan: CopyPlan, loc: Loc
    ) -> None:
        if plan.block_count <= 0 or plan.block_bytes <= 0:
            return
        self._emit(
            stream.Copy(
                pipe,
                name,
                stream.UbSpan(ub.addr, plan.ub_bytes, ub.dtype.c),
                stream.GmSpan(gm.arg, gm.offset, plan.block_count * plan.block_bytes, bypass),
                plan.block_count,
                plan.block_bytes,
                plan.gm_gap,
                loc,
            )
        )

    def copy_local(self, dst: LocalTensor, src: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        if plan.block_count <= 0 or plan.block_bytes <= 0:
            return
        out = stream.UbSpan(dst.addr, plan.gm_bytes, dst.dtype.c)
        span = stream.UbSpan(src.addr, plan.ub_bytes, src.dtype.c)
        count = plan.block_count * plan.block_bytes // dst.dtype.size
        self._emit(stream.Compute(name, out, (span,), count, loc))

    # -- order and scalar work ---------------------------------------------------------------------------------
    def queue_op(self, kind: str, queue: Queue, buffer: Buffer, loc: Loc) -> None:
        self._emit(stream.QueueOp(kind, queue.number, queue.position, buffer.index, loc))

    def flag_op(self, kind: str, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        self._emit(stream.Flag(kind, src, dst, event, loc))

    def barrier(self, pipe: Pipe | None, loc: Loc) -> None:
        self._emit(stream.Barrier(pipe, loc))

    def init(self, kind: str, loc: Loc, nbytes: int = 0) -> None:
        self._emit(stream.Init(kind, loc, nbytes))

    def scalar(self, ops: int, loc: Loc) -> None:
        self._ops += ops
        self._ops_loc = loc

    def loop_mark(self, loop: int, iteration: int, total: int) -> None:
        self._emit(stream.LoopMark(loop, iteration, total))

    def global_get(self, tensor: GlobalTensor, index: int, loc: Loc) -> Any:
        self.scalar(ACCESS_OPS, loc)
        return self._unknown(loc, f"get_value reads GM ({self.arg_names[tensor.arg]})")

    def local_get(self, tensor: LocalTensor, index: int, loc: Loc) -> Any:
        self.scalar(ACCESS_OPS, loc)
        return self._unknown(loc, "get_value reads UB")

    def _unknown(self, loc: Loc, what: str) -> Unknown:
        """A value that nobody has; an error as soon as what the kernel does depends on it."""
        text = f"{loc}: {what} and what the kernel does depends on it; without tensors its value isn't known"
        return Unknown(errors.StreamDataError(text, loc, self.number, tuple(self.tile)))

    def global_set(self, tensor: GlobalTensor, index: int, value: Any, loc: Loc) -> None:
        self.scalar(ACCESS_OPS, loc)

    def local_set(self, tensor: LocalTensor, index: int, value: Any, loc: Loc) -> None:
        self.scalar(ACCESS_OPS, loc)

    def finish(self) -> None:
        super().finish()
        if self._ops and self._ops_loc is not None:
            self.records.append(stream.ScalarWork(self._ops, self._ops_loc))
            self._ops = 0


def _detail(instruction: Instruction, mode: int) -> str:
    """What a record's `detail` says: the mode's name, or ``adv`` for a library function."""
    if instruction.is_adv:
        return "adv"
    return instruction.mode_names[mode] if instruction.mode_names else ""
