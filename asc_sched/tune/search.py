"""Strategies: in which order a space is looked at, and when to stop. They see times only, never how they come about."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from asc_sched.errors import AscSchedError
from asc_sched.schedule import Schedule
from asc_sched.tune.candidates import Candidates

# Time of a schedule in microseconds; raises AscSchedError where it has none.
Timer = Callable[[Schedule], float]


@attrs.frozen
class Found:
    """Schedules looked at, fastest first, and how many there were in all."""

    ranked: tuple[tuple[float, Schedule], ...]

    @property
    def best(self) -> Schedule:
        return self.ranked[0][1]


class Strategy(Protocol):
    """Looks at candidates through `timer` until satisfied or `deadline` (time.monotonic) has passed."""

    def __call__(self, candidates: Candidates, timer: Timer, deadline: float) -> Found: ...


def exhaustive(candidates: Candidates, timer: Timer, deadline: float) -> Found:
    """Everything, in order."""
    seen = _Seen(timer, deadline)
    for schedule in candidates.all():
        seen(schedule)
    return seen.found()


def descent(candidates: Candidates, timer: Timer, deadline: float) -> Found:
    """Coarse grid on the plain variant, descent along core_num and tile_length, then every variant around the best.

    Time is smooth along cores and tiles and the memory knobs act nearly alike at every point, so a few hundred looks
    find what the whole space has; `benchmarks/tuning.py` measures the regret.
    """
    seen = _Seen(timer, deadline)
    variants = sorted(candidates.variants, key=lambda v: (v.buffer_num != 2, v.sort_key))
    if not variants:
        return seen.found()
    for variant in {variants[0], *[v for v in variants if v.buffer_num == 1][:1]}:
        for core_num in _spread(candidates.cores, 5):
            for tile in _spread(candidates.tiles(variant, core_num), 5):
                seen(attrs.evolve(variant, core_num=core_num, tile_length=tile))
    _descend(candidates, seen, seen.best_of(variants[0]))
    start = seen.found()
    if not start.ranked:
        return start
    for variant in variants:
        for schedule in _nearby(candidates, variant, start.best):
            seen(schedule)
    leaders = sorted(variants, key=seen.best_time)[:4]
    for variant in leaders:
        _descend(candidates, seen, seen.best_of(variant))
    return seen.found()


class _Seen:
    """Times by schedule, each asked for once; after the deadline nothing more is asked for."""

    def __init__(self, timer: Timer, deadline: float) -> None:
        self._timer = timer
        self._deadline = deadline
        self.times: dict[Schedule, float] = {}

    def __call__(self, schedule: Schedule) -> float:
        if schedule not in self.times:
            if self.times and time.monotonic() > self._deadline:
                return float("inf")
            try:
                self.times[schedule] = self._timer(schedule)
            except AscSchedError:
                self.times[schedule] = float("inf")
        return self.times[schedule]

    def best_of(self, variant: Schedule) -> Schedule | None:
        mine = [s for s in self.times if _variant(s) == variant and self.times[s] < float("inf")]
        return min(mine, key=lambda s: (self.times[s], s.sort_key), default=None)

    def best_time(self, variant: Schedule) -> float:
        best = self.best_of(variant)
        return float("inf") if best is None else self.times[best]

    def found(self) -> Found:
        good = [(t, s) for s, t in self.times.items() if t < float("inf")]
        return Found(tuple(sorted(good, key=lambda pair: (pair[0], pair[1].sort_key))))


def _variant(schedule: Schedule) -> Schedule:
    return attrs.evolve(schedule, core_num=None, tile_length=None)


def _spread(values: Sequence[int], count: int) -> list[int]:
    """About `count` values, first and last among them."""
    if len(values) <= count:
        return list(values)
    return [values[round(i * (len(values) - 1) / (count - 1))] for i in range(count)]


def _descend(candidates: Candidates, seen: _Seen, start: Schedule | None) -> None:
    """Moves to the best neighbour (one or two steps in cores or tiles) until none is better."""
    current = start
    while current is not None:
        around = _neighbours(candidates, current)
        best = min([current, *around], key=lambda s: (seen(s), s.sort_key))
        if seen(best) >= seen(current):
            return
        current = best


def _neighbours(candidates: Candidates, schedule: Schedule) -> list[Schedule]:
    variant = _variant(schedule)
    assert schedule.core_num is not None and schedule.tile_length is not None
    found: list[Schedule] = []
    for tile in _around(candidates.tiles(variant, schedule.core_num), schedule.tile_length, 2):
        found.append(attrs.evolve(schedule, tile_length=tile))
    for core_num in _around(candidates.cores, schedule.core_num, 2):
        tiles = candidates.tiles(variant, core_num)
        for tile in _around(tiles, _closest(tiles, schedule.tile_length), 1):
            found.append(attrs.evolve(schedule, core_num=core_num, tile_length=tile))
    return found


def _nearby(candidates: Candidates, variant: Schedule, best: Schedule) -> list[Schedule]:
    """The same cores and about the same tiles under another variant."""
    assert best.core_num is not None and best.tile_length is not None
    tiles = candidates.tiles(variant, best.core_num)
    if not tiles:
        return []
    near = _around(tiles, _closest(tiles, best.tile_length), 1)
    return [attrs.evolve(variant, core_num=best.core_num, tile_length=t) for t in near]


def _closest(values: Sequence[int], wanted: int) -> int:
    return min(values, key=lambda v: (abs(v - wanted), v), default=wanted)


def _around(values: Sequence[int], value: int, reach: int) -> list[int]:
    """The value and up to `reach` others on either side of it, by size."""
    ordered = sorted(set(values))
    at = bisect.bisect_left(ordered, value)
    return ordered[max(0, at - reach) : at + reach + 1]
