"""The tiles of a kernel: form, buffers and tiling, for a schedule or by rule, each step deciding on the one before."""

from __future__ import annotations

import math
from functools import lru_cache

import attrs

from asc_sched.errors import ScheduleError, UbOverflowError
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower.allocate import Allocation
from asc_sched.lower.form import Form, Misfit, choose_form
from asc_sched.lower.geometry import Geometry
from asc_sched.lower.hoist import hoisted
from asc_sched.lower.layout import Layout, check_buffers, check_ub, layout_for
from asc_sched.lower.pressure import eased
from asc_sched.lower.program import Program
from asc_sched.lower.spaces import CannotSpreadError, TileProgram, place
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target
from asc_sched.tiling import Alignment, Tiling, prove_coverage, resolve
from asc_sched.tiling.binding import check_tile_length
from asc_sched.tiling.rows import RowTiling, prove_row_coverage, resolve_rows, rows_to

ANY_SIZE = 1 << 26


class RowCountError(ScheduleError):
    """A kernel whose rows are cut into parts needs to know their number when it is compiled."""


@attrs.frozen
class Subject:
    """What is tiled: a program on tensors in a geometry. `any_size`: its outermost dimension may be anything."""

    name: str
    typed: TypedGraph
    program: Program
    tensors: tuple[str, ...]
    itemsizes: tuple[int, ...]
    geometry: Geometry
    any_size: bool
    target: Target

    @property
    def align(self) -> Alignment:
        return Alignment.of(self.itemsizes, self.target)

    @property
    def rows_factor(self) -> int:
        """By how much a kernel of any size is planned for more than its geometry says."""
        return max(1, ANY_SIZE // max(self.geometry.total_length, 1)) if self.any_size else 1


@attrs.frozen
class Buffers:
    """A program placed in a form, with its buffers."""

    form: Form
    program: TileProgram
    allocation: Allocation


@attrs.frozen
class Tiles:
    """All of it decided: buffers under a schedule, rows of a tile, and the tiling (None for a flat one of any size)."""

    buffers: Buffers
    layout: Layout
    schedule: Schedule
    tiling: Tiling | RowTiling | None
    tile_rows: int
    ub_bytes: int
    unit_rows: int = 1

    @property
    def form(self) -> Form:
        return self.buffers.form


def buffers_for(subject: Subject, form: Form) -> Buffers:
    """The buffers of a form. Raises `CannotSpreadError`."""
    return _buffers(subject.program, form, subject.tensors, subject.target)


@lru_cache(maxsize=64)
def _buffers(program: Program, form: Form, tensors: tuple[str, ...], target: Target) -> Buffers:
    """Choosing a schedule, planning under it and timing it ask for the same; so do an op's other schedules."""
    placed = place(program, form, tensors)
    return Buffers(form, *(hoisted(placed, target) if form.is_flat else eased(placed)))


def form_for(subject: Subject, wanted_length: int) -> Form | tuple[Misfit, ...]:
    """The form for tiles of about that many elements, or what must be copied first."""
    geometry = subject.geometry
    if subject.rows_factor > 1:
        sizes = (geometry.sizes[0] * subject.rows_factor, *geometry.sizes[1:])
        geometry = attrs.evolve(geometry, sizes=sizes)
    return choose_form(geometry, subject.itemsizes, wanted_length)


def tiles_for(subject: Subject, schedule: Schedule) -> Tiles | tuple[Misfit, ...]:
    """The tiles of a schedule, or what must be copied first. Raises `ScheduleError` subclasses."""
    if schedule.tile_length is not None:
        check_tile_length(schedule.tile_length, subject.align)
    form = form_for(subject, wanted_length(subject, schedule))
    if isinstance(form, tuple):
        return form
    try:
        return _flat_tiles(subject, form, schedule) if form.is_flat else _row_tiles(subject, form, schedule)
    except CannotSpreadError as error:
        return (Misfit(subject.tensors.index(error.name), expand=True),)


def wanted_length(subject: Subject, schedule: Schedule) -> int:
    """About how many elements the schedule's tiles have."""
    if schedule.tile_length is not None:
        return schedule.tile_length
    if schedule.tile_num is not None:
        if subject.any_size:
            raise ScheduleError(
                f"{subject.name}: tile_num={schedule.tile_num} needs a size to be resolved, and a kernel of any size "
                f"has none; nearest valid: tile_length={_fill_length(subject, schedule)}"
            )
        block = -(-subject.geometry.total_length // _cores(subject, schedule))
        step = subject.align.datablock_length
        return max(-(-block // (schedule.tile_num * schedule.buffer_num) // step) * step, step)
    return _fill_length(subject, schedule)


def _fill_length(subject: Subject, schedule: Schedule) -> int:
    """The longest tile, in elements, that might fit into UB, by the tensors' own buffers."""
    step = subject.align.datablock_length
    per_element = sum(subject.itemsizes) * schedule.buffer_num
    return max(subject.target.ub_bytes // per_element // step * step, step)


def _cores(subject: Subject, schedule: Schedule) -> int:
    return schedule.core_num or subject.target.vector_cores


# -- flat: a row is one element ------------------------------------------------------------------------------------
def _flat_tiles(subject: Subject, form: Form, schedule: Schedule) -> Tiles:
    buffers = buffers_for(subject, form)
    layout = layout_of(subject, buffers, schedule)
    step = subject.align.datablock_length
    largest = layout.largest_tile(subject.target, step)
    tiling = None
    if subject.any_size:
        if schedule.tile_num is not None:
            raise ScheduleError(
                f"{subject.name}: tile_num={schedule.tile_num} needs a size to be resolved, and a kernel of any size "
                f"has none; nearest valid: tile_length={largest}"
            )
        tile_length = block_length = schedule.tile_length or largest or step
    else:
        tiling = resolve(
            schedule, total_length=subject.geometry.total_length, itemsizes=subject.itemsizes, target=subject.target,
            max_tile_length=largest or step,
        )  # fmt: skip
        tile_length, block_length = tiling.tile_length, tiling.block_length
        prove_coverage(tiling)
    ub_bytes = check_ub(layout, tile_length, block_length, subject.target, step, subject.name)
    return Tiles(buffers, layout, schedule, tiling, tile_length, ub_bytes)


def layout_of(subject: Subject, buffers: Buffers, schedule: Schedule) -> Layout:
    """The buffers' layout under a schedule, after the rules of queues."""
    layout = layout_for(buffers.program, buffers.allocation, schedule, subject.target, subject.name)
    check_buffers(layout, subject.target, subject.name)
    return layout


# -- rows ----------------------------------------------------------------------------------------------------------
def _row_tiles(subject: Subject, form: Form, schedule: Schedule) -> Tiles | tuple[Misfit, ...]:
    """Tiles of whole rows where at least one fits, else of parts of a row."""
    buffers = buffers_for(subject, form)
    layout = layout_of(subject, buffers, schedule)
    wanted = wanted_length(subject, schedule)
    explicit = schedule.tile_length is not None or schedule.tile_num is not None
    largest = layout.largest_tile(subject.target)
    if largest and (wanted >= form.pitch or not explicit):
        tile_rows = min(max(wanted // form.pitch, 1), _block_rows(subject, form, schedule))
        if not explicit:
            tile_rows = _even_rows(min(tile_rows, largest), subject, form, schedule)
        if tile_rows == 1:  # then a row that is the same for all is the tile as it is
            buffers = buffers_for(subject, form.with_columns(form.width))
            layout = layout_of(subject, buffers, schedule)
        return _finish(subject, buffers, layout, schedule, tile_rows)
    return _cut_tiles(subject, form, schedule, wanted, explicit)


def _block_rows(subject: Subject, form: Form, schedule: Schedule) -> int:
    """The rows of the longest block of a core."""
    return longest_block(subject, form, _cores(subject, schedule))


def longest_block(subject: Subject, form: Form, core_num: int) -> int:
    """The rows of the longest block when a form's rows are split over that many cores."""
    rows = form.row_count * form.group_count
    unit = unit_rows(subject, form, core_num)
    units = -(-rows // unit) if -(-rows // unit) >= core_num else rows
    unit = unit if units < rows else 1
    return max(min(unit * -(-units // min(core_num, max(units, 1))), rows), 1)


def unit_rows(subject: Subject, form: Form, core_num: int) -> int:
    """Rows that blocks should be multiples of, so that no two cores write to one line of GM, or to one data block.

    Rows that are cut into parts, or are fewer than there are cores, are dealt out singly.
    """
    if form.cut:
        return 1
    smallest = min(subject.itemsizes)
    line = rows_to(subject.target.gm_line_bytes, form.width * smallest)
    if subject.any_size or -(-form.row_count * form.group_count // line) >= core_num:
        return line
    return rows_to(subject.target.block_bytes, form.width * smallest)


def _even_rows(largest: int, subject: Subject, form: Form, schedule: Schedule) -> int:
    """Rows of a tile when a core's block is cut into as few rounds of buffer_num tiles as fit, all alike."""
    block = _block_rows(subject, form, schedule)
    rounds = -(-block // (largest * schedule.buffer_num))
    return min(largest, max(-(-block // (rounds * schedule.buffer_num)), 1))


def _cut_tiles(
    subject: Subject, form: Form, schedule: Schedule, wanted: int, explicit: bool
) -> Tiles | tuple[Misfit, ...]:
    """Tiles of parts of a row. What needs less than a row, but more than an element of it, can't be cut."""
    partial = [
        Misfit(i, expand=True) for i, a in enumerate(form.accesses) if 1 < a.row_length < form.width
    ]
    if partial:
        return tuple(partial)
    longest = longest_columns(subject, form, schedule)
    if longest == 0 or (explicit and min(wanted, form.width) > longest):
        raise _too_wide(subject, form, schedule, wanted if explicit else 0, longest)
    columns = wanted
    if not explicit:
        columns = even_columns(form, -(-form.width // min(wanted, longest)), subject.align.datablock_length)
    cut = form.with_columns(min(columns, form.width))
    buffers = buffers_for(subject, cut)
    return _finish(subject, buffers, layout_of(subject, buffers, schedule), schedule, 1)


def even_columns(form: Form, pieces: int, step: int) -> int:
    """The columns of a row that is cut into that many pieces, all alike but for whole data blocks."""
    return -(-form.width // (pieces * step)) * step


def _too_wide(subject: Subject, form: Form, schedule: Schedule, wanted: int, longest: int) -> UbOverflowError:
    columns = min(wanted, form.width) or subject.align.datablock_length
    layout = layout_of(subject, buffers_for(subject, form.with_columns(columns)), schedule)
    text = (
        f"{subject.name}: a tile of {columns} elements, part of one row, needs {layout.total_bytes(1)} bytes of UB, "
        f"and {subject.target.name} has {subject.target.ub_bytes}; "
    )
    if longest == 0:
        return UbOverflowError(f"{text}split the computation into several ops")
    return UbOverflowError(
        f"{text}the largest tile_length that fits at buffer_num={schedule.buffer_num} is {longest}; nearest valid: "
        f"tile_length={longest}"
    )


def longest_columns(subject: Subject, form: Form, schedule: Schedule) -> int:
    """The most columns of one row that fit into UB, found by trying: bytes grow with the columns. 0 if none do."""
    step = subject.align.datablock_length
    target = subject.target

    def fits(columns: int) -> bool:
        buffers = buffers_for(subject, form.with_columns(columns))
        return layout_of(subject, buffers, schedule).total_bytes(1) <= target.ub_bytes

    least, most = 0, max(target.ub_bytes // (sum(subject.itemsizes) * step), 1)
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle * step):
            least = middle
        else:
            most = middle - 1
    return least * step


def _finish(subject: Subject, buffers: Buffers, layout: Layout, schedule: Schedule, tile_rows: int) -> Tiles:
    form = buffers.form
    block_length = _block_rows(subject, form, schedule) * form.pitch
    used = check_ub(layout, tile_rows, block_length, subject.target, 1, subject.name, form.pitch)
    outer_count, row_count = math.prod(form.outer), form.row_count
    if subject.any_size:
        outer_count, row_count = row_counts(form, subject.geometry)
    unit = unit_rows(subject, form, _cores(subject, schedule))
    tiling = resolve_rows(
        schedule, outer_count=outer_count, row_count=row_count, width=form.width,
        column_tile=form.column_tile, tile_rows=tile_rows,
        unit_rows=unit, target=subject.target,
    )  # fmt: skip
    prove_row_coverage(tiling)
    return Tiles(buffers, layout, schedule, tiling, tile_rows, used, unit)


def row_counts(form: Form, geometry: Geometry) -> tuple[int, int]:
    """(outer indices, rows of a group) of a form on a geometry of its own kind, which may have more or fewer rows."""
    dim = len(form.outer)
    return math.prod(geometry.sizes[:dim]), geometry.sizes[dim]


def nothing_fits(subject: Subject) -> UbOverflowError:
    """The error for a kernel of which not even the smallest tile fits, with single buffers and everything packed."""
    step, target = subject.align.datablock_length, subject.target
    found = choose_form(subject.geometry, subject.itemsizes, step)
    assert isinstance(found, Form)
    form = found if found.is_flat else found.with_columns(step)
    placed = buffers_for(subject, form)
    program, allocation = placed.program, placed.allocation
    layout = Layout(allocation, 1, True, True, None, program.reserve_bytes, program.granule_bytes)
    buffers = len(allocation.slots)
    return UbOverflowError(
        f"{subject.name}: the smallest tile, {step} elements, needs {layout.total_bytes(step if form.is_flat else 1)} "
        f"bytes of UB ({buffers} buffers, {len(allocation.temps)} of them temporaries: "
        f"{layout.bytes_per_row / form.pitch:g} bytes per element; inputs share a queue, as {target.name} has "
        f"{target.max_queue_buffers} queue buffers per position), and {target.name} has {target.ub_bytes}; split the "
        "computation into several ops"
    )
