"""Common to all tests: a cache of their own, and property tests that try the same examples each time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.register_profile("nightly", deadline=None, database=None, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    marks = config.getoption("markexpr", "") or ""
    settings.load_profile("nightly" if "nightly" in marks and marks != "not nightly" else "steady")


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels are lowered anew in each session and never left in the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASC_SCHED_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        for name in [n for n in os.environ if n.startswith("ASC_SCHED_") and n != "ASC_SCHED_CACHE_DIR"]:
            patch.delenv(name)
        yield
