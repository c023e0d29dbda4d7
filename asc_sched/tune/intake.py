"""Taking a table of tuned schedules into the store: all of a file or nothing, and never what is slower."""

from __future__ import annotations

from pathlib import Path

import attrs

from asc_sched import ops
from asc_sched.declare import Op
from asc_sched.errors import AscSchedError, TuningError, nearest
from asc_sched.target import Target, get_target
from asc_sched.tune.keys import Problem
from asc_sched.tune.store import Store, Winner
from asc_sched.tune.tables import MOST, Row, entry_name, read
from asc_sched.tune.tuner import task_of, task_problem


@attrs.frozen
class Taken:
    """What became of a table's entries: problems that were new, faster than what was stored, or no faster."""

    new: int
    faster: int
    slower: int

    @property
    def total(self) -> int:
        """Entries of the table."""
        return self.new + self.faster + self.slower


def take(path: Path, store: Store) -> tuple[str, Taken]:
    """A table's target, and what was taken of it into the store. Of two schedules for one problem the faster stays.

    Raises `TuningError` naming file, entry and field for the first entry that can't be used; nothing is stored then.
    """
    target, rows = read(path)
    chip = get_target(target)
    problems = [_problem(row, chip, entry_name(str(path), n, row.op)) for n, row in enumerate(rows, 1)]
    best: dict[str, tuple[Problem, Row]] = {}
    for problem, row in zip(problems, rows, strict=True):
        old = best.setdefault(problem.key, (problem, row))
        if row.task_us < old[1].task_us:
            best[problem.key] = (problem, row)
    new = faster = 0
    for problem, row in best.values():
        stored = store.winner(problem)
        if stored is not None and round(row.task_us, 4) >= round(stored.task_us, 4):  # tables have four places
            continue
        store.set_winner(problem, _winner(row, target, problem.total_length))
        new, faster = new + (stored is None), faster + (stored is not None)
    return target, Taken(new, faster, len(rows) - new - faster)


def _winner(row: Row, target: str, total_length: int) -> Winner:
    details = {
        "dtypes": list(row.dtypes), "target": target, "backend": row.backend, "l2": row.l2,
        "share_of_bound": row.share_of_bound,
    }  # fmt: skip
    return Winner(row.op, row.shapes, total_length, row.schedule, row.task_us, details)


def _problem(row: Row, chip: Target, place: str) -> Problem:
    """What a row is the answer to. Raises `TuningError` where it doesn't fit its op."""
    op = _op(row.op, place)
    if len(row.dtypes) != len(op.inputs):
        raise TuningError(
            f"{place}: dtypes and shapes are of {len(row.dtypes)} inputs, and {op.name} takes {len(op.inputs)} "
            f"({', '.join(op.inputs)})"
        )
    try:
        task = task_of(op, [list(s) for s in row.shapes], list(row.dtypes), chip, row.l2)
    except AscSchedError as error:
        raise TuningError(f"{place}: {error}") from None
    if task.shapes.total_length > MOST:
        raise TuningError(f"{place}: shapes={[list(s) for s in row.shapes]}: no tensor has that many elements")
    return task_problem(task, row.backend)


def _op(name: str, place: str) -> Op:
    known = ops.catalogue()
    if name in known:
        found: Op = known[name]
        return found
    raise TuningError(f"{place}: op={name!r} is not in the catalogue{nearest(name, known)}")
