"""The file of a tuning store: opened without writing where nothing has to be written, and set aside as a whole."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

_BUSY_S = 30.0
_BESIDE = ("-wal", "-shm")  # what SQLite keeps beside a file; the former has what was committed last


def connect(path: Path | None, tables: str, schema: int) -> sqlite3.Connection:
    """A connection with the tables in it (None: in memory). Raises `sqlite3.DatabaseError` for another schema."""
    if path is None:
        return _with_tables(_connected(":memory:"), tables, schema)
    folder_writable = os.access(path.parent, os.W_OK)
    if path.exists() and not (folder_writable and os.access(path, os.W_OK)):
        log = path.with_name(f"{path.name}-wal")
        in_log = log.exists() and log.stat().st_size > 0  # an immutable file is read without it
        options = "mode=ro" if folder_writable or in_log else "immutable=1"
        return _checked(_connected(f"{path.absolute().as_uri()}?{options}", uri=True), schema)
    connection = _connected(path)
    if _version(connection) == schema:
        return connection
    with _locked(path):  # one makes the tables; SQLite doesn't wait for others that switch to WAL
        version = _version(connection)
        if version == 0:
            return _with_tables(connection, tables, schema)
        return _checked(connection, schema)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _connected(where: str | Path, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(where, timeout=_BUSY_S, uri=uri, check_same_thread=False)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")  # a row of other bytes is skipped, not fatal
    return connection


def _checked(connection: sqlite3.Connection, schema: int) -> sqlite3.Connection:
    version = _version(connection)
    if version != schema:
        connection.close()
        raise sqlite3.DatabaseError(f"written by another version (schema {version})")
    return connection


def _with_tables(connection: sqlite3.Connection, tables: str, schema: int) -> sqlite3.Connection:
    connection.execute("PRAGMA journal_mode=WAL")
    with connection:
        connection.executescript(tables)
        connection.execute(f"PRAGMA user_version={schema}")
    return connection


def identity(path: Path | None) -> tuple[int, int] | None:
    """Which file lies at a path: device and inode."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def set_aside(path: Path, bad: tuple[int, int] | None, connection: sqlite3.Connection | None) -> Path | None:
    """Move a bad file away with what lies beside it; where to. None where another process has done so already.

    None, too, where it can't be moved. Its connection is closed after that, since closing may do away with what is in
    the write-ahead log.
    """
    with _locked(path):
        aside = None
        if bad is not None and identity(path) == bad:
            aside = next(a for n in itertools.count() if not (a := _name(path, n)).exists())
            try:
                for tail in (*_BESIDE, ""):
                    beside = path.with_name(path.name + tail)
                    if beside.exists():
                        beside.replace(aside.with_name(aside.name + tail))
            except OSError:
                aside = None
        _close(connection)
        return aside


def _name(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.corrupt-{os.getpid()}{f'-{number}' if number else ''}")


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(sqlite3.Error):
            connection.close()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time sets a file aside."""
    try:
        import fcntl

        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except (ImportError, OSError):
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
