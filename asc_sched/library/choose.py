"""The schedule of a library's kernel: fixed, by rule, or a tuned one. The one place that knows of the tuner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from asc_sched.declare import Op
from asc_sched.lang.infer import TypedGraph
from asc_sched.schedule import Schedule
from asc_sched.target import get_target
from asc_sched.tune.choice import tuned_schedule

NO_TUNER = "no tuned schedule was found; chosen by the rule of Schedule.auto"


def choose_schedule(
    op: Op, typed: TypedGraph, shape: tuple[int, ...] | None, wanted: str | Mapping[str, Any], target: str
) -> tuple[Schedule | None, str]:
    """The schedule that ``wanted`` ("auto", "tuned", or a fixed one's fields) stands for, and a note for the manifest.

    None is the choice by rule.
    """
    if not isinstance(wanted, str):
        return Schedule.from_dict(wanted), ""
    if wanted == "auto":
        return None, ""
    tuned = _tuned(op, typed, shape, target)
    return (None, NO_TUNER) if tuned is None else (tuned, "")


def _tuned(op: Op, typed: TypedGraph, shape: tuple[int, ...] | None, target: str) -> Schedule | None:
    """The stored or shipped winner for this op, size and target, or None."""
    if shape is None:
        return None
    dtypes = tuple(typed.input_dtypes.values())
    return tuned_schedule(op, (shape,) * len(dtypes), math.prod(shape), dtypes, get_target(target))
