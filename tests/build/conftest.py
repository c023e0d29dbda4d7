from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from asc_sched import files
from asc_sched.build.cache import Cache
from asc_sched.paths import open_folder


@pytest.fixture(autouse=True)
def own_cache_and_fresh_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees another's cache or is silenced by a warning that another has had."""
    monkeypatch.setenv("ASC_SCHED_CACHE_DIR", str(tmp_path / "user cache"))
    monkeypatch.delenv("ASC_SCHED_CACHE_SIZE", raising=False)
    monkeypatch.setattr(files, "_warned", set())


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    yield Cache(open_folder(tmp_path / "cache"))
