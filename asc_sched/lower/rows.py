"""What a subject's schedules can be in rows: the forms by tile length, and how many rows or columns a tile can have.

Everything that doesn't depend on the schedule, or on its memory knobs alone, is computed once: for those who look at
many schedules of one subject.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import attrs

from asc_sched.errors import QueueLimitError
from asc_sched.lower.allocate import Kind
from asc_sched.lower.form import Form
from asc_sched.lower.layout import Layout
from asc_sched.lower.spaces import CannotSpreadError
from asc_sched.lower.tiles import (
    Buffers,
    Subject,
    buffers_for,
    form_for,
    layout_of,
    longest_block,
    longest_columns,
    unit_rows,
)
from asc_sched.schedule import Schedule


@attrs.frozen
class Range:
    """A form, and the tile lengths that lead to it: from `least` to below `end`."""

    form: Form
    least: int
    end: int


def variant_of(schedule: Schedule) -> Schedule:
    """A schedule's memory knobs alone."""
    return attrs.evolve(schedule, core_num=None, tile_num=None, tile_length=None)


class Rows:
    """The forms of one subject."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.step = subject.align.datablock_length
        self._buffers: dict[Form, Buffers | None] = {}
        self._layouts: dict[tuple[Form, Schedule], Layout | None] = {}
        self._rows: dict[tuple[Form, Schedule], int] = {}
        self._columns: dict[tuple[Form, Schedule], int] = {}

    @cached_property
    def ranges(self) -> tuple[Range, ...]:
        """The forms that the chip can compute without copies made before, by tile length."""
        sizes = self.subject.geometry.sizes
        marks = sorted({1, *(math.prod(sizes[d:]) for d in range(len(sizes)))})
        found = []
        for least, end in zip(marks, [*marks[1:], 1 << 62], strict=True):
            form = form_for(self.subject, least)
            if isinstance(form, Form) and self.buffers(form) is not None:
                found.append(Range(form, least, end))
        return tuple(found)

    def form_at(self, tile_length: int) -> Form | None:
        """The form that tiles of about that length have."""
        return next((r.form for r in self.ranges if r.least <= tile_length < r.end), None)

    def buffers(self, form: Form) -> Buffers | None:
        """The buffers of a form; None where something can't be spread."""
        if form not in self._buffers:
            try:
                self._buffers[form] = buffers_for(self.subject, form)
            except CannotSpreadError:
                self._buffers[form] = None
        return self._buffers[form]

    def layout(self, form: Form, variant: Schedule) -> Layout | None:
        """The UB layout under a schedule's memory knobs; None where its queues are too many."""
        key = (form, variant)
        if key not in self._layouts:
            buffers = self.buffers(form)
            try:
                self._layouts[key] = None if buffers is None else layout_of(self.subject, buffers, variant)
            except QueueLimitError:
                self._layouts[key] = None
        return self._layouts[key]

    # -- how long tiles can be ----------------------------------------------------------------------------------------
    def most_rows(self, form: Form, variant: Schedule) -> int:
        """The most whole rows of a tile that the UB takes."""
        key = (form, variant)
        if key not in self._rows:
            layout = self.layout(form, variant)
            self._rows[key] = 0 if layout is None else layout.largest_tile(self.subject.target)
        return self._rows[key]

    def most_columns(self, form: Form, variant: Schedule) -> int:
        """The most columns of a tile that is a part of one row; 0 where rows can't be cut."""
        key = (form, variant)
        if key not in self._columns:
            whole = all(a.row_length in (1, form.width) for a in form.accesses)
            fits = not form.is_flat and whole and self.layout(form, variant) is not None
            self._columns[key] = longest_columns(self.subject, form, variant) if fits else 0
        return self._columns[key]

    def longest(self, variant: Schedule) -> int:
        """The longest tile under a schedule's memory knobs, in elements; 0 where none fits."""
        rows = [min(self.most_rows(r.form, variant) * r.form.pitch, r.end - 1) for r in self.ranges]
        return max([*rows, *(self.most_columns(r.form, variant) for r in self.ranges[:1])], default=0)

    # -- how rows are split -------------------------------------------------------------------------------------------
    def block_rows(self, form: Form, core_num: int) -> int:
        """Rows of a core's longest block."""
        return longest_block(self.subject, form, core_num)

    def used_cores(self, form: Form, core_num: int) -> int:
        """How many of `core_num` cores get rows of a form."""
        rows = form.row_count * form.group_count
        unit = unit_rows(self.subject, form, core_num)
        units = -(-rows // unit)
        return min(core_num, units if units >= core_num else rows)

    def cut(self, form: Form, columns: int) -> Form:
        """The form with tiles of that many columns of one row."""
        return form.with_columns(min(columns, form.width))

    def inputs(self) -> int:
        """The most input queues of a form."""
        return max((self._count(r.form, Kind.IN) for r in self.ranges), default=0)

    def _count(self, form: Form, kind: Kind) -> int:
        buffers = self.buffers(form)
        return 0 if buffers is None else len(buffers.allocation.of_kind(kind))

    def programs(self) -> Iterator[Buffers]:
        """The buffers of every form."""
        for r in self.ranges:
            buffers = self.buffers(r.form)
            if buffers is not None:
                yield buffers
