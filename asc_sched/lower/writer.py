"""Gives everything in a kernel its name and writes down the plan. Names are unique over the whole kernel."""

from __future__ import annotations

import attrs

from asc_sched.lang.dtypes import DType
from asc_sched.lang.infer import TypedGraph
from asc_sched.lang.printer import statements
from asc_sched.lower.allocate import Kind, done_with
from asc_sched.lower.compute import Place, write_bodies
from asc_sched.lower.form import Access
from asc_sched.lower.geometry import Arrangement
from asc_sched.lower.gm_scalars import read_text
from asc_sched.lower.moves import Movement
from asc_sched.lower.naming import Namer
from asc_sched.lower.plan import KernelPlan, Member, Queue, ScalarArg, Temp, Tensor
from asc_sched.lower.spaces import Extent
from asc_sched.lower.tiles import Tiles
from asc_sched.target.soc import Target
from asc_sched.tiling import DeviceFormulas

_PARTS = ("copy_in", "compute", "copy_out", "prepare", "setup")
_OWN = ("pipe", "params", "asc", "start", "pad", "r", "i")


class Writer:
    """Writes the plan of one kernel."""

    def __init__(
        self,
        typed: TypedGraph,
        arrangement: Arrangement,
        tiles: Tiles,
        formulas: DeviceFormulas,
        scalar_inputs: frozenset[str],
    ) -> None:
        self.typed = typed
        self.arrangement = arrangement
        self.tiles = tiles
        self.layout = tiles.layout
        self.formulas = formulas
        self.scalar_inputs = scalar_inputs

    def plan(self, name: str, target: Target, any_size: bool) -> KernelPlan:
        self.namer = Namer(name, *(f"{name}_{p}" for p in _PARTS), *_OWN)
        self.inputs = {n: self._tensor(n, d) for n, d in self.typed.input_dtypes.items()}
        self.outputs = {n: self._tensor(n, d) for n, d in self.typed.output_dtypes.items()}
        scalars = tuple(self._scalar(s.name, s.dtype) for s in self.typed.graph.scalars)
        names = {n: self.namer(n) for n in dict.fromkeys(self.formulas.names)}
        formulas = self.formulas.renamed(names)
        self.accesses = dict(zip((*self.inputs, *self.outputs), self.tiles.form.accesses, strict=True))
        self.movement = Movement(self.tiles.form, formulas, names, self.namer)
        in_queues, frees = self._freed(self._in_queues())
        queues = (*in_queues, *self._once_queue(), *self._out_queues())
        temps = tuple(self._temp(slot) for slot in self.layout.allocation.of_kind(Kind.TEMP))
        constants = tuple(
            (self.namer(f"{t.ident}_value"), t) for n, t in self.inputs.items() if n in self.scalar_inputs
        )
        scalar_names = {s.name: s.ident for s in scalars} | {t.name: ident for ident, t in constants}
        bodies = write_bodies(self._place(queues, temps, scalar_names, frees), self.namer)
        setup, prepare, compute = bodies
        used = {*prepare.scalars, *compute.scalars, *setup.scalars}
        tiles, layout = self.tiles, self.layout
        return KernelPlan(
            name=name, expression=statements(self.typed.graph), schedule=tiles.schedule, target=target,
            form=tiles.form, tiling=tiles.tiling, dynamic=any_size, inputs=tuple(self.inputs.values()),
            outputs=tuple(self.outputs.values()), scalars=scalars,
            constants=tuple((i, read_text(t.dtype.name, t.gm), t) for i, t in constants if i in used),
            queues=queues, temps=temps, setup=setup, prepare=prepare, compute=compute, held=self._held(),
            formulas=formulas, tile=names["tile"], group=names.get("group_idx", ""),
            group_offsets=tuple(self.movement.group_offsets.items()), offsets=tuple(self.movement.offsets.items()),
            counts=tuple(self.movement.counts.items()), arrangement=self.arrangement, ub_bytes=tiles.ub_bytes,
            ub_reserve=layout.reserve, tile_rows=tiles.tile_rows, unit_rows=tiles.unit_rows,
            ub_bytes_per_element=layout.bytes_per_row / tiles.form.pitch,
        )  # fmt: skip

    def _tensor(self, name: str, dtype: DType) -> Tensor:
        ident = self.namer(name)
        return Tensor(name, ident, self.namer(f"{ident}_gm"), dtype)

    def _scalar(self, name: str, dtype: DType) -> ScalarArg:
        return ScalarArg(name, self.namer(name), dtype, "float32" if dtype.is_float else "int32")

    def _place(
        self, queues: tuple[Queue, ...], temps: tuple[Temp, ...], scalars: dict[str, str],
        frees: dict[int, tuple[str, ...]],
    ) -> Place:  # fmt: skip
        members = {("ONCE" if q.once else q.position, m.tensor.name): m.local for q in queues for m in q.members}
        return Place(
            self.tiles.buffers.program, self.layout.allocation, members, temps, self.tiles.tile_rows,
            self._counts(), scalars, frees,
        )  # fmt: skip

    def _counts(self) -> dict[Extent, str]:
        """How many elements of a register a tile has, where tiles differ."""
        counts = {}
        for extent in self.tiles.buffers.program.extents:
            if not extent.per_row or extent.max_rows or extent.row_step > 1:
                continue
            if extent.width == self.tiles.form.pitch:
                counts[extent] = self.movement.length
            elif self.movement.rows:
                rows = self.movement.rows
                counts[extent] = rows if extent.width == 1 else f"{rows} * {extent.width}"
        return counts

    # -- buffers -----------------------------------------------------------------------------------------------
    def _temp(self, slot: int) -> Temp:
        name = self.namer(f"{self.layout.allocation.slots[slot].name}_buf")
        return Temp(name, self.layout.buffer_bytes(slot, self.tiles.tile_rows), self.layout.offset_bytes(slot))

    def _in_queues(self) -> list[Queue]:
        slots = self.layout.allocation.of_kind(Kind.IN)
        if not self.layout.pack_inputs or len(slots) < 2:
            return [self._queue(slot, self.inputs, "VECIN") for slot in slots]
        return [self._packed(slots, self.inputs, "VECIN", "in")]

    def _freed(self, queues: list[Queue]) -> tuple[list[Queue], dict[int, tuple[str, ...]]]:
        """The input queues, marked where the computation frees them, and the statements that do it by step."""
        program, allocation = self.tiles.buffers.program, self.layout.allocation
        last = {allocation.slots[slot].name: step for slot, step in done_with(program, allocation).items()}
        found: list[Queue] = []
        frees: dict[int, tuple[str, ...]] = {}
        for queue in queues:
            step = max(last[m.tensor.name] for m in queue.members)
            early = step < len(program.body) - 1  # else after the results are on their way
            found.append(attrs.evolve(queue, freed=early))
            if early:
                frees[step] = (*frees.get(step, ()), f"{queue.name}.free_tensor({queue.local})")
        return found, frees

    def _once_queue(self) -> list[Queue]:
        """One queue for all inputs that are read before the rows' loop."""
        slots = self.layout.allocation.of_kind(Kind.ONCE)
        if not slots:
            return []
        if len(slots) == 1:
            return [self._queue(slots[0], self.inputs, "VECIN", once=True)]
        return [self._packed(slots, self.inputs, "VECIN", "once", once=True)]

    def _out_queues(self) -> list[Queue]:
        slots = self.layout.allocation.of_kind(Kind.OUT)
        if not self.layout.pack_outputs or len(slots) < 2:
            return [self._queue(slot, self.outputs, "VECOUT") for slot in slots]
        return [self._packed(slots, self.outputs, "VECOUT", "out")]

    def _packed(
        self, slots: tuple[int, ...], tensors: dict[str, Tensor], position: str, word: str, once: bool = False
    ) -> Queue:
        members, start = [], 0
        for slot in slots:
            tensor = tensors[self.layout.allocation.slots[slot].name]
            members.append(self._member(tensor, start + self.layout.offset_bytes(slot), position))
            start += self.layout.buffer_bytes(slot, self.tiles.tile_rows)
        asc_type = f"asc.{members[0].tensor.dtype.asc}"
        name, local = self.namer(f"{word}_queue"), self.namer(f"{word}_local")
        number = 1 if once else self.layout.buffer_num
        return Queue(name, local, position, asc_type, number, start, tuple(members), once)

    def _queue(self, slot: int, tensors: dict[str, Tensor], position: str, once: bool = False) -> Queue:
        tensor = tensors[self.layout.allocation.slots[slot].name]
        size, offset = self.layout.buffer_bytes(slot, self.tiles.tile_rows), self.layout.offset_bytes(slot)
        member = self._member(tensor, offset, position)
        local = self.namer(f"{tensor.ident}_buffer") if offset else member.local
        name, asc_type = self.namer(f"{tensor.ident}_queue"), f"asc.{tensor.dtype.asc}"
        number = 1 if once else self.layout.buffer_num
        return Queue(name, local, position, asc_type, number, size, (member,), once)

    def _member(self, tensor: Tensor, offset_bytes: int, position: str) -> Member:
        access: Access = self.accesses[tensor.name]
        move = self.movement.move(tensor.ident, access, tensor.dtype.itemsize, store=position == "VECOUT")
        return Member(tensor, self.namer(f"{tensor.ident}_local"), offset_bytes, move)

    def _held(self) -> bool:
        """Whether a tile reads a tensor where the queue of what is read before the loop has it."""
        program = self.tiles.buffers.program
        once = {register for _, register in program.once}
        return any(s in once for step in program.body for s in step.srcs)
