"""Where jobs run: worker processes here, executors of others, a dask cluster that loses a worker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from asc_sched.errors import BackendError, LibraryError
from asc_sched.library import Watcher, build, load
from asc_sched.library.analysis import Analyst
from asc_sched.library.executors import PRODUCE, run_job, stations, warm_worker
from asc_sched.library.plan import make_plan
from asc_sched.library.produce import SAMPLE, produce
from asc_sched.library.toolchain import toolchain
from tests.library.conftest import tree
from tests.library.programs import environment
from tests.library.test_build import SMALL

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def local_tree(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("local")
    assert build(SMALL, folder).ok
    return tree(folder)


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_builds_the_same_bytes(kind: Any, tmp_path: Path, local_tree: dict[str, bytes]) -> None:
    with kind(1) as executor:
        report = build(SMALL, tmp_path, executor=executor, cache=None)
    assert report.built == 12
    assert not stations._idle
    assert tree(tmp_path) == local_tree


def test_an_executor_gets_functions_and_plain_text_only_and_few_at_a_time(tmp_path: Path) -> None:
    class Recorder(Executor):
        calls: list[tuple[Any, ...]] = []  # noqa: RUF012
        waiting = most = 0

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.calls.append((fn, *args))
            future: Future[Any] = Future()
            future.set_result({"failed": {"error": "Nothing", "message": "was done"}})
            return future

    recorder = Recorder()
    with pytest.raises(LibraryError, match="none of the 12 kernels could be built"):
        build(SMALL, tmp_path, executor=recorder, jobs=1, cache=None)
    assert all(c[:2] == (run_job, PRODUCE) and all(isinstance(a, str) for a in c[1:]) for c in recorder.calls)
    assert len(recorder.calls) == 12


def test_an_executor_that_breaks_is_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    class Breaking(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            from concurrent.futures.process import BrokenProcessPool

            future: Future[Any] = Future()
            future.set_exception(BrokenProcessPool("a process died"))
            return future

    with pytest.raises(BackendError, match="the executor stopped: a process died; run the build again to go on"):
        build(SMALL, tmp_path, executor=Breaking(), cache=None)


@pytest.mark.parametrize(
    ("executor", "told"),
    [
        ("dusk://localhost:1", "executor 'dusk://localhost:1' is unknown; write 'local' or 'dask://HOST:PORT'"),
        ("dask://localhost", "write 'local' or 'dask://HOST:PORT'"),
        ("dask://a b:1", "write 'local' or 'dask://HOST:PORT'"),
        (3, "executor=3 is neither an address nor a concurrent.futures.Executor"),
    ],
)
def test_what_is_no_executor_is_refused(executor: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=re.escape(told)):
        build(SMALL, tmp_path, executor=executor, cache=None)


def test_jobs_must_be_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="jobs=0 must be a whole number of at least 1"):
        build(SMALL, tmp_path, jobs=0, cache=None)


def test_workers_warm_up_on_a_kernel_as_plans_have_them() -> None:
    kernel = next(iter(make_plan(load({"name": "sample", "ops": ["add"]}), Analyst()).kernels))
    own = {"symbol", "timed_length", "toolchain"}
    assert {k: v for k, v in kernel.job().items() if k not in own} == {k: v for k, v in SAMPLE.items() if k not in own}
    assert "failed" not in produce({"job": json.dumps({**SAMPLE, "toolchain": toolchain()})})


def test_a_worker_that_can_not_warm_up_leaves_it_to_the_first_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    stations.close()
    warm_worker()
    with pytest.raises(BackendError, match="can't start a lowering worker"):
        run_job(PRODUCE, "f", "{}")


def test_a_worker_with_other_code_refuses_the_job() -> None:
    job = '{"symbol": "f", "toolchain": {"asc_sched": "0.0.1", "code": "x", "pyasc": "1", "torch": "2", "python": "3"}}'
    result = run_job(PRODUCE, "f", job)
    assert result["failed"]["error"] == "LibraryError"
    assert "and the build was started with 0.0.1: install the same versions on every machine" in result["failed"][
        "message"
    ]


# -- dask ----------------------------------------------------------------------------------------------------------
@attrs.define
class Cluster:
    """A scheduler and workers, each a process of its own, on this machine only."""

    address: str
    scheduler: subprocess.Popen[str]
    workers: list[subprocess.Popen[str]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    local = ("--host", "127.0.0.1", "--no-dashboard")
    scheduler = _start("dask_scheduler", *local, "--port", "0", cwd=tmp_path)
    found = _wait_for(scheduler, r"Scheduler at:\s+tcp://(127\.0\.0\.1:\d+)")
    workers = [
        _start("dask_worker", f"tcp://{found}", *local, "--nthreads", "1", "--no-nanny", cwd=tmp_path) for _ in range(3)
    ]
    yield Cluster(f"dask://{found}", scheduler, workers)
    for process in (*workers, scheduler):
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _start(module: str, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
    return subprocess.Popen(
        command, env=environment(), cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _wait_for(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        match = re.search(pattern, line)
        if match:
            return match[1]
    raise AssertionError("the scheduler did not start")


class KillOne(Watcher):
    """Kills a dask worker once a few kernels are done."""

    def __init__(self, victim: subprocess.Popen[str]) -> None:
        self.victim, self.done = victim, 0

    def finished(self, symbol: str) -> None:
        self.done += 1
        if self.done == 3:
            self.victim.send_signal(signal.SIGKILL)


def test_a_cluster_that_loses_a_worker_tunes_and_builds_the_same_bytes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASC_SCHED_TUNING_DB", str(tmp_path / "none.sqlite"))
    spec = {**SMALL, "schedules": ["auto", "tuned"]}
    assert build(spec, tmp_path / "local", cache=None).ok
    for worker in cluster.workers:
        _wait_for(worker, r"(Registered to)")
    killer = KillOne(cluster.workers[0])
    report = build(spec, tmp_path / "out", executor=cluster.address, cache=None, watcher=killer)
    assert cluster.workers[0].wait(timeout=10) == -signal.SIGKILL
    assert report.ok, report.failures
    assert report.built == 20
    assert tree(tmp_path / "out") == tree(tmp_path / "local")
    assert "tuned on the model" in (tmp_path / "out/small/manifest.json").read_text()


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asc_sched.library import executors

    monkeypatch.setattr(executors, "CONNECT_LIMIT_S", 1)
    start = time.monotonic()
    with pytest.raises(BackendError, match=r"no dask scheduler answers at 127\.0\.0\.1:9: "):
        build(SMALL, tmp_path, executor="dask://127.0.0.1:9", cache=None)
    assert time.monotonic() - start < 30
