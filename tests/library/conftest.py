from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asc_sched import files
from asc_sched.library import build

TINY: dict[str, Any] = {
    "name": "tinylib",
    "ops": [
        {"name": "product", "expr": "z = x * y"},
        {"name": "square", "expr": "z = x * x"},
        {"name": "scaled", "expr": "z = a * x + b", "scalars": {"a": 1.0, "b": 0.5}},
        {"name": "pair", "expr": "s = x + y; d = x - y", "dtypes": ["float32"]},
        {"name": "positive", "expr": "z = x > 0", "dtypes": ["float32"]},
        {"name": "choose", "expr": "z = where(c, x, y)", "dtypes": ["float32"]},
        {"name": "copied", "expr": "z = x", "dtypes": ["float32"]},
        {"name": "halved", "expr": "z = x // 2", "dtypes": ["float32", "int32"]},
        {"name": "mixed", "expr": "z = x * y", "dtypes": [["int32", "float32"], ["float16", "float32"]]},
    ],
    "dtypes": ["float32", "float16"],
}


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is silenced by a warning that another has had."""
    monkeypatch.setattr(files, "_warned", set())


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small library, built once; tests must not change it."""
    folder = tmp_path_factory.mktemp("tiny") / "tinylib"
    report = build(TINY, folder)
    assert report.ok, report.failures
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Iterator[Any]:
    """The small library, imported into this process."""
    sys.path.insert(0, str(tiny_folder))
    yield importlib.import_module("tinylib")
    sys.path.remove(str(tiny_folder))


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a built library by path, without the build's own notes."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.relative_to(folder).parts[0] != ".asc_sched_build" and "__pycache__" not in p.parts
    }
