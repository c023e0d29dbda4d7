"""Writing files so that nobody ever sees half of one, and saying clearly why a file couldn't be written."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from asc_sched.errors import StorageError

_log = logging.getLogger("asc_sched")
_warned: set[str] = set()

#: Ending of the temporary files that `atomic_file` makes beside its target; left over only after a kill or a crash.
TEMP_SUFFIX = ".asc_sched.tmp"


def write_atomic(path: str | os.PathLike[str], data: str | bytes, *, durable: bool = True) -> None:
    """Replace the file `path` by `data` (text as UTF-8, line ends untouched) in one step; see `atomic_file`."""
    body = data.encode("utf-8") if isinstance(data, str) else data
    with atomic_file(path, durable=durable) as file:
        file.write(body)


def create(path: Path, data: bytes) -> bool:
    """Write a file that isn't there yet, not durably; False where something of that name or no folder for it is there.

    For what is checked when it is read: a kill may leave a part of it. Raises `StorageError`, and leaves nothing then.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as err:
        if err.errno in (errno.EEXIST, errno.ENOENT):
            return False
        raise storage_error(err, "write", path) from err
    try:
        with os.fdopen(fd, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
    except BaseException as err:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(err, OSError):
            raise storage_error(err, "write", path) from err
        raise
    return True


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A binary file to fill; on leaving the block it takes `path`'s place, whole, or not at all if anything raised.

    Written under a temporary name in the same folder, flushed to disk (`durable`; turn off only for what can be made
    again and is checked when read), then renamed. An existing file's permissions are kept, a new one gets the
    usual ones. A symbolic link at `path` is replaced, not followed. Raises `StorageError` for every error of
    the operating system; the old file is then still there.
    """
    target = Path(path)
    # Short and independent of the target's own name, which may already be as long as the file system allows.
    temp = target.parent / f".{secrets.token_hex(8)}{TEMP_SUFFIX}"
    try:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(fd, "wb") as file:
                _keep_mode(fd, target)
                yield file
                file.flush()
                if durable:
                    _fsync(fd)
            temp.replace(target)
            if durable:
                _fsync_folder(target.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temp.unlink()
            raise
    except StorageError:
        raise
    except OSError as err:
        raise storage_error(err, "write", target) from err


def storage_error(err: OSError, verb: str, path: str | os.PathLike[str]) -> StorageError:
    """`err` as a `StorageError` that names the path, the system's reason and what helps."""
    code = errno.errorcode.get(err.errno or 0, "")
    reason = f"{err.strerror or err}{f' ({code})' if code else ''}"
    wrapped = StorageError(f"can't {verb} {os.fspath(path)}: {reason}{_advice(err.errno, Path(path))}")
    wrapped.errno = err.errno
    return wrapped


def is_disk_full(err: BaseException) -> bool:
    """Whether an error means that the disk or the user's quota is full."""
    return isinstance(err, OSError) and err.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def remove_stale_temps(folder: str | os.PathLike[str], older_than_s: float = 3600.0) -> int:
    """Delete temporary files in `folder` that a killed process left behind; returns how many. Never raises."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                old = entry.name.endswith(TEMP_SUFFIX) and time.time() - entry.stat().st_mtime > older_than_s
                if old and entry.is_file(follow_symlinks=False):
                    Path(entry.path).unlink()
                    removed += 1
    return removed


def warn_once(key: str, message: str) -> None:
    """Log a warning the first time that `key` is seen in this process."""
    if key not in _warned:
        _warned.add(key)
        _log.warning(message)


def _keep_mode(fd: int, target: Path) -> None:
    with contextlib.suppress(OSError):
        mode = os.lstat(target).st_mode
        if stat.S_ISREG(mode):
            os.fchmod(fd, stat.S_IMODE(mode))


def _fsync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as err:
        if err.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):  # file systems that can't
            raise


def _fsync_folder(folder: Path) -> None:
    # The file is in place already; some file systems refuse to open or sync a folder.
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _advice(code: int | None, path: Path) -> str:
    if code in (errno.ENOSPC, errno.EDQUOT):
        with contextlib.suppress(OSError):
            return f"; {shutil.disk_usage(path.parent).free} bytes are free there: make room or choose another place"
        return "; make room or choose another place"
    if code == errno.EFBIG:
        return "; the process may not write files that large (ulimit -f)"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "; choose a place that you can write to"
    if code == errno.ENAMETOOLONG:
        return f"; the name has {len(os.fsencode(path.name))} bytes, most file systems take 255"
    return ""
