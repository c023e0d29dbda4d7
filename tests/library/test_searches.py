"""Builds tune what nobody has tuned: the same answers whoever searches, however often the build is stopped."""

from __future__ import annotations

import json
import signal
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asc_sched.library import Watcher, build
from asc_sched.library.executors import SEARCH
from asc_sched.library.searches import search, space_of
from asc_sched.library.toolchain import toolchain
from tests.library.conftest import tree
from tests.library.programs import BUILD, run_build, start_build

TUNED: dict[str, Any] = {
    "name": "fitted",
    "ops": [{"name": "one", "expr": "z = x * y"}, {"name": "two", "expr": "z = where(c, x, 2.0)"}],
    "dtypes": ["float32", "float16"],
    "shapes": ["dynamic", "100x7", "700", "0x7", "2x4096"],
    "schedules": ["tuned"],
    "gradients": False,
}


class Counter(Watcher):
    """How many searches there were to make, and how many kernels."""

    searches = kernels = 0

    def searching(self, total: int) -> None:
        self.searches = total

    def planned(self, total: int, todo: int) -> None:
        self.kernels = todo


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of TUNED with nothing tuned before, on one worker and without a cache."""
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASC_SCHED_TUNING_DB", str(folder / "none.sqlite"))
        assert build(TUNED, folder / "out", jobs=1, cache=None).ok
    return folder / "out"


@pytest.fixture(autouse=True)
def nothing_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASC_SCHED_TUNING_DB", str(tmp_path / "tuning.sqlite"))


def test_what_nobody_has_tuned_is_tuned_by_the_build(fitted: Path, tmp_path: Path) -> None:
    from asc_sched import op
    from asc_sched.tune.store import Store
    from asc_sched.tune.tuner import tune

    kernels = json.loads((fitted / "fitted/manifest.json").read_text())["kernels"]
    found = {name: kernels[f"one_float16_{name}_tuned_Ascend910B1"]["schedule"] for name in ("2x4096", "any", "0x7")}
    expected = tune(op("z = x * y"), (2, 4096), "float16", backend="model", store=Store(None)).best.to_dict()
    assert found["2x4096"] == {
        "chosen": "tuned", "note": "tuned on the model when the library was built", "fields": expected,
    }  # fmt: skip
    assert found["any"]["note"].startswith("schedules are tuned for a size")
    assert found["0x7"]["note"].startswith("there is nothing to tune without elements")
    assert not (tmp_path / "tuning.sqlite").exists()


def test_searches_are_made_once_for_kernels_that_are_the_same_work(fitted: Path, tmp_path: Path) -> None:
    first, again, other = Counter(), Counter(), Counter()
    build(TUNED, tmp_path / "out", jobs=2, watcher=first)
    assert first.searches == 2 * 2 * 2  # ops x dtypes x (700 elements, 8192 elements)
    assert tree(tmp_path / "out") == tree(fitted)
    assert not build(TUNED, tmp_path / "out", watcher=again).changed
    build(TUNED, tmp_path / "other", watcher=other)
    assert (again.searches, other.searches) == (0, 0)
    assert tree(tmp_path / "other") == tree(fitted)


def test_a_build_that_is_killed_while_it_tunes_goes_on_from_there(fitted: Path, tmp_path: Path) -> None:
    killer = BUILD.replace("def finished", "def searched")
    assert killer != BUILD
    process = start_build(TUNED, tmp_path / "out", program=killer, kill_after=3, cache=None)
    assert process.wait(timeout=120) == -signal.SIGKILL
    process.communicate()
    counter = Counter()
    assert build(TUNED, tmp_path / "out", cache=None, watcher=counter).ok
    assert counter.searches == 8 - 3
    assert tree(tmp_path / "out") == tree(fitted)


class LosesSearches(Executor):
    """An executor that loses the searches of 8192 elements."""

    def __init__(self) -> None:
        self.inner = ThreadPoolExecutor(1)

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if args[0] == SEARCH and '"total_length":8192' in args[2]:
            lost: Future[Any] = Future()
            lost.set_exception(RuntimeError("gone"))
            return lost
        return self.inner.submit(function, *args, **kwargs)


def test_a_search_that_fails_costs_its_own_kernels_until_it_is_made(fitted: Path, tmp_path: Path) -> None:
    report = build(TUNED, tmp_path / "out", executor=LosesSearches(), cache=None)
    assert sorted(f.symbol for f in report.failures) == sorted(
        p.stem for p in (fitted / "fitted/kernels").glob("*_2x4096_*.py")
    )
    assert {(f.error, f.message) for f in report.failures} == {("RuntimeError", "gone")}
    counter = Counter()
    assert build(TUNED, tmp_path / "out", cache=None, watcher=counter).ok
    assert (counter.searches, counter.kernels) == (4, 4)
    assert tree(tmp_path / "out") == tree(fitted)


def test_a_worker_that_searches_another_space_refuses(tmp_path: Path) -> None:
    space = {**space_of("Ascend910B1"), "buffer_num": [1]}
    job = {"target": "Ascend910B1", "space": space, "toolchain": toolchain()}
    answer = search({"job": json.dumps(job)})
    assert answer["failed"]["error"] == "LibraryError"
    assert "searches another space than the build" in answer["failed"]["message"]


def test_a_journal_of_searches_that_was_cut_short_is_read_as_far_as_it_is_whole(fitted: Path, tmp_path: Path) -> None:
    run_build(TUNED, tmp_path / "out", cache=None)
    journal = tmp_path / "out/.asc_sched_build/searches"
    lines = journal.read_bytes()
    journal.write_bytes(lines[: len(lines) // 2])
    counter = Counter()
    assert not build(TUNED, tmp_path / "out", cache=None, watcher=counter).changed
    assert 3 <= counter.searches <= 5
    assert tree(tmp_path / "out") == tree(fitted)
