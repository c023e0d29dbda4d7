"""A good schedule of rows by rule: the costs of its form, weighed in closed form, as `tiling.weigh` does for one run
of elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from asc_sched.lower.form import Form
from asc_sched.lower.row_estimate import RowEstimate
from asc_sched.lower.rows import Rows
from asc_sched.lower.work import is_pair
from asc_sched.schedule import Schedule
from asc_sched.tiling.weigh import BETWEEN, CORES, MIN_COPY_BYTES, WORTH

# A core's rows are cut into the fewest tiles that fit, or into some more.
_MORE_TILES = (1, 2, 3, 4, 6, 8)
# So many of the best are tried with bank padding too.
_PADDED = 6
# Rows of at least so many bytes may be cut into parts where whole ones fit as well.
_WIDE_BYTES = 8192


def weighed_rows(rows: Rows) -> Schedule | None:
    """A schedule for rows, near the best of a search; None where nothing was found to fit.

    - Inputs that every tile reads share one queue, and bypass L2 where it can't hold everything anyway.
    - Cores and tiles are weighed by `RowEstimate`: whole rows, or parts of one where rows are wide or few.
    - Two buffers where a core has two tiles to overlap, bank padding where it saves more than it costs.
    """
    return _Rule(rows).best()


class _Rule:
    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.subject = rows.subject
        self.target = rows.subject.target
        self.estimate = RowEstimate(rows)
        self.widest = max(self.subject.itemsizes)
        self.has_pairs = any(is_pair(s) for b in rows.programs() for s in b.program.steps)
        self.plain = Schedule(
            pack_inputs=rows.inputs() > 1, l2_cache="normal" if self.estimate.resident else "bypass"
        )  # fmt: skip

    def best(self) -> Schedule | None:
        limit = min(self.target.vector_cores, self.target.max_block_dim)
        found = self._weigh([*(c for c in CORES if c < limit), limit], _MORE_TILES[:2])
        if not found:
            return None
        middle = self._least(found).core_num or 1
        fewer = max((c for c in BETWEEN if c < middle), default=1)
        more = min((c for c in BETWEEN if middle < c < limit), default=1)
        found |= self._weigh([fewer, middle, more], _MORE_TILES)
        leaders = sorted(found, key=lambda s: (found[s], s.sort_key))[:_PADDED]
        best = leaders[0]
        padded = {s: t for leader in leaders for s, t in self._padded(leader).items()}
        if padded and padded[self._least(padded)] < (1 - WORTH) * found[best]:
            best = self._least(padded)
        return best

    @staticmethod
    def _least(found: dict[Schedule, float]) -> Schedule:
        return min(found, key=lambda s: (found[s], s.sort_key))

    def _weigh(self, cores: Sequence[int], more: Sequence[int]) -> dict[Schedule, float]:
        schedules = dict.fromkeys(s for core_num in cores for s in self._schedules(core_num, more))
        times = {s: self.estimate.task_us(s) for s in schedules}
        return {s: t for s, t in times.items() if t < float("inf")}

    def _schedules(self, core_num: int, more: Sequence[int]) -> Iterator[Schedule]:
        for buffers in (2, 1):
            variant = attrs.evolve(self.plain, buffer_num=buffers)
            for r in self.rows.ranges:
                lengths = [*self._whole(r.form, variant, core_num, more), *self._parts(r.form, variant, core_num, more)]
                for length in dict.fromkeys(t for t in lengths if r.least <= t < r.end):
                    yield attrs.evolve(variant, core_num=core_num, tile_length=length)

    def _whole(self, form: Form, variant: Schedule, core_num: int, more: Sequence[int]) -> Iterator[int]:
        """Lengths of whole rows that cut a core's block, or a group of rows within it, into equal tiles."""
        most, step = self.rows.most_rows(form, variant), self.rows.step
        block = min(self.rows.block_rows(form, core_num), form.row_count)
        if not most:
            return
        fewest = -(-block // most)
        for tiles in dict.fromkeys([fewest, fewest + 1, *(fewest * times for times in more)]):
            count = -(-block // tiles)
            if tiles == fewest or count * form.pitch * self.widest >= MIN_COPY_BYTES:
                length = -(-count * form.pitch // step) * step
                yield length if length // form.pitch <= most else length - step

    def _parts(self, form: Form, variant: Schedule, core_num: int, more: Sequence[int]) -> Iterator[int]:
        """Columns that cut a row into equal parts."""
        few = form.row_count * form.group_count < 2 * core_num
        if form is not self.rows.ranges[0].form or form.is_flat:
            return
        if not few and form.width * self.widest < _WIDE_BYTES and self.rows.most_rows(form, variant):
            return
        most, step = self.rows.most_columns(form, variant), self.rows.step
        if not most:
            return
        fewest, rows = max(-(-form.width // most), 2), form.row_count * form.group_count
        alike = core_num // math.gcd(core_num, rows)  # pieces of which all cores get as many
        even = -(-fewest // alike) * alike
        for count in dict.fromkeys([*(fewest * times for times in more), even, even + alike]):
            length = -(-form.width // (count * step)) * step
            if length * self.widest >= MIN_COPY_BYTES or count == fewest:
                yield length

    def _padded(self, schedule: Schedule) -> dict[Schedule, float]:
        """The schedule with bank padding, and tiles as short as that needs, with the times."""
        if not self.has_pairs:
            return {}
        variant = attrs.evolve(self.plain, buffer_num=schedule.buffer_num, bank_pad=True)
        tile, longest = schedule.tile_length or 0, self.rows.longest(variant)
        lengths = [tile]
        if tile > longest:
            form = self.rows.form_at(longest)
            wanted = [] if form is None else self._whole(form, variant, schedule.core_num or 1, _MORE_TILES[:2])
            lengths = [t for t in wanted if 0 < t <= longest]
        padded = (attrs.evolve(schedule, bank_pad=True, tile_length=t) for t in lengths)
        times = {s: self.estimate.task_us(s) for s in padded}
        return {s: t for s, t in times.items() if t < float("inf")}
