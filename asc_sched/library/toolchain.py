"""What built kernels depend on besides their declaration: this package's own code, the versions of pyasc and torch."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import asc_sched
from asc_sched.errors import BackendError, LibraryError

#: Rooms whose code decides nothing about a kernel.
_IRRELEVANT = frozenset({"cli", "report", "run", "twin", "export", "ops", "schedules"})


def digest(data: Any) -> str:
    """Hex SHA-256 of JSON data, the same whatever the order of its mappings."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def code_digest() -> str:
    """Hex SHA-256 over the files of this package that take part in making kernels and packages."""
    root = Path(asc_sched.__file__).parent
    found = [p for p in root.rglob("*") if p.suffix in (".py", ".j2", ".json") and _counts(p.relative_to(root))]
    hasher = hashlib.sha256()
    for path in sorted(found, key=lambda p: p.relative_to(root).as_posix()):
        data = path.read_bytes()
        hasher.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
        hasher.update(data)
    return hasher.hexdigest()


def _counts(path: Path) -> bool:
    return path.parts[0] not in _IRRELEVANT and "__pycache__" not in path.parts


@functools.cache
def version(package: str) -> str:
    """An installed package's version. Raises `BackendError` when it isn't installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise BackendError(f"{package} is not installed; try: pip install {package}") from None


@functools.cache
def toolchain() -> dict[str, str]:
    """Everything that the bytes of a built library depend on besides its declaration."""
    return {
        "asc_sched": asc_sched.__version__,
        "code": code_digest(),
        "pyasc": version("pyasc"),
        "torch": version("torch"),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
    }


def check_toolchain(theirs: Mapping[str, str]) -> None:
    """A worker on another machine must have the same code as the build, or it would make other bytes. Raises
    `LibraryError`."""
    names = [name for name in theirs if name != "torch"]  # it tells what is defined, which was settled by the build
    wrong = next((name for name in names if toolchain().get(name) != theirs[name]), None)
    if wrong is not None:
        raise LibraryError(
            f"this worker has {wrong} {toolchain().get(wrong)}, and the build was started with {theirs[wrong]}: "
            "install the same versions on every machine"
        )
