"""Interprets a kernel once for all cores and iterations that do the same, instead of once for each.

The core number and the loop counters are `Affine` variables. Where the kernel's scalar code asks something that has
no single answer over a variable's range, the range is cut there and the kernel interpreted again with what was
learned (`_Plan`). So a kernel of 48 cores and thousands of tiles takes a few passes over its loop body, and what
comes out is exactly what interpreting every iteration would give.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from asc_sched.errors import SimulationError
from asc_sched.sim import errors
from asc_sched.sim.affine import MAX_MODULUS, Affine, Undecided, Var, make
from asc_sched.sim.core import Findings
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.ir import Func
from asc_sched.sim.machine import LOOP_OPS, Env, Loop, Program, compile_kernel
from asc_sched.sim.outline import CoreGroup, Node, Repeat, moved
from asc_sched.sim.patterns import CopyPlan, Masked
from asc_sched.sim.record import RecordingCore
from asc_sched.sim.stream import Loc, Pipe, ScalarWork
from asc_sched.sim.values import GlobalTensor, LocalTensor, Unknown
from asc_sched.target import Target

#: A loop whose queues, flags and carried values don't repeat after so many iterations is taken one by one.
_MAX_PERIOD = 32
#: Passes over one group of cores before giving up: far more than any kernel with finitely many cases needs.
_MAX_PASSES = 4096

LoopKey = tuple[Any, ...]


class _Plan:
    """How loops are cut: iterations at which something changes, residues to tell apart, loops to take one by one."""

    def __init__(self) -> None:
        self.cuts: dict[LoopKey, set[int]] = defaultdict(set)
        self.modulus: dict[LoopKey, int] = {}
        self.single: set[LoopKey] = set()

    def learn(self, question: Undecided) -> None:
        """Takes in where a loop's range has to be cut."""
        key, start, step = question.var.key
        if question.cut is not None and question.var.lo < question.cut <= question.var.hi:
            self.cuts[key].add(start + step * question.cut)
            return
        modulus = question.modulus and math.lcm(self.modulus.get(key, 1), question.modulus)
        if modulus and modulus <= MAX_MODULUS and modulus != self.modulus.get(key, 1):
            self.modulus[key] = modulus
        elif key not in self.single:
            self.single.add(key)
        else:
            raise SimulationError(f"the time model can't follow this kernel's scalar code: {question}")


