"""Importing asc_sched costs nothing that it doesn't need."""

from __future__ import annotations

import subprocess
import sys

import pytest

import asc_sched

HEAVY = ("torch", "sympy", "jinja2", "numpy", "asc", "attrs", "click", "rich", "matplotlib", "distributed")


def loaded(code: str) -> set[str]:
    """Which heavy libraries are loaded after `code` in a fresh process."""
    script = f"{code}\nimport sys; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_no_library() -> None:
    assert loaded("import asc_sched; asc_sched.__version__; dir(asc_sched)") == set()


def test_declaring_and_scheduling_load_neither_torch_nor_sympy() -> None:
    code = "from asc_sched import op, Schedule\nop('z = exp(x) + 2*y'); Schedule(core_num=8, tile_num=8)"
    assert loaded(code) & {"torch", "sympy", "jinja2", "asc"} == set()


def test_every_public_name_can_be_had() -> None:
    for name in asc_sched.__all__:
        assert getattr(asc_sched, name) is not None
        assert name in dir(asc_sched)
    with pytest.raises(AttributeError, match="module 'asc_sched' has no attribute 'shedule'"):
        asc_sched.shedule
