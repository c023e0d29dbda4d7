"""Broadcast tasks are ranked without compiling: the row sketch against compiled kernels, and the lengths to try."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from asc_sched import Schedule, get_target, ops
from asc_sched.errors import AscSchedError, ScheduleError
from asc_sched.lower.tiles import Tiles, tiles_for
from asc_sched.sim import ArraySpec
from asc_sched.sim.timing import kernel_outlines, time_kernel
from asc_sched.tune.candidates import Candidates
from asc_sched.tune.model import Model, _Rows
from asc_sched.tune.row_sketch import RowSketch
from asc_sched.tune.search import descent, exhaustive
from asc_sched.tune.space import Space
from asc_sched.tune.tuner import task_of

CHIP = get_target("Ascend910B1")
SHAPES: tuple[tuple[str, Any, str], ...] = (
    ("add", [(8192, 1024), (1024,)], "float16"),
    ("bias_silu", [(1021, 1031), (1031,)], "float32"),
    ("mul", [(4096, 512), (4096, 1)], "bfloat16"),
    ("add", [(8, 1, 512), (1, 128, 512)], "float32"),
    ("add", [(64, 1031), (64, 1)], "int8"),
    ("add", [(1 << 20,), ()], "float32"),
    ("add", [(1 << 20,), (1,)], "bfloat16"),
    ("add", [(1000, 33), (33,)], "float32"),
    ("add", [(16, 70001), (70001,)], "float16"),
    ("mul", [(4, 1, 30, 700), (4, 3, 30, 1)], "float32"),
    ("add", [(300, 1), (1, 400)], "float32"),
    ("sub", [(200, 3, 640), (3, 1)], "float32"),
    ("maximum", [(100, 7), (7,)], "int8"),
    ("mul", [(2, 50, 640), (50, 1)], "float16"),
)


def _model(name: str, shape: Any, dtype: str) -> Model:
    return Model(task_of(ops.get(name), shape, dtype, CHIP, "hot"))


def _sketch(model: Model, schedule: Schedule) -> RowSketch:
    judge = model._judge
    assert isinstance(judge, _Rows)
    tiles = tiles_for(judge.subject, schedule)
    assert isinstance(tiles, Tiles)
    return RowSketch(judge.subject, tiles)


def _compiled_us(model: Model, schedule: Schedule) -> float:
    """The time of the compiled kernel, each core followed through it."""
    kernel = model.kernel(schedule)
    assert kernel.tiling is not None
    specs = [ArraySpec(t.dtype.asc, t.dtype.itemsize * n) for t, n in model._tensors(kernel)]
    return time_kernel(kernel.asc_ir, specs, core_num=kernel.tiling.core_num, target=CHIP).task_us


def _some(model: Model, seed: int, count: int = 3) -> list[Schedule]:
    """The rule's schedule, and others at random that fit."""
    pick = random.Random(seed)
    found = [model.rule]
    while len(found) <= count:
        schedule = Schedule(
            core_num=pick.choice([1, 5, 20, 47, 48]), tile_length=pick.choice([1024, 2048, 4096, 8192, 12288]),
            buffer_num=pick.choice([1, 2]), bank_pad=pick.random() < 0.4, pack_inputs=pick.random() < 0.4,
            l2_cache=pick.choice(["normal", "bypass"]),
        )  # fmt: skip
        try:
            model.time(schedule)
        except AscSchedError:
            continue
        found.append(schedule)
    return found


@pytest.mark.parametrize(("number", "case"), list(enumerate(SHAPES)))
def test_a_sketch_of_rows_takes_as_long_as_the_compiled_kernel(number: int, case: tuple[str, Any, str]) -> None:
    model = _model(*case)
    schedules = _some(model, number)
    assert model.compile(schedules) == {}
    for schedule in schedules:
        assert model.time(schedule) == pytest.approx(_compiled_us(model, schedule), rel=0.02), schedule


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_a_sketch_of_rows_moves_what_the_compiled_kernel_moves(number: int) -> None:
    """Bytes and vector instructions of all cores, exactly."""
    model = _model(*SHAPES[number])
    for schedule in _some(model, 100 + number, 1):
        sketch, kernel = _sketch(model, schedule), model.kernel(schedule)
        assert kernel.tiling is not None
        specs = [ArraySpec(t.dtype.asc, t.dtype.itemsize * n) for t, n in model._tensors(kernel)]
        groups, _ = kernel_outlines(kernel.asc_ir, specs, core_num=kernel.tiling.core_num, target=CHIP)
        assert _totals(sketch.groups()) == _totals(groups)


def _totals(groups: Any) -> dict[tuple[str, ...], int]:
    from asc_sched.sim.outline import walk
    from asc_sched.sim.stream import Compute, Copy

    found: dict[tuple[str, ...], int] = {}
    for group in groups:
        for record, times in walk(group.nodes, group.cores):
            if isinstance(record, Copy):
                key, amount = (record.pipe.value, str(record.gm.arg)), record.gm.nbytes
            elif isinstance(record, Compute):
                key, amount = (record.name, str(len(record.srcs))), record.count
            else:
                continue
            found[key] = found.get(key, 0) + amount * times
    return found


def test_the_search_of_rows_finds_what_the_whole_space_has() -> None:
    space = Space(core_num=(8, 32, 48), tile_counts=(1, 2, 4), pack_inputs=False)
    for case in (SHAPES[0], SHAPES[2], SHAPES[9]):
        candidates = Candidates(space, _model(*case))
        best = exhaustive(candidates, candidates.model.time, time.monotonic() + 60).ranked[0][0]
        found = descent(candidates, candidates.model.time, time.monotonic() + 60).ranked[0][0]
        assert found <= 1.01 * best


def test_lengths_of_rows_are_whole_rows_or_parts_of_one_and_all_fit() -> None:
    for case in (SHAPES[0], SHAPES[1], SHAPES[3], SHAPES[8]):
        model = _model(*case)
        candidates = Candidates(Space(core_num=(8, 48)), model)
        lengths = [(v, c, t) for v in candidates.variants for c in candidates.cores for t in candidates.tiles(v, c)]
        assert len(lengths) > 50
        for variant, core_num, length in random.Random(1).sample(lengths, 20):
            assert model.time(variant.evolve(core_num=core_num, tile_length=length)) > 0


def test_a_length_that_needs_a_copy_before_the_launch_is_refused() -> None:
    model = _model("add", [(96, 24, 512), (96, 1, 512)], "float16")
    with pytest.raises(ScheduleError, match="needs y copied before the launch"):
        model.time(Schedule(core_num=48, tile_length=12288))
