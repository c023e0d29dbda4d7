"""Where a library's jobs run: any `concurrent.futures.Executor`. Here: threads that each wait for a worker process of
their own, and a dask cluster whose workers do the same.

`run_job` is all that an executor is given. It starts a lowering worker (pyasc can take its process down, and can't be
used from threads), keeps it for the next job, and replaces it when it dies: so one kernel's crash costs that kernel,
wherever it runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

import attrs

from asc_sched.build import failures
from asc_sched.build.pool import LOOK_AHEAD, usable_cpus
from asc_sched.build.service import MAX_GROWTH_KIB, Station, Stopped, default_time_limit_s
from asc_sched.errors import AscSchedError, BackendError, CompileError, LibraryError

_Item = TypeVar("_Item")
PRODUCE = "asc_sched.library.produce:produce"
WARM = "asc_sched.library.produce:warm"
VERIFY = "asc_sched.library.verify:verify"
SEARCH = "asc_sched.library.searches:search"
#: Growth after which a worker is replaced: of one that runs pyasc, which keeps some of every kernel; and of those that
#: run kernels, which need torch and the kernels' tensors and leak nothing.
_GROWTH_KIB = {PRODUCE: MAX_GROWTH_KIB, VERIFY: 1 << 40, SEARCH: 1 << 40}
#: By how much longer than a kernel's lowering a job may take.
_PATIENCE = {SEARCH: 10, VERIFY: 10}
_DOING = {PRODUCE: "be built", VERIFY: "be checked", SEARCH: "end"}


class _Stations:
    """The worker processes of this process: taken for a job, put back for the next."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[str, Station]] = []
        self._busy: set[Station] = set()

    @contextlib.contextmanager
    def take(self, function: str) -> Iterator[Station]:
        with self._lock:
            found = next((i for i in self._idle if i[0] == function), None)
            if found is not None:
                self._idle.remove(found)
            station = Station(_GROWTH_KIB[function]) if found is None else found[1]
            self._busy.add(station)
        try:
            yield station
        except Stopped:
            with self._lock:
                self._busy.discard(station)
            station.close()
            raise
        except BaseException:
            self._give_back(function, station)
            raise
        self._give_back(function, station)

    def _give_back(self, function: str, station: Station) -> None:
        with self._lock:
            self._busy.discard(station)
            if not station.stopped:  # by `stop`, while its last answer was on its way
                self._idle.append((function, station))

    def close(self) -> None:
        """End the workers that have nothing to do."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, station in idle:
            station.close()

    def stop(self) -> None:
        """End all workers at once, also in the middle of a job."""
        with self._lock:
            busy = list(self._busy)
        for station in busy:
            station.stop()
        self.close()


stations = _Stations()


def run_job(function: str, name: str, job: str) -> dict[str, Any]:
    """Run ``function`` ("module:name" in asc_sched) on the JSON text `job` in a worker process; gives its result.

    `name` is the kernel's, for messages. What goes wrong with the kernel comes back as ``failed``, a class name and a
    text. Raises `BackendError` where no worker can be started.
    """
    try:
        with stations.take(function) as station:
            limit = default_time_limit_s() * _PATIENCE.get(function, 1)
            message = {"call": function, "argument": {"job": job}}
            answer = station.ask(message, name, None, limit, _DOING[function])
        if not answer["ok"]:
            raise failures.refusal(name, f"{name}.py", None, answer)
    except CompileError as error:
        return {"failed": {"error": type(error).__name__, "message": str(error)}}
    except Stopped:
        return {"failed": {"error": "Stopped", "message": f"{name} was not built: the build was stopped"}}
    return {k: v for k, v in answer.items() if k not in ("ok", "rss_kib", "diagnostics")}


def warm_worker() -> None:
    """Start a worker process and have it load what kernels need. What is wrong here is told by the first kernel."""
    with contextlib.suppress(AscSchedError, Stopped), stations.take(PRODUCE) as station:
        station.ask({"call": WARM, "argument": {}}, "warm", None, default_time_limit_s())


@attrs.frozen
class Crew:
    """An executor with what a build must know of it: how many jobs it does at once; whether its workers are of this
    machine."""

    executor: Executor
    width: int
    local: bool = False

    def warm(self) -> None:
        """Start all workers of this machine, without waiting for them."""
        if self.local:
            for _ in range(self.width):
                self.executor.submit(warm_worker)

    @property
    def in_flight(self) -> int:
        """How many jobs to hand out at once: enough to keep it busy, little to hold."""
        return self.width * LOOK_AHEAD


def results(
    crew: Crew, function: str, jobs: Iterable[tuple[_Item, str, str]]
) -> Generator[tuple[_Item, dict[str, Any]], None, None]:
    """Run jobs, (item, name, job) each, a few ahead of what is taken; each item with its result as it is done.

    To be closed (`contextlib.closing`) where it may be left early. Raises `BackendError` when the executor breaks.
    """
    waiting: dict[Future[dict[str, Any]], _Item] = {}
    done: SimpleQueue[Future[dict[str, Any]]] = SimpleQueue()
    try:
        for item, name, job in jobs:
            if len(waiting) >= crew.in_flight:
                yield _settled(waiting, done.get())
            future = crew.executor.submit(run_job, function, name, job)
            waiting[future] = item
            future.add_done_callback(done.put)
        while waiting:
            yield _settled(waiting, done.get())
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def _settled(
    waiting: dict[Future[dict[str, Any]], _Item], done: Future[dict[str, Any]]
) -> tuple[_Item, dict[str, Any]]:
    """A job's result; what an executor does to a job that it lost is a failure of that job."""
    item = waiting.pop(done)
    try:
        return item, done.result()
    except AscSchedError:
        raise
    except (BrokenExecutor, CancelledError) as error:
        told = str(error) or type(error).__name__
        raise BackendError(f"the executor stopped: {told}; run the build again to go on") from None
    except ImportError as error:
        raise BackendError(f"the executor's workers lack something ({error}): install asc_sched everywhere") from None
    except Exception as error:
        return item, {"failed": {"error": type(error).__name__, "message": str(error)}}


