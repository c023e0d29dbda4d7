"""The search from end to end: prune, rank on the model, check and time the finalists, decide, remember."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import attrs

from asc_sched.declare import Op
from asc_sched.errors import TuningError
from asc_sched.lang.infer import infer
from asc_sched.run.call import forget_calls
from asc_sched.run.shapes import resolve_shapes
from asc_sched.schedule import Schedule
from asc_sched.target import Target, get_target
from asc_sched.tune.backends import require, timer
from asc_sched.tune.bench import Bench
from asc_sched.tune.candidates import Candidates
from asc_sched.tune.decide import TIE, Sample, decide
from asc_sched.tune.keys import Problem, problem
from asc_sched.tune.model import Model, Task
from asc_sched.tune.options import Options, check_options
from asc_sched.tune.result import Entry, TuneResult
from asc_sched.tune.search import Found
from asc_sched.tune.space import Space, space_of
from asc_sched.tune.store import Measurement, Store, Winner, default_path
from asc_sched.tune.verify import verify_all

FINALISTS = 6  # measured because the model likes them
MODEL_FINALISTS = 4  # compiled and checked where the model's own time is what counts
SPREAD = 2  # measured because the model may be wrong
MOST_REASONS = 20  # in the message of a search in which nothing works
MODEL_TIE = 1e-3  # the model has no noise, but a knob must be worth its lines


def tune(
    op: Op,
    shape: Any,
    dtype: Any = "float32",
    *,
    target: str | Target | None = None,
    space: Space | str | Sequence[Schedule] | None = None,
    backend: str | None = None,
    store: Store | None = None,
    **options: Any,
) -> TuneResult:
    """Find the best schedule for an op at a size. `backend`: ``model``, or a machine's (see `asc-sched doctor`).

    `space` is a `Space`, "default", "plain", or a list of schedules. Keywords: `l2` ("hot" or "cold"), `budget_s`,
    `top`, `strategy`, `repeats`, `trial_limit_s`, `progress`. The winner is kept in `store` and used by calls of the op
    from then on, unless an earlier search found a faster one. The user's tensors are never touched. Raises
    `TuningError` when no schedule works, with every reason, and for options that can't be; `BackendError`.
    """
    chip = get_target() if target is None else get_target(target)
    check_options(options)
    chosen = timer(backend)
    if options.get("runner") is None:
        require(chosen)
    task = task_of(op, shape, dtype, chip, options.get("l2", "hot"))
    wanted = space_of(space, chip.name)
    looked, listed = (wanted, None) if isinstance(wanted, Space) else (Space(), list(wanted))
    opts = Options(space=looked, backend=chosen, **options)
    kept = store or Store(default_path())
    if task.shapes.total_length == 0:
        return _nothing(task, opts)
    return _Search(task, opts, kept, listed).run()


def task_of(op: Op, shape: Any, dtype: Any, target: Target, l2: str) -> Task:
    """What is tuned, its shapes, dtypes and types resolved. Raises `TuningError` without a size."""
    if shape is None:
        raise TuningError(f"{op.name}: a schedule is tuned for a size; pass shape=")
    shapes = resolve_shapes(op, shape)
    dtypes = op.input_dtypes(dtype)
    typed = infer(op.graph, dtypes, shapes.zero_dim)
    return Task(op, shapes, tuple(dtypes.values()), typed, target, l2)


def task_problem(task: Task, backend: str) -> Problem:
    """The store's key of a task."""
    shapes, total = task.shapes.inputs, task.shapes.total_length
    return problem(task.op, shapes, total, task.dtypes, task.target, backend=backend, l2=task.l2)


def _nothing(task: Task, options: Options) -> TuneResult:
    entry = Entry(Schedule(core_num=1), 0.0, 1.0, 0.0)
    return TuneResult(
        task.op.name, task.shapes.output, tuple(d.name for d in task.dtypes), task.target.name, options.backend,
        task.l2, (entry,), 0.0, "nothing to do", 0, 0, 0, {}, note="no elements: nothing is launched",
    )  # fmt: skip


def _distinct(found: Found) -> list[Schedule]:
    """Ranked schedules without those that are a simpler one in other words: two buffers for a single tile."""
    simplest: dict[float, Schedule] = {}
    for task_us, schedule in found.ranked:  # of equal times, the simplest comes first
        simplest.setdefault(task_us, schedule)
    return list(simplest.values())


