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
from asc_sched.tune.keys import problem
from asc_sched.tune.store import Store, default_path

_log = logging.getLogger(__name__)


def tuned_schedule(
    op: Op,
    shapes: tuple[tuple[int, ...], ...],
    total_length: int,
    dtypes: tuple[DType, ...],
    target: Target | None = None,
    *,
    backend: str = "model",
) -> Schedule | None:
    """The schedule that was tuned for exactly these shapes, dtypes and target; None where there is none."""
    chip = target or get_target()
    found = _stored(op, shapes, total_length, dtypes, chip, backend)
    return found if found is not None else _shipped(op, shapes, dtypes, chip)


def _stored(
    op: Op, shapes: tuple[tuple[int, ...], ...], total: int, dtypes: tuple[DType, ...], target: Target, backend: str
) -> Schedule | None:
    path = default_path()
    if path is None or not path.exists():
        return None
    winner = Store(path).winner(problem(op, shapes, total, dtypes, target, backend=backend, l2="hot"))
    return None if winner is None else winner.schedule


def _shipped(
    op: Op, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[DType, ...], target: Target
) -> Schedule | None:
    """Only for ops of the catalogue: a user's op of the same name may compute something else."""
    from asc_sched import ops

    if target != get_target(target.name) or ops.catalogue().get(op.name) is not op:
        return None
    rows = _table(target.name)
    row: Any = rows.get((op.name, tuple(d.name for d in dtypes), shapes, "model", "hot"))
    return None if row is None else row.schedule


@cache
def _table(target: str) -> dict[tuple[Any, ...], tables.Row]:
    file = resources.files("asc_sched.schedules") / f"{target}.toml"
    if not file.is_file():
        return {}
    try:
        return tables.from_toml(file.read_text(encoding="utf-8"), f"{target}.toml")[1]
    except AscSchedError as error:
        _log.warning("shipped schedules are ignored: %s", error)
        return {}