@contextlib.contextmanager
def open_crew(executor: Executor | str | None, jobs: int | None) -> Iterator[Crew]:
    """The executor to build on: a given one, ``"local"`` or None for this machine, or ``"dask://HOST:PORT"``.

    `jobs` is the number of local workers (default: one per processor), or how many jobs a given executor does at once.
    Raises `LibraryError` for an address that can't be read, `BackendError` for a cluster that doesn't answer.
    """
    if jobs is not None and (not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1):
        raise LibraryError(f"jobs={jobs!r} must be a whole number of at least 1")
    if isinstance(executor, str) and executor != "local":
        with _dask(executor, jobs) as crew:
            yield crew
        return
    if executor is None or executor == "local":
        with _local(jobs or usable_cpus()) as crew:
            yield crew
        return
    if not isinstance(executor, Executor):
        raise LibraryError(f"executor={executor!r} is neither an address nor a concurrent.futures.Executor")
    try:
        yield Crew(executor, jobs or getattr(executor, "_max_workers", None) or usable_cpus())
    finally:
        stations.close()  # threads of this process may have started some


@contextlib.contextmanager
def _local(jobs: int) -> Iterator[Crew]:
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="asc_sched-library")
    try:
        yield Crew(pool, jobs, local=True)
    finally:  # after an error also jobs are stopped; else what is still at work only warms up for nothing
        pool.shutdown(wait=False, cancel_futures=True)
        stations.stop()
        pool.shutdown(wait=True)


_ADDRESS = re.compile(r"dask://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})\Z")
#: Seconds in which a cluster's scheduler must answer.
CONNECT_LIMIT_S = 20


@contextlib.contextmanager
def _dask(address: str, jobs: int | None) -> Iterator[Crew]:
    match = _ADDRESS.match(address)
    if match is None:
        raise LibraryError(f"executor {address!r} is unknown; write 'local' or 'dask://HOST:PORT'")
    try:
        from distributed import Client
    except ImportError:
        raise BackendError("building on a dask cluster needs distributed: pip install 'asc_sched[dask]'") from None
    try:
        client = Client(f"tcp://{match[1]}:{match[2]}", set_as_default=False, timeout=CONNECT_LIMIT_S)
    except (OSError, TimeoutError) as error:
        raise BackendError(f"no dask scheduler answers at {match[1]}:{match[2]}: {error}") from None
    try:
        threads = sum(client.nthreads().values())
        if not threads:
            raise BackendError(f"the dask cluster at {match[1]}:{match[2]} has no workers; start some: dask worker")
        # Every job is a task of its own; one whose worker dies is given to another by the scheduler.
        yield Crew(client.get_executor(pure=False), jobs or threads)
    finally:
        client.close()