class OutlineCore(RecordingCore):
    """Records like `RecordingCore`, and hands loops to an `_Interpreter`."""

    records: list[Any]

    def loop_mark(self, loop: int, iteration: int, total: int) -> None:
        """Nothing: loops become `Repeat` nodes."""

    def flush(self) -> None:
        """Writes down scalar work that hasn't been recorded yet."""
        if self._ops and self._ops_loc is not None:
            self.records.append(ScalarWork(self._ops, self._ops_loc))
            self._ops = 0

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
        count = _plain(count)
        for tensor in (dst, *srcs):
            _plain(tensor.addr)
        super().vector(instruction, dst, srcs, count, loc, scalar, mode, tmp)

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
        _plain(masked.repeats)
        for tensor in (dst, *srcs):
            _plain(tensor.addr)
        super().vector_repeat(instruction, dst, srcs, masked, loc, scalar, mode)

    def _copy(
        self, pipe: Pipe, ub: LocalTensor, gm: GlobalTensor, bypass: bool, name: str, plan: CopyPlan, loc: Loc
    ) -> None:
        plan = plan._replace(
            block_count=_plain(plan.block_count), block_bytes=_plain(plan.block_bytes), gm_gap=_plain(plan.gm_gap)
        )
        _plain(ub.addr)
        super()._copy(pipe, ub, gm, bypass, name, plan, loc)

    def set_flag(self, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        super().set_flag(src, dst, _plain(event), loc)

    def wait_flag(self, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        super().wait_flag(src, dst, _plain(event), loc)

    def fingerprint(self) -> tuple[Any, ...]:
        """Everything that decides which records an iteration writes, besides scalar values."""
        queues = tuple(
            (q.cursor, tuple(b.state for b in q.buffers), tuple(b.index for b in q.fifo)) for q in self.pipe.queues
        )
        return queues, frozenset(self.flags), self.mask, self.deq_scale


def _plain(value: int | Affine) -> int:
    """`value` where it is the same for the whole range; raises `Undecided` otherwise."""
    if isinstance(value, Affine):
        value.require_plain()
    return value  # type: ignore[return-value]


class _Interpreter:
    """One pass over the kernel for a group of cores, with loops cut as the plan says."""

    def __init__(self, program: Program, values: Sequence[Any], core: OutlineCore, plan: _Plan) -> None:
        self._program = program
        self._values = values
        self._core = core
        self._plan = plan
        self._path: list[Any] = []
        core.loop_driver = self._loop

    def nodes(self) -> tuple[Node, ...]:
        self._program.run(self._core, self._values)
        self._core.flush()
        return tuple(self._core.records)

    # -- loops -------------------------------------------------------------------------------------------------
    def _loop(self, loop: Loop, env: Env) -> None:
        core = self._core
        lower, upper, stride = env[loop.lower], env[loop.upper], _plain(env[loop.stride])
        if stride <= 0 and lower < upper:
            core.fail(errors.ScalarError, loop.loc, f"endless loop: {lower} < {upper} with a step of {stride}")
        total = max(0, _plain(-((lower - upper) // stride))) if stride > 0 else 0
        for arg, init in zip(loop.carried, loop.inits, strict=True):
            env[arg] = env[init]
        key = (loop.number, *self._path)
        core.tile.append(0)
        for start, end in self._segments(key, total):
            self._segment(loop, env, key, start, end)
        core.tile.pop()
        for result, arg in zip(loop.results, loop.carried, strict=True):
            env[result] = env[arg]

    def _segments(self, key: LoopKey, total: int) -> list[tuple[int, int]]:
        if key in self._plan.single:
            return [(i, i + 1) for i in range(total)]
        bounds = [0, *sorted(c for c in self._plan.cuts.get(key, ()) if 0 < c < total), total]
        return [(a, b) for a, b in itertools.pairwise(bounds) if a < b]

    def _segment(self, loop: Loop, env: Env, key: LoopKey, start: int, end: int) -> None:
        """Iterations `start` to `end` - 1, which all decide alike (up to the residue of their number)."""
        step = self._plan.modulus.get(key, 1)
        rounds = (end - start) // step
        if rounds > 1:
            self._rounds(loop, env, key, start, step, rounds)
            start += rounds * step
        for iteration in range(start, end):
            self._iteration(loop, env, (iteration,), iteration)

    def _rounds(self, loop: Loop, env: Env, key: LoopKey, start: int, step: int, rounds: int) -> None:
        """`rounds` times `step` iterations: interpreted until the core's state recurs, then repeated."""
        core = self._core
        var = Var("loop", (key, start, step), 0, rounds - 1)
        outer = core.records
        core.flush()
        bodies: list[list[Node]] = []
        state = self._state(loop, env)
        while True:
            core.records = []
            self._round(loop, env, start, step, var)
            core.flush()
            bodies.append(core.records)
            if self._state(loop, env) == state or len(bodies) == rounds:
                break
            if len(bodies) >= _MAX_PERIOD:
                raise Undecided(var)
        period = len(bodies)
        count, rest = divmod(rounds, period)
        core.records = outer
        if count > 1:
            body = tuple(n for r, one in enumerate(bodies) for n in moved(one, var, r, keep=True))
            outer.append(Repeat(var, count, body, start == 0, period))
        else:
            outer.extend(n for r, one in enumerate(bodies) for n in moved(one, var, r, keep=False))
        for r in range(rest):
            core.records = []
            self._round(loop, env, start, step, var)
            core.flush()
            outer.extend(moved(core.records, var, count * period + r, keep=False))
        core.records = outer

    def _round(self, loop: Loop, env: Env, start: int, step: int, var: Var) -> None:
        for residue in range(step):
            iteration = make(start + residue, ((var, step),))
            self._iteration(loop, env, (start, residue), iteration)

    def _iteration(self, loop: Loop, env: Env, place: tuple[Any, ...], iteration: int | Affine) -> None:
        core = self._core
        env[loop.induction] = env[loop.lower] + iteration * env[loop.stride]
        core.tile[-1] = place[0]
        core.scalar(LOOP_OPS, loop.loc)
        self._path.append((loop.number, *place))
        for inner in loop.body:
            inner(env, core)
        self._path.pop()
        for arg, value in zip(loop.carried, loop.yields, strict=True):
            env[arg] = env[value]

    def _state(self, loop: Loop, env: Env) -> tuple[Any, ...]:
        carried = (env[arg] for arg in loop.carried)
        return self._core.fingerprint(), tuple(None if isinstance(value, Unknown) else value for value in carried)


def outlines(
    func: Func, values: Sequence[Any], arg_names: Sequence[str], core_num: int, target: Target
) -> tuple[CoreGroup, ...]:
    """The groups of cores that do the same, with what they do. `values` as `Program.run` takes them.

    Raises what the kernel's interpretation raises (`sim.errors`).
    """
    program = compile_kernel(func, True)
    groups: list[CoreGroup] = []
    todo = [(0, core_num - 1)] if core_num > 0 else []
    while todo:
        lo, hi = todo.pop(0)
        try:
            groups.append(_group(program, values, arg_names, lo, hi, core_num, target))
        except Undecided as question:
            cut = question.cut
            if cut is None or not lo < cut <= hi:
                cut = (lo + hi + 1) // 2
            todo[:0] = [(lo, cut - 1), (cut, hi)]
    return tuple(groups)


def _group(
    program: Program, values: Sequence[Any], names: Sequence[str], lo: int, hi: int, core_num: int, target: Target
) -> CoreGroup:
    """One group; raises `Undecided` about the core variable when the cores from `lo` to `hi` differ."""
    plan = _Plan()
    var = Var("core", (), lo, hi)
    for _ in range(_MAX_PASSES):
        core = OutlineCore(lo, core_num, target, Findings((), quiet=True), names)
        if lo < hi:
            core.number = make(0, ((var, 1),))  # type: ignore[assignment]
        try:
            nodes = _Interpreter(program, values, core, plan).nodes()
            return CoreGroup(lo, hi - lo + 1, nodes, var if lo < hi else None)
        except Undecided as question:
            if question.var.kind == "core":
                raise
            plan.learn(question)
    raise SimulationError("the time model can't follow this kernel's loops")
