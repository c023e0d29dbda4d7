"""A stand-in for CANN in tests: the twin's sources built strictly, with the NPU side too.

Launches run when their stream is synchronised and not before, the device's name, number and faults come from the
environment, and every call of the runtime and every command line is recorded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from asc_sched.twin.build import Library, TwinHome, twin_home

STRICT = (
    Library("runtime_camodel", "runtime.cpp", ("ASC_TWIN_MODEL", "ASC_TWIN_STRICT")),
    Library("runtime", "runtime.cpp", ("ASC_TWIN_STRICT",)),
    Library("ascendcl", "acl.cpp"),
    Library("msprofiler", "msprofiler.cpp"),
)
REPO = Path(__file__).resolve().parents[3]


def have_compiler() -> bool:
    return any(shutil.which(name) for name in ("g++", "clang++"))


needs_compiler = pytest.mark.skipif(
    not have_compiler(), reason="no C++ compiler (g++ or clang++) on PATH: the stand-in for CANN can't be built"
)


@attrs.frozen
class Done:
    """A process that ended: its output, and what it did to the stand-in."""

    returncode: int
    out: str
    err: str
    log: list[dict[str, Any]]

    def calls(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log if entry["call"] == name]

    @property
    def names(self) -> list[str]:
        return [entry["call"] for entry in self.log]


@attrs.frozen
class StandIn:
    """A built stand-in, and a folder for what processes leave."""

    home: TwinHome
    work: Path

    def python(
        self, *args: str, code: str | None = None, env: Mapping[str, str] | None = None, timeout: float = 240.0
    ) -> Done:
        """Run Python with the stand-in in the place of CANN, on `code` or with `args`."""
        log = self.work / f"log{len(list(self.work.iterdir()))}.jsonl"
        variables = self.home.merged({k: v for k, v in os.environ.items() if not k.startswith("ASC_SCHED_")})
        variables |= {
            "ASC_SCHED_TWIN_LOG": str(log),
            "ASC_SCHED_CACHE_DIR": str(self.work.parent / "asc_sched_cache"),
            "PYTHONPATH": str(REPO),
            **(env or {}),
        }
        command = [sys.executable, *(["-c", code] if code is not None else []), *args]
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=timeout, check=False, cwd=self.work
        )
        lines = log.read_text().splitlines() if log.exists() else []
        return Done(done.returncode, done.stdout, done.stderr, [json.loads(line) for line in lines])


def build(root: Path) -> StandIn:
    """Build it under `root`."""
    work = root / "work"
    work.mkdir(parents=True, exist_ok=True)
    return StandIn(twin_home(root / "home", STRICT), work)
