"""Between tuned sizes: what was found nearby, adapted, if the model finds it better than the rule.

A search is for one size. At another size of the same op the winners on either side are tried on the model beside
`Schedule.auto`, without compiling anything, and the fastest is taken: so it is never worse than the rule, on the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from asc_sched.errors import AscSchedError
from asc_sched.schedule import Schedule
from asc_sched.tiling.estimate import Split
from asc_sched.tune.model import Model, Task
from asc_sched.tune.store import Winner


def between(task: Task, winners: Sequence[Winner]) -> Schedule | None:
    """The schedule for a flat task from winners of its family at other sizes; None where the rule is as good."""
    near = _neighbours(winners, task.total_length)
    if not near or not task.flat or not task.total_length:
        return None
    model = Model(task)
    try:
        rule = model.rule
        limit = model.time(rule)
    except AscSchedError:
        return None
    times: dict[Schedule, float] = {}
    for schedule in dict.fromkeys(s for w in near for s in _adapted(model, w.schedule, rule)):
        try:
            times[schedule] = model.time(schedule)
        except AscSchedError:  # it doesn't fit at this size
            continue
    best = min(times, key=lambda s: (times[s], s.sort_key), default=None)
    return best if best is not None and times[best] < limit else None


def _neighbours(winners: Sequence[Winner], total_length: int) -> list[Winner]:
    """The nearest smaller and the nearest larger size."""
    below = [w for w in winners if w.total_length <= total_length]
    above = [w for w in winners if w.total_length > total_length]
    return [
        *([max(below, key=lambda w: w.total_length)] if below else []),
        *([min(above, key=lambda w: w.total_length)] if above else []),
    ]


def _adapted(model: Model, schedule: Schedule, rule: Schedule) -> Iterator[Schedule]:
    """A winner's knobs with its own cores and tile, evened out over this size's blocks, and with the rule's cores."""
    total, align = model.task.total_length, model.align
    if schedule.tile_length is None:
        return
    for core_num in dict.fromkeys((schedule.core_num, rule.core_num)):
        cores = core_num or model.task.target.vector_cores
        split = Split.of(total, cores, align, schedule.core_split)
        step = align.step(min(split.block_length, schedule.tile_length))
        count = -(-split.block_length // schedule.tile_length)
        even = -(-split.block_length // (count * step)) * step
        for tile in dict.fromkeys((min(even, schedule.tile_length), schedule.tile_length)):
            yield attrs.evolve(schedule, core_num=split.core_num, tile_length=tile)
