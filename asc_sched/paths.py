"""Where asc_sched keeps what it can make again: one folder per user, safe against others, or none at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

import attrs
import platformdirs

ENV_CACHE_DIR = "ASC_SCHED_CACHE_DIR"


@attrs.frozen
class Folder:
    """A folder to keep files in. `path` is None where there is none to be had; `problem` says why, or why it can't be
    written to (`writable` False: what is in it may still be read)."""

    path: Path | None
    writable: bool
    problem: str = ""


def cache_dir(kind: str) -> Folder:
    """The folder for one kind of cached files (``"lower"``, ...), made if need be, with access for its owner only.

    It lies in ``$ASC_SCHED_CACHE_DIR`` or the user's cache folder (``~/.cache/asc_sched``). A folder that belongs to
    somebody else than the user or root, or that others may write to, isn't used: what is read from it would be
    theirs. Never raises and never warns; callers work in memory when `path` is None and say so once.
    """
    root = os.environ.get(ENV_CACHE_DIR)
    try:
        path = Path(root).absolute() if root else _default_root()
    except OSError:
        return Folder(None, False, f"{ENV_CACHE_DIR}={root!r} is relative to a folder that is gone")
    if path is None:
        return Folder(None, False, f"this user has no home folder; set {ENV_CACHE_DIR}")
    return open_folder(path / kind)


def _default_root() -> Path | None:
    """The user's own, or None without HOME and without an entry in the user database."""
    try:
        path = Path(platformdirs.user_cache_dir("asc_sched", appauthor=False))
    except RuntimeError:  # newer versions of platformdirs
        return None
    return path if path.is_absolute() else None  # older ones leave "~" as it is


def open_folder(path: Path) -> Folder:
    """Make `path` (0700) unless it exists, and check that it is a folder of the user's (or root's) own."""
    problem = _make(path)
    if problem:
        return Folder(None, False, problem)
    try:
        link, info = path.lstat(), path.stat()
    except OSError as err:
        return Folder(None, False, f"{path} can't be used: {err.strerror}")
    if not stat.S_ISDIR(info.st_mode):
        return Folder(None, False, f"{path} is not a folder")
    me = os.geteuid()
    strangers = {link.st_uid, info.st_uid} - {me, 0}
    if strangers:
        return Folder(None, False, f"{path} belongs to user {min(strangers)}, not to this user ({me})")
    if info.st_mode & 0o022 and not _tighten(path, info):
        return Folder(None, False, f"{path} can be written to by others (mode {stat.S_IMODE(info.st_mode):o})")
    if not os.access(path, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return Folder(None, False, f"{path} can't be read by this user")
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return Folder(path, False, f"{path} is read-only for this user")
    return Folder(path, True)


def _make(path: Path) -> str:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as err:
        if err.errno == errno.EEXIST:
            what = "a dangling symbolic link" if path.is_symlink() else "not a folder"
            return f"{path} is {what}"
        if err.errno == errno.EROFS and path.is_dir():
            return ""
        where = _first_obstacle(path)
        return f"{path} can't be made: {err.strerror}" + (f" ({where})" if where else "")
    return ""


def _first_obstacle(path: Path) -> str:
    """The nearest ancestor that exists but isn't a folder, or that is a dangling link."""
    for parent in path.parents:
        with contextlib.suppress(OSError):
            if parent.is_dir():
                return ""
            if parent.is_symlink():
                return f"{parent} is a dangling symbolic link"
            if parent.exists():
                return f"{parent} is not a folder"
    return ""


def _tighten(path: Path, info: os.stat_result) -> bool:
    if info.st_uid != os.geteuid():
        return False
    try:
        path.chmod(0o700)
    except OSError:
        return False
    return True
