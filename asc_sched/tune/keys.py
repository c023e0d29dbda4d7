"""What a tuning result depends on: all of it, and nothing else."""

from __future__ import annotations

import hashlib
import json
import math
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
_FILES = ("kernel.py", "schedule.py", "tune/model.py", "tune/row_sketch.py", "tune/sketch.py")


@attrs.frozen
class Problem:
    """One tuning problem. `family` is the op, dtypes, target, backend and versions; `shapes` the sizes, by class."""

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
        "versions": versions(backend),
    }
    return Problem(op.name, _digest(family), size_class(shapes), total_length)


def size_class(shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The same for sizes that are the same work: tensors of one shape are one run of elements."""
    return ((math.prod(shapes[0]),),) * len(shapes) if len(set(shapes)) == 1 else shapes


def versions(backend: str) -> dict[str, str]:
    """Versions of what compiles, and for measured times runs, a kernel on this machine."""
    from asc_sched.build import pyasc_version

    pyasc = {"pyasc": pyasc_version()}
    return pyasc if backend == "model" else pyasc | {"cann": cann()}


def cann() -> str:
    """The CANN that kernels are compiled with: its version, or its folder where it doesn't tell; "none"."""
    from asc_sched.run.cann import find_cann

    found = find_cann()
    return "none" if found is None else found.version or str(found.home)


@lru_cache(maxsize=1)
def generator_version() -> str:
    """The package's version and a digest of the code and templates that make kernels."""
    root = Path(asc_sched.__file__).parent
    digest = hashlib.sha256()
    files = [file for room in _ROOMS for file in sorted((root / room).rglob("*")) if file.suffix in (".py", ".j2")]
    for file in (*files, *(root / name for name in _FILES)):
        digest.update(file.relative_to(root).as_posix().encode())
        digest.update(file.read_bytes())
    return f"{asc_sched.__version__}+{digest.hexdigest()[:16]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
