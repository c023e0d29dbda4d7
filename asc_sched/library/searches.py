"""Searches of a build: the schedules of ``tuned`` kernels of a given size that nobody has tuned yet.

A search looks at the model only, is not cut short by a clock, and starts from nothing but its job: the same answer
wherever and whenever it runs. Answers are kept beside the journal and in the user's cache; the user's own tuning
results are not touched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import AscSchedError, LibraryError
from asc_sched.library.plan import Plan, PlannedKernel
from asc_sched.library.toolchain import check_toolchain, digest, toolchain
from asc_sched.schedule import Schedule

if TYPE_CHECKING:
    from asc_sched.build.cache import Cache
    from asc_sched.library.journal import OutputFolder


# -- in a worker process -------------------------------------------------------------------------------------------
def search(argument: Mapping[str, Any]) -> dict[str, Any]:
    """Search a schedule for ``argument["job"]``: ``schedule`` (its fields), or ``failed`` (an error's class, text)."""
    from asc_sched.declare import Op
    from asc_sched.library.graphs import graph_from_json
    from asc_sched.tune.store import Store
    from asc_sched.tune.tuner import tune

    job = json.loads(argument["job"])
    try:
        check_toolchain(job["toolchain"])
        if job["space"] != space_of(job["target"]):
            raise LibraryError("this worker searches another space than the build: install the same asc_sched there")
        found = tune(
            Op(job["op"], graph_from_json(job["graph"])), (job["total_length"],), list(job["inputs"]),
            target=job["target"], backend="model", store=Store(None), budget_s=math.inf,
        )  # fmt: skip
    except AscSchedError as error:
        return {"failed": {"error": type(error).__name__, "message": str(error)}}
    return {"schedule": found.best.to_dict()}


def space_of(target: str) -> dict[str, Any]:
    """What is searched on a target, as JSON data."""
    from asc_sched.tune.space import default_space

    fields = attrs.asdict(default_space(target), recurse=False)
    return json.loads(json.dumps({**fields, "restrictions": sorted(fields["restrictions"])}))  # type: ignore[no-any-return]


# -- in the build --------------------------------------------------------------------------------------------------
@attrs.frozen(eq=False)
class Search:
    """A search that has to be made: its key, its job, and the kernels that wait for it."""

    key: str
    job: Mapping[str, Any]
    symbols: tuple[str, ...]


class Searches:
    """The answers that a build has, from the folder, from the cache, or made now."""

    def __init__(self, folder: OutputFolder, cache: Cache | None) -> None:
        self._folder, self._cache = folder, cache
        self._known: dict[str, Any] = folder.read_searches()
        self._spaces: dict[str, dict[str, Any]] = {}

    def settle(self, plan: Plan) -> tuple[Plan, list[Search]]:
        """The plan with the schedules that are known, and the searches for the others."""
        waiting: dict[str, list[PlannedKernel]] = {}
        for kernel in filter(_is_open, plan.kernels):
            waiting.setdefault(digest(self._job(kernel)), []).append(kernel)
        found: dict[str, Schedule] = {}
        missing = []
        for key, kernels in waiting.items():
            answer = self._answer(key)
            if answer is None:
                missing.append(Search(key, self._job(kernels[0]), tuple(k.symbol for k in kernels)))
            else:
                found |= {k.symbol: Schedule.from_dict(answer) for k in kernels}
        return plan.with_schedules(found) if found else plan, missing

    def _job(self, kernel: PlannedKernel) -> dict[str, Any]:
        """All that a search depends on. Tensors of one shape are one run of elements, so sizes count, shapes don't."""
        assert kernel.shape is not None
        space = self._spaces.setdefault(kernel.target, space_of(kernel.target))
        return {
            "op": kernel.operator,
            "graph": kernel.typed.graph,
            "inputs": list(kernel.typed.inputs),
            "total_length": math.prod(kernel.shape),
            "target": kernel.target,
            "space": space,
            "toolchain": toolchain(),
        }

    def _answer(self, key: str) -> dict[str, Any] | None:
        if key not in self._known and self._cache is not None:
            texts = self._cache.get(digest(["search", key]))
            if texts is not None and "schedule" in texts:
                self._add(key, json.loads(texts["schedule"]))
        return self._known.get(key)

    def keep(self, key: str, schedule: Mapping[str, Any]) -> None:
        """Remember a search's answer."""
        self._add(key, dict(schedule))
        if self._cache is not None:
            self._cache.put(digest(["search", key]), {"schedule": json.dumps(schedule)})

    def _add(self, key: str, schedule: dict[str, Any]) -> None:
        self._known[key] = schedule
        self._folder.add_search(key, schedule)


def _is_open(kernel: PlannedKernel) -> bool:
    """Whether nobody has tuned a kernel that is to be tuned; one of any size, or without elements, can't be."""
    wanted = kernel.schedule == "tuned" and kernel.tuned is None
    return wanted and kernel.shape is not None and math.prod(kernel.shape) > 0


def jobs(searches: list[Search]) -> Iterator[tuple[Search, str, str]]:
    """The searches as an executor takes them: with a name and a job."""
    for wanted in searches:
        yield wanted, f"the search for {wanted.symbols[0]}", json.dumps(wanted.job, separators=(",", ":"))
