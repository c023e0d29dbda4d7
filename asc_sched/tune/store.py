"""Tuning results on disk: SQLite, one transaction per result, never trusted blindly and never in the way.

Several processes and threads may read and write at once (WAL). A file that isn't a database any more, or is another
program's, is set aside with a warning and a new one started; a row that makes no sense is skipped with a warning. What
can be read is, also where nothing can be written; what can't be kept lives in memory for this process.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from asc_sched.errors import AscSchedError, TuningError
from asc_sched.paths import cache_dir
from asc_sched.schedule import Schedule
from asc_sched.tune import store_file
from asc_sched.tune.keys import Problem, generator_version

_log = logging.getLogger("asc_sched")
ENV_STORE = "ASC_SCHED_TUNING_DB"
SCHEMA = 1
_ATTEMPTS = 2  # the second one on a new file, or in memory
_VERSION = "version"  # among a winner's details in the file
#: What SQLite says of tables that are named as ours and aren't.
_FOREIGN = ("no such column", "has no column", "no such table", "values for")

_TABLES = """
CREATE TABLE IF NOT EXISTS measurement (
  problem TEXT NOT NULL, schedule TEXT NOT NULL, task_us REAL, status TEXT NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY (problem, schedule)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS winner (
  problem TEXT PRIMARY KEY, op TEXT NOT NULL, family TEXT NOT NULL, shapes TEXT NOT NULL, total_length INTEGER NOT NULL,
  schedule TEXT NOT NULL, task_us REAL NOT NULL, details TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS winner_family ON winner (family, total_length);
"""


@attrs.frozen
class Measurement:
    """One candidate's outcome: `status` is ok, wrong, failed, crashed or hung; `task_us` for ok only."""

    schedule: Schedule
    status: str
    task_us: float | None = None
    reason: str = ""


@attrs.frozen
class Winner:
    """The schedule to use for a problem. `details` is what the table shows: dtypes, target, backend, bound."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    total_length: int
    schedule: Schedule
    task_us: float
    details: dict[str, Any]


def schedule_text(schedule: Schedule) -> str:
    """A schedule as canonical text: all its fields, so that equal schedules have equal text."""
    return json.dumps(schedule.to_dict(), sort_keys=True)


def default_path() -> Path | None:
    """The store's file: ASC_SCHED_TUNING_DB, or tuning.sqlite in the user's own cache folder; None: memory only."""
    given = os.environ.get(ENV_STORE)
    if given:
        return Path(given).absolute()
    folder = cache_dir("tuning")
    if folder.path is None or not folder.writable:
        _log.warning("tuning results are not kept: %s", folder.problem)
        return None
    return folder.path / "tuning.sqlite"


class Store:
    """Opened lazily; every call is one transaction. Safe to share between processes and threads."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._file: tuple[int, int] | None = None  # which file the connection is to
        self._lock = threading.RLock()

    # -- measurements ---------------------------------------------------------------------------------------------
    def measurements(self, problem: Problem) -> dict[Schedule, Measurement]:
        """What is known of a problem's candidates."""
        rows = self._read("SELECT schedule, task_us, status, reason FROM measurement WHERE problem = ?", problem.key)
        found = (_measurement(*row) for row in rows)
        return {m.schedule: m for m in found if m is not None}

    def record(self, problem: Problem, measurement: Measurement) -> None:
        """Keep one result, for good, before the next is measured. Raises `TuningError` for what is no time."""
        _check_time(measurement.task_us, measurement.status == "ok")
        self._write(
            "INSERT OR REPLACE INTO measurement VALUES (?, ?, ?, ?, ?)",
            (problem.key, schedule_text(measurement.schedule), measurement.task_us, measurement.status,
             measurement.reason),
        )  # fmt: skip

    # -- winners --------------------------------------------------------------------------------------------------
    def winner(self, problem: Problem) -> Winner | None:
        """The stored winner of exactly this problem."""
        return next(iter(self._winners("WHERE problem = ?", problem.key)), None)

    def family(self, problem: Problem) -> list[Winner]:
        """Winners of the same op, dtypes, target and backend at any size, by size."""
        return self._winners("WHERE family = ? ORDER BY total_length", problem.family)

    def winners(self) -> list[Winner]:
        """All winners that hold for this version of the generator, by op and size."""
        return self._winners("ORDER BY op, total_length, problem", version=generator_version())

    def set_winner(self, problem: Problem, winner: Winner) -> None:
        """Use this schedule for the problem from now on. Raises `TuningError` for what is no time."""
        _check_time(winner.task_us)
        details = winner.details | {_VERSION: generator_version()}
        self._write(
            "INSERT OR REPLACE INTO winner VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (problem.key, problem.op, problem.family, json.dumps(winner.shapes), winner.total_length,
             schedule_text(winner.schedule), float(winner.task_us), json.dumps(details, sort_keys=True)),
        )  # fmt: skip

    def forget(self, op: str | None = None) -> int:
        """Remove the winners (and the measurements behind them) of one op, or of all; how many winners went."""
        where, values = ("", ()) if op is None else ("WHERE op = ?", (op,))
        measured = f"DELETE FROM measurement WHERE problem IN (SELECT problem FROM winner {where})"
        self._write(measured if op is not None else "DELETE FROM measurement", values)
        return self._write(f"DELETE FROM winner {where}", values)

    def _winners(self, tail: str, *values: Any, version: str | None = None) -> list[Winner]:
        columns = "op, shapes, total_length, schedule, task_us, details"
        found = (_winner(version, *row) for row in self._read(f"SELECT {columns} FROM winner {tail}", *values))
        return [w for w in found if w is not None]

    # -- the database ---------------------------------------------------------------------------------------------
    def _read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        for _ in range(_ATTEMPTS):
            with self._guard("reading"):
                return list(self._open().execute(sql, values))
            if self._connection is not None:  # still the same file: nothing to be had from it now
                break
        return []

    def _write(self, sql: str, values: tuple[Any, ...]) -> int:
        for _ in range(_ATTEMPTS):
            with self._guard("writing"):
                connection = self._open()
                with connection:
                    return connection.execute(sql, values).rowcount
            if self._connection is not None:
                break
        return 0

    @contextlib.contextmanager
    def _guard(self, doing: str) -> Iterator[None]:
        """A broken database is set aside, a full, locked or read-only one is a warning; the caller keeps its result."""
        if self._pid != os.getpid():  # after a fork: neither connection nor lock are this process's
            self._connection, self._pid, self._lock = None, os.getpid(), threading.RLock()
        with self._lock:
            try:
                yield
            except sqlite3.OperationalError as error:
                if any(words in str(error) for words in _FOREIGN):
                    self._set_aside(f"another program's: {error}")
                    return
                _warn_once(str(self.path), f"tuning store {self.path}: {doing}: {error}; going on without it")
                if doing == "writing" and "locked" not in str(error):
                    self._go_to_memory()
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.NotSupportedError):
                raise  # a mistake of ours, not the file's
            except sqlite3.DatabaseError as error:
                self._set_aside(str(error))

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._file = store_file.identity(self.path)
            self._connection = store_file.connect(self.path, _TABLES, SCHEMA)
            self._file = self._file or store_file.identity(self.path)
        return self._connection

    def _go_to_memory(self) -> None:
        self.path, self._connection = None, None

    def _set_aside(self, reason: str) -> None:
        """Once for each bad file: where another process was faster, the new one is opened instead."""
        broken, self._connection = self._connection, None
        if self.path is None:
            return
        aside = store_file.set_aside(self.path, self._file, broken)
        if aside is not None:
            _log.warning("tuning store %s is not usable (%s); set aside as %s, starting anew", self.path, reason, aside)
        elif store_file.identity(self.path) == self._file:
            _warn_once(str(self.path), f"tuning store {self.path} is not usable ({reason}); going on without it")
            self._go_to_memory()


