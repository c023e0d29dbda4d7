"""Tuned schedules as plain TOML: to look at, to diff, to merge, to ship with a library.

One table per target::

    target = "Ascend910B1"

    [[schedule]]
    op = "add"
    dtypes = ["float16", "float16"]
    shapes = [[8192, 8192], [8192, 8192]]
    backend = "model"
    task_us = 184.2
    core_num = 48
    tile_length = 16384
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from asc_sched import toml
from asc_sched.errors import AscSchedError, TuningError
from asc_sched.files import write_atomic
from asc_sched.lang.dtypes import get_dtype
from asc_sched.schedule import Schedule
from asc_sched.target import get_target
from asc_sched.tune.store import Winner

_ABOUT = ("op", "dtypes", "shapes", "backend", "l2", "task_us", "share_of_bound")


@attrs.frozen
class Row:
    """One tuned schedule: for an op on input dtypes and shapes. `backend` says who timed it; ``model`` is simulated."""

    op: str
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    backend: str
    l2: str
    task_us: float
    share_of_bound: float
    schedule: Schedule

    @property
    def key(self) -> tuple[Any, ...]:
        """What a table has once."""
        return (self.op, self.dtypes, self.shapes, self.backend, self.l2)


def row_of(winner: Winner) -> Row:
    """A stored winner as a row."""
    d = winner.details
    return Row(
        winner.op, tuple(d["dtypes"]), winner.shapes, str(d["backend"]), str(d["l2"]), winner.task_us,
        float(d.get("share_of_bound", 0.0)), winner.schedule,
    )  # fmt: skip


def to_toml(target: str, rows: Iterable[Row]) -> str:
    """A table as text: sorted, one line per field, the same text for the same rows."""
    lines = [
        '# Tuned schedules. backend = "model" means simulated times, not measured ones.',
        f'target = "{target}"',
    ]
    for row in sorted(rows, key=lambda r: r.key):
        lines += ["", "[[schedule]]", f"op = {_text(row.op)}", f"dtypes = {_list(map(_text, row.dtypes))}"]
        lines.append(f"shapes = {_list(_list(map(str, s)) for s in row.shapes)}")
        lines += [f"backend = {_text(row.backend)}", f"l2 = {_text(row.l2)}", f"task_us = {row.task_us:.4f}"]
        lines.append(f"share_of_bound = {row.share_of_bound:.4f}")
        lines += [f"{name} = {_value(value)}" for name, value in row.schedule.to_dict().items()]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _value(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else _text(value) if isinstance(value, str) else str(value)


def from_toml(text: str, where: str) -> tuple[str, dict[tuple[Any, ...], Row]]:
    """The target and rows of a table. Raises `TuningError` naming the file and the entry that can't be used."""
    try:
        data = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise TuningError(f"{where} is not TOML: {error}") from None
    target = data.get("target")
    if not isinstance(target, str):
        raise TuningError(f'{where}: target = "..." is missing at the top')
    get_target(target)
    entries = data.get("schedule", [])
    if not isinstance(entries, list):
        raise TuningError(f"{where}: expected [[schedule]] entries")
    rows = [_row(entry, f"{where}, entry {i + 1}") for i, entry in enumerate(entries)]
    return target, {r.key: r for r in rows}


def _row(entry: Any, where: str) -> Row:
    if not isinstance(entry, Mapping):
        raise TuningError(f"{where}: expected a table of fields")
    missing = [f for f in ("op", "dtypes", "shapes", "task_us") if f not in entry]
    if missing:
        raise TuningError(f"{where}: {missing[0]} is missing")
    try:
        return Row(
            str(entry["op"]),
            tuple(get_dtype(str(d)).name for d in entry["dtypes"]),
            tuple(tuple(int(n) for n in s) for s in entry["shapes"]),
            str(entry.get("backend", "model")),
            str(entry.get("l2", "hot")),
            float(entry["task_us"]),
            float(entry.get("share_of_bound", 0.0)),
            Schedule.from_dict({k: v for k, v in entry.items() if k not in _ABOUT}),
        )
    except (AscSchedError, TypeError, ValueError) as error:
        raise TuningError(f"{where}: {error}") from None


def read(path: Path) -> tuple[str, dict[tuple[Any, ...], Row]]:
    """`from_toml` of a file. Raises `TuningError`."""
    try:
        return from_toml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise TuningError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TuningError(f"{path}: {error}") from None


def merge_into(path: Path, target: str, rows: Iterable[Row]) -> int:
    """Add rows to a table on disk (made if need be); of two rows for one thing the faster stays. How many changed."""
    known: dict[tuple[Any, ...], Row] = {}
    if path.exists():
        its, known = read(path)
        if its != target:
            raise TuningError(f"{path} is a table for {its}, the schedules are for {target}; export to another file")
    changed = 0
    for row in rows:
        old = known.get(row.key)
        if old is None or row.task_us < old.task_us:
            known[row.key] = row
            changed += 1
    if changed or not path.exists():
        write_atomic(path, to_toml(target, known.values()))
    return changed
