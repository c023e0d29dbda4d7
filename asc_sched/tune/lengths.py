"""Which tile lengths are worth looking at: of one run of elements, or of rows, whole or cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import attrs

from asc_sched.errors import QueueLimitError
from asc_sched.lower.form import Form
from asc_sched.lower.rows import Rows
from asc_sched.schedule import Schedule
from asc_sched.tiling import Alignment
from asc_sched.tiling.estimate import Split, Work
from asc_sched.tune.space import Space


class Lengths(Protocol):
    """The tile lengths of a task's schedules. `has_pairs`: some instruction reads two buffers; `inputs`: how many input
    queues there are."""

    @property
    def has_pairs(self) -> bool: ...

    @property
    def inputs(self) -> int: ...

    def longest(self, variant: Schedule) -> int:
        """The longest tile under a schedule's memory knobs, in elements; 0 where none fits."""

    def used_cores(self, core_num: int) -> int:
        """The most cores that get work when so many are asked for."""

    def tiles(self, space: Space, variant: Schedule, core_num: int, cores: tuple[int, ...]) -> Iterator[int]:
        """Lengths to try on so many of the `cores` that the space has."""


@attrs.frozen
class RunLengths:
    """Of one run of elements."""

    work: Work
    align: Alignment
    total_length: int
    widest: int

    @property
    def has_pairs(self) -> bool:
        return self.work.has_pairs

    @property
    def inputs(self) -> int:
        return len(self.work.in_sizes)

    def longest(self, variant: Schedule) -> int:
        return self.work.longest_tile(variant, self.align.datablock_length)

    def used_cores(self, core_num: int) -> int:
        return Split.of(self.total_length, core_num, self.align).core_num

    def tiles(self, space: Space, variant: Schedule, core_num: int, cores: tuple[int, ...]) -> Iterator[int]:
        align, longest = self.align, self.longest(variant)
        block = Split.of(self.total_length, core_num, align, variant.core_split).block_length
        step = align.step(min(block, longest))
        lengths = set(space.tiles(block, longest // step * step, step, self.widest))
        if space.tile_length is None and step == align.line_length and not variant.bank_pad:
            lengths |= set(_off_line(longest, min(block, longest), step))
        yield from sorted(lengths, reverse=True)


def _off_line(longest: int, most: int, step: int) -> Iterator[int]:
    """Long tiles of some quarters of a GM line more than whole ones: their buffers start in different bank groups."""
    for part in (longest, longest * 15 // 16):
        for quarters in (1, 2, 3):
            shift = step * quarters // 4
            length = (part - shift) // step * step + shift
            if step < length <= most:
                yield length


@attrs.frozen
class RowLengths:
    """Of rows: as many whole ones as a tile takes, or pieces of one."""

    rows: Rows
    widest: int
    has_pairs: bool

    @property
    def inputs(self) -> int:
        return self.rows.inputs()

    def longest(self, variant: Schedule) -> int:
        longest = self.rows.longest(variant)
        if not longest and all(self.rows.layout(r.form, variant) is None for r in self.rows.ranges):
            raise QueueLimitError(f"{variant!r} needs more queue buffers than {self.rows.subject.target.name} has")
        return longest

    def used_cores(self, core_num: int) -> int:
        return max((self._used(form, core_num) for form in self._finest()), default=1)

    def _finest(self) -> Iterator[Form]:
        for r in self.rows.ranges:
            yield r.form
            if not r.form.is_flat and r.form.width > self.rows.step:
                yield self.rows.cut(r.form, self.rows.step)

    def _used(self, form: Form, core_num: int) -> int:
        return self.rows.used_cores(form, core_num)

    def tiles(self, space: Space, variant: Schedule, core_num: int, cores: tuple[int, ...]) -> Iterator[int]:
        if space.tile_length is not None:
            yield from dict.fromkeys(space.tile_length)
            return
        found: dict[int, None] = {}
        for r in self.rows.ranges:
            for length in self._of_form(space, variant, core_num, r.form):
                if r.least <= length < r.end and self._new(length, core_num, cores):
                    found[length] = None
        yield from sorted(found, reverse=True)

    def _of_form(self, space: Space, variant: Schedule, core_num: int, form: Form) -> Iterator[int]:
        rows, step = self.rows, self.rows.step
        block, most = rows.block_rows(form, core_num), rows.most_rows(form, variant)
        for count in space.tiles(block, most, 1, self.widest * form.pitch) if most else ():
            length = -(-count * form.pitch // step) * step
            yield length if length // form.pitch <= most else length - step
        columns = rows.most_columns(form, variant) if form is rows.ranges[0].form else 0
        line = step * (rows.subject.align.line_length // step)
        step = line if form.width % line == 0 and columns >= line else step
        for columns_tile in space.tiles(form.width, columns // step * step, step, self.widest) if columns else ():
            if columns_tile < form.width:
                yield columns_tile

    def _new(self, length: int, core_num: int, cores: tuple[int, ...]) -> bool:
        """Whether so many cores launch others than a smaller number does."""
        form = self.rows.form_at(length)
        if form is None or length < self.rows.step:
            return False
        if not form.is_flat and length < form.pitch:
            form = self.rows.cut(form, length)
        used = self._used(form, core_num)
        return not any(used <= c < core_num for c in cores)
