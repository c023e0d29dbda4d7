"""A cache of named texts on disk: content-addressed, checked when read, bounded in size, safe among many processes.

One entry is one file, so that its parts always come from one writer. Its first line holds a SHA-256 over the rest;
whatever doesn't match is a miss. Nothing is ever unpickled or executed. Entries aren't flushed to disk one by one (that
would cost more than lowering again): after a power cut a torn entry fails its check.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import attrs

from asc_sched.errors import StorageError
from asc_sched.files import TEMP_SUFFIX, warn_once, write_atomic
from asc_sched.paths import Folder, cache_dir

ENV_CACHE_SIZE = "ASC_SCHED_CACHE_SIZE"
DEFAULT_LIMIT_BYTES = 512 << 20
#: What is kept in memory where there is no usable folder.
MEMORY_LIMIT_BYTES = 64 << 20
#: A hit renews an entry's age only if it is older than this: most hits then write nothing.
TOUCH_AFTER_S = 600.0
#: Temporary files older than this were left by a killed process.
STALE_TEMP_S = 3600.0

_MAGIC = b"asc_sched cache 1 "
_HEAD_BYTES = len(_MAGIC) + 64 + 1
_KEY = re.compile(r"[0-9a-f]{64}\Z")
_SIZE = re.compile(r"\s*(\d+)\s*(?:([KMGT])(?:i?B)?|B)?\s*\Z", re.IGNORECASE)


class _Corrupt(Exception):
    """An entry that isn't what was written; the text says in which way."""


@attrs.frozen
class CacheUse:
    """What a cache holds: entries and their size in bytes, the limit in bytes, the folder (None: in memory)."""

    entries: int
    used_bytes: int
    limit_bytes: int
    folder: Path | None


