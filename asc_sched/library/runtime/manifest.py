"""The manifest of a built library, and its files: nothing is used that doesn't have the digest it was built with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import LibraryError

FORMAT = "asc_sched library 1"


def read_manifest(path: Path, sha256: str) -> dict[str, Any]:
    """``manifest.json``, if it is the one that the package was built with. Raises `LibraryError`."""
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise LibraryError(f"{path} doesn't have the digest that its package was built with: {_REMEDY}")
    try:
        manifest = json.loads(data)
    except ValueError as error:
        raise LibraryError(f"{path} is not JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise LibraryError(f"{path} is not a manifest of the format {FORMAT!r}")
    return manifest


def read_file(root: Path, entry: Mapping[str, Any]) -> bytes:
    """The file of a manifest's entry (``path``, ``sha256``), checked. Raises `LibraryError`."""
    path = root / str(entry["path"])
    if not path.resolve().is_relative_to(root.resolve()):
        raise LibraryError(f"{entry['path']!r} lies outside of the library's folder {root}")
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise LibraryError(f"{path} doesn't have the digest that the manifest gives: {_REMEDY}")
    return data


_REMEDY = "the library is damaged or was changed by hand; install it anew, or build it again"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LibraryError(f"can't read {path}: {error.strerror or error}; {_REMEDY}") from None
