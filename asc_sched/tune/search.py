"""Strategies: in which order a space is looked at, and when to stop. They see times only, never how they come about."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import attrs

from asc_sched.errors import AscSchedError
from asc_sched.schedule import Schedule
from asc_sched.tune.candidates import Candidates, variant_of

# Time of a schedule in microseconds; raises AscSchedError where it has none.
Timer = Callable[[Schedule], float]

# How far `descent` looks: core counts and tiles of the first grid, how many of the best of the whole grid it looks at
# besides each variant's own, and how many variants it follows further.
_CORES, _TILES, _LEADERS, _FOLLOWED = 20, 4, 12, 3
# A variant's neighbours are worth a look if it is within this factor of the best.
_NEAR = 1.1


@attrs.frozen
class Found:
    """Schedules looked at, fastest first; `failed` are those without a time, with the reason."""

    ranked: tuple[tuple[float, Schedule], ...]
    failed: tuple[tuple[Schedule, str], ...] = ()

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


def random_sample(candidates: Candidates, timer: Timer, deadline: float, *, count: int = 100, seed: int = 0) -> Found:
    """`count` schedules at random: what any strategy has to beat."""
    import random

    everything = list(candidates.all())
    seen = _Seen(timer, deadline)
    for schedule in random.Random(seed).sample(everything, min(count, len(everything))):
        seen(schedule)
    return seen.found()


def descent(candidates: Candidates, timer: Timer, deadline: float) -> Found:
    """A closed-form estimate of a coarse grid, one look at the best of each variant, then steps along cores and tiles.

    Time is smooth along cores, nearly so along tiles, and the memory knobs act much alike everywhere, so a hundred
    looks find what the whole space has; `benchmarks/tuning.py` measures the regret.
    """
    seen = _Seen(timer, deadline)
    for start in candidates.starts():
        seen(start)
    for start in _promising(candidates):
        seen(start)
    if not seen.found().ranked:
        return exhaustive(candidates, timer, deadline)
    leaders: dict[float, Schedule] = {}
    for variant in sorted(candidates.variants, key=lambda v: (seen.best_time(v), v.sort_key)):
        leaders.setdefault(seen.best_time(variant), variant)  # those as fast as each other go the same way
    for variant in list(leaders.values())[:_FOLLOWED]:
        _descend(candidates, seen, seen.best_of(variant))
    _vary(candidates, seen)
    return seen.found()


def _promising(candidates: Candidates) -> list[Schedule]:
    """By the estimate: each variant's best on a grid, and the best of all.

    Schedules with equal estimates are the same kernel in other words (two buffers for one tile): the simplest stands
    for them.
    """
    found: list[Schedule] = []
    everywhere: dict[float, Schedule] = {}
    for variant in candidates.variants:
        grid = [
            attrs.evolve(variant, core_num=core_num, tile_length=tile)
            for core_num in _spread(candidates.cores, _CORES)
            for tile in _spread(candidates.tiles(variant, core_num), _TILES)
        ]
        most = max(candidates.cores)
        grid += [
            attrs.evolve(variant, core_num=most, tile_length=tile)
            for tile in _spread(candidates.tiles(variant, most), 64)  # from one to the next, banks change
        ]
        ranked = sorted((candidates.estimate(s), s.sort_key, s) for s in dict.fromkeys(grid))
        found += [s for _, _, s in ranked[:1]]
        for time_us, _, schedule in ranked[:_LEADERS]:
            same = everywhere.setdefault(time_us, schedule)
            if schedule.sort_key < same.sort_key:
                everywhere[time_us] = schedule
    leaders = sorted(everywhere.items(), key=lambda pair: pair[0])[:_LEADERS]
    return list(dict.fromkeys([*found, *(s for _, s in leaders)]))


class _Seen:
    """Times by schedule, each asked for once; after the deadline nothing more is asked for."""

    def __init__(self, timer: Timer, deadline: float) -> None:
        self._timer = timer
        self._deadline = deadline
        self.times: dict[Schedule, float] = {}
        self.failed: dict[Schedule, str] = {}

    def __call__(self, schedule: Schedule) -> float:
        if schedule not in self.times:
            if self.times and time.monotonic() > self._deadline:
                return float("inf")
            try:
                self.times[schedule] = self._timer(schedule)
            except AscSchedError as error:
                self.times[schedule] = float("inf")
                self.failed[schedule] = f"{type(error).__name__}: {error}"
        return self.times[schedule]

    def best(self, schedules: Iterable[Schedule]) -> Schedule | None:
        good = [s for s in schedules if self.times[s] < float("inf")]
        return min(good, key=lambda s: (self.times[s], s.sort_key), default=None)

    def best_of(self, variant: Schedule) -> Schedule | None:
        return self.best(s for s in self.times if variant_of(s) == variant)

    def best_time(self, variant: Schedule) -> float:
        best = self.best_of(variant)
        return float("inf") if best is None else self.times[best]

    def found(self) -> Found:
        good = [(t, s) for s, t in self.times.items() if t < float("inf")]
        ranked = tuple(sorted(good, key=lambda pair: (pair[0], pair[1].sort_key)))
        return Found(ranked, tuple(self.failed.items()))


def _spread(values: Sequence[int], count: int) -> list[int]:
    """About `count` values, first and last among them."""
    if len(values) <= count:
        return list(values)
    return [values[round(i * (len(values) - 1) / (count - 1))] for i in range(count)]


def _descend(candidates: Candidates, seen: _Seen, start: Schedule | None) -> None:
    """Moves to the best neighbour (a few steps in cores or tiles) until none is better."""
    current = start
    while current is not None:
        best = min([current, *_neighbours(candidates, current)], key=lambda s: (seen(s), s.sort_key))
        if seen(best) >= seen(current):
            return
        current = best


def _neighbours(candidates: Candidates, schedule: Schedule) -> list[Schedule]:
    variant = variant_of(schedule)
    assert schedule.core_num is not None and schedule.tile_length is not None
    found: list[Schedule] = []
    for tile in _around(candidates.tiles(variant, schedule.core_num), schedule.tile_length, 3):
        found.append(attrs.evolve(schedule, tile_length=tile))
    for core_num in _around(candidates.cores, schedule.core_num, 2):
        tiles = candidates.tiles(variant, core_num)
        for tile in _around(tiles, _same_count(candidates, schedule, core_num, tiles), 1):
            found.append(attrs.evolve(schedule, core_num=core_num, tile_length=tile))
    return found


def _same_count(candidates: Candidates, schedule: Schedule, core_num: int, tiles: Sequence[int]) -> int:
    """The tile length on other cores that cuts their blocks into as many tiles."""
    total = candidates.model.task.total_length
    assert schedule.core_num is not None and schedule.tile_length is not None
    count = max(1, round(total / schedule.core_num / schedule.tile_length))
    return _closest(tiles, -(-total // (core_num * count)))


def _vary(candidates: Candidates, seen: _Seen) -> None:
    """The best point under every other variant, and the tiles beside it where that comes near."""
    best = seen.best(seen.times)
    assert best is not None and best.core_num is not None and best.tile_length is not None
    for variant in candidates.variants:
        tiles = candidates.tiles(variant, best.core_num)
        if not tiles:
            continue
        closest = _closest(tiles, best.tile_length)
        if seen(attrs.evolve(variant, core_num=best.core_num, tile_length=closest)) <= _NEAR * seen(best):
            for tile in _around(tiles, closest, 1):
                seen(attrs.evolve(variant, core_num=best.core_num, tile_length=tile))


def _closest(values: Sequence[int], wanted: int) -> int:
    return min(values, key=lambda v: (abs(v - wanted), v), default=wanted)


def _around(values: Sequence[int], value: int, reach: int) -> list[int]:
    """The value and up to `reach` others on either side of it, by size."""
    ordered = sorted(set(values))
    at = bisect.bisect_left(ordered, value)
    return ordered[max(0, at - reach) : at + reach + 1]