class Cache:
    """Texts by key (64 hex digits, a digest of everything that the texts depend on).

    `get` and `put` never raise for what is wrong with the disk: a cache may only make things faster. They log a
    warning, once per reason and process. Usable from several threads and after a fork.
    """

    def __init__(self, folder: Folder, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._folder, self.limit_bytes = folder, limit_bytes
        self._memory: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._memory_bytes = 0
        self._unscanned_bytes: int | None = None
        if folder.path is None and limit_bytes > 0:
            warn_once(f"no cache: {folder.problem}", f"lowered kernels are kept in memory only: {folder.problem}")

    @property
    def folder(self) -> Path | None:
        """Where the entries are, or None when they are kept in memory."""
        return self._folder.path

    def path_of(self, key: str) -> Path | None:
        """The file of an entry, whether it exists or not."""
        if not _KEY.match(key):
            raise ValueError(f"cache key {key!r} is not 64 hex digits")
        root = self._folder.path
        return None if root is None else root / key[:2] / f"{key[2:]}.txt"

    def get(self, key: str) -> dict[str, str] | None:
        """The texts put under `key`, or None."""
        path = self.path_of(key)
        if self.limit_bytes <= 0:
            return None
        if key in self._memory:
            return self._from_memory(key)
        if path is None:
            return None
        try:
            return _read(path, key)
        except FileNotFoundError:
            return None
        except _Corrupt as err:
            warn_once(f"corrupt {self.folder}", f"cache entry {path} {err}; it is ignored and made anew")
        except OSError as err:
            warn_once(f"unreadable {self.folder}", f"cache entry {path} can't be read: {err.strerror}")
        return None

    def put(self, key: str, texts: Mapping[str, str]) -> None:
        """Keep `texts` under `key`, replacing what was there."""
        path = self.path_of(key)
        body = _encode(key, texts)
        if self.limit_bytes <= 0 or len(body) > self.limit_bytes:
            return
        if path is None or not self._folder.writable or not self._write(path, body):
            self._keep_in_memory(key, dict(texts))

    def _write(self, path: Path, body: bytes) -> bool:
        try:
            try:
                write_atomic(path, body, durable=False)
            except StorageError as err:
                if err.errno != errno.ENOENT:
                    raise
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomic(path, body, durable=False)
        except OSError as err:
            told = str(err) if isinstance(err, StorageError) else f"can't make {path.parent}: {err.strerror}"
            warn_once(f"unwritable {self.folder} {err.errno}", f"the cache can't keep kernels: {told}")
            return False
        self._account(len(body))
        return True

    def _from_memory(self, key: str) -> dict[str, str] | None:
        texts = self._memory.get(key)
        if texts is None:
            return None
        with contextlib.suppress(KeyError):
            self._memory.move_to_end(key)
        return dict(texts)

    def _keep_in_memory(self, key: str, texts: dict[str, str]) -> None:
        if self._folder.path is not None and not self._folder.writable:
            warn_once(f"read-only {self.folder}", f"new kernels are kept in memory only: {self._folder.problem}")
        old = self._memory.pop(key, None)
        self._memory[key] = texts
        self._memory_bytes += _text_size(texts) - (_text_size(old) if old else 0)
        while self._memory_bytes > min(MEMORY_LIMIT_BYTES, self.limit_bytes) and len(self._memory) > 1:
            with contextlib.suppress(KeyError):
                self._memory_bytes -= _text_size(self._memory.popitem(last=False)[1])

    # -- size ------------------------------------------------------------------------------------------------------
    def _account(self, added: int) -> None:
        """Look through the folder after each 1/64 of the limit written, and at a process's first write if nobody
        looked within the last hour. So P processes together may pass the limit by P/64 of it, for a while."""
        if self._unscanned_bytes is None:
            self._unscanned_bytes = 0 if self._looked_recently() else self.limit_bytes
        self._unscanned_bytes += added
        if self._unscanned_bytes >= self.limit_bytes // 64:
            self._unscanned_bytes = 0
            self.trim()

    def _stamp(self) -> Path:
        assert self._folder.path is not None
        return self._folder.path / "last_trim"

    def _looked_recently(self) -> bool:
        try:
            return abs(time.time() - self._stamp().stat().st_mtime) < 3600
        except OSError:
            return False

    def trim(self) -> None:
        """Delete the longest unused entries until four fifths of the limit are left, if the limit is passed."""
        with contextlib.suppress(OSError):
            self._stamp().touch(mode=0o600)
        files = self._files()
        used = sum(size for _, size, _ in files)
        if used <= self.limit_bytes:
            return
        for _, size, path in sorted(files):
            with contextlib.suppress(OSError):
                path.unlink()
            used -= size
            if used <= self.limit_bytes * 4 // 5:
                break

    def _files(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path) of all entries; removes temporary files of killed processes on the way."""
        found: list[tuple[float, int, Path]] = []
        root = self._folder.path
        if root is None:
            return found
        with contextlib.suppress(OSError):
            for shelf in sorted(p for p in root.iterdir() if len(p.name) == 2):
                with contextlib.suppress(OSError), os.scandir(shelf) as entries:
                    found.extend(filter(None, map(_weigh, entries)))
        return found

    def use(self) -> CacheUse:
        """What it holds at the moment."""
        if self._folder.path is None:
            return CacheUse(len(self._memory), self._memory_bytes, self.limit_bytes, None)
        files = self._files()
        return CacheUse(len(files), sum(size for _, size, _ in files), self.limit_bytes, self._folder.path)

    def clear(self) -> None:
        """Delete all entries."""
        self._memory.clear()
        self._memory_bytes = 0
        for _, _, path in self._files():
            with contextlib.suppress(OSError):
                path.unlink()


def _weigh(entry: os.DirEntry[str]) -> tuple[float, int, Path] | None:
    with contextlib.suppress(OSError):
        info = entry.stat(follow_symlinks=False)
        if entry.name.endswith(TEMP_SUFFIX) and time.time() - info.st_mtime > STALE_TEMP_S:
            Path(entry.path).unlink()
            return None
        return info.st_mtime, info.st_size, Path(entry.path)
    return None


def _text_size(texts: Mapping[str, str]) -> int:
    return sum(len(text) for text in texts.values())


def _encode(key: str, texts: Mapping[str, str]) -> bytes:
    """Magic and digest line, header line (JSON: key, names and byte lengths), then the texts one after the other."""
    bodies = [(name, text.encode("utf-8", "surrogatepass")) for name, text in texts.items()]
    header = json.dumps({"key": key, "parts": [[name, len(body)] for name, body in bodies]}).encode()
    rest = b"\n".join([header, b"".join(body for _, body in bodies)])
    return _MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def _read(path: Path, key: str) -> dict[str, str]:
    # Not blocking: something else than a file may lie there, such as a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise _Corrupt("is not a file")
        with open(fd, "rb", closefd=False) as file:
            texts = _decode(file.read(), key)
        if time.time() - info.st_mtime > TOUCH_AFTER_S:
            with contextlib.suppress(OSError):
                os.utime(fd)
        return texts
    finally:
        os.close(fd)


def _decode(data: bytes, key: str) -> dict[str, str]:
    if not data.startswith(_MAGIC) or len(data) < _HEAD_BYTES:
        raise _Corrupt("is empty or not of this format")
    rest = data[_HEAD_BYTES:]
    if hashlib.sha256(rest).hexdigest().encode() != data[len(_MAGIC) : _HEAD_BYTES - 1]:
        raise _Corrupt("doesn't match its digest")
    head, _, bodies = rest.partition(b"\n")
    try:
        header = json.loads(head)
        parts = [(str(name), int(length)) for name, length in header["parts"]]
        if header["key"] != key:
            raise _Corrupt("belongs to another key")
        texts, start = {}, 0
        for name, length in parts:
            texts[name] = bodies[start : start + length].decode("utf-8", "surrogatepass")
            start += length
    except (ValueError, KeyError, TypeError) as err:
        raise _Corrupt("has an unreadable header") from err
    return texts


def limit_from_env() -> int:
    """The size limit in bytes: ``ASC_SCHED_CACHE_SIZE`` (``0`` for no cache, ``200M``, ``2 GiB``), or 512 MiB."""
    text = os.environ.get(ENV_CACHE_SIZE, "")
    if not text:
        return DEFAULT_LIMIT_BYTES
    match = _SIZE.match(text)
    if match is None:
        warn_once(
            f"{ENV_CACHE_SIZE}={text}",
            f"{ENV_CACHE_SIZE}={text!r} is not a size such as 0, 200M or 2GiB; the cache is limited to 512 MiB",
        )
        return DEFAULT_LIMIT_BYTES
    return int(match[1]) << (10 * (" KMGT".index(match[2].upper()) if match[2] else 0))


_default: tuple[tuple[str | None, ...], Cache] | None = None


def default_cache() -> Cache:
    """The cache for lowered kernels of this user, as the environment has it now."""
    global _default
    setting = tuple(os.environ.get(name) for name in ("ASC_SCHED_CACHE_DIR", ENV_CACHE_SIZE, "HOME", "XDG_CACHE_HOME"))
    if _default is None or _default[0] != setting:
        _default = (setting, Cache(cache_dir("lower"), limit_from_env()))
    return _default[1]
