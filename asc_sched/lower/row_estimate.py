"""How long a schedule of rows takes, in closed form: `tiling.estimate` with the loads, spreads and groups of a form."""

from __future__ import annotations

import math
from functools import cached_property

import attrs

from asc_sched.lower.allocate import Kind
from asc_sched.lower.calls import Calls, view_ops_of
from asc_sched.lower.form import Form, Reach
from asc_sched.lower.rows import Rows, variant_of
from asc_sched.lower.spaces import TileProgram
from asc_sched.lower.work import Addresses, addresses
from asc_sched.schedule import Schedule
from asc_sched.target import Target
from asc_sched.target.timing import TIMING
from asc_sched.tiling.estimate import Estimate, Split, Work

# Scalar operations at the start of a group of rows.
_GROUP_OPS = 20


class RowEstimate:
    """Times of schedules for one subject. `l2` as `sim.time_kernel` takes it."""

    def __init__(self, rows: Rows, l2: str = "hot") -> None:
        self.rows = rows
        self.target: Target = rows.subject.target
        self.l2 = l2
        self._made: dict[tuple[Form, Schedule, int], _Tile | None] = {}
        self._estimates: dict[tuple[Form, Schedule, int], Estimate] = {}

    def task_us(self, schedule: Schedule) -> float:
        """Microseconds of a launch under a schedule with core_num and tile_length; infinite where it doesn't fit."""
        assert schedule.core_num is not None and schedule.tile_length is not None
        form = self.rows.form_at(schedule.tile_length)
        if form is None:
            return math.inf
        core_num, length = schedule.core_num, schedule.tile_length
        if not form.is_flat and length < form.pitch:
            form = self.rows.cut(form, length)
        block = self.rows.block_rows(form, core_num)
        tile_rows = 1 if form.cut else min(max(length // form.pitch, 1), block)
        variant = variant_of(schedule)
        if tile_rows == 1 and not form.is_flat and not form.cut:
            form = self.rows.cut(form, form.width)
        tile = self._tile(form, variant, tile_rows)
        if tile is None:
            return math.inf
        groups = self._groups(form, block)
        shared = min(form.row_count, block)
        even = -(-shared // -(-shared // tile_rows)) if groups > 1 else tile_rows
        used = self.rows.used_cores(form, core_num)
        alike = used == 1 or form.row_count * form.group_count % used == 0
        split = Split(core_num=used, block_length=block * form.pitch, alike=alike)
        seen = attrs.evolve(schedule, tile_length=even * form.pitch)
        key = (form, variant, tile_rows)
        if key not in self._estimates:
            self._estimates[key] = tile.estimate(self)
        return self._estimates[key].split_us(seen, split, tile.setup + groups * tile.prepare)

    @staticmethod
    def _groups(form: Form, block: int) -> int:
        """The most groups that a core has rows of."""
        whole, rest = divmod(block, form.row_count)
        if not rest and whole:
            return whole
        return min(whole + (2 if form.row_count % block or whole else 1), form.group_count)

    @property
    def resident(self) -> bool:
        """Whether everything that the launch touches stays in L2 from one launch to the next."""
        geometry, sizes = self.rows.subject.geometry, self.rows.subject.itemsizes
        written = geometry.total_length * sum(sizes[geometry.input_count :])
        return self.l2 == "hot" and self.read_bytes + written <= self.target.l2_bytes

    @cached_property
    def read_bytes(self) -> int:
        """The bytes of all inputs, broadcast ones as they lie."""
        geometry, sizes = self.rows.subject.geometry, self.rows.subject.itemsizes
        strides = geometry.strides[: geometry.input_count]
        lengths = (math.prod(n for n, s in zip(geometry.sizes, own, strict=True) if s) for own in strides)
        return sum(n * size for n, size in zip(lengths, sizes, strict=False))

    def _tile(self, form: Form, variant: Schedule, tile_rows: int) -> _Tile | None:
        key = (form, variant, tile_rows)
        if key not in self._made:
            self._made[key] = self._make(form, variant, tile_rows)
        return self._made[key]

    def _make(self, form: Form, variant: Schedule, tile_rows: int) -> _Tile | None:
        layout, buffers = self.rows.layout(form, variant), self.rows.buffers(form)
        if layout is None or buffers is None or layout.total_bytes(tile_rows) > self.target.ub_bytes:
            return None
        calls = Calls(buffers.program, form, tile_rows)
        where = addresses(layout, tile_rows)
        program, allocation = buffers.program, buffers.allocation
        columns = form.column_tile
        prologue, _ = calls.cycles(program.prologue, allocation, where, None)
        once = len(allocation.of_kind(Kind.ONCE))
        hit = TIMING.load_hit_ns * self.target.clock_mhz / 1000
        load = hit + sum(self._once_bytes(form, slot.name, columns) for slot in allocation.slots) / 40 if once else 0.0
        setup, _ = calls.cycles(program.setup, allocation, where, None)
        ops = _GROUP_OPS if form.group_count > 1 else 0
        whole, number = calls.cycles(program.body, allocation, where, (tile_rows, columns))
        views = view_ops_of(program.body, program, allocation)
        return _Tile(form, program, calls, where, whole, number, views, setup, prologue + load + ops)

    def _once_bytes(self, form: Form, name: str, columns: int) -> int:
        """Bytes of an input that a group reads before its tiles."""
        subject = self.rows.subject
        arg = subject.tensors.index(name) if name in subject.tensors else -1
        if arg < 0 or form.accesses[arg].reach is not Reach.ONCE:
            return 0
        length = form.accesses[arg].row_length
        return (columns if length > 1 else 1) * subject.itemsizes[arg]


@attrs.frozen(eq=False)
class _Tile:
    """What a tile of a form takes: vector cycles of a whole one and its instructions; cycles once per core and before
    each group of rows."""

    form: Form
    program: TileProgram
    calls: Calls
    where: Addresses
    vector: float
    instructions: int
    view_ops: int
    setup: float
    prepare: float

    def estimate(self, of: RowEstimate) -> Estimate:
        """The estimate with these costs, per element of a tile in UB."""
        subject = of.rows.subject
        number = {name: i for i, name in enumerate(subject.tensors)}
        loads = tuple(self._size(subject.itemsizes, number[name]) for name, _ in self.program.loads)
        stores = tuple(self._size(subject.itemsizes, number[name]) for name, _ in self.program.stores)
        length = self.calls.tile_rows * self.form.pitch
        work = Work(
            in_sizes=loads, out_sizes=stores, smallest=min(subject.itemsizes), instructions=self.instructions,
            view_ops=self.view_ops, temps=0, has_pairs=False,
            vector_cycles=lambda _, __, part: self.vector * part / length, longest_tile=lambda _, __: length,
        )  # fmt: skip
        return Estimate(work, subject.geometry.total_length, of.target, of.l2, read_bytes=of.read_bytes)

    def _size(self, itemsizes: tuple[int, ...], arg: int) -> float:
        access = self.form.accesses[arg]
        if access.reach is Reach.PART:
            return access.row_length * itemsizes[arg] / self.form.pitch
        return itemsizes[arg] * self.form.width / self.form.pitch if not self.form.cut else float(itemsizes[arg])
