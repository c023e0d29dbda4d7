"""Verifying a built library: its manifest, the digests of its files, and every kernel against torch."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any

import attrs

from asc_sched.errors import LibraryError
from asc_sched.files import storage_error
from asc_sched.library.executors import VERIFY, Crew, open_crew, run_job
from asc_sched.library.manifest import schema_text
from asc_sched.library.schema import validate

_DIGEST = re.compile(r'open_library\(__file__, "([0-9a-f]{64})"')
#: A kernel's file, or a manifest, that is larger than this was not written by a build.
MAX_FILE_BYTES = 1 << 30


@attrs.frozen
class Problem:
    """What is wrong with a kernel (or, with no symbol, with the library)."""

    symbol: str
    message: str


@attrs.frozen
class CheckReport:
    """What `check` found: kernels looked at, elements compared, the largest relative error, and what is wrong."""

    name: str
    folder: str
    kernels: int
    elements: int
    max_rel_error: float
    problems: tuple[Problem, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def check(
    folder: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    executor: Executor | str | None = None,
    progress: Callable[[int, int, Problem | None], None] | None = None,
) -> CheckReport:
    """Verify the library in `folder` (what `build` wrote, or an installed package's folder).

    The manifest must fit its schema and have the digest that the package names; every file must have the digest that
    the manifest names; then every kernel runs on the simulator and is compared with torch. No code of the library is
    run, and nothing is written. `progress` is called with (done, total, problem or None) for each kernel. Raises
    `LibraryError` where there is no library or its manifest can't be read, `BackendError`.
    """
    start = time.monotonic()
    root = _find(Path(folder))
    manifest, problems = _read_manifest(root)
    symbols = sorted(manifest["kernels"])
    told = progress or (lambda done, total, problem: None)
    run = _Check(root, manifest, told)
    run.problems += [Problem("", p) for p in problems]
    with open_crew(executor, jobs) as crew:
        run.run(crew, symbols)
    run.problems += [Problem(f["kernel"], f"it was not built: {f['reason']}") for f in manifest["failed"]]
    ordered = tuple(sorted(run.problems, key=lambda p: (p.symbol, p.message)))
    return CheckReport(
        manifest["name"], str(root), len(symbols), run.elements, run.max_rel_error, ordered, time.monotonic() - start
    )


def _find(folder: Path) -> Path:
    """The package's folder: the one given, or the one in it that has a manifest."""
    try:
        if (folder / "manifest.json").is_file():
            return folder
        found = sorted(p.parent for p in folder.glob("*/manifest.json"))
    except OSError as error:
        raise storage_error(error, "read", folder) from error
    if len(found) != 1:
        what = f"{len(found)} manifests ({', '.join(p.name for p in found)})" if found else "no manifest.json"
        raise LibraryError(f"{folder} is not a built library: it has {what}")
    return found[0]


def _read_manifest(root: Path) -> tuple[dict[str, Any], list[str]]:
    data = _read(root / "manifest.json")
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise LibraryError(f"{root / 'manifest.json'} is not JSON: {error}") from None
    validate(manifest, json.loads(schema_text()), "manifest.json")
    _check_references(manifest)
    named = _DIGEST.search(_read(root / "__init__.py").decode("utf-8", "replace"))
    if named is None:
        return manifest, ["__init__.py names no digest of the manifest"]
    if named[1] != hashlib.sha256(data).hexdigest():
        return manifest, ["manifest.json doesn't have the digest that __init__.py names"]
    return manifest, []


def _check_references(manifest: Mapping[str, Any]) -> None:
    """What names something else must name something that is there."""
    for symbol, kernel in manifest["kernels"].items():
        if kernel["symbol"] != symbol or kernel["operator"] not in manifest["operators"]:
            raise LibraryError(f"manifest.json: kernel {symbol} is listed under another name or operator")
        if kernel["tiling"]["formulas"] not in manifest["tilings"]:
            raise LibraryError(f"manifest.json: kernel {symbol} refers to a tiling that isn't there")
    for name, operator in manifest["operators"].items():
        for variant in operator["variants"]:
            if variant["graph"] not in manifest["graphs"]:
                raise LibraryError(f"manifest.json: operator {name} refers to a graph that isn't there")
            for symbol in variant["kernels"]:
                if symbol not in manifest["kernels"]:
                    raise LibraryError(f"manifest.json: operator {name} refers to a kernel that isn't there: {symbol}")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise storage_error(error, "read", path) from error
    if len(data) > MAX_FILE_BYTES:
        raise LibraryError(f"{path} is larger than {MAX_FILE_BYTES} bytes, which no file of a library is")
    return data


class _Check:
    def __init__(
        self, root: Path, manifest: Mapping[str, Any], told: Callable[[int, int, Problem | None], None]
    ) -> None:
        self.root, self.manifest, self.told = root, manifest, told
        self.problems: list[Problem] = []
        self.elements, self.max_rel_error = 0, 0.0
        self.graphs = {
            symbol: manifest["graphs"][v["graph"]]
            for o in manifest["operators"].values()
            for v in o["variants"]
            for symbol in v["kernels"]
        }

    def run(self, crew: Crew, symbols: list[str]) -> None:
        """Every kernel, a few ahead."""
        waiting: dict[Future[dict[str, Any]], str] = {}
        done = 0

        def settle() -> None:
            nonlocal done
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                done += 1
                self.told(done, len(symbols), self._take(waiting.pop(future), future.result()))

        try:
            for symbol, job in self._jobs(symbols):
                if isinstance(job, Problem):
                    done += 1
                    self.problems.append(job)
                    self.told(done, len(symbols), job)
                    continue
                if len(waiting) >= crew.in_flight:
                    settle()
                waiting[crew.executor.submit(run_job, VERIFY, symbol, job)] = symbol
            while waiting:
                settle()
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def _jobs(self, symbols: list[str]) -> Iterator[tuple[str, str | Problem]]:
        """The jobs of kernels whose files are all as they were built."""
        for symbol in symbols:
            kernel = self.manifest["kernels"][symbol]
            texts, wrong = {}, ""
            for kind, entry in kernel["files"].items():
                try:
                    texts[kind] = _read(self.root / entry["path"])
                except (OSError, LibraryError) as error:
                    wrong = wrong or str(error)
                    continue
                if hashlib.sha256(texts[kind]).hexdigest() != entry["sha256"]:
                    wrong = wrong or f"{entry['path']} doesn't have the digest that the manifest names"
            if symbol not in self.graphs:
                wrong = wrong or "no operator uses it"
            if wrong:
                yield symbol, Problem(symbol, wrong)
                continue
            job = {"kernel": kernel, "graph": self.graphs[symbol], "asc_ir": texts["asc_ir"].decode("utf-8", "replace")}
            yield symbol, json.dumps(job)

    def _take(self, symbol: str, result: Mapping[str, Any]) -> Problem | None:
        if "failed" in result:
            problem = Problem(symbol, f"{result['failed']['error']}: {result['failed']['message']}")
        else:
            self.elements += result["elements"]
            self.max_rel_error = max(self.max_rel_error, result["max_rel_error"])
            if not result["wrong"]:
                return None
            problem = Problem(symbol, result["wrong"])
        self.problems.append(problem)
        return problem
