"""The build: from a declaration to a package in a folder. Resumable at any point, the same bytes however it went."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from queue import SimpleQueue
from typing import Any, Literal

import attrs

from asc_sched.build.cache import Cache, default_cache
from asc_sched.errors import AscSchedError, BackendError, LibraryError
from asc_sched.library.analysis import Analyst
from asc_sched.library.declaration import load
from asc_sched.library.executors import PRODUCE, Crew, open_crew, run_job
from asc_sched.library.journal import Entry, OutputFolder
from asc_sched.library.plan import Plan, PlannedKernel, make_plan
from asc_sched.library.spec import Library
from asc_sched.library.toolchain import digest, toolchain

#: What a job gives for each kernel, besides its record.
_TEXTS = ("source", "ascendc", "asc_ir")


@attrs.frozen
class Failure:
    """A kernel that could not be built: its symbol, the error's class name, and the message."""

    symbol: str
    error: str
    message: str


@attrs.frozen
class BuildReport:
    """What a build did. `built` kernels were made now, `cached` were found in the user's cache, `kept` were there."""

    name: str
    folder: str
    kernels: int
    built: int
    cached: int
    kept: int
    failures: tuple[Failure, ...]
    skipped: tuple[tuple[str, tuple[str, ...], str], ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every kernel is there."""
        return not self.failures

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.built or self.cached or self.failures)


class Watcher:
    """Told how a build goes. Does nothing; derive from it."""

    def waiting(self, owner: str) -> None:
        """Another build has the folder; `owner` is the process."""

    def planned(self, total: int, todo: int) -> None:
        """How many kernels the library has, and how many of them have to be made."""

    def finished(self, symbol: str) -> None:
        """A kernel is done."""

    def failed(self, failure: Failure) -> None:
        """A kernel could not be built."""


def build(
    spec: str | os.PathLike[str] | Mapping[str, Any] | Library,
    out: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    executor: Executor | str | None = None,
    cache: Cache | Literal["default"] | None = "default",
    watcher: Watcher | None = None,
) -> BuildReport:
    """Build a library into the folder `out`: only what isn't there already, or has changed.

    `spec` is a ``.toml`` or ``.py`` file, a table of the same fields, or a `Library`. `executor` is a
    `concurrent.futures.Executor`, ``"dask://HOST:PORT"``, or None for `jobs` worker processes on this machine (default:
    one per processor). `cache` keeps kernels for other builds: the user's own, another, or None.

    A kernel that can't be built is in the report's `failures` and doesn't stop the others. Raises `LibraryError`,
    `StorageError` (a full disk, say; the next build goes on from there), `BackendError` (no pyasc, no cluster).
    """
    start = time.monotonic()
    told = watcher or Watcher()
    library = load(spec)
    store = default_cache() if cache == "default" else cache
    with OutputFolder(out, told.waiting) as folder:
        analyst = Analyst(folder.read_analyses(), store)
        with contextlib.ExitStack() as stack:
            crew = None
            if not folder.entries and executor in (None, "local"):
                crew = stack.enter_context(open_crew(executor, jobs))
                crew.warm()  # workers start while this process imports torch
            plan = make_plan(library, analyst)
            work = _Build(plan, folder, store, told)
            if work.is_complete():
                return work.report(start)
            if analyst.used.keys() != analyst.known.keys():
                folder.write_analyses(analyst.used)
            if work.todo:
                work.run(crew or stack.enter_context(open_crew(executor, jobs)))
        work.write_package()
        return work.report(start)


class _Build:
    def __init__(self, plan: Plan, folder: OutputFolder, cache: Cache | None, watcher: Watcher) -> None:
        self.plan, self.folder, self.cache, self.watcher = plan, folder, cache, watcher
        self.keys = {k.symbol: k.key for k in plan.kernels}
        self.todo = [k for k in plan.kernels if not self._is_done(k)]
        self.kept = len(self.keys) - len(self.todo)
        self.built = self.cached = 0
        self.failures: dict[str, Failure] = {}
        self._package = plan.library.name

    def _is_done(self, kernel: PlannedKernel) -> bool:
        entry = self.folder.entries.get(kernel.symbol)
        return entry is not None and entry.key == self.keys[kernel.symbol] and self.folder.intact(entry.files)

    def is_complete(self) -> bool:
        """Whether the folder has all that this plan would make."""
        package = self.folder.package
        return (
            not self.todo
            and package.get("plan") == self._plan_digest()
            and self.folder.entries.keys() == self.keys.keys()
            and self.folder.intact(package["files"])
        )

    def _plan_digest(self) -> str:
        """Of all that the package's files depend on, when every kernel is built."""
        library = self.plan.library
        texts = [library.name, library.version, library.description]
        docs = [[o.torch_name, o.name, o.doc, o.schema] for o in self.plan.operators]
        return digest([texts, docs, self.keys, [list(map(str, s)) for s in self.plan.skipped], toolchain()])

    # -- kernels -------------------------------------------------------------------------------------------------
    def run(self, crew: Crew) -> None:
        """Make what has to be made, a few kernels ahead; each is written and noted as it comes."""
        self.watcher.planned(len(self.keys), len(self.todo))
        waiting: dict[Future[dict[str, Any]], PlannedKernel] = {}
        done: SimpleQueue[Future[dict[str, Any]]] = SimpleQueue()
        try:
            for kernel in self._not_in_cache():
                if len(waiting) >= crew.in_flight:
                    self._settle(waiting, done.get())
                job = json.dumps(kernel.job(), separators=(",", ":"))
                future = crew.executor.submit(run_job, PRODUCE, kernel.symbol, job)
                waiting[future] = kernel
                future.add_done_callback(done.put)
            while waiting:
                self._settle(waiting, done.get())
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def _not_in_cache(self) -> Iterator[PlannedKernel]:
        for kernel in self.todo:
            found = None if self.cache is None else self.cache.get(self._cache_key(kernel))
            if found is None or not {*_TEXTS, "record"} <= found.keys():
                yield kernel
                continue
            self._keep(kernel, found, json.loads(found["record"]))
            self.cached += 1

    def _cache_key(self, kernel: PlannedKernel) -> str:
        return digest(["library", self.keys[kernel.symbol]])

    def _settle(self, waiting: dict[Future[dict[str, Any]], PlannedKernel], done: Future[dict[str, Any]]) -> None:
        """Take in what is done."""
        kernel = waiting.pop(done)
        result = _result(done)
        if "failed" in result:
            self._fail(kernel, result["failed"])
            return
        if self.cache is not None:
            texts = {name: result[name] for name in _TEXTS}
            self.cache.put(self._cache_key(kernel), {**texts, "record": json.dumps(result["record"])})
        self._keep(kernel, result, result["record"])
        self.built += 1

    def _fail(self, kernel: PlannedKernel, failed: Mapping[str, str]) -> None:
        failure = Failure(kernel.symbol, failed["error"], failed["message"].removeprefix(f"{kernel.symbol}: "))
        self.failures[kernel.symbol] = failure
        self.watcher.failed(failure)

    def _keep(self, kernel: PlannedKernel, texts: Mapping[str, str], record: Mapping[str, Any]) -> None:
        from asc_sched.library.manifest import record_text
        from asc_sched.library.package import FILE_NAMES, SUFFIXES

        files: dict[str, str] = {}
        described: dict[str, dict[str, Any]] = {}
        for name in _TEXTS:
            data = texts[name].encode("utf-8")
            path = f"kernels/{kernel.symbol}{SUFFIXES[name]}"
            sha256 = self.folder.write(f"{self._package}/{path}", data)
            files[f"{self._package}/{path}"] = sha256
            described[FILE_NAMES[name]] = {"path": path, "sha256": sha256, "bytes": len(data)}
        entry = Entry(self.keys[kernel.symbol], files, record_text(record, described))
        self.folder.add(kernel.symbol, entry)
        self.watcher.finished(kernel.symbol)

    # -- package -------------------------------------------------------------------------------------------------
    def write_package(self) -> None:
        """The files beside the kernels, then a clean folder, then the journal that says so."""
        from asc_sched.library.package import package_files

        entries = {s: e for s, e in self.folder.entries.items() if s in self.keys and e.key == self.keys[s]}
        if not entries:
            raise LibraryError(self._nothing())
        reasons = {s: f"{f.error}: {f.message}" for s, f in self.failures.items()}
        written: dict[str, str] = {}
        for path, data in package_files(self.plan, {s: e.record for s, e in entries.items()}, reasons).items():
            written[path] = self.folder.write(path, data, durable=True)
        former = {*self.folder.package.get("files", {}), *(f for e in self.folder.entries.values() for f in e.files)}
        keep = {*written, *(f for e in entries.values() for f in e.files)}
        self.folder.sweep(keep, former, f"{self._package}/kernels")
        self.folder.finish(set(entries), {"plan": self._plan_digest(), "files": written})

    def _nothing(self) -> str:
        first = min(self.failures.values(), key=lambda f: f.symbol)
        return f"none of the {len(self.keys)} kernels could be built; the first: {first.symbol}: {first.message}"

    def report(self, start: float) -> BuildReport:
        """What was done, `start` by `time.monotonic`."""
        return BuildReport(
            self.plan.library.name, str(self.folder.path), len(self.keys), self.built, self.cached, self.kept,
            tuple(f for _, f in sorted(self.failures.items())), self.plan.skipped, time.monotonic() - start,
        )  # fmt: skip


def _result(future: Future[dict[str, Any]]) -> dict[str, Any]:
    """A job's result; what an executor does to a job that it lost is a failure of that job."""
    try:
        return future.result()
    except AscSchedError:
        raise
    except (BrokenExecutor, CancelledError) as error:
        told = str(error) or type(error).__name__
        raise BackendError(f"the executor stopped: {told}; run the build again to go on") from None
    except ImportError as error:
        raise BackendError(f"the executor's workers lack something ({error}): install asc_sched everywhere") from None
    except Exception as error:
        return {"failed": {"error": type(error).__name__, "message": str(error)}}
