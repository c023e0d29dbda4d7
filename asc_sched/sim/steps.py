"""Turns a core group's records into the clock's steps: costs looked up once, however often a step is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asc_sched.sim.bursts import Part, burst
from asc_sched.sim.compiled import Load, Loop, Op, Rates, Step, Store
from asc_sched.sim.engine import Clock
from asc_sched.sim.outline import Node, Repeat
from asc_sched.sim.queues import FILL_DRAIN
from asc_sched.sim.stream import (
    Barrier,
    Compute,
    Copy,
    Flag,
    Init,
    Pipe,
    QueueOp,
    Record,
    ScalarWork,
)
from asc_sched.sim.traffic import Lines, Traffic, iteration_bytes, lines_of, reuse_levels
from asc_sched.target import Target
from asc_sched.target.costs import vector_cycles
from asc_sched.target.timing import TimingConstants

#: Bits 16 and 17 of a UB address number the bank within a bank group (asc-devkit's bank_conflict_ub README).
UB_BANK_BITS = 16


def rates_of(target: Target, constants: TimingConstants) -> Rates:
    """The constants in cycles of the target's clock."""
    per_ns = target.clock_mhz / 1000
    return Rates(
        load_hit=constants.load_hit_ns * per_ns,
        load_queued=constants.load_queued_ns * per_ns,
        load_port=constants.load_bytes_per_cycle,
        load_miss=constants.load_miss_ns * per_ns,
        load_miss_burst=constants.load_miss_burst_gbps / per_ns,
        load_miss_rate=constants.load_miss_gbps / per_ns,
        store=constants.store_ns * per_ns,
        store_burst=constants.store_burst_bytes_per_cycle,
        store_port=constants.store_bytes_per_cycle,
        copy_gap=constants.copy_gap_cycles,
        sync=constants.copy_sync_cycles,
        turnaround=constants.hbm_turnaround_bytes,
        bank_stall=constants.bank_stall_cycles / target.block_bytes,
    )


def _together(parts: Sequence[Part]) -> list[Step]:
    """Steps of V and S in a row, as one where that saves something."""
    if sum(p.vector is not None for p in parts) > 1:
        return [burst(tuple(parts))]
    return [p.op for p in parts]


