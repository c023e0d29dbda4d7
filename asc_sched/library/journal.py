"""The output folder of a build: a lock, a journal of what is done, and nothing in it that isn't ours.

The journal is a text file of lines, one per finished kernel, appended as kernels finish. A line starts with a digest of
its rest, so that one that was cut short by a kill or a full disk is no line. What it says is done is done only if the
files still have the digests in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import attrs

from asc_sched.errors import LibraryError
from asc_sched.files import TEMP_SUFFIX, create, remove_stale_temps, storage_error, warn_once, write_atomic

STATE = ".asc_sched_build"
_POLL_S = 0.1


@attrs.frozen
class Entry:
    """A finished kernel: its content key, the files (path: SHA-256), its part of the manifest as JSON text."""

    key: str
    files: Mapping[str, str]
    record: str


class OutputFolder:
    """A folder that a library is built into. Use as a context manager: it is locked against other builds meanwhile."""

    def __init__(self, path: str | os.PathLike[str], waiting: Callable[[str], None] | None = None) -> None:
        self.path = Path(path).absolute()
        self.state = self.path / STATE
        self._waiting = waiting or (lambda owner: None)
        self._lock: int | None = None
        self._journal: IO[bytes] | None = None
        self.entries: dict[str, Entry] = {}
        self.package: dict[str, Any] = {}
        self._checked: set[Path] = set()

    def __enter__(self) -> OutputFolder:
        self._make()
        self._acquire()
        try:
            self._read()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            with contextlib.suppress(OSError):
                self._journal.close()
            self._journal = None
        self._release()

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            others = sorted(p.name for p in self.path.iterdir())
            if others and not self.state.is_dir():
                shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
                raise LibraryError(
                    f"{self.path} has other things in it ({shown}), and no library was built there; choose an empty one"
                )
            self.state.mkdir(exist_ok=True)
        except FileExistsError:
            raise LibraryError(f"{self.path} is a file; a library is built into a folder") from None
        except OSError as error:
            raise storage_error(error, "make", self.path) from error

    # -- lock ----------------------------------------------------------------------------------------------------
    def _acquire(self) -> None:
        path = self.state / "lock"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise storage_error(error, "open", path) from error
        told = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EINTR):
                    told_why = f"{path} can't be locked ({error.strerror}): don't build into it twice at once"
                    warn_once(f"lock {path}", told_why)
                    break
            if not told:
                told = True
                with contextlib.suppress(OSError):
                    self._waiting(os.pread(fd, 200, 0).decode("utf-8", "replace").strip() or "another process")
            time.sleep(_POLL_S)
        self._lock = fd
        with contextlib.suppress(OSError):  # for those who wait; a full disk is no reason to stop here
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- journal -------------------------------------------------------------------------------------------------
    @property
    def _journal_path(self) -> Path:
        return self.state / "journal"

    def _read(self) -> None:
        for line in _lines(self._journal_path):
            if "package" in line:
                self.package = line["package"]
            elif all(map(_is_inside, line["files"])):
                self.entries[line["symbol"]] = Entry(line["key"], line["files"], line["record"])

    def add(self, symbol: str, entry: Entry) -> None:
        """Note that a kernel is done; its files must have been written."""
        self.entries[symbol] = entry
        self._append({"symbol": symbol, "key": entry.key, "files": dict(entry.files), "record": entry.record})

    def _append(self, data: Mapping[str, Any]) -> None:
        try:
            if self._journal is None:
                # A line that was cut short must not spoil the next one.
                self._journal = self._journal_path.open("ab")
                self._journal.write(b"\n")
            self._journal.write(_line(data))
            self._journal.flush()
        except OSError as error:
            raise storage_error(error, "write", self._journal_path) from error

    def finish(self, symbols: set[str], package: Mapping[str, Any]) -> None:
        """Write the journal anew, with the kernels that the library has now, and what the package is made of."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self.entries = {s: e for s, e in self.entries.items() if s in symbols}
        lines = [
            _line({"symbol": s, "key": e.key, "files": dict(e.files), "record": e.record})
            for s, e in sorted(self.entries.items())
        ]
        self.package = dict(package)
        write_atomic(self._journal_path, b"".join([*lines, _line({"package": self.package})]))

    # -- what is beside the kernels ------------------------------------------------------------------------------
    def read_analyses(self) -> dict[str, Any]:
        """Answers of earlier builds, see `analysis.Analyst`."""
        return next(_lines(self.state / "analyses"), {})

    def write_analyses(self, known: Mapping[str, Any]) -> None:
        """Keep answers for the next build."""
        write_atomic(self.state / "analyses", _line(known), durable=False)

    def read_searches(self) -> dict[str, Any]:
        """Answers of earlier searches, see `searches.Searches`."""
        return {line["key"]: line["schedule"] for line in _lines(self.state / "searches")}

    def add_search(self, key: str, schedule: Mapping[str, Any]) -> None:
        """Keep a search's answer."""
        path = self.state / "searches"
        try:
            with path.open("ab") as file:
                file.write(b"\n" + _line({"key": key, "schedule": schedule}))  # one cut short must not spoil the next
        except OSError as error:
            raise storage_error(error, "write", path) from error

    def intact(self, files: Mapping[str, str]) -> bool:
        """Whether all files are there and have their digests."""
        return all(self.sha256(name) == digest for name, digest in files.items())

    def sha256(self, name: str) -> str | None:
        """The digest of a file in the folder, None where there is none."""
        try:
            return hashlib.sha256((self.path / name).read_bytes()).hexdigest()
        except OSError:
            return None

    def write(self, name: str, data: bytes, *, durable: bool = False) -> str:
        """Write a file, unless it has these bytes already; gives its digest. Raises `StorageError`.

        A file that is there is replaced in one step. A new one that a kill cuts short isn't what the journal or the
        manifest says, if they name it at all: the next build writes it anew.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self._placed(name)
        if not durable and create(path, data):
            return digest
        if self.sha256(name) == digest and not path.is_symlink():
            return digest
        try:
            write_atomic(path, data, durable=durable)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise storage_error(problem, "make", path.parent) from problem
            write_atomic(path, data, durable=durable)
        return digest

    def _placed(self, name: str) -> Path:
        path = self.path / name
        if path.parent not in self._checked:
            if not _is_inside(name) or not path.parent.resolve().is_relative_to(self.path.resolve()):
                raise LibraryError(f"{path} would lie outside of {self.path} (is there a symbolic link on the way?)")
            self._checked.add(path.parent)
        return path

    def sweep(self, keep: set[str], former: set[str], owned: str) -> None:
        """Delete what a former build wrote and this one doesn't have, everything else in the folder `owned` that a
        killed build may have left, and folders that are empty then."""
        stale = {n for n in former if n not in keep and _is_inside(n)}
        with contextlib.suppress(OSError):
            for path in (self.path / owned).iterdir():
                name = path.relative_to(self.path).as_posix()
                if name not in keep and (path.suffix in (".py", ".cpp", ".mlir") or path.name.endswith(TEMP_SUFFIX)):
                    stale.add(name)
        folders: set[Path] = set()
        for name in sorted(stale):
            path = self._placed(name)
            with contextlib.suppress(OSError):
                path.unlink()
            folders.update(p for p in path.parents if p != self.path and self.path in p.parents)
        for folder in sorted(folders, key=lambda p: -len(p.parts)):
            with contextlib.suppress(OSError):
                folder.rmdir()
        for folder in {(self.path / name).parent for name in keep} | {self.state}:
            remove_stale_temps(folder, older_than_s=0.0)


def _is_inside(name: str) -> bool:
    """Whether a file's name, relative to the folder, stays in it."""
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _line(data: Mapping[str, Any]) -> bytes:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode()
    return hashlib.sha256(text).hexdigest()[:32].encode() + b" " + text + b"\n"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal; others are passed over."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(error, "read", path) from error
    for line in data.split(b"\n"):
        digest, _, text = line.partition(b" ")
        if hashlib.sha256(text).hexdigest()[:32].encode() == digest:
            with contextlib.suppress(ValueError):
                yield json.loads(text)
