"""Op, dtypes, layout, schedule and target to a kernel plan: the one place where they meet."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import UbOverflowError
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lower.form import Form, Misfit
from asc_sched.lower.geometry import Arrangement, contiguous_arrangement
from asc_sched.lower.gm_scalars import scalar_inputs, with_scalars
from asc_sched.lower.legalize import legalize
from asc_sched.lower.naming import MAX_NAME, identifier, is_reserved
from asc_sched.lower.plan import KernelPlan
from asc_sched.lower.program import Program
from asc_sched.lower.rule import Lowered, default_schedule, schedule_by_rule
from asc_sched.lower.tiles import (
    ANY_SIZE,
    RowCountError,
    Subject,
    Tiles,
    buffers_for,
    form_for,
    nothing_fits,
    tiles_for,
)
from asc_sched.lower.writer import Writer
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target, get_target
from asc_sched.tiling import DeviceFormulas, Tiling, dynamic_formulas, static_formulas
from asc_sched.tiling.rows_device import dynamic_row_formulas, static_row_formulas

if TYPE_CHECKING:
    from asc_sched.declare import Op


@lru_cache(maxsize=512)
def select(typed: TypedGraph, scalars: frozenset[str], precision: str) -> Program:
    """Instruction selection. The inputs named in `scalars` are read as single numbers."""
    return legalize(with_scalars(typed, scalars), precision)


@lru_cache(maxsize=256)
def lower_op(typed: TypedGraph, precision: str = "exact") -> Lowered:
    """Instruction selection and buffer allocation, for tensors of one layout. `precision` is as in `Op.compile`."""
    laid = flat_arrangement(len(typed.graph.inputs), len(typed.graph.outputs))
    order = Order(name="kernel", typed=typed, arrangement=laid, target=get_target(), precision=precision)
    subject = order.subject()
    form = form_for(subject, ANY_SIZE)
    assert isinstance(form, Form)
    buffers = buffers_for(subject, form)
    return Lowered(typed, buffers.program, buffers.allocation, subject.itemsizes)


@attrs.frozen(kw_only=True)
class Order:
    """What a kernel is to be: a typed graph on tensors that lie so, for a target. `any_size`: the outermost dimension
    may be anything at the call; `tile_argument`: a flat kernel of any size takes its tile_length at the call too."""

    name: str
    typed: TypedGraph
    arrangement: Arrangement
    target: Target
    any_size: bool = False
    tile_argument: bool = False
    precision: str = "exact"

    @property
    def tensors(self) -> tuple[str, ...]:
        return (*self.typed.input_dtypes, *self.typed.output_dtypes)

    def subject(self) -> Subject:
        """What is tiled: scalars by the scalar unit, the rest as the geometry has it."""
        geometry = self.arrangement.geometry
        program = select(self.typed, scalar_inputs(self.typed, geometry), self.precision)
        dtypes = (*self.typed.input_dtypes.values(), *self.typed.output_dtypes.values())
        sizes = tuple(d.itemsize for d in dtypes)
        return Subject(self.name, self.typed, program, self.tensors, sizes, geometry, self.any_size, self.target)

    def with_copies(self, misfits: tuple[Misfit, ...]) -> Order:
        """The same with tensors copied that don't fit a tile as they lie."""
        arrangement = self.arrangement
        for misfit in misfits:
            arrangement = arrangement.with_copy(misfit.tensor, misfit.expand)
        return attrs.evolve(self, arrangement=arrangement)


def flat_arrangement(input_count: int, output_count: int) -> Arrangement:
    """Any number of elements, side by side in every tensor."""
    return Arrangement((ANY_SIZE,), ((1,),) * (input_count + output_count), input_count)


def kernel_name(op_name: str, typed: TypedGraph) -> str:
    """The op's name and its dtypes: ``add_float32``; inputs of several dtypes are all named."""
    dtypes = [d.name for d in typed.input_dtypes.values()]
    suffix = dtypes[0] if len(set(dtypes)) == 1 else "_".join(dtypes)
    if len(suffix) > MAX_NAME // 2:
        suffix = identifier(suffix * 2)[-12:]
    name = identifier(f"{op_name}_{suffix}")
    return f"{name}_kernel" if is_reserved(name) else name


def plan_kernel(order: Order, schedule: Schedule | None) -> KernelPlan:
    """Everything decided; without a schedule, by rule. Raises `ScheduleError` subclasses."""
    order, chosen = _settle(order, schedule)
    subject = order.subject()
    tiles = tiles_for(subject, chosen)
    if isinstance(tiles, tuple):
        return plan_kernel(order.with_copies(tiles), schedule)
    scalars = scalar_inputs(order.typed, subject.geometry)
    return Writer(order.typed, order.arrangement, tiles, _formulas(order, subject, tiles), scalars).plan(
        order.name, order.target, order.any_size or not subject.geometry.total_length
    )


def _settle(order: Order, schedule: Schedule | None) -> tuple[Order, Schedule]:
    """The schedule, and the order with the copies that choosing it asks for."""
    while schedule is None:
        subject = order.subject()
        try:
            found = schedule_by_rule(subject)
        except UbOverflowError as error:
            raise nothing_fits(subject) from error
        if isinstance(found, Schedule):
            return order, found
        order = order.with_copies(found)
    return order, schedule


def _formulas(order: Order, subject: Subject, tiles: Tiles) -> DeviceFormulas:
    form, split = tiles.form, tiles.schedule.core_split
    any_size = order.any_size or not subject.geometry.total_length
    if form.is_flat:
        if not any_size:
            assert isinstance(tiles.tiling, Tiling)
            return static_formulas(tiles.tiling)
        return dynamic_formulas(split, subject.align, None if order.tile_argument else tiles.tile_rows)
    assert not isinstance(tiles.tiling, Tiling) and tiles.tiling is not None
    if any_size:
        if form.cut and not form.outer:
            raise RowCountError(f"{order.name}: rows that are cut into parts need their number at compile time")
        return dynamic_row_formulas(tiles.tiling, tiles.unit_rows)
    return static_row_formulas(tiles.tiling)


def arrangement_for(op: Op, shape: Any) -> tuple[Arrangement, frozenset[str], bool]:
    """Contiguous tensors of the given shape or shapes (None: any size): arrangement, 0-d inputs, any size."""
    from asc_sched.run.shapes import resolve_shapes

    outputs = len(op.graph.outputs)
    if shape is None:
        return flat_arrangement(len(op.inputs), outputs), frozenset(), True
    shapes = resolve_shapes(op, shape)
    return contiguous_arrangement(shapes.output, shapes.inputs, outputs), shapes.zero_dim, False


def schedule_for(op: Op, *, shape: Any, dtype: Any, target: str | Target | None = None) -> Schedule:
    """`Schedule.auto`: the rule's choice for an op on tensors of `shape` (None: any size) and `dtype`."""
    arrangement, zero_dim, any_size = arrangement_for(op, shape)
    typed = infer(op.graph, op.input_dtypes(dtype), zero_dim)
    chip = get_target() if target is None else get_target(target)
    name = kernel_name(op.name, typed)
    order = Order(name=name, typed=typed, arrangement=arrangement, target=chip, any_size=any_size)
    return _settle(order, None)[1]


__all__ = [
    "Lowered",
    "Order",
    "arrangement_for",
    "default_schedule",
    "kernel_name",
    "lower_op",
    "plan_kernel",
    "schedule_for",
]
