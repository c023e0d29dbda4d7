"""What a schedule's kernel will execute, told without writing or compiling it.

The time model takes core groups: trees of instruction records. For a kernel that isn't compiled they are built here
from the machine program, the UB layout and the tiling. Everything is exact but the scalar operations between the
instructions, which only the compiler knows (some tenths of a percent of a kernel's time). A search ranks by sketches
and compiles its finalists, whose times are then of the real thing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs

from asc_sched.lower.allocate import Kind, done_with
from asc_sched.lower.layout import Layout, check_ub, layout_for
from asc_sched.lower.program import Step
from asc_sched.lower.rule import Lowered
from asc_sched.lower.spaces import AnyStep
from asc_sched.lower.work import addresses, form_of, queue_count, view_ops
from asc_sched.schedule import Schedule
from asc_sched.sim.affine import Var, make
from asc_sched.sim.outline import CoreGroup, Node, Repeat
from asc_sched.sim.stream import Compute, Copy, GmSpan, Init, Loc, Pipe, QueueOp, Record, ScalarWork, UbSpan
from asc_sched.target import Target
from asc_sched.target.instructions import CARRIER_BITS
from asc_sched.tiling import Tiling
from asc_sched.tiling.estimate import COPY_OPS, PACKED_OPS, scalar_ops

_LOC = Loc("", 0)


@attrs.frozen
class Sketch:
    """An op on given dtypes for a target; `groups` gives any schedule's core groups."""

    lowered: Lowered
    target: Target

    def layout(self, variant: Schedule) -> Layout:
        """The UB layout under a schedule's memory knobs. Raises `QueueLimitError`."""
        return layout_for(self.lowered.program, self.lowered.allocation, variant, self.target, "kernel")

    def groups(self, tiling: Tiling) -> tuple[CoreGroup, ...]:
        """What the cores of a tiling's kernel execute. Raises `UbOverflowError` where its tiles don't fit."""
        writer = self._writer(tiling)
        return tuple(writer.group(first, count) for first, count in _runs(tiling))

    def longest(self, tiling: Tiling) -> CoreGroup:
        """All cores, as if their blocks were as long as the longest one: the launch takes as long, near enough."""
        return attrs.evolve(self._writer(tiling).group(0, 1), cores=tiling.core_num)

    def _writer(self, tiling: Tiling) -> _Writer:
        layout = self.layout(tiling.schedule)
        check_ub(layout, tiling.tile_length, tiling.block_length, self.target, tiling.datablock_length, "kernel")
        return _Writer(self.lowered, layout, tiling, tiling.schedule.l2_cache == "bypass")


def _runs(tiling: Tiling) -> Iterator[tuple[int, int]]:
    """Runs of cores with equal blocks: those with one unit more, the others, the last one if it is shorter."""
    cuts = sorted({0, min(tiling.extra_units, tiling.core_num), tiling.core_num - 1, tiling.core_num})
    runs = [(a, b - a) for a, b in itertools.pairwise(cuts)]
    if len(runs) > 1 and tiling.block(runs[-1][0])[1] == tiling.block(runs[-2][0])[1]:
        runs[-2:] = [(runs[-2][0], runs[-2][1] + 1)]
    yield from runs


