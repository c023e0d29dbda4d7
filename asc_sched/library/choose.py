"""The schedule of a library's kernel: fixed, by rule, or a tuned one. The one place that knows of the tuner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from asc_sched.declare import Op
from asc_sched.lang.dtypes import DTYPES
from asc_sched.schedule import Schedule
from asc_sched.target import get_target

SEARCHED = "tuned on the model when the library was built"
NO_ELEMENTS = "there is nothing to tune without elements; chosen by the rule of Schedule.auto"
ANY_SIZE = "schedules are tuned for a size; a kernel of any size is planned by the rule of Schedule.auto"


def find_tuned(op: Op, dtypes: Sequence[str], shape: tuple[int, ...] | None, target: str) -> Schedule | None:
    """What was tuned for this op, size and target: the user's own result (a measured one first), or one that ships with
    the package.

    Looked up where a build is started, so that what is built doesn't depend on the machine that builds it.
    """
    if shape is None:
        return None
    from asc_sched.tune.choice import tuned_schedule

    kinds, shapes = tuple(DTYPES[d] for d in dtypes), (shape,) * len(dtypes)
    return tuned_schedule(op, shapes, math.prod(shape), kinds, get_target(target))


def choose_schedule(
    wanted: str | Mapping[str, Any], tuned: Mapping[str, Any] | None, searched: bool, shape: tuple[int, ...] | None
) -> tuple[Schedule | None, str]:
    """The schedule that `wanted` ("auto", "tuned", or a fixed one's fields) stands for, and a note for the manifest.

    `tuned` are the fields of what was found for it, by the build itself if it was `searched`. None: the choice by rule.
    """
    if not isinstance(wanted, str):
        return Schedule.from_dict(wanted), ""
    if wanted == "auto":
        return None, ""
    if tuned is not None:
        return Schedule.from_dict(tuned), SEARCHED if searched else ""
    return None, ANY_SIZE if shape is None else NO_ELEMENTS
