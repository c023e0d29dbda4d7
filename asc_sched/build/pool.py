"""Several workers at once: a queue of kernels in, futures out."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from concurrent.futures import Future

import attrs

from asc_sched.build.request import Lowered, LowerRequest
from asc_sched.build.service import Station, Stopped
from asc_sched.errors import CompileError

#: How many kernels per worker wait in a pool while its input is read: enough to keep workers busy, little to hold.
LOOK_AHEAD = 8


@attrs.frozen(eq=False)
class _Job:
    request: LowerRequest
    time_limit_s: float | None
    future: Future[Lowered]


_Jobs = queue.SimpleQueue["_Job | None"]


class LoweringPool:
    """`jobs` worker processes, each fed by a thread that only waits for it; used as a `concurrent.futures.Executor`.

    Differs from one in that `submit` takes a `LowerRequest` instead of a function. A kernel that crashes its worker
    costs that worker, not the pool. Not usable in a forked child.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = usable_cpus() if jobs is None else jobs
        if self.jobs < 1:
            raise ValueError(f"jobs={jobs} must be at least 1")
        self._queue: _Jobs = queue.SimpleQueue()
        self._stations = [Station() for _ in range(self.jobs)]
        self._pid = os.getpid()
        self._closed = False
        self._threads = [
            threading.Thread(target=_serve, args=(self._queue, station), name="asc_sched-lower", daemon=True)
            for station in self._stations
        ]
        for thread in self._threads:
            thread.start()
        self._finalizer = weakref.finalize(self, _dismiss, self._queue, self.jobs)

    def submit(self, request: LowerRequest, *, time_limit_s: float | None = None) -> Future[Lowered]:
        """Queue a kernel; the future holds its `Lowered` or its `CompileError`."""
        if self._closed:
            raise RuntimeError("cannot lower new kernels after shutdown")
        if self._pid != os.getpid():
            raise RuntimeError(f"this pool belongs to process {self._pid}; make one after the fork")
        future: Future[Lowered] = Future()
        self._queue.put(_Job(request, time_limit_s, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more kernels and end the workers when the queue is done; with `cancel_futures` at once."""
        self._closed = True
        if self._pid != os.getpid():
            self._finalizer.detach()
            return
        if cancel_futures:
            _cancel_all(self._queue)
            for station in self._stations:
                station.stop()
        self._finalizer()
        if wait:
            for thread in self._threads:
                thread.join()

    def __enter__(self) -> LoweringPool:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.shutdown(wait=True, cancel_futures=kind is not None)


def outcome(future: Future[Lowered]) -> Lowered | CompileError:
    """A future's result, or its `CompileError` as a value; other errors (no pyasc at all, ^C) are raised."""
    try:
        return future.result()
    except CompileError as err:
        return err


def usable_cpus() -> int:
    """The processors that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _serve(jobs: _Jobs, station: Station) -> None:
    while (job := jobs.get()) is not None:
        if not job.future.set_running_or_notify_cancel():
            continue
        try:
            result = station.lower(job.request, job.time_limit_s)
        except Stopped:
            job.future.set_exception(
                CompileError(f"kernel {job.request.entry!r} was not lowered: the pool was stopped")
            )
        except BaseException as err:
            job.future.set_exception(err)
        else:
            job.future.set_result(result)
        del job
    station.close()


def _dismiss(jobs: _Jobs, count: int) -> None:
    for _ in range(count):
        jobs.put(None)


def _cancel_all(jobs: _Jobs) -> None:
    while True:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            return
        if job is not None:
            job.future.cancel()
