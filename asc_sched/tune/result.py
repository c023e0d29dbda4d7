"""What a search found, ready to read, to paste and to hand to machines."""

from __future__ import annotations

from typing import Any

import attrs

from asc_sched.schedule import Schedule


@attrs.frozen
class Entry:
    """A schedule's time in microseconds on the backend (``model`` times are simulated), and how good that is.

    `checked`: it was compiled and its results compared with torch; else it is only ranked by the model.
    """

    schedule: Schedule
    task_us: float
    share_of_bound: float
    bytes_per_s: float
    tied: bool = False
    checked: bool = True


@attrs.frozen
class TuneResult:
    """The best schedule of a search. `candidates` were looked at by the model, `measured` timed on the backend.

    `pruned` counts schedules of the space that break a rule, by rule; `rejected` are finalists that failed, with the
    reason. `cached`: everything was known already.
    """

    op: str
    shape: tuple[int, ...]
    dtypes: tuple[str, ...]
    target: str
    backend: str
    l2: str
    entries: tuple[Entry, ...]
    bound_us: float
    bound_by: str
    candidates: int
    measured: int
    compiled: int
    pruned: dict[str, int]
    rejected: tuple[tuple[Schedule, str], ...] = ()
    seconds: float = 0.0
    cached: bool = False
    note: str = ""

    @property
    def best(self) -> Schedule:
        return self.entries[0].schedule

    @property
    def task_us(self) -> float:
        return self.entries[0].task_us

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers, strings, lists and dicts."""
        first = self.entries[0]
        return {
            "op": self.op,
            "shape": list(self.shape),
            "dtypes": list(self.dtypes),
            "target": self.target,
            "backend": self.backend,
            "l2": self.l2,
            "best": first.schedule.to_dict(),
            "task_us": first.task_us,
            "share_of_bound": first.share_of_bound,
            "bound_us": self.bound_us,
            "bound_by": self.bound_by,
            "top": [{**attrs.asdict(e), "schedule": e.schedule.to_dict()} for e in self.entries],
            "candidates": self.candidates,
            "measured": self.measured,
            "compiled": self.compiled,
            "pruned": dict(self.pruned),
            "rejected": [{"schedule": s.to_dict(), "reason": r} for s, r in self.rejected],
            "seconds": self.seconds,
            "cached": self.cached,
            "note": self.note,
        }

    def __str__(self) -> str:
        what = "simulated (model)" if self.backend == "model" else f"measured ({self.backend})"
        lines = [
            f"{self.op} {'x'.join(map(str, self.shape)) or '()'} {', '.join(dict.fromkeys(self.dtypes))} "
            f"on {self.target}: {self.task_us:.2f} us {what}, L2 {self.l2}",
            "",
            f"  schedule = {self.best!r}",
            "",
        ]
        for e in self.entries:
            mark = " (tie)" if e.tied else "" if e.checked else " (ranked, not checked)"
            lines.append(
                f"  {e.task_us:>10.2f} us  {e.bytes_per_s / 1e9:>7.0f} GB/s  {100 * e.share_of_bound:>5.1f} % of the "
                f"bound  {e.schedule!r}{mark}"
            )
        lines += ["", f"  bound: {self.bound_us:.2f} us ({self.bound_by}); {self._looked()}"]
        lines += [f"  rejected {s!r}: {reason}" for s, reason in self.rejected]
        if self.note:
            lines.append(f"  {self.note}")
        return "\n".join(lines)

    def _looked(self) -> str:
        pruned = sum(self.pruned.values())
        known = "all known already" if self.cached else f"{self.compiled} kernels compiled in {self.seconds:.2f} s"
        tried = f"{self.measured} {'checked' if self.backend == 'model' else 'measured'}"
        return f"{self.candidates} schedules looked at, {tried}, {pruned} pruned; {known}"
