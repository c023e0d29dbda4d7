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

import logging
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from asc_sched import toml
from asc_sched.errors import AscSchedError, TargetError, TuningError, nearest
from asc_sched.files import write_atomic
from asc_sched.lang.dtypes import get_dtype
from asc_sched.run.measure import L2_STATES
from asc_sched.schedule import Schedule
from asc_sched.target import Target, get_target
from asc_sched.tune.backends import TIMERS
from asc_sched.tune.store import Winner

_log = logging.getLogger("asc_sched")
MOST = 2**63 - 1  # of a size
MOST_SHOWN = 100  # characters of a value in a message

_EXAMPLE = "tuned.toml"
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


def entries(text: str, where: str, *, broken_times: bool = True) -> tuple[str, list[Row]]:
    """The target and rows of a table in the file's order, all of them checked.

    Raises `TuningError` naming the file, the number of the entry that can't be used, its op and the field. With
    `broken_times` False, entries whose times are no times are left out instead, with a warning.
    """
    try:
        data = toml.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers that are too long, nesting that is too deep
        raise TuningError(f"{where} is not TOML: {error}") from None
    for name in data:
        if name not in ("target", "schedule"):
            raise TuningError(f"{where}: unknown {name!r} at the top{nearest(name, ('target', 'schedule'))}")
    chip = _target(data.get("target"), where)
    found = data.get("schedule", [])
    if not isinstance(found, list):
        raise TuningError(f"{where}: expected [[schedule]] entries")
    rows = []
    for number, entry in enumerate(found, 1):
        place = entry_name(where, number, entry.get("op") if isinstance(entry, Mapping) else None)
        try:
            rows.append(_row(entry, chip))
        except _NotATime as error:
            if broken_times:
                raise TuningError(f"{place}: {error}") from None
            _log.warning("%s: %s; left out", place, error)
        except AscSchedError as error:
            raise TuningError(f"{place}: {error}") from None
    return chip.name, rows


def entry_name(where: str, number: int, op: object) -> str:
    """What messages call an entry."""
    return f"{where}, entry {number} ({op})" if isinstance(op, str) else f"{where}, entry {number}"


def from_toml(text: str, where: str) -> tuple[str, dict[tuple[Any, ...], Row]]:
    """`entries` by their keys; of two for one thing the faster."""
    target, rows = entries(text, where)
    return target, fastest(rows)


def fastest(rows: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """Rows by their keys; of two for one thing the faster, of equally fast ones the first."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        old = best.setdefault(row.key, row)
        if row.task_us < old.task_us:
            best[row.key] = row
    return best


def _target(name: Any, where: str) -> Target:
    if not isinstance(name, str):
        raise TuningError(f'{where}: target = "..." is missing at the top')
    try:
        return get_target(name)
    except TargetError as error:
        raise TuningError(f"{where}: {error}") from None


class _NotATime(TuningError):
    """A field of an entry should be a time and isn't."""


def _row(entry: Any, chip: Target) -> Row:
    if not isinstance(entry, Mapping):
        raise TuningError("expected a table of fields")
    missing = [f for f in ("op", "dtypes", "shapes", "task_us") if f not in entry]
    if missing:
        raise TuningError(f"{missing[0]} is missing")
    if not isinstance(entry["op"], str):
        raise TuningError(f"op={_show(entry['op'])} is not an op's name")
    dtypes, shapes = _dtypes(entry["dtypes"]), _shapes(entry["shapes"])
    if len(dtypes) != len(shapes):
        raise TuningError(
            f"dtypes and shapes: {len(dtypes)} dtypes for {len(shapes)} shapes; each input has one of each"
        )
    task_us, share = entry["task_us"], entry.get("share_of_bound", 0.0)
    if not _is_number(task_us) or task_us <= 0:
        raise _NotATime(f"task_us={_show(task_us)} is not a time in microseconds")
    if not _is_number(share) or share < 0:
        raise _NotATime(f"share_of_bound={_show(share)} is not a share, such as 0.93")
    return Row(
        entry["op"], dtypes, shapes, _one_of("backend", entry.get("backend", "model"), TIMERS),
        _one_of("l2", entry.get("l2", "hot"), L2_STATES), float(task_us), float(share), _schedule(entry, chip),
    )  # fmt: skip


def _show(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    try:
        text = repr(value)
    except ValueError:  # Python doesn't write integers of thousands of digits
        return f"<{type(value).__name__} with too many digits>"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300 and value == value


def _one_of(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    raise TuningError(
        f"{field}={_show(value)} is unknown (supported: {', '.join(allowed)}){nearest(_show(value), allowed)}"
    )


def _dtypes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(d, str) for d in value):
        raise TuningError(f'dtypes={_show(value)}: expected a list of names, one for each input, such as ["float32"]')
    try:
        return tuple(get_dtype(d).name for d in value)
    except AscSchedError as error:
        raise TuningError(f"dtypes={_show(value)}: {error}") from None


def _shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    listed = isinstance(value, list) and value and all(isinstance(s, list) for s in value)
    if not listed or not all(type(n) is int and 0 <= n <= MOST for s in value for n in s):
        raise TuningError(
            f"shapes={_show(value)}: expected a list of sizes for each input, integers from 0 on, such as [[8, 2048]]"
        )
    shapes = tuple(map(tuple, value))
    if any(math.prod(s) > MOST for s in shapes):
        raise TuningError(f"shapes={_show(value)}: no tensor has that many elements")
    return shapes


def _schedule(entry: Mapping[str, Any], chip: Target) -> Schedule:
    schedule = Schedule.from_dict({k: v for k, v in entry.items() if k not in _ABOUT})
    if schedule.core_num is not None and schedule.core_num > chip.vector_cores:
        raise TuningError(f"core_num={schedule.core_num}: {chip.name} has {chip.vector_cores} cores")
    return schedule


def read(path: Path, *, broken_times: bool = True) -> tuple[str, list[Row]]:
    """`entries` of a file. Raises `TuningError`."""
    try:
        return entries(path.read_text(encoding="utf-8"), str(path), broken_times=broken_times)
    except OSError as error:
        raise TuningError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TuningError(f"{path} is not UTF-8 text: {error}") from None


def check_writable(path: Path) -> None:
    """Raises `TuningError` where a table can't be kept: devices, streams, folders, files that are write-protected."""
    place = str(path.absolute())
    if place.startswith(("/dev/fd/", "/proc/")) or place in ("/dev/stdout", "/dev/stderr", "/dev/stdin"):
        raise TuningError(f"{path} is a stream; a table is merged into a regular file, such as {_EXAMPLE}")
    if not path.exists():
        return
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise TuningError(f"{path} is {kind}; a table is merged into a regular file, such as {_EXAMPLE}")
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):  # root may write anything
        raise TuningError(f"{path} is write-protected; allow writing (chmod u+w), or export to another file")


def merge_into(path: Path, target: str, rows: Iterable[Row]) -> int:
    """Add rows to a table on disk (made if need be); of two rows for one thing the faster stays. How many changed.

    Rows of the file whose times are no times are replaced. Raises `TuningError` for a file that isn't a table, is one
    for another target, or can't be written to.
    """
    check_writable(path)
    known: dict[tuple[Any, ...], Row] = {}
    if path.exists():
        its, found = read(path, broken_times=False)
        known = fastest(found)
        if its != target:
            raise TuningError(f"{path} is a table for {its}, the schedules are for {target}; export to another file")
    merged = fastest((*known.values(), *rows))
    changed = sum(known.get(key) is not row for key, row in merged.items())
    if changed or not path.exists():
        write_atomic(path, to_toml(target, merged.values()))
    return changed
