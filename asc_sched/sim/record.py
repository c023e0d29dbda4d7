"""A core that writes its instruction stream as `stream` records instead of executing it."""

from __future__ import annotations

from typing import Any, ClassVar

from asc_sched.sim import errors, stream
from asc_sched.sim.core import Core
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.patterns import CopyPlan, Masked
from asc_sched.sim.queues import Buffer, Queue
from asc_sched.sim.stream import Loc, Pipe, Record
from asc_sched.sim.values import GlobalTensor, LocalTensor


class RecordingCore(Core):
    """Collects records in `records`; whoever iterates takes them out."""

    is_stream: ClassVar[bool] = True

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
        spans = tuple(stream.UbSpan(t.addr, count * t.dtype.size, t.dtype.c) for t in srcs)
        out = stream.UbSpan(dst.addr, count * dst.dtype.size, dst.dtype.c)
        self._emit(stream.Compute(instruction.name, out, spans, count, loc))

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

    # -- order and scalar work ---------------------------------------------------------------------------------
    def queue_op(self, kind: str, queue: Queue, buffer: Buffer, loc: Loc) -> None:
        self._emit(stream.QueueOp(kind, queue.number, queue.position, buffer.index, loc))

    def flag_op(self, kind: str, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        self._emit(stream.Flag(kind, src, dst, event, loc))

    def barrier(self, pipe: Pipe | None, loc: Loc) -> None:
        self._emit(stream.Barrier(pipe, loc))

    def init(self, kind: str, loc: Loc) -> None:
        self._emit(stream.Init(kind, loc))

    def scalar(self, ops: int, loc: Loc) -> None:
        self._ops += ops
        self._ops_loc = loc

    def loop_mark(self, loop: int, iteration: int, total: int) -> None:
        self._emit(stream.LoopMark(loop, iteration, total))

    def global_get(self, tensor: GlobalTensor, index: int, loc: Loc) -> Any:
        self._need_data(loc, f"get_value reads GM ({self.arg_names[tensor.arg]})")

    def local_get(self, tensor: LocalTensor, index: int, loc: Loc) -> Any:
        self._need_data(loc, "get_value reads UB")

    def _need_data(self, loc: Loc, what: str) -> None:
        self.fail(errors.StreamDataError, loc, f"{what}: the instruction stream depends on tensor data, so it needs the tensors")

    def global_set(self, tensor: GlobalTensor, index: int, value: Any, loc: Loc) -> None:
        self.scalar(1, loc)

    def local_set(self, tensor: LocalTensor, index: int, value: Any, loc: Loc) -> None:
        self.scalar(1, loc)

    def finish(self) -> None:
        super().finish()
        if self._ops and self._ops_loc is not None:
            self.records.append(stream.ScalarWork(self._ops, self._ops_loc))
            self._ops = 0
