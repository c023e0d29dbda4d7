"""Op, dtypes, size, schedule and target to a kernel plan: the one place where they meet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import ScheduleError
from asc_sched.lang.dtypes import DType
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lang.printer import statements
from asc_sched.lower.allocate import Allocation, Kind, allocate
from asc_sched.lower.compute import Locals, compute_statements
from asc_sched.lower.layout import Layout, check_ub, layout_for
from asc_sched.lower.legalize import legalize
from asc_sched.lower.naming import MAX_NAME, Namer, identifier, is_reserved
from asc_sched.lower.plan import KernelPlan, Member, Queue, ScalarArg, Temp, Tensor
from asc_sched.lower.program import Program
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target, get_target
from asc_sched.tiling import Alignment, DeviceFormulas, dynamic_formulas, prove_coverage, resolve, static_formulas
from asc_sched.tiling.auto import auto_schedule
from asc_sched.tiling.binding import check_tile_length

if TYPE_CHECKING:
    from asc_sched.declare import Op

ANY_SIZE = 1 << 26


@attrs.frozen
class Lowered:
    """An op on given dtypes as far as no schedule matters: the machine program and its buffers."""

    typed: TypedGraph
    program: Program
    allocation: Allocation

    @property
    def itemsizes(self) -> tuple[int, ...]:
        """Bytes per element of every GM tensor, inputs then outputs."""
        dtypes = (*self.typed.input_dtypes.values(), *self.typed.output_dtypes.values())
        return tuple(d.itemsize for d in dtypes)


def lower_op(typed: TypedGraph) -> Lowered:
    """Instruction selection and buffer allocation."""
    program = legalize(typed)
    return Lowered(typed, program, allocate(program))


def default_schedule(lowered: Lowered, total_length: int | None, target: Target) -> Schedule:
    """`Schedule.auto` for a lowered op. A kernel of any size (total_length None) is planned for large ones."""
    inputs, outputs = len(lowered.program.loads), len(lowered.typed.graph.outputs)
    packed = inputs > target.max_queue_buffers
    program = lowered.program
    layout = Layout(lowered.allocation, 1, packed, None, program.reserve_bytes, program.granule_bytes)
    chosen = auto_schedule(
        ANY_SIZE if total_length is None else total_length,
        lowered.itemsizes,
        math.ceil(layout.bytes_per_element),
        layout.reserve,
        target,
        max_buffer_num=target.max_queue_buffers // max(1 if packed else inputs, outputs),
    )
    return chosen.evolve(pack_inputs=packed)


def kernel_name(op_name: str, typed: TypedGraph) -> str:
    """The op's name and its dtypes: ``add_float32``; inputs of several dtypes are all named."""
    dtypes = [d.name for d in typed.input_dtypes.values()]
    suffix = dtypes[0] if len(set(dtypes)) == 1 else "_".join(dtypes)
    if len(suffix) > MAX_NAME // 2:
        suffix = identifier(suffix * 2)[-12:]
    name = identifier(f"{op_name}_{suffix}")
    return f"{name}_kernel" if is_reserved(name) else name


def plan_kernel(
    lowered: Lowered,
    *,
    name: str,
    total_length: int | None,
    schedule: Schedule,
    target: Target,
    tile_argument: bool = False,
) -> KernelPlan:
    """Everything decided. `total_length` None plans a kernel of any size. Raises `ScheduleError` subclasses.

    With `tile_argument` a kernel of any size takes its tile_length at the call too, up to the planned one.
    """
    layout = layout_for(lowered.program, lowered.allocation, schedule, target, name)
    align = Alignment.of(lowered.itemsizes, target)
    step = align.datablock_length
    largest = layout.largest_tile(target, step)
    if total_length is None:
        tiling, tile_length = None, _dynamic_tile(schedule, largest, align, name)
        block_length = tile_length
        formulas = dynamic_formulas(schedule.core_split, align, None if tile_argument else tile_length)
    else:
        tiling = resolve(
            schedule,
            total_length=total_length,
            itemsizes=lowered.itemsizes,
            target=target,
            max_tile_length=largest or step,
        )
        tile_length, block_length = tiling.tile_length, tiling.block_length
        prove_coverage(tiling)
        dynamic = dynamic_formulas(schedule.core_split, align, tile_length)
        formulas = static_formulas(tiling) if total_length else dynamic
    ub_bytes = check_ub(layout, tile_length, block_length, target, step, name)
    plan = _Writer(lowered, layout, name, formulas, tile_length).plan(schedule, target)
    return attrs.evolve(plan, tiling=tiling, ub_bytes=ub_bytes, dynamic=not total_length)


def _dynamic_tile(schedule: Schedule, largest: int, align: Alignment, name: str) -> int:
    if schedule.tile_num is not None:
        raise ScheduleError(
            f"{name}: tile_num={schedule.tile_num} needs a size to be resolved, and a kernel of any size has none; "
            f"nearest valid: tile_length={largest}"
        )
    if schedule.tile_length is None:
        return largest or align.datablock_length
    check_tile_length(schedule.tile_length, align)
    return schedule.tile_length