class _Writer:
    def __init__(self, lowered: Lowered, layout: Layout, tiling: Tiling, bypass: bool) -> None:
        self.lowered = lowered
        self.layout = layout
        self.tiling = tiling
        self.bypass = bypass
        self.ins = layout.allocation.of_kind(Kind.IN)
        self.outs = layout.allocation.of_kind(Kind.OUT)
        names = list(lowered.typed.input_dtypes)
        self.args = [*(names.index(n) for n, _ in lowered.program.loads), *range(len(names), len(lowered.itemsizes))]
        self.in_queues, self.out_queues = (queue_count(layout, kind) for kind in (Kind.IN, Kind.OUT))
        lengths = {tiling.block(c)[1] for c in (0, tiling.core_num - 1)}
        self.setup_ops, self.tile_ops = scalar_ops(len(lengths) == 1, tiling.max_tile_count == 1)
        self.where = addresses(layout, tiling.tile_length)

    # -- a core ---------------------------------------------------------------------------------------------------
    def group(self, first: int, count: int) -> CoreGroup:
        """The cores from `first` on, which have equal blocks."""
        start, length = self.tiling.block(first)
        var = Var("core", (), 0, count - 1)
        pitch = self.tiling.block(first + 1)[0] - start if count > 1 else 0
        nodes = [*self._setup(), *self._tiles(start, length, var, pitch)]
        return CoreGroup(first, count, tuple(nodes), var if count > 1 else None)

    def _setup(self) -> Iterator[Record]:
        tensors = len(self.lowered.itemsizes)
        hints = len(self.ins) if self.bypass else 0
        buffers = self.in_queues + self.out_queues + len(self.layout.allocation.of_kind(Kind.TEMP))
        kinds = ["global_buffer"] * tensors + ["hint"] * hints + ["tpipe"]
        yield from (Init(kind, _LOC) for kind in [*kinds, "get_block_idx"])
        nbytes = self.layout.single_bytes(self.tiling.tile_length) // buffers  # only their sum matters
        yield from (Init("init_buffer", _LOC, nbytes) for _ in range(buffers))
        yield ScalarWork(self.setup_ops, _LOC)
        program = self.lowered.program
        yield from (self._instruction(s, self.tiling.tile_length, 0) for s in (*program.setup, *program.prologue))

    def _tiles(self, start: int, length: int, var: Var, pitch: int) -> Iterator[Node]:
        tile, turns = self.tiling.tile_length, self.layout.buffer_num
        full, tail = divmod(length, tile)
        rounds, done = full // turns, 0
        if rounds > 1:
            loop = Var("loop", (), 0, rounds - 1)
            body = [r for t in range(turns) for r in self._tile(start + t * tile, tile, t, (var, pitch), (loop, turns))]
            yield Repeat(loop, rounds, tuple(body), True, turns)
            done = rounds * turns
        for turn in range(done, full):
            yield from self._tile(start + turn * tile, tile, turn % turns, (var, pitch))
        if tail:
            yield from self._tile(start + full * tile, tail, full % turns, (var, pitch))

    # -- a tile ---------------------------------------------------------------------------------------------------
    def _tile(
        self, start: int, length: int, turn: int, core: tuple[Var, int], loop: tuple[Var, int] | None = None
    ) -> Iterator[Record]:
        yield ScalarWork(self.tile_ops, _LOC)
        yield from self._copy_in(start, length, turn, core, loop)
        yield from self._compute(length, turn)
        yield from self._copy_out(start, length, turn, core, loop)

    def _copy_in(
        self, start: int, length: int, turn: int, core: tuple[Var, int], loop: tuple[Var, int] | None
    ) -> Iterator[Record]:
        for queue, members in self._grouped(self.ins, self.in_queues, 0):
            yield QueueOp("alloc", queue, "VECIN", turn, _LOC)
            for number, slot in members:
                yield ScalarWork(PACKED_OPS if len(members) > 1 else COPY_OPS, _LOC)
                yield self._copy(Pipe.MTE2, slot, number, start, length, turn, core, loop)
            yield QueueOp("enque", queue, "VECIN", turn, _LOC)

    def _copy_out(
        self, start: int, length: int, turn: int, core: tuple[Var, int], loop: tuple[Var, int] | None
    ) -> Iterator[Record]:
        for queue, members in self._grouped(self.outs, self.out_queues, self.in_queues):
            yield QueueOp("deque", queue, "VECOUT", turn, _LOC)
            for number, slot in members:
                yield ScalarWork(COPY_OPS, _LOC)
                yield self._copy(Pipe.MTE3, slot, len(self.ins) + number, start, length, turn, core, loop)
            yield QueueOp("free", queue, "VECOUT", turn, _LOC)

    @staticmethod
    def _grouped(slots: tuple[int, ...], queues: int, first: int) -> list[tuple[int, list[tuple[int, int]]]]:
        """Each queue's number with its members (number among the slots, slot)."""
        numbered = list(enumerate(slots))
        return [(first, numbered)] if queues == 1 else [(first + i, [pair]) for i, pair in enumerate(numbered)]

    def _compute(self, length: int, turn: int) -> Iterator[Record]:
        outs = range(self.in_queues, self.in_queues + self.out_queues)
        yield from (QueueOp("deque", q, "VECIN", turn, _LOC) for q in range(self.in_queues))
        yield from (QueueOp("alloc", q, "VECOUT", turn, _LOC) for q in outs)
        program, allocation = self.lowered.program, self.lowered.allocation
        views = view_ops(program, allocation) + (PACKED_OPS if self.in_queues < len(self.ins) else 0)
        if views:
            yield ScalarWork(views, _LOC)
        done = done_with(program, allocation)
        ends = [(max(done[s] for _, s in members), q) for q, members in self._grouped(self.ins, self.in_queues, 0)]
        last = len(program.steps) - 1
        for i, step in enumerate(program.steps):
            yield self._instruction(step, length, turn)
            yield from (QueueOp("free", q, "VECIN", turn, _LOC) for end, q in ends if end == i < last)
        yield from (QueueOp("enque", q, "VECOUT", turn, _LOC) for q in outs)
        yield from (QueueOp("free", q, "VECIN", turn, _LOC) for end, q in ends if end == last)

    def _copy(
        self, pipe: Pipe, slot: int, number: int, start: int, length: int, turn: int, core: tuple[Var, int],
        loop: tuple[Var, int] | None,
    ) -> Copy:  # fmt: skip
        arg = self.args[number]
        size = self.lowered.itemsizes[arg]
        terms = [(core[0], core[1] * size)] if core[1] else []
        if loop is not None:
            terms.append((loop[0], self.tiling.tile_length * loop[1] * size))
        offset = make(start * size, tuple(terms))
        nbytes = length * size
        ub = UbSpan(self.where.of(slot, turn), nbytes, "half")
        gm = GmSpan(arg, offset, nbytes, self.bypass and pipe is Pipe.MTE2)  # type: ignore[arg-type]
        return Copy(pipe, "DataCopyPad", ub, gm, 1, nbytes, 0, _LOC)

    def _instruction(self, step: AnyStep, length: int, turn: int) -> Compute:
        assert isinstance(step, Step), "flat programs spread nothing"
        form = form_of(step.instruction)
        count = form.count(self.lowered.program.extents[step.dst].length(length))
        operands = zip((step.dst, *step.srcs), form.types, strict=True)
        spans = [self._span(register, dtype, length, turn) for register, dtype in operands]
        return Compute(step.instruction.ascendc, spans[0], tuple(spans[1:]), count, _LOC)

    def _span(self, register: int, dtype: str, length: int, turn: int) -> UbSpan:
        slot = self.layout.allocation.home[register]
        assert slot is not None
        nbytes = -(-length * CARRIER_BITS[self.lowered.program.registers[register]] // 8)
        return UbSpan(self.where.of(slot, turn), nbytes, dtype)