class Compiler:
    """Compiles the nodes of core groups for one launch."""

    def __init__(self, target: Target, constants: TimingConstants, traffic: Traffic, cores: int) -> None:
        self._target = target
        self._constants = constants
        self._traffic = traffic
        self._cores = cores
        self._loops: list[Repeat] = []
        self._loop_bytes: list[int] = []

    def steps(self, nodes: Sequence[Node]) -> tuple[Step, ...]:
        """The steps of a tree's nodes, in order."""
        out: list[Step] = []
        parts: list[Part] = []
        for node in (*nodes, None):
            if isinstance(node, (Compute, ScalarWork)):
                parts.append(self._part(node))
                continue
            out += _together(parts)
            parts = []
            if isinstance(node, Repeat):
                out.append(self._loop(node))
            elif node is not None:
                step = self._record(node)
                if step is not None:
                    out.append(step)
        return tuple(out)

    def _part(self, record: Compute | ScalarWork) -> Part:
        if isinstance(record, ScalarWork):
            return Part(self._scalar(record), record.ops * self._constants.scalar_op_cycles)
        cycles = self._cycles(record)
        return Part(self._compute(record, cycles), self._constants.issue_cycles, cycles)

    def _loop(self, repeat: Repeat) -> Loop:
        self._loops.append(repeat)
        self._loop_bytes.append(iteration_bytes(repeat.body) * self._cores)
        body = self.steps(repeat.body)
        self._loops.pop()
        self._loop_bytes.pop()
        return Loop(repeat.count, body, repeat.first, repeat.stride)

    def _record(self, record: Record) -> Op | None:
        if isinstance(record, QueueOp):
            return self._queue(record)
        if isinstance(record, Flag):
            return self._flag(record)
        if isinstance(record, Copy):
            return self._copy(record)
        if isinstance(record, Init):
            return self._init(record)
        if isinstance(record, Barrier):
            return self._barrier(record)
        return None  # LoopMark

    # -- scalar unit -------------------------------------------------------------------------------------------
    def _scalar(self, record: ScalarWork) -> Op:
        cycles, loc = record.ops * self._constants.scalar_op_cycles, record.loc
        return lambda c: c.scalar(cycles, "scalar", loc)

    def _init(self, record: Init) -> Op:
        constants, loc, name = self._constants, record.loc, record.kind
        if name == "tpipe":
            cycles = constants.tpipe_cycles
        elif name == "init_buffer":
            cycles = constants.init_buffer_cycles
        else:
            cycles = constants.scalar_op_cycles
        return lambda c: c.scalar(cycles, name, loc)

    # -- instructions ------------------------------------------------------------------------------------------
    def _cycles(self, record: Compute) -> float:
        return vector_cycles(
            record.name,
            record.dst.dtype,
            tuple(s.dtype for s in record.srcs),
            record.count,
            (record.dst.addr, *(s.addr for s in record.srcs)),
            record.repeats,
            record.strides,
        )

    def _compute(self, record: Compute, cycles: float) -> Op:
        issue, name, loc = self._constants.issue_cycles, record.name, record.loc

        def op(c: Clock) -> None:
            c.scalar(issue, name, loc)
            c.vector(cycles, name, loc)

        return op

    def _copy(self, record: Copy) -> Op:
        constants, gm = self._constants, record.gm
        issue = constants.copy_issue_cycles
        lines = lines_of(record, self._loops, self._target)
        if gm.bypass:  # only L2 fetches whole lines
            lines = Lines(lines.lines - lines.extra, 0.0)
        port = gm.nbytes + lines.extra * self._target.gm_line_bytes
        wire = port + lines.lines * constants.line_overhead_bytes
        name, loc, bank = record.name, record.loc, record.ub.addr >> UB_BANK_BITS
        if record.pipe is Pipe.MTE2:
            misses = gm.bypass or not self._traffic.hits
            reuse = () if gm.bypass else reuse_levels(record, self._loops, self._loop_bytes, self._target)
            load = Load(
                nbytes=gm.nbytes,
                port=port,
                wire=wire,
                hbm=wire * (1.0 if gm.bypass else self._traffic.unique_reads[gm.arg]),
                bank=bank,
                arg=gm.arg,
                misses=misses,
                reuse=reuse,
                name=name,
                loc=loc,
            )

            def op(c: Clock) -> None:
                c.scalar(issue, name, loc)
                c.load(load)

            return op
        part = 1.0 if gm.bypass else self._traffic.write_back
        store = Store(
            nbytes=gm.nbytes, port=port, wire=wire, hbm=wire * part, hbm_part=part, bank=bank, name=name, loc=loc
        )

        def op_store(c: Clock) -> None:
            c.scalar(issue, name, loc)
            c.store(store)

        return op_store

    # -- order -------------------------------------------------------------------------------------------------
    def _queue(self, record: QueueOp) -> Op:
        fill, drain = FILL_DRAIN.get(record.position, (Pipe.V, Pipe.V))
        key, kind, loc = (record.queue, record.buffer), record.kind, record.loc
        cycles = self._constants.queue_op_cycles
        pipe = fill if kind in ("alloc", "enque") else drain
        vector = self._constants.queue_sync_vector_cycles if pipe is Pipe.V and fill is not drain else 0.0
        act: Callable[[Clock, tuple[int, int], Pipe], None] = getattr(Clock, kind)

        def op(c: Clock) -> None:
            c.scalar(cycles, kind, loc)
            if vector:
                c.synchronise(vector)
            if fill is not drain:
                act(c, key, pipe)

        return op

    def _flag(self, record: Flag) -> Op:
        src, dst, event, loc = record.src, record.dst, record.event, record.loc
        issue, name = self._constants.issue_cycles, f"{record.kind}_flag"
        if record.kind == "set":

            def set_flag(c: Clock) -> None:
                c.scalar(issue, name, loc)
                c.set_flag(src, dst, event)

            return set_flag

        def wait_flag(c: Clock) -> None:
            c.scalar(issue, name, loc)
            c.wait_flag(src, dst, event)

        return wait_flag

    def _barrier(self, record: Barrier) -> Op:
        pipe, loc, issue = record.pipe, record.loc, self._constants.issue_cycles

        def op(c: Clock) -> None:
            c.scalar(issue, "pipe_barrier", loc)
            c.barrier(pipe)

        return op
