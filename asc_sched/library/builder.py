"""The build: from a declaration to a package in a folder. Resumable at any point, the same bytes however it went."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, Literal

import attrs

from asc_sched.build.cache import Cache, default_cache
from asc_sched.errors import LibraryError
from asc_sched.library.analysis import Analyst
from asc_sched.library.declaration import load
from asc_sched.library.executors import PRODUCE, SEARCH, Crew, open_crew, results
from asc_sched.library.journal import Entry, OutputFolder
from asc_sched.library.plan import Plan, PlannedKernel, make_plan
from asc_sched.library.searches import Search, Searches
from asc_sched.library.searches import jobs as search_jobs
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

    def searching(self, total: int) -> None:
        """How many schedules have to be searched before kernels are made."""

    def searched(self, symbol: str) -> None:
        """A search is done; `symbol` is one of the kernels that it was made for."""

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
            searches = Searches(folder, store)
            plan, missing = searches.settle(plan)
            lost: dict[str, Mapping[str, str]] = {}
            if missing:
                crew = crew or stack.enter_context(open_crew(executor, jobs))
                lost = _search(crew, searches, missing, told)
                plan, _ = searches.settle(plan)
            work = _Build(plan, folder, store, told, lost)
            if work.is_complete():
                return work.report(start)
            if analyst.used.keys() != analyst.known.keys():
                folder.write_analyses(analyst.used)
            if work.todo:
                work.run(crew or stack.enter_context(open_crew(executor, jobs)))
        work.write_package()
        return work.report(start)


def _search(
    crew: Crew, searches: Searches, missing: list[Search], watcher: Watcher
) -> dict[str, Mapping[str, str]]:
    """Make searches; gives the kernels whose search failed, by symbol, with the reason."""
    watcher.searching(len(missing))
    lost: dict[str, Mapping[str, str]] = {}
    with contextlib.closing(results(crew, SEARCH, search_jobs(missing))) as done:
        for search, result in done:
            if "failed" in result:
                lost |= dict.fromkeys(search.symbols, result["failed"])
            else:
                searches.keep(search.key, result["schedule"])
            watcher.searched(search.symbols[0])
    return lost


class _Build:
    def __init__(
        self, plan: Plan, folder: OutputFolder, cache: Cache | None, watcher: Watcher,
        lost: Mapping[str, Mapping[str, str]],
    ) -> None:  # fmt: skip
        self.plan, self.folder, self.cache, self.watcher = plan, folder, cache, watcher
        self.keys = {k.symbol: k.key for k in plan.kernels}
        self.todo = [k for k in plan.kernels if not (k.symbol in lost or self._is_done(k))]
        self.kept = len(self.keys) - len(self.todo) - len(lost)
        self.built = self.cached = 0
        self.failures: dict[str, Failure] = {}
        self._package = plan.library.name
        for symbol, failed in lost.items():
            self.fail(symbol, failed)

    def _is_done(self, kernel: PlannedKernel) -> bool:
        entry = self.folder.entries.get(kernel.symbol)
        return entry is not None and entry.key == self.keys[kernel.symbol] and self.folder.intact(entry.files)

    def is_complete(self) -> bool:
        """Whether the folder has all that this plan would make."""
        package = self.folder.package
        return (
            not self.todo
            and not self.failures
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
        jobs = ((k, k.symbol, json.dumps(k.job(), separators=(",", ":"))) for k in self._not_in_cache())
        with contextlib.closing(results(crew, PRODUCE, jobs)) as done:
            for kernel, result in done:
                self._take(kernel, result)

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

    def _take(self, kernel: PlannedKernel, result: Mapping[str, Any]) -> None:
        if "failed" in result:
            self.fail(kernel.symbol, result["failed"])
            return
        if self.cache is not None:
            texts = {name: result[name] for name in _TEXTS}
            self.cache.put(self._cache_key(kernel), {**texts, "record": json.dumps(result["record"])})
        self._keep(kernel, result, result["record"])
        self.built += 1

    def fail(self, symbol: str, failed: Mapping[str, str]) -> None:
        """A kernel can't be built: note why."""
        failure = Failure(symbol, failed["error"], failed["message"].removeprefix(f"{symbol}: "))
        self.failures[symbol] = failure
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
