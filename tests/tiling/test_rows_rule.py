"""The rule behind Schedule.auto for broadcast shapes: near the best of a search, quick, and never without an answer."""

from __future__ import annotations

import statistics
import time
from typing import Any

from asc_sched import get_target, ops
from asc_sched.lower.planner import schedule_for
from asc_sched.tune.candidates import Candidates
from asc_sched.tune.model import Model
from asc_sched.tune.search import descent
from asc_sched.tune.space import Space
from asc_sched.tune.tuner import task_of

CHIP = get_target("Ascend910B1")
POINTS: tuple[tuple[str, Any, str], ...] = (
    ("add", [(8192, 8192), (8192,)], "float16"),
    ("bias_silu", [(1021, 1031), (1031,)], "float32"),
    ("mul", [(4096, 4096), (4096, 1)], "bfloat16"),
    ("add", [(64, 1, 512), (1, 128, 512)], "float32"),
    ("add", [(100003, 30), (30,)], "int8"),
    ("add", [(1 << 22,), (1,)], "bfloat16"),
    ("add", [(16, 70001), (70001,)], "float16"),
    ("mul", [(50000, 64), (50000, 1)], "float32"),
    ("mul", [(128, 77, 768), (768,)], "bfloat16"),
    ("add", [(7, 5), (5,)], "float32"),
)


def test_the_rule_for_rows_is_near_the_best_of_a_search() -> None:
    behind = []
    for name, shape, dtype in POINTS:
        model = Model(task_of(ops.get(name), shape, dtype, CHIP, "hot"))
        found = descent(Candidates(Space(), model), model.time, time.monotonic() + 60)
        behind.append(model.time(model.rule) / found.ranked[0][0])
    assert max(behind) <= 1.1
    assert statistics.mean(behind) <= 1.03


def test_the_rule_bypasses_l2_where_everything_does_not_fit_into_it() -> None:
    large = schedule_for(ops.get("add"), shape=[(8192, 8192), (8192,)], dtype="float16", target=CHIP)
    small = schedule_for(ops.get("add"), shape=[(1024, 1024), (1024,)], dtype="float16", target=CHIP)
    assert large.l2_cache == "bypass" and small.l2_cache == "normal"


def test_the_rule_for_rows_is_quick_enough_for_a_first_call() -> None:
    for name, shape, dtype in POINTS:
        schedule_for(ops.get(name), shape=shape, dtype=dtype, target=CHIP)
        started = time.process_time()
        schedule_for(ops.get(name), shape=shape, dtype=dtype, target=CHIP)
        assert time.process_time() - started < 0.15, (name, shape, dtype)


def test_few_and_empty_rows_have_a_schedule_too() -> None:
    for shape in ([(1, 3), (1, 1)], [(2, 3), (3,)], [(0, 8), (8,)], [(3, 0), (1, 1)]):
        assert schedule_for(ops.get("add"), shape=shape, dtype="float32", target=CHIP).buffer_num in (1, 2)