class _Search:
    def __init__(self, task: Task, options: Options, store: Store, listed: list[Schedule] | None) -> None:
        self.task = task
        self.options = options
        self.store = store
        self.listed = listed
        self.model = Model(task)
        self.problem = task_problem(task, options.backend)
        self.known = store.measurements(self.problem)
        self.rejected: dict[Schedule, str] = {}
        self.measured = 0
        self.started = time.monotonic()
        self.deadline = self.started + options.budget_s

    def run(self) -> TuneResult:
        found, pruned = self._rank()
        if self.options.backend == "model":
            samples = self._by_model(found)
        else:
            samples = self._measure(self._finalists(found))
        if not samples:
            raise TuningError(self._failure(pruned))
        return self._finish(samples, found, pruned)

    # -- ranking --------------------------------------------------------------------------------------------------
    def _rank(self) -> tuple[Found, dict[str, int]]:
        if self.listed is not None:
            return self._rank_listed(self.listed)
        candidates = Candidates(self.options.space, self.model)
        found = self.options.strategy(candidates, self._timer, self.deadline)
        if not found.ranked:
            for schedule, reason in (*candidates.reasons.items(), *found.failed):
                self.rejected.setdefault(schedule, reason)
        return found, {rule: n for rule, n in candidates.pruned.items() if n}

    def _timer(self, schedule: Schedule) -> float:
        value = self.model.time(schedule)
        if self.options.progress:
            self.options.progress("model", 1, value)
        return value

    def _rank_listed(self, schedules: list[Schedule]) -> tuple[Found, dict[str, int]]:
        """A list given by hand: every one is a finalist that can be compiled."""
        if not schedules:
            raise TuningError(f"{self._what()}: the list of schedules is empty; give at least one, or a Space")
        ranked: list[tuple[float, Schedule]] = []
        pruned: dict[str, int] = {}
        for schedule in dict.fromkeys(schedules):
            failed = self.model.compile([schedule])
            if schedule in failed:
                rule = type(failed[schedule]).__name__
                pruned[rule] = pruned.get(rule, 0) + 1
                self.rejected[schedule] = str(failed[schedule])
                continue
            ranked.append((self.model.exact(schedule).task_us, schedule))
        return Found(tuple(sorted(ranked, key=lambda p: (p[0], p[1].sort_key)))), pruned

    def _finalists(self, found: Found) -> list[Schedule]:
        """What a real backend measures: the model's best, and some from further down, evenly spread."""
        order = [s for _, s in found.ranked]
        if self.listed is not None:
            return order
        head = order[: max(FINALISTS, min(self.options.top, len(order)))]
        tail = order[len(head) :]
        step = max(1, len(tail) // (SPREAD + 1))
        return [*head, *tail[step::step][:SPREAD]]

    def _compile(self, finalists: Sequence[Schedule]) -> None:
        for schedule, error in self.model.compile(finalists).items():
            self.rejected[schedule] = f"{type(error).__name__}: {error}"
            self._record(Measurement(schedule, "failed", None, self.rejected[schedule]))

    # -- times ----------------------------------------------------------------------------------------------------
    def _by_model(self, found: Found) -> dict[Schedule, Sample]:
        """The best few, compiled and checked; where none of them is right, the next few."""
        order = [s for _, s in found.ranked] if self.listed is not None else _distinct(found)
        step = len(order) if self.listed is not None else MODEL_FINALISTS
        for first in range(0, len(order), max(step, 1)):
            good = self._model_times(order[first : first + step])
            if good or time.monotonic() > self.deadline:
                return good
        return {}

    def _model_times(self, finalists: Sequence[Schedule]) -> dict[Schedule, Sample]:
        """Modelled times of the kernels as they will be used, each checked by execution."""
        self._compile(finalists)
        times = {}
        for schedule in (s for s in finalists if s not in self.rejected):
            times[schedule] = self.model.exact(schedule).task_us
        new = [s for s in times if not self._is_known(s, times[s])]
        self.measured += len(new)
        faults = dict(zip(new, verify_all([self.model.kernel(s) for s in new], self.model.pool), strict=True))
        good: dict[Schedule, Sample] = {}
        for schedule in sorted(times, key=lambda s: (times[s], s.sort_key)):
            fault = faults.get(schedule)
            if fault:
                self.rejected[schedule] = fault
                self._record(Measurement(schedule, "wrong", None, fault))
                continue
            good[schedule] = Sample(times[schedule], times[schedule], 0.0, 1)
            self._record(Measurement(schedule, "ok", times[schedule]))
        return good

    def _is_known(self, schedule: Schedule, task_us: float) -> bool:
        known = self.known.get(schedule)
        return known is not None and known.status == "ok" and known.task_us == task_us

    def _measure(self, finalists: Sequence[Schedule]) -> dict[Schedule, Sample]:
        """Times that a real backend measures of those that are right."""
        self._compile(finalists)
        bench = Bench(self.model, self.options, self.known, self._record, self.deadline)
        try:
            bench.run([s for s in finalists if s not in self.rejected])
        finally:
            bench.close()
        self.rejected |= bench.rejected
        self.measured += bench.measured
        return bench.samples

    def _record(self, measurement: Measurement) -> None:
        if self.known.get(measurement.schedule) != measurement:
            self.store.record(self.problem, measurement)

    # -- the answer -----------------------------------------------------------------------------------------------
    def _finish(self, samples: dict[Schedule, Sample], found: Found, pruned: dict[str, int]) -> TuneResult:
        schedules = list(samples)
        tie = MODEL_TIE if self.options.backend == "model" else TIE
        decision = decide([samples[s] for s in schedules], schedules, tie)
        winner = schedules[decision.winner]
        tied = {schedules[i] for i in decision.tied}
        others = sorted((s for s in schedules if s != winner), key=lambda s: (samples[s].median_us, s.sort_key))
        timing = self.model.exact(winner)
        moved = timing.bytes_read + timing.bytes_written

        def entry(schedule: Schedule, us: float, checked: bool = True) -> Entry:
            tie = schedule in tied and len(tied) > 1
            return Entry(schedule, us, timing.bound_us / us, moved / (us * 1e-6), tie, checked)

        entries = [entry(s, samples[s].median_us) for s in (winner, *others)]
        if self.options.backend == "model":  # the ranking behind the finalists is worth seeing, as what it is
            known = {*samples, *self.rejected}
            entries += [entry(s, us, checked=False) for us, s in found.ranked if s not in known]
        result = TuneResult(
            self.task.op.name, self.task.shapes.output, tuple(d.name for d in self.task.dtypes), self.task.target.name,
            self.options.backend, self.task.l2, tuple(entries[: self.options.top]),
            timing.bound_us, timing.bound_by, len(found.ranked), self.measured, self.model.compiled, pruned,
            tuple(self.rejected.items()), time.monotonic() - self.started, cached=self.measured == 0,
        )  # fmt: skip
        return self._keep(result)

    def _keep(self, result: TuneResult) -> TuneResult:
        """Remember the winner, unless a faster one that this search didn't look at is stored."""
        details = {
            "dtypes": list(result.dtypes), "target": result.target, "backend": result.backend, "l2": result.l2,
            "share_of_bound": round(result.entries[0].share_of_bound, 4),
        }  # fmt: skip
        shapes, total = self.task.shapes.inputs, self.task.shapes.total_length
        winner = Winner(self.task.op.name, shapes, total, result.best, result.task_us, details)
        stored = self.store.winner(self.problem)
        if stored == winner:
            return result
        judged = stored is None or any(stored.schedule == e.schedule for e in result.entries)
        if stored is not None and not judged and stored.task_us < (1 - MODEL_TIE) * result.task_us:
            note = f"calls keep {stored.schedule!r}, {stored.task_us:.2f} us, which an earlier search found"
            return attrs.evolve(result, note=note)
        self.store.set_winner(self.problem, winner)
        forget_calls()
        return result

    def _what(self) -> str:
        dtypes = ", ".join(dict.fromkeys(d.name for d in self.task.dtypes))
        return f"tuning {self.task.op.name} at {self.task.shapes.output} {dtypes} on {self.task.target.name}"

    def _failure(self, pruned: dict[str, int]) -> str:
        """Why nothing works, for each schedule; of many, each reason once, with one of them and how many it is of."""
        few = len(self.rejected) <= MOST_REASONS
        alike: dict[str, list[Schedule]] = {}
        for schedule, reason in self.rejected.items():
            alike.setdefault(f"{schedule!r}: {reason}" if few else reason, []).append(schedule)
        reasons = [f"  {reason if few else self._one_of(s, reason)}" for reason, s in alike.items()]
        shown, rest = reasons[:MOST_REASONS], len(reasons) - MOST_REASONS
        rules = [f"  {n} schedules: {rule}" for rule, n in pruned.items()]
        more = [f"  and {rest} reasons more"] if rest > 0 else []
        return "\n".join([f"{self._what()}: no schedule works", *(shown or rules), *more])

    @staticmethod
    def _one_of(schedules: list[Schedule], reason: str) -> str:
        more = f" and {len(schedules) - 1} more" if len(schedules) > 1 else ""
        return f"{schedules[0]!r}{more}: {reason}"
