"""The tuned schedule for a call, if there is one: the user's own results first, then the tables that ship with us."""

from __future__ import annotations

import logging
from functools import cache
from importlib import resources
from typing import Any

from asc_sched.declare import Op
from asc_sched.errors import AscSchedError
from asc_sched.lang.dtypes import DType
from asc_sched.schedule import Schedule
from asc_sched.target import Target, get_target
from asc_sched.tune import tables
from asc_sched.tune.keys import problem, size_class
from asc_sched.tune.store import Store, Winner, default_path

_log = logging.getLogger(__name__)
#: Whose results count for calls, measured ones first.
BACKENDS = ("npu", "model")


def tuned_schedule(
    op: Op,
    shapes: tuple[tuple[int, ...], ...],
    total_length: int,
    dtypes: tuple[DType, ...],
    target: Target | None = None,
) -> Schedule | None:
    """The schedule that was tuned for exactly these shapes, dtypes and target; None where there is none.

    Measured results go before those of the model.
    """
    chip = target or get_target()
    for name in BACKENDS:
        found = _stored(op, shapes, total_length, dtypes, chip, name)
        if found is not None:
            return found
    return _shipped(op, shapes, dtypes, chip)


def near_schedule(
    op: Op,
    shapes: tuple[tuple[int, ...], ...],
    total_length: int,
    dtypes: tuple[DType, ...],
    target: Target | None = None,
) -> Schedule | None:
    """The schedule for a size that wasn't tuned, from the user's own winners of the same op and dtypes at other sizes.

    None where there are none, or where the model finds none of them better than `Schedule.auto`.
    """
    path = default_path()
    if path is None or not path.exists():
        return None
    chip = target or get_target()
    winners: list[Winner] = []
    for name in BACKENDS:
        key = problem(op, shapes, total_length, dtypes, chip, backend=name, l2="hot")
        winners = winners or Store(path).family(key)
    if not winners:
        return None
    from asc_sched.tune.between import between
    from asc_sched.tune.tuner import task_of

    return between(task_of(op, list(shapes), list(dtypes), chip, "hot"), winners)


def _stored(
    op: Op, shapes: tuple[tuple[int, ...], ...], total: int, dtypes: tuple[DType, ...], target: Target, backend: str
) -> Schedule | None:
    path = default_path()
    if path is None or not path.exists():
        return None
    winner = Store(path).winner(problem(op, shapes, total, dtypes, target, backend=backend, l2="hot"))
    return None if winner is None else winner.schedule


def _shipped(op: Op, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[DType, ...], target: Target) -> Schedule | None:
    """Only for ops of the catalogue: a user's op of the same name may compute something else."""
    from asc_sched import ops

    if target != get_target(target.name) or ops.catalogue().get(op.name) is not op:
        return None
    table, names = _table(target.name), tuple(d.name for d in dtypes)
    rows = (table.get((name, names, size_class(shapes))) for name in _same_ops(op))
    return next((row.schedule for row in rows if row is not None), None)


def _same_ops(op: Op) -> list[str]:
    """The catalogue's names for what an op computes: a search answers for all of them, a table has one."""
    from asc_sched import ops

    return [name for name, other in ops.catalogue().items() if other.graph == op.graph]


@cache
def _table(target: str) -> dict[tuple[Any, ...], tables.Row]:
    """The shipped rows by op, dtypes and size class."""
    file = resources.files("asc_sched.schedules") / f"{target}.toml"
    if not file.is_file():
        return {}
    try:
        rows = tables.from_toml(file.read_text(encoding="utf-8"), f"{target}.toml")[1].values()
    except AscSchedError as error:
        _log.warning("shipped schedules are ignored: %s", error)
        return {}
    return {(r.op, r.dtypes, size_class(r.shapes)): r for r in rows}
