"""Kernel source to ASC-IR and Ascend C: the functions that other rooms call."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path
from typing import Literal

from asc_sched.build.cache import Cache, default_cache
from asc_sched.build.pool import LOOK_AHEAD, LoweringPool, outcome, usable_cpus
from asc_sched.build.request import ArgType, ConstValue, Lowered, LowerRequest
from asc_sched.build.service import lower_file_once, shared
from asc_sched.errors import BackendError, CompileError

CacheChoice = Cache | None | Literal["default"]


@functools.cache
def pyasc_version() -> str:
    """The installed pyasc's version. Raises `BackendError` when there is none."""
    try:
        return metadata.version("pyasc")
    except metadata.PackageNotFoundError:
        raise BackendError("pyasc is not installed; try: pip install pyasc==1.1.1") from None


def lower(request: LowerRequest, *, cache: CacheChoice = "default", time_limit_s: float | None = None) -> Lowered:
    """Lower one kernel with the real pyasc, in a worker process that is kept for the next one.

    `cache` is the user's cache on disk unless another (or None) is given. `time_limit_s` defaults to two minutes or
    ``ASC_SCHED_LOWER_TIMEOUT``. Raises `CompileError` (pyasc refuses the source; the message quotes the line),
    `WorkerCrashError` (pyasc died or took too long; the next kernel is not affected), `BackendError` (no pyasc).
    """
    store = default_cache() if cache == "default" else cache
    key = request.key(pyasc_version()) if store is not None else ""
    found = _find(store, key)
    if found is not None:
        return found
    result = shared.lower(request, time_limit_s)
    _keep(store, key, result)
    return result


def lower_many(
    requests: Iterable[LowerRequest],
    jobs: int | None = None,
    *,
    cache: CacheChoice = "default",
    pool: LoweringPool | None = None,
) -> Iterator[Lowered | CompileError]:
    """Lower many kernels on `jobs` workers (default: one per processor); results in the order of `requests`.

    A kernel that fails gives its `CompileError` as a value and doesn't stop the others. `requests` is read a few
    kernels ahead only. `pool` lends workers that outlive the call.
    """
    store = default_cache() if cache == "default" else cache
    workers = pool or _LazyPool(jobs)
    waiting: deque[tuple[str, Lowered | Future[Lowered]]] = deque()
    try:
        for request in requests:
            key = request.key(pyasc_version()) if store is not None else ""
            waiting.append((key, _find(store, key) or workers.submit(request)))
            if len(waiting) >= workers.jobs * LOOK_AHEAD:
                yield _settle(store, *waiting.popleft())
        while waiting:
            yield _settle(store, *waiting.popleft())
    except BaseException:
        for _, pending in waiting:
            if isinstance(pending, Future):
                pending.cancel()
        if isinstance(workers, _LazyPool):
            workers.shutdown(cancel=True)
        raise
    if isinstance(workers, _LazyPool):
        workers.shutdown(cancel=False)


class _LazyPool:
    """A pool that starts with the first kernel that isn't in the cache."""

    def __init__(self, jobs: int | None) -> None:
        self.jobs = usable_cpus() if jobs is None else jobs
        self._pool: LoweringPool | None = None

    def submit(self, request: LowerRequest) -> Future[Lowered]:
        self._pool = self._pool or LoweringPool(self.jobs)
        return self._pool.submit(request)

    def shutdown(self, cancel: bool) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=cancel)


def lower_file(
    path: str | os.PathLike[str],
    function: str,
    arg_types: Iterable[ArgType],
    *,
    constexprs: dict[str, ConstValue] | None = None,
    options: dict[str, bool] | None = None,
    target: str = "Ascend910B1",
    time_limit_s: float | None = None,
) -> Lowered:
    """Lower a kernel that stands in a user's own file: `function` is its name, or ``Class.name`` of a static method.

    The file is imported in a worker process of its own, never in this one, as `python` would import it (its folder, or
    that of its package, comes first on the path). Not cached: what the file imports can't be known from here. Locations
    carry the file's name without its folder. Errors as of `lower`.
    """
    file = Path(path).absolute()
    if not file.is_file():
        raise CompileError(f"there is no file {file} to take kernel {function!r} from")
    request = LowerRequest(
        source="",
        entry=function.rpartition(".")[2],
        arg_types=arg_types,
        constexprs=constexprs or {},
        options=options or {},
        target=target,
    )
    return lower_file_once(str(file), function, request.message(), time_limit_s)


def _find(cache: Cache | None, key: str) -> Lowered | None:
    texts = None if cache is None else cache.get(key)
    if texts is None or not {"asc_ir", "ascendc"} <= texts.keys():
        return None
    return Lowered(texts["asc_ir"], texts["ascendc"], texts.get("diagnostics", ""), cached=True)


def _keep(cache: Cache | None, key: str, result: Lowered) -> None:
    if cache is not None:
        texts = {"asc_ir": result.asc_ir, "ascendc": result.ascendc, "diagnostics": result.diagnostics}
        cache.put(key, {name: text for name, text in texts.items() if text})


def _settle(cache: Cache | None, key: str, pending: Lowered | Future[Lowered]) -> Lowered | CompileError:
    if isinstance(pending, Lowered):
        return pending
    result = outcome(pending)
    if isinstance(result, Lowered):
        _keep(cache, key, result)
    return result
