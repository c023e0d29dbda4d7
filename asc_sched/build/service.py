"""Workers behind a simple question: start when needed, replace when dead or fat, blame only the guilty kernel."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from asc_sched.build import failures
from asc_sched.build.request import Lowered, LowerRequest
from asc_sched.build.worker import Worker, WorkerDied, WorkerTimeout
from asc_sched.errors import CompileError

#: A worker is replaced when its peak memory has grown by this much since its start (pyasc keeps some of every kernel).
MAX_GROWTH_KIB = 256 * 1024
DEFAULT_TIME_LIMIT_S = 120.0


def default_time_limit_s() -> float:
    """Seconds that one kernel may take: ASC_SCHED_LOWER_TIMEOUT, or two minutes (usual kernels take milliseconds)."""
    text = os.environ.get("ASC_SCHED_LOWER_TIMEOUT", "")
    if not text:
        return DEFAULT_TIME_LIMIT_S
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise CompileError(f"ASC_SCHED_LOWER_TIMEOUT={text!r} is not a number of seconds above 0, such as 120")
    return value


class Stopped(Exception):
    """The station was stopped while it worked."""


class Station:
    """A place for one worker at a time. `lower` and `close` are for one thread at a time, `stop` is for any."""

    def __init__(self, max_growth_kib: int | None = None) -> None:
        self._worker: Worker | None = None
        self._stopped = False
        self._max_growth_kib = max_growth_kib

    def lower(self, request: LowerRequest, time_limit_s: float | None = None) -> Lowered:
        """Lower one kernel. Raises `CompileError`, `WorkerCrashError`, `BackendError` (no pyasc here)."""
        limit = default_time_limit_s() if time_limit_s is None else time_limit_s
        answer = self.ask(request.message(), request.entry, request.source, limit)
        return result_of(answer, request.entry, request.pseudo_file, request.source)

    def ask(
        self, message: dict[str, Any], entry: str, source: str | None, limit: float, doing: str = "lower"
    ) -> dict[str, Any]:
        """The worker's answer to any message about kernel `entry` (its `source`, where known, tells more of a crash).

        `limit` in seconds; `doing` is what takes the time, for the message. Raises `WorkerCrashError`, `BackendError`,
        `Stopped`.
        """
        for attempt in (0, 1):
            worker = self._ready_worker()
            fresh = worker.served == 0
            try:
                return worker.request(message, limit)
            except WorkerTimeout:
                raise failures.timeout(entry, limit, doing) from None
            except WorkerDied as died:
                if self._stopped:
                    raise Stopped from None
                # A worker that has lowered others may have been hurt by them, and one that was killed from outside
                # says nothing about the kernel: only a crash of a fresh worker is the kernel's own.
                if attempt or (fresh and not died.killed_from_outside):
                    raise failures.crash(entry, source, died) from None
        raise AssertionError("unreachable")

    @property
    def stopped(self) -> bool:
        """Whether `stop` has been called: it takes nothing any more."""
        return self._stopped

    def _ready_worker(self) -> Worker:
        worker = self._worker
        most = MAX_GROWTH_KIB if self._max_growth_kib is None else self._max_growth_kib
        if worker is not None and worker.alive and worker.rss_kib - worker.first_rss_kib < most:
            return worker
        self.close()
        if self._stopped:
            raise Stopped
        self._worker = Worker()
        if self._stopped:
            self.close()
            raise Stopped
        return self._worker

    def stop(self) -> None:
        """End the worker at once, also in the middle of a kernel, and start no other."""
        self._stopped = True
        worker = self._worker
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """End the worker, if any; the next kernel gets another."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


def result_of(answer: dict[str, Any], entry: str, file: str, source: str | None) -> Lowered:
    """A worker's answer as a result, or raised as `CompileError`."""
    if not answer["ok"]:
        raise failures.refusal(entry, file, source, answer)
    return Lowered(answer["asc_ir"], answer["ascendc"], answer.get("diagnostics", ""))


def lower_file_once(path: str, function: str, message: dict[str, Any], time_limit_s: float | None) -> Lowered:
    """Lower a function of a file in a worker of its own: what the file does on import stays in there."""
    limit = default_time_limit_s() if time_limit_s is None else time_limit_s
    worker = Worker(cwd=None)
    try:
        answer = worker.request({**message, "path": path, "function": function}, limit)
    except WorkerTimeout:
        raise failures.timeout(function, limit) from None
    except WorkerDied as died:
        raise failures.crash(function, failures.read_source(path), died) from None
    finally:
        worker.close()
    return result_of(answer, function, Path(path).name, failures.read_source(path))


class SharedStation:
    """The process-wide station behind `lower`: any thread may ask, one is served at a time; renewed after a fork."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._station = Station()

    def lower(self, request: LowerRequest, time_limit_s: float | None = None) -> Lowered:
        """As `Station.lower`."""
        with self._lock:
            return self._station.lower(request, time_limit_s)

    def close(self) -> None:
        """End the worker; the next request starts another."""
        with self._lock:
            self._station.close()


shared = SharedStation()