@functools.cache
def _warn_once(_path: str, message: str) -> None:
    _log.warning("%s", message)


def _check_time(value: Any, needed: bool = True) -> None:
    if (needed or value is not None) and not _is_time(value):
        raise TuningError(f"{value!r} is not a time in microseconds: a finite number above 0")


def _measurement(schedule: str, task_us: Any, status: str, reason: str) -> Measurement | None:
    parsed = _schedule(schedule)
    if parsed is None or not isinstance(status, str):
        return None
    if status == "ok" and not _is_time(task_us):
        _log.warning("tuning store: ignored a time of %r for %s", task_us, parsed)
        return None
    return Measurement(parsed, status, task_us if status == "ok" else None, str(reason))


def _winner(
    version: str | None, op: str, shapes: str, total: Any, schedule: str, task_us: Any, details: str
) -> Winner | None:
    """A row as a winner, unless it is unreadable, or of another version where one is asked for."""
    parsed = _schedule(schedule)
    try:
        sizes = tuple(tuple(int(d) for d in s) for s in json.loads(shapes))
        known = dict(json.loads(details))
        list(known.get("dtypes", "")), str(op).encode()
    except (ValueError, TypeError, OverflowError):
        _log.warning("tuning store: ignored a winner of %s with unreadable fields", op)
        return None
    if parsed is None or not _is_time(task_us) or not isinstance(total, int):
        _log.warning("tuning store: ignored a winner of %s (schedule %s, time %r)", op, schedule, task_us)
        return None
    if known.pop(_VERSION, None) != version and version is not None:
        return None
    return Winner(op, sizes, total, parsed, float(task_us), known)


def _schedule(text: str) -> Schedule | None:
    try:
        return Schedule.from_dict(json.loads(text))
    except (AscSchedError, ValueError, TypeError):
        _log.warning("tuning store: ignored the schedule %.80r, which this version doesn't know", text)
        return None


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
