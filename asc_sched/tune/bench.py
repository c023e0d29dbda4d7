"""Measuring on a real backend: each candidate in a process apart, then the leaders again until the first ones hold."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence

from asc_sched.build.service import Station
from asc_sched.errors import WorkerCrashError
from asc_sched.schedule import Schedule
from asc_sched.tune import trial
from asc_sched.tune.decide import Sample, summarise
from asc_sched.tune.model import Model
from asc_sched.tune.options import Options
from asc_sched.tune.store import Measurement

LEADERS = 3  # measured again, interleaved
ROUNDS = 3  # of that
START_LIMIT_S = 120.0  # for a trial's process to load torch


class Bench:
    """Measures compiled candidates of a search. `samples` are of those that are right, `rejected` says why not.

    `known` are earlier measurements, which aren't made again; `record` keeps each new one at once.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        known: Mapping[Schedule, Measurement],
        record: Callable[[Measurement], None],
        deadline: float,
    ) -> None:
        self._model = model
        self._options = options
        self._known = known
        self._record = record
        self._deadline = deadline
        self._station = Station()  # of the process that trials run in; a crash costs that process alone
        self.samples: dict[Schedule, Sample] = {}
        self.rejected: dict[Schedule, str] = {}
        self.measured = 0

    def close(self) -> None:
        """End the trials' process."""
        self._station.close()

    def run(self, candidates: Sequence[Schedule]) -> None:
        """Each candidate once, as far as time allows, then the leaders in turn."""
        for schedule in candidates:
            known = self._known.get(schedule)
            if known is None:
                self._first(schedule)
            elif known.status == "ok" and known.task_us is not None:
                self.samples[schedule] = _sample_of(known)
            else:
                self.rejected[schedule] = known.reason
            if self.samples and self._late():
                break
        if not self.samples and not self.measured:  # all failed before: what made them may be gone
            self._again(candidates)
        self._confirm()

    def _first(self, schedule: Schedule) -> None:
        self.measured += 1
        self._judge(schedule, *self._trial(schedule), held=False)

    def _again(self, candidates: Sequence[Schedule]) -> None:
        for schedule in candidates:
            if self._known[schedule].status != "wrong" and not self._late():
                del self.rejected[schedule]
                self._first(schedule)

    def _confirm(self) -> None:
        """The leaders are measured again in turn, so that drift of the clock or the heat hits them alike.

        One that was fast only once, or fails this time, makes room for the next, until the first ones have held.
        """
        held = {s for s in self.samples if s in self._known and _has_held(self._known[s])}
        while len(self.samples) > 1:
            leaders = sorted(self.samples, key=lambda s: (self.samples[s].median_us, s.sort_key))[:LEADERS]
            if held.issuperset(leaders):
                return
            if held and self._late():  # nothing wins that wasn't measured again
                self.samples = {s: sample for s, sample in self.samples.items() if s in held}
                return
            held |= self._measure_in_turn(leaders)

    def _measure_in_turn(self, leaders: Sequence[Schedule]) -> set[Schedule]:
        """Those that were measured again. The first round is made whatever the time, others while there is some."""
        times: dict[Schedule, list[float]] = {s: [] for s in leaders}
        for number in range(ROUNDS):
            if number and self._late():
                break
            for schedule in [s for s in leaders if s in times]:
                status, reason, again = self._trial(schedule)
                if status == "ok":
                    times[schedule] += again
                else:
                    del times[schedule]
                    self._judge(schedule, status, f"measured again: {reason}", [])
        for schedule, values in times.items():
            self._judge(schedule, "ok", "", values, held=True)
        return set(times)

    def _judge(self, schedule: Schedule, status: str, reason: str, times: Sequence[float], held: bool = False) -> None:
        """Keep a candidate's times, or why they don't count. `held`: they are of being measured again."""
        sample = summarise(times) if status == "ok" else None
        if status == "ok" and sample is None:
            status, reason = "failed", f"the clock gave no usable times: {[f'{t:g}' for t in times][:8]}"
        if sample is None:
            self.samples.pop(schedule, None)
            self.rejected[schedule] = reason
            self._record(Measurement(schedule, status, None, reason))
        else:
            self.samples[schedule] = sample
            self._record(Measurement(schedule, status, sample.median_us, _note(sample, held)))
        if self._options.progress:
            self._options.progress(self._options.backend, 1, sample.median_us if sample else None)

    def _trial(self, schedule: Schedule) -> tuple[str, str, list[float]]:
        """(status, why not, times in microseconds) of one run in the trials' process."""
        opts = self._options
        kernel = self._model.kernel(schedule)
        argument = trial.request(kernel, backend=opts.backend, l2=opts.l2, repeats=opts.repeats, runner=opts.runner)
        self._station.ask({"call": "asc_sched.tune.trial:warm", "argument": {}}, kernel.name, None, START_LIMIT_S)
        started = time.monotonic()
        try:
            message = {"call": "asc_sched.tune.trial:run", "argument": argument}
            answer = self._station.ask(message, kernel.name, None, opts.trial_limit_s)
        except WorkerCrashError as error:
            if time.monotonic() - started >= opts.trial_limit_s:
                return "hung", f"no answer within {opts.trial_limit_s:g} s; its process was stopped", []
            return "crashed", f"its process ended with {_ending(error)}", []
        if not answer.get("ok", False):
            return "failed", str(answer.get("reason", "the trial's process gave no answer")), []
        return str(answer["status"]), str(answer.get("reason", "")), [float(t) for t in answer.get("times_us", [])]

    def _late(self) -> bool:
        return time.monotonic() > self._deadline


def _ending(error: WorkerCrashError) -> str:
    """How a trial's process ended, without the words on compiling that a worker's end usually has."""
    return str(error).rpartition("ended with ")[2] or str(error)


# -- what the store keeps of good times, in the place of a reason ---------------------------------------------------
def _note(sample: Sample, held: bool) -> str:
    return json.dumps({"min_us": sample.min_us, "spread_us": sample.spread_us, "count": sample.count, "held": held})


def _noted(known: Measurement) -> dict[str, float]:
    try:
        found = json.loads(known.reason)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _sample_of(known: Measurement) -> Sample:
    note, us = _noted(known), known.task_us
    assert us is not None
    return Sample(us, note.get("min_us", us), note.get("spread_us", 0.0), int(note.get("count", 1)))


def _has_held(known: Measurement) -> bool:
    return bool(_noted(known).get("held", False))