class _Writer:
    """Gives everything its name and writes the statements. Names are unique over the whole kernel."""

    def __init__(self, lowered: Lowered, layout: Layout, name: str, formulas: DeviceFormulas, tile_length: int) -> None:
        self.lowered = lowered
        self.layout = layout
        self.name = name
        self.tile_length = tile_length
        parts = ("copy_in", "compute", "copy_out")
        self.namer = Namer(name, *(f"{name}_{p}" for p in parts), "pipe", "params", "asc", "start", "pad")
        graph = lowered.typed.graph
        self.tensors = {n: self._tensor(n, d) for n, d in lowered.typed.input_dtypes.items()}
        self.results = {n: self._tensor(n, d) for n, d in lowered.typed.output_dtypes.items()}
        self.scalars = tuple(self._scalar(s.name, s.dtype) for s in graph.scalars)
        names = {n: self.namer(n) for n in dict.fromkeys(formulas.names)}
        self.formulas = formulas.renamed(names)
        self.tile = names["tile"]
        self.count = names.get("length") or self.namer("length")

    def _tensor(self, name: str, dtype: DType) -> Tensor:
        ident = self.namer(name)
        return Tensor(name, ident, self.namer(f"{ident}_gm"), dtype)

    def _scalar(self, name: str, dtype: DType) -> ScalarArg:
        return ScalarArg(name, self.namer(name), dtype, "float32" if dtype.is_float else "int32")

    def plan(self, schedule: Schedule, target: Target) -> KernelPlan:
        queues = (*self._in_queues(), *self._out_queues())
        temps = tuple(self._temp(slot) for slot in self.layout.allocation.of_kind(Kind.TEMP))
        members = {(q.position, m.tensor.name): m.local for q in queues for m in q.members}
        locals_ = Locals(self.lowered.program, self.lowered.allocation, members, temps, self.namer)
        scalars = {s.name: s.ident for s in self.scalars}
        written = compute_statements(locals_, scalars, self.count)
        return KernelPlan(
            name=self.name, expression=statements(self.lowered.typed.graph), schedule=schedule, target=target,
            tiling=None, dynamic=False, inputs=tuple(self.tensors.values()), outputs=tuple(self.results.values()),
            scalars=self.scalars, queues=queues, temps=temps, views=written.views, statements=written.statements,
            scalars_used=written.scalars, formulas=self.formulas, tile=self.tile, count=self.count, ub_bytes=0,
            ub_reserve=self.layout.reserve, tile_length=self.tile_length,
            ub_bytes_per_element=self.layout.bytes_per_element,
        )  # fmt: skip

    def _temp(self, slot: int) -> Temp:
        name = self.namer(f"{self.layout.allocation.slots[slot].name}_buf")
        return Temp(name, self.layout.buffer_bytes(slot, self.tile_length), self.layout.offset_bytes(slot))

    def _in_queues(self) -> list[Queue]:
        slots = self.layout.allocation.of_kind(Kind.IN)
        if not self.layout.packed or len(slots) < 2:
            return [self._queue(slot, self.tensors, "VECIN") for slot in slots]
        members, start = [], 0
        for slot in slots:
            tensor = self.tensors[self.layout.allocation.slots[slot].name]
            members.append(Member(tensor, self.namer(f"{tensor.ident}_local"), start + self.layout.offset_bytes(slot)))
            start += self.layout.buffer_bytes(slot, self.tile_length)
        asc_type = f"asc.{members[0].tensor.dtype.asc}"
        name, local = self.namer("in_queue"), self.namer("in_local")
        return [Queue(name, local, "VECIN", asc_type, self.layout.buffer_num, start, tuple(members))]

    def _out_queues(self) -> list[Queue]:
        return [self._queue(slot, self.results, "VECOUT") for slot in self.layout.allocation.of_kind(Kind.OUT)]

    def _queue(self, slot: int, tensors: dict[str, Tensor], position: str) -> Queue:
        tensor = tensors[self.layout.allocation.slots[slot].name]
        size, offset = self.layout.buffer_bytes(slot, self.tile_length), self.layout.offset_bytes(slot)
        member = Member(tensor, self.namer(f"{tensor.ident}_local"), offset)
        local = self.namer(f"{tensor.ident}_buffer") if offset else member.local
        name, asc_type = self.namer(f"{tensor.ident}_queue"), f"asc.{tensor.dtype.asc}"
        return Queue(name, local, position, asc_type, self.layout.buffer_num, size, (member,))


def schedule_for(op: Op, *, shape: Any, dtype: Any, target: str | Target | None = None) -> Schedule:
    """`Schedule.auto`: the rule's choice for an op on tensors of `shape` (None: any size) and `dtype`."""
    from asc_sched.run.shapes import resolve_shapes

    shapes = None if shape is None else resolve_shapes(op, shape)
    typed = infer(op.graph, op.input_dtypes(dtype), frozenset() if shapes is None else shapes.zero_dim)
    total_length = None if shapes is None else shapes.total_length
    return default_schedule(lower_op(typed), total_length, get_target() if target is None else get_target(target))
