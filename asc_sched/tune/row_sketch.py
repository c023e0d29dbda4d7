"""The sketch of any geometry's kernel: tiles of rows, what is read once per group, values spread over tiles.

See `asc_sched.tune.sketch`, which is the same for tensors of one shape, where a row is one element. Everything here
is as the emitted kernel has it (`emit/templates/kernel.py.j2`) but the scalar operations between instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import attrs

from asc_sched.lower.allocate import Kind, done_with
from asc_sched.lower.calls import Calls, view_ops_of
from asc_sched.lower.form import Access, Form, Reach
from asc_sched.lower.spaces import AnyStep
from asc_sched.lower.tiles import Subject, Tiles
from asc_sched.lower.work import addresses, queue_count
from asc_sched.sim.affine import Var, make
from asc_sched.sim.outline import CoreGroup, Node, Repeat
from asc_sched.sim.stream import Compute, Copy, GmSpan, Init, Loc, Pipe, QueueOp, Record, ScalarWork, UbSpan
from asc_sched.target.instructions import CARRIER_BITS
from asc_sched.tiling.estimate import COPY_OPS, PACKED_OPS
from asc_sched.tiling.rows import RowTiling
from asc_sched.tune.row_blocks import Block, Blocks

_LOC = Loc("", 0)
# Scalar operations as pyasc's passes leave them: before the first tile where all blocks are alike and where they
# aren't, at the start of a group, per tile, per tile that is a core's only one, for tiles of different lengths, to read
# a number from GM.
_ALIKE_OPS, _UNLIKE_OPS, _GROUP_OPS, _TILE_OPS, _SINGLE_OPS, _LENGTH_OPS, _NUMBER_OPS = 7, 12, 20, 5, 2, 6, 9

# Loops around a record: a variable, and by how many rows it moves on with each step.
Loops = tuple[tuple[Var, int], ...]


class RowSketch:
    """The core groups of one schedule's kernel, from its tiles."""

    def __init__(self, subject: Subject, tiles: Tiles) -> None:
        assert tiles.tiling is not None
        self.form: Form = tiles.form
        self.tiles = tiles
        self.subject = subject
        self.split = tiles.tiling.rows if isinstance(tiles.tiling, RowTiling) else tiles.tiling
        self.row_count = tiles.tiling.row_count if isinstance(tiles.tiling, RowTiling) else tiles.tiling.total_length
        self.blocks = Blocks(self.form, self.split, self.row_count, tiles.tile_rows)
        self.layout = tiles.layout
        self.program = tiles.buffers.program
        self.allocation = tiles.layout.allocation
        self.ins, self.once, self.outs = (self.allocation.of_kind(k) for k in (Kind.IN, Kind.ONCE, Kind.OUT))
        self.in_queues, self.out_queues = (queue_count(self.layout, kind) for kind in (Kind.IN, Kind.OUT))
        self.once_queue = self.in_queues
        self.first_out = self.in_queues + bool(self.once)
        self.where = addresses(self.layout, tiles.tile_rows)
        self.calls = Calls(self.program, self.form, tiles.tile_rows)
        number = {name: i for i, name in enumerate(subject.tensors)}
        self.arg = {slot: number[self.allocation.slots[slot].name] for slot in (*self.ins, *self.once, *self.outs)}
        self.bypass = tiles.schedule.l2_cache == "bypass"
        self.turn = 0
        self._known: dict[tuple[int, tuple[int, int] | None, int], tuple[Record, ...]] = {}
        self.numbers = len(subject.typed.input_dtypes) - len(self.ins) - len(self.once)

    # -- cores ----------------------------------------------------------------------------------------------------
    def groups(self) -> tuple[CoreGroup, ...]:
        """All cores; those that do the same side by side are one group."""
        return tuple(self.group(first, count) for first, count in self.blocks.runs())

    def kinds(self, most: int) -> tuple[CoreGroup, ...]:
        """All cores in at most `most` groups, those of a kind as if each did what its busiest one does."""
        return tuple(self._as_one(cores) for cores in self.blocks.kinds(most))

    def _as_one(self, cores: Sequence[int]) -> CoreGroup:
        core, every = self.blocks.busiest(cores), self.blocks.every
        pitch = every[core + 1].start - every[core].start if core + 1 < len(every) else 0
        return attrs.evolve(self.group(core, 1, pitch), cores=len(cores))

    def group(self, first: int, count: int, pitch: int = 0) -> CoreGroup:
        """The cores from `first` on, which do the same; `pitch`: rows from one to the next."""
        block = self.blocks.every[first]
        if count > 1:
            pitch = self.blocks.every[first + 1].start - block.start
        var = Var("core", (), 0, max(count - 1, 1))
        core: Loops = ((var, pitch),) if pitch else ()
        self.turn = 0
        return CoreGroup(first, count, (*self._setup(), *self._rows(block, core)), var if pitch else None)

    def _setup(self) -> Iterator[Node]:
        tensors = len(self.subject.tensors)
        hints = tensors - len(self.outs) if self.bypass else 0
        buffers = self.first_out + self.out_queues + len(self.allocation.of_kind(Kind.TEMP))
        kinds = ["global_buffer"] * tensors + ["hint"] * hints + ["tpipe"]
        yield from (Init(kind, _LOC) for kind in [*kinds, "get_block_idx"])
        nbytes = self.layout.single_bytes(self.tiles.tile_rows) // buffers  # only their sum matters
        yield from (Init("init_buffer", _LOC, nbytes) for _ in range(buffers))
        yield ScalarWork((_ALIKE_OPS if self._alike else _UNLIKE_OPS) + _NUMBER_OPS * self.numbers, _LOC)
        yield from self._instructions(self.program.setup, None, 0)

    @cached_property
    def _alike(self) -> bool:
        """Whether all blocks have as many rows."""
        return self.split.block(0)[1] == self.split.block(self.split.core_num - 1)[1]

    # -- groups of rows -------------------------------------------------------------------------------------------
    def _rows(self, block: Block, core: Loops) -> Iterator[Node]:
        rows, start = self.row_count, block.start
        if block.head:
            yield from self._group(start, block.head, core)
            start += block.head
        if block.whole:
            yield from self._cover(start // rows, block.whole, len(self._units) - 1, core)
            start += block.whole * rows
        if block.tail:
            yield from self._group(start, block.tail, core)

    @cached_property
    def _units(self) -> tuple[int, ...]:
        """Groups after which each of the dimensions around the rows moves on, innermost first: column tiles, then the
        outer dimensions."""
        units, unit = [1], 1
        for size in ([self.form.column_count] if self.form.cut else []) + list(reversed(self.form.outer)):
            unit *= size
            units.append(unit)
        return tuple(units[:-1]) or (1,)

    def _cover(self, first: int, count: int, level: int, loops: Loops) -> Iterator[Node]:
        """Whole groups, in loops over each dimension."""
        unit = self._units[level]
        if level == 0:
            ragged = self.form.cut and self.form.width % self.form.column_tile
            last = ragged and (first + count) % self.form.column_count == 0
            yield from self._repeat(first, count - bool(last), 1, loops, self._whole)
            if last:
                yield from self._whole(first + count - 1, loops)
            return
        head = min(count, -first % unit)
        whole = (count - head) // unit
        if head:
            yield from self._cover(first, head, level - 1, loops)
        if whole:
            yield from self._repeat(
                first + head, whole, unit, loops, lambda g, around: self._cover(g, unit, level - 1, around)
            )
        rest = count - head - whole * unit
        if rest:
            yield from self._cover(first + count - rest, rest, level - 1, loops)

    def _repeat(
        self, first: int, count: int, unit: int, loops: Loops, body: Callable[[int, Loops], Iterator[Node]]
    ) -> Iterator[Node]:
        """`count` times `unit` groups; a turn of the loop has as many as the queues' buffers take to come round."""
        done = 0
        if count > 2:
            turns = self.layout.buffer_num
            tiles = unit * -(-self.row_count // self.tiles.tile_rows)
            period = turns // math.gcd(turns, tiles)
            rounds = count // period
            if rounds > 1:
                var = Var("loop", (), 0, rounds - 1)
                around = (*loops, (var, period * unit * self.row_count))
                nodes = [n for i in range(period) for n in body(first + i * unit, around)]
                yield Repeat(var, rounds, tuple(nodes), True, period)
                done = rounds * period
        for i in range(done, count):
            yield from body(first + i * unit, loops)

    def _whole(self, group: int, loops: Loops) -> Iterator[Node]:
        yield from self._group(group * self.row_count, self.row_count, loops)

    def _group(self, start: int, rows: int, loops: Loops) -> Iterator[Node]:
        """What is read once, then tiles of rows of one group, from row number `start` on."""
        grouped = self.form.group_count > 1
        if grouped:
            yield ScalarWork(_GROUP_OPS, _LOC)
        yield from self._prepare(start, loops)
        tile, turns = self.tiles.tile_rows, self.layout.buffer_num
        full, tail = divmod(rows, tile)
        rounds, done = full // turns, 0
        if rounds > 1:
            var = Var("loop", (), 0, rounds - 1)
            around = (*loops, (var, turns * tile))
            body = [r for t in range(turns) for r in self._tile(start + t * tile, tile, around)]
            yield Repeat(var, rounds, tuple(body), True, turns)
            done = rounds * turns
        for i in range(done, full):
            yield from self._tile(start + i * tile, tile, loops)
        if tail:
            yield from self._tile(start + full * tile, tail, loops)
        if self.once and self._held:
            yield QueueOp("free", self.once_queue, "VECIN", 0, _LOC)

    @cached_property
    def _held(self) -> bool:
        once = {register for _, register in self.program.once}
        return any(s in once for step in self.program.body for s in step.srcs)

    def _prepare(self, start: int, loops: Loops) -> Iterator[Record]:
        columns = self._columns(start)
        if self.once:
            yield QueueOp("alloc", self.once_queue, "VECIN", 0, _LOC)
            for slot in self.once:
                yield ScalarWork((PACKED_OPS if len(self.once) > 1 else COPY_OPS) + self._moved(slot), _LOC)
                yield self._copy(Pipe.MTE2, slot, start, 1, columns, 0, loops)
            yield QueueOp("enque", self.once_queue, "VECIN", 0, _LOC)
            yield QueueOp("deque", self.once_queue, "VECIN", 0, _LOC)
        yield from self._instructions(self.program.prologue, None, 0)
        if self.once and not self._held:
            yield QueueOp("free", self.once_queue, "VECIN", 0, _LOC)

    # -- a tile ---------------------------------------------------------------------------------------------------
    def _columns(self, start: int) -> int:
        """The columns of the tiles of a row number's group."""
        form = self.form
        if not form.cut:
            return form.width
        column = start // self.row_count % form.column_count * form.column_tile
        return min(form.column_tile, form.width - column)

    def _tile(self, start: int, rows: int, loops: Loops) -> Iterator[Record]:
        turn = self.turn
        self.turn = (turn + 1) % self.layout.buffer_num
        columns = self._columns(start)
        yield ScalarWork(self._tile_ops, _LOC)
        for queue, slots in self._grouped(self.ins, self.in_queues, 0):
            yield QueueOp("alloc", queue, "VECIN", turn, _LOC)
            for slot in slots:
                yield ScalarWork((PACKED_OPS if len(slots) > 1 else COPY_OPS) + self._moved(slot), _LOC)
                yield self._copy(Pipe.MTE2, slot, start, rows, columns, turn, loops)
            yield QueueOp("enque", queue, "VECIN", turn, _LOC)
        yield from self._compute(rows, columns, turn)
        for queue, slots in self._grouped(self.outs, self.out_queues, self.first_out):
            yield QueueOp("deque", queue, "VECOUT", turn, _LOC)
            for slot in slots:
                yield ScalarWork(COPY_OPS + self._moved(slot), _LOC)
                yield self._copy(Pipe.MTE3, slot, start, rows, columns, turn, loops)
            yield QueueOp("free", queue, "VECOUT", turn, _LOC)

    @cached_property
    def _tile_ops(self) -> int:
        """Scalar operations of a tile: its first row, where it starts in each tensor, and its counts where they
        differ."""
        grouped = self.form.group_count > 1
        single = not grouped and self.tiles.tile_rows >= self.split.block_length
        ops = _SINGLE_OPS if single else _TILE_OPS + (2 if grouped else 0) - (2 if self.split.core_num == 1 else 0)
        if self.tiles.tile_rows == 1 or (single and self._alike):
            return ops
        parts = sum(1 for slot in (*self.ins, *self.outs) if self._access(slot).reach is Reach.PART)
        return ops + (0 if single else _LENGTH_OPS) + 2 * parts

    @staticmethod
    def _grouped(slots: tuple[int, ...], queues: int, first: int) -> list[tuple[int, tuple[int, ...]]]:
        return [(first, slots)] if queues == 1 else [(first + i, (slot,)) for i, slot in enumerate(slots)]

    def _compute(self, rows: int, columns: int, turn: int) -> Iterator[Record]:
        outs = range(self.first_out, self.first_out + self.out_queues)
        yield from (QueueOp("deque", q, "VECIN", turn, _LOC) for q in range(self.in_queues))
        yield from (QueueOp("alloc", q, "VECOUT", turn, _LOC) for q in outs)
        yield from self._instructions(self.program.body, (rows, columns), turn)
        yield from (QueueOp("enque", q, "VECOUT", turn, _LOC) for q in outs)
        yield from self._frees(len(self.program.body) - 1, turn)

    def _moved(self, slot: int) -> int:
        """A scalar operation where a slot's data doesn't start at its buffer's start."""
        return 1 if self.layout.offset_bytes(slot) else 0

    # -- copies ---------------------------------------------------------------------------------------------------
    def _access(self, slot: int) -> Access:
        return self.form.accesses[self.arg[slot]]

    def _offset(self, access: Access, row: int) -> int:
        """The element of a tensor at which a tile that starts with that row number does."""
        form = self.form
        group, inside = divmod(row, self.row_count)
        outer, column = divmod(group, form.column_count)
        offset = column * form.column_tile if form.cut and access.row_length > 1 else 0
        if access.reach is not Reach.ONCE:
            offset += inside * access.row_stride
        for size, step in zip(reversed(form.outer), reversed(access.outer), strict=True):
            outer, index = divmod(outer, size)
            offset += index * step
        return offset

    def _copy(
        self, pipe: Pipe, slot: int, start: int, rows: int, columns: int, turn: int, loops: Loops
    ) -> Copy:  # fmt: skip
        access, arg = self._access(slot), self.arg[slot]
        size = self.subject.itemsizes[arg]
        place = self._offset(access, start)
        steps = ((var, (self._offset(access, start + by) - place) * size) for var, by in loops)
        count, nbytes, gap = self._burst(access, rows, columns, size)
        gm = GmSpan(
            arg, make(place * size, tuple(s for s in steps if s[1])), count * nbytes,  # type: ignore[arg-type]
            self.bypass and pipe is Pipe.MTE2,
        )  # fmt: skip
        ub = UbSpan(self.where.of(slot, turn), count * nbytes, "half")
        return Copy(pipe, "DataCopyPad", ub, gm, count, nbytes, gap, _LOC)

    def _burst(self, access: Access, rows: int, columns: int, size: int) -> tuple[int, int, int]:
        """How a tensor's part of a tile lies in GM: pieces, bytes of each, bytes between them."""
        form = self.form
        if access.reach is Reach.ONCE:
            length = columns if form.cut and access.row_length > 1 else access.row_length
            return 1, length * size, 0
        if access.reach is Reach.PART:
            return 1, rows * access.row_length * size, 0
        if form.is_flat:
            return 1, rows * size, 0
        if form.cut and access.row_length > 1:
            return 1, columns * size, 0
        if form.pitch == form.width == access.row_stride:
            return 1, rows * form.width * size, 0
        return rows, form.width * size, (access.row_stride - form.width) * size

    # -- instructions ---------------------------------------------------------------------------------------------
    def _instructions(self, steps: tuple[AnyStep, ...], tile: tuple[int, int] | None, turn: int) -> tuple[Record, ...]:
        """The instructions of a phase, after the scalar operations that set up its views and counts."""
        key = (id(steps), tile, turn)
        if key not in self._known:
            self._known[key] = tuple(self._steps(steps, tile, turn))
        return self._known[key]

    def _steps(self, steps: Sequence[AnyStep], tile: tuple[int, int] | None, turn: int) -> Iterator[Record]:
        ops = view_ops_of(steps, self.program, self.allocation)
        if tile is not None and self.in_queues < len(self.ins):
            ops += len(self.ins) * PACKED_OPS
        if tile is not None and self.layout.colours:
            ops += sum(self.layout.colours)
        for i, step in enumerate(steps):
            for call in self.calls.of(step, tile):
                if ops + call.ops:
                    yield ScalarWork(ops + call.ops, _LOC)
                    ops = 0
                if call.name:
                    spans = [self._span(*operand, call.count, turn) for operand in call.operands]
                    srcs = tuple(spans[1:])
                    yield Compute(call.name, spans[0], srcs, call.count, _LOC, call.repeats, "", call.strides)
            if tile is not None and i < len(steps) - 1:
                yield from self._frees(i, turn)

    def _frees(self, step: int, turn: int) -> Iterator[Record]:
        """Input buffers that a step of the tile is the last to need."""
        yield from (QueueOp("free", q, "VECIN", turn, _LOC) for q, end in self._ends if end == step)

    @cached_property
    def _ends(self) -> tuple[tuple[int, int], ...]:
        """Each input queue with the last step of a tile that needs its buffer."""
        done = done_with(self.program, self.allocation)
        return tuple((q, max(done[s] for s in slots)) for q, slots in self._grouped(self.ins, self.in_queues, 0))

    def _span(self, register: int, dtype: str, start: int, count: int, turn: int) -> UbSpan:
        bits = CARRIER_BITS[self.program.registers[register]]
        address = self.calls.address(self.allocation, self.where, register, start, turn)
        return UbSpan(address, -(-count * bits // 8), dtype)
