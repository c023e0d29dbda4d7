"""Recorded searches, replayed: strategies are compared offline, on the times that a store has.

A recording maps schedules to times, as `exhaustive` saw them or as a backend measured them. A strategy asks a replay in
place of the model or the device; what wasn't recorded has no time there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs

from asc_sched.errors import TuningError
from asc_sched.schedule import Schedule
from asc_sched.tune.candidates import Candidates
from asc_sched.tune.keys import Problem
from asc_sched.tune.search import Found, Strategy, exhaustive
from asc_sched.tune.store import Store


@attrs.frozen
class Recording:
    """Times in microseconds by schedule."""

    times: Mapping[Schedule, float]

    @classmethod
    def of(cls, found: Found) -> Recording:
        """What a strategy saw."""
        return cls({schedule: us for us, schedule in found.ranked})

    @classmethod
    def stored(cls, store: Store, problem: Problem) -> Recording:
        """What a store has of a problem."""
        known = store.measurements(problem).values()
        return cls({m.schedule: m.task_us for m in known if m.task_us is not None})

    @property
    def best_us(self) -> float:
        """The fastest recorded time. Raises `TuningError` for an empty recording."""
        if not self.times:
            raise TuningError("the recording is empty: there is nothing to compare with")
        return min(self.times.values())

    def timer(self, schedule: Schedule) -> float:
        """The recorded time. Raises `TuningError` for a schedule that wasn't recorded."""
        if schedule not in self.times:
            raise TuningError(f"{schedule!r} was not recorded")
        return self.times[schedule]


@attrs.frozen
class Replayed:
    """How a strategy did: what it chose, by how much that is slower than the best, and how much it looked at."""

    best: Schedule
    regret: float
    looks: int

    def to_json(self) -> dict[str, Any]:
        return {"best": self.best.to_dict(), "regret": self.regret, "looks": self.looks}


def record(candidates: Candidates) -> Recording:
    """The whole space on the model."""
    return Recording.of(exhaustive(candidates, candidates.model.time, float("inf")))


def replay(candidates: Candidates, recording: Recording, strategy: Strategy, budget_s: float = 60.0) -> Replayed:
    """Run a strategy against a recording. Raises `TuningError` when it found nothing that was recorded."""
    found = strategy(candidates, recording.timer, time.monotonic() + budget_s)
    if not found.ranked:
        raise TuningError("the strategy asked for nothing that was recorded")
    us, best = found.ranked[0]
    return Replayed(best, us / recording.best_us - 1, len(found.ranked) + len(found.failed))
