"""Several workers at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from asc_sched.build import LoweringPool, lower_many
from asc_sched.build.request import Lowered, LowerRequest
from asc_sched.build.service import Station
from asc_sched.errors import CompileError, WorkerCrashError
from tests.build import kernels
from tests.build.kernels import crash_request, nth, tiny
from tests.build.processes import python, wait_until_gone


def test_pool_gives_futures_and_survives_crashes() -> None:
    with LoweringPool(2) as pool:
        good = [pool.submit(nth(i)) for i in range(5)]
        bad = pool.submit(crash_request())
        later = [pool.submit(nth(i)) for i in range(5, 10)]
        for i, future in enumerate(good + later):
            assert f"void fill_{i}(" in future.result().ascendc
        assert isinstance(bad.exception(), WorkerCrashError)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(nth(1))


def test_pool_stops_at_once_when_its_futures_are_cancelled() -> None:
    pool = LoweringPool(1)
    pool.submit(nth(0)).result()
    hang = pool.submit(LowerRequest(source=kernels.HANG, entry="hang_kernel", arg_types=(kernels.F32,)))
    queued = pool.submit(nth(1))
    start = time.monotonic()
    while not hang.running():
        time.sleep(0.01)
    pool.shutdown(cancel_futures=True)
    assert time.monotonic() - start < 5
    assert queued.cancelled()
    assert "the pool was stopped" in str(hang.exception())


def test_pool_refuses_to_work_in_a_forked_child() -> None:
    code = """
import os
from asc_sched.build import LoweringPool
from tests.build.kernels import nth
pool = LoweringPool(1)
pool.submit(nth(0)).result()
child = os.fork()
if child == 0:
    try:
        pool.submit(nth(1))
    except RuntimeError as err:
        os._exit(0 if "belongs to process" in str(err) else 2)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
pool.submit(nth(1)).result()
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_forgotten_pool_ends_its_workers_and_does_not_block_the_exit() -> None:
    code = """
from asc_sched.build import LoweringPool
from tests.build.kernels import nth
pool = LoweringPool(2)
futures = [pool.submit(nth(i)) for i in range(200)]
futures[0].result()
print(*(s._worker.pid for s in pool._stations if s._worker))
"""
    done = python(code)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    for pid in done.stdout.split():
        wait_until_gone(int(pid))


def test_lower_many_keeps_order_and_reports_failures_in_place() -> None:
    requests = [nth(0), crash_request(), nth(1), tiny("bad", "nonsense(x)"), nth(2)]
    results = list(lower_many(requests, 2, cache=None))
    kinds = [Lowered, WorkerCrashError, Lowered, CompileError, Lowered]
    assert [type(result) for result in results] == kinds
    assert [f"fill_{i}(" in results[2 * i].ascendc for i in range(3)] == [True] * 3  # type: ignore[union-attr]


def test_lower_many_reads_its_input_only_as_far_as_needed() -> None:
    read = []

    def endless() -> Iterator[LowerRequest]:
        index = 0
        while True:
            read.append(index)
            yield nth(index % 50)
            index += 1

    stream = lower_many(endless(), 2, cache=None)
    assert [f"fill_{i}(" in next(stream).ascendc for i in range(3)] == [True] * 3  # type: ignore[union-attr]
    with contextlib.closing(stream):  # type: ignore[type-var]
        pass
    assert len(read) <= 2 * 8 + 3


def test_lower_many_with_everything_in_the_cache_starts_no_worker(
    cache: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [nth(i) for i in range(4)]
    first = list(lower_many(requests, 2, cache=cache))
    monkeypatch.setattr("asc_sched.build.service.Worker", None)
    second = list(lower_many(requests, 2, cache=cache))
    assert first == second and all(isinstance(result, Lowered) and result.cached for result in second)


@pytest.mark.nightly
def test_memory_of_a_worker_grows_by_little_more_than_pyasc_itself_keeps() -> None:
    station = Station()
    try:
        for index in range(300):
            station.lower(nth(index))
        assert station._worker is not None
        pid, early = station._worker.pid, station._worker.rss_kib
        for index in range(300, 2300):
            station.lower(nth(index))
        assert station._worker.pid == pid
        assert (station._worker.rss_kib - early) / 2000 < 16  # KiB per kernel
    finally:
        station.close()
