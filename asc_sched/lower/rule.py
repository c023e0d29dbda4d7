"""A good schedule by rule for any geometry: the flat rule (`tiling/auto.py`), in whole rows or parts of a row."""

from __future__ import annotations

import math

import attrs

from asc_sched.errors import UbOverflowError
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower.allocate import Allocation, Kind
from asc_sched.lower.form import Form, Misfit, Reach
from asc_sched.lower.layout import Layout
from asc_sched.lower.row_rule import weighed_rows
from asc_sched.lower.rows import Rows
from asc_sched.lower.spaces import CannotSpreadError, TileProgram
from asc_sched.lower.tiles import (
    ANY_SIZE,
    Buffers,
    Subject,
    buffers_for,
    even_columns,
    form_for,
    layout_of,
    longest_block,
    longest_columns,
    tiles_for,
)
from asc_sched.lower.work import work_of
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target
from asc_sched.tiling.auto import MAX_COPY_BYTES, auto_schedule
from asc_sched.tiling.weigh import weighed_schedule


def schedule_by_rule(subject: Subject) -> Schedule | tuple[Misfit, ...]:
    """`Schedule.auto` for a subject, or what must be copied first. Raises `UbOverflowError`."""
    step = subject.align.datablock_length
    form = form_for(subject, max(MAX_COPY_BYTES // max(subject.itemsizes) // step * step, step))
    if isinstance(form, tuple):
        return form
    try:
        buffers = buffers_for(subject, form)
        weighed = None
        sized = not subject.any_size and subject.geometry.total_length > 0
        if sized and (not form.is_flat or buffers.program.once):
            weighed = weighed_rows(Rows(subject))
        if weighed is None and form.is_flat:
            lowered = Lowered(subject.typed, buffers.program, buffers.allocation, _moved(subject, form))
            return default_schedule(
                lowered, None if subject.any_size else subject.geometry.total_length, subject.target
            )
        return _settled(subject, weighed or _row_schedule(subject, buffers))
    except CannotSpreadError as error:
        return (Misfit(subject.tensors.index(error.name), expand=True),)


def _settled(subject: Subject, schedule: Schedule) -> Schedule | tuple[Misfit, ...]:
    """The schedule, with tiles halved until the form that they lead to fits into UB."""
    step = subject.align.datablock_length
    while True:
        try:
            tiles = tiles_for(subject, schedule)
        except UbOverflowError:
            length = schedule.tile_length or 0
            if length <= step:
                raise
            schedule = schedule.evolve(tile_length=max(length // 2 // step * step, step))
        else:
            return tiles if isinstance(tiles, tuple) else schedule


# -- flat ----------------------------------------------------------------------------------------------------------
@attrs.frozen
class Lowered:
    """An op on given dtypes as far as no schedule matters, for tensors that are one run of memory each: the machine
    program and its buffers. `moved` are the item sizes of the tensors of which every element is moved."""

    typed: TypedGraph
    program: TileProgram
    allocation: Allocation
    moved: tuple[int, ...]

    @property
    def itemsizes(self) -> tuple[int, ...]:
        """Bytes per element of every GM tensor, inputs then outputs."""
        dtypes = (*self.typed.input_dtypes.values(), *self.typed.output_dtypes.values())
        return tuple(d.itemsize for d in dtypes)


def default_schedule(lowered: Lowered, total_length: int | None, target: Target) -> Schedule:
    """`Schedule.auto` for a flat op. A kernel of any size (total_length None) is planned for large ones."""
    if lowered.moved and not lowered.program.once:
        work = work_of(lowered.typed, lowered.program, lowered.allocation, target)
        return weighed_schedule(ANY_SIZE if total_length is None else total_length, work, target)
    packed, most = _queues(lowered.allocation, target)
    layout = _single(lowered.program, lowered.allocation)
    step = 32 // min(lowered.itemsizes)
    fixed = layout.total_bytes(step) - math.ceil(layout.bytes_per_row * step) if lowered.program.once else 0
    chosen = auto_schedule(
        ANY_SIZE if total_length is None else total_length,
        lowered.moved,
        math.ceil(layout.bytes_per_row),
        max(fixed, layout.reserve),
        target,
        max_buffer_num=most,
    )
    return chosen.evolve(pack_inputs=packed)


def _queues(allocation: Allocation, target: Target) -> tuple[bool, int]:
    """Whether queues must be packed, and how many buffers each can have then."""
    limit = target.max_queue_buffers
    inputs, outputs, once = (len(allocation.of_kind(k)) for k in (Kind.IN, Kind.OUT, Kind.ONCE))
    room = limit - min(once, 1)
    if inputs > room or outputs > limit:
        return True, limit // 2
    return False, min(room // max(inputs, 1), limit // outputs)


def _single(program: TileProgram, allocation: Allocation) -> Layout:
    """The layout with one buffer for everything."""
    return Layout(allocation, 1, False, False, None, program.reserve_bytes, program.granule_bytes)


def _moved(subject: Subject, form: Form) -> tuple[int, ...]:
    """Item sizes of the tensors of which every element is moved."""
    pairs = zip(subject.itemsizes, form.accesses, strict=True)
    return tuple(size for size, access in pairs if access.reach is Reach.FULL)


# -- rows ----------------------------------------------------------------------------------------------------------
def _row_schedule(subject: Subject, buffers: Buffers) -> Schedule:
    form, layout = buffers.form, _single(buffers.program, buffers.allocation)
    packed, most = _queues(buffers.allocation, subject.target)
    total = form.geometry.total_length
    one = layout.total_bytes(1)
    per_element = math.ceil(layout.bytes_per_row / form.pitch)
    fixed = max(one - math.floor(layout.bytes_per_row), layout.reserve)
    if one <= subject.target.ub_bytes:
        try:
            chosen = auto_schedule(
                total, _moved(subject, form), per_element, fixed, subject.target, max_buffer_num=most
            )
        except UbOverflowError:
            chosen = Schedule(tile_length=subject.align.datablock_length, buffer_num=1)
        chosen = chosen.evolve(pack_inputs=packed)
        if (chosen.tile_length or 0) >= form.pitch or _one_row_is_right(subject, buffers, chosen):
            return _whole_rows(subject, buffers, chosen)
    return _parts_of_rows(subject, form, packed, most)


def _one_row_is_right(subject: Subject, buffers: Buffers, schedule: Schedule) -> bool:
    """A row that is somewhat longer than a tile by the rule, fits as a whole, and keeps all cores busy."""
    form = buffers.form
    enough = form.row_count * math.prod(form.outer) >= (schedule.core_num or 1)
    layout = layout_of(subject, buffers, schedule)
    return enough and form.width <= 2 * (schedule.tile_length or 0) and layout.total_bytes(1) <= subject.target.ub_bytes


def _whole_rows(subject: Subject, buffers: Buffers, schedule: Schedule) -> Schedule:
    """Tiles of whole rows: as many as the rule's tile_length has, evened out over a core's block."""
    form, step = buffers.form, subject.align.datablock_length
    largest = max(layout_of(subject, buffers, schedule).largest_tile(subject.target), 1)
    rows = max(min((schedule.tile_length or 0) // form.pitch, largest), 1)
    block = longest_block(subject, form, schedule.core_num or 1)
    tiles = -(-block // rows)
    rows = -(-block // tiles)
    return schedule.evolve(tile_length=-(-rows * form.pitch // step) * step)


def _parts_of_rows(subject: Subject, form: Form, packed: bool, most: int) -> Schedule:
    """Tiles of parts of a row, at least as many of them as cores."""
    step = subject.align.datablock_length
    short, long = (buffers_for(subject, form.with_columns(n * step)) for n in (1, 9))
    cut, wider = (_single(b.program, b.allocation) for b in (short, long))
    per_element = math.ceil((wider.total_bytes(1) - cut.total_bytes(1)) / (8 * step))
    chosen = auto_schedule(
        form.geometry.total_length, _moved(subject, form), max(per_element, 1), cut.reserve, subject.target,
        max_buffer_num=most,
    ).evolve(pack_inputs=packed)  # fmt: skip
    rows, cores = form.row_count * math.prod(form.outer), chosen.core_num or 1
    pieces = -(-form.width // (chosen.tile_length or step))
    pieces = max(pieces, -(-pieces * rows // cores) * cores // rows)  # all cores alike
    columns = max(min(even_columns(form, pieces, step), longest_columns(subject, form, chosen)), step)
    return chosen.evolve(tile_length=columns)
