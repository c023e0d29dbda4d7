"""What a tuning result depends on: all of it, and nothing else."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs

import asc_sched
from asc_sched.declare import Op
from asc_sched.lang.dtypes import DType
from asc_sched.lang.printer import statements
from asc_sched.target import Target

# Rooms whose code decides what a schedule's kernel looks like or how long the model takes it to run.
_ROOMS = ("lang", "lower", "emit", "tiling", "target", "sim")


@attrs.frozen
class Problem:
    """One tuning problem. `family` is the op, dtypes, target, backend and versions; `shapes` the sizes."""

    op: str
    family: str
    shapes: tuple[tuple[int, ...], ...]
    total_length: int

    @property
    def key(self) -> str:
        """Text that is equal exactly for equal problems."""
        return _digest({"family": self.family, "shapes": self.shapes})


def problem(
    op: Op,
    shapes: tuple[tuple[int, ...], ...],
    total_length: int,
    dtypes: tuple[DType, ...],
    target: Target,
    *,
    backend: str,
    l2: str,
    versions: dict[str, str] | None = None,
) -> Problem:
    """The key of tuning `op` at `shapes`. The op counts by its expression: a changed one under an old name is new."""
    family = {
        "expression": statements(op.graph),
        "inputs": op.inputs,
        "scalars": [(s.name, s.dtype.name) for s in op.scalars],
        "dtypes": [d.name for d in dtypes],
        "target": attrs.asdict(target),
        "backend": backend,
        "l2": l2,
        "generator": generator_version(),
        "versions": versions or default_versions(),
    }
    return Problem(op.name, _digest(family), shapes, total_length)


def default_versions() -> dict[str, str]:
    """Versions of what compiles a kernel on this machine."""
    from asc_sched.build import pyasc_version

    return {"pyasc": pyasc_version(), "cann": cann_version()}


def cann_version() -> str:
    """The CANN toolkit's version as its own file says, or "none"."""
    import os

    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return "none"
    for name in ("version.cfg", "compiler/version.info", "version.info"):
        file = Path(home) / name
        if file.is_file():
            return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return home


@lru_cache(maxsize=1)
def generator_version() -> str:
    """The package's version and a digest of the code and templates that make kernels."""
    root = Path(asc_sched.__file__).parent
    digest = hashlib.sha256()
    for room in _ROOMS:
        for file in sorted((root / room).rglob("*")):
            if file.suffix in (".py", ".j2"):
                digest.update(file.relative_to(root).as_posix().encode())
                digest.update(file.read_bytes())
    return f"{asc_sched.__version__}+{digest.hexdigest()[:16]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
