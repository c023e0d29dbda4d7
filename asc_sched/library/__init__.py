"""Kernel libraries: many ops, dtypes, sizes and targets in one build, as a Python package with torch operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lazy import loader

if TYPE_CHECKING:
    from asc_sched.library.builder import BuildReport, Failure, Watcher, build
    from asc_sched.library.checker import CheckReport, check
    from asc_sched.library.declaration import load
    from asc_sched.library.spec import Library

_HOMES = {
    "BuildReport": "builder",
    "CheckReport": "checker",
    "Failure": "builder",
    "Library": "spec",
    "Watcher": "builder",
    "build": "builder",
    "check": "checker",
    "load": "declaration",
}

__all__ = ["BuildReport", "CheckReport", "Failure", "Library", "Watcher", "build", "check", "load"]

__getattr__ = loader(__name__, _HOMES)
