"""Ranking without compiling: sketches against compiled kernels, the search against the whole space, replays."""

from __future__ import annotations

import time

import pytest

from asc_sched import Schedule, get_target, op, ops
from asc_sched.errors import TuningError
from asc_sched.tune.candidates import Candidates
from asc_sched.tune.keys import Problem
from asc_sched.tune.model import Model
from asc_sched.tune.replay import Recording, record, replay
from asc_sched.tune.search import descent, exhaustive, random_sample
from asc_sched.tune.space import Space
from asc_sched.tune.store import Measurement, Store
from asc_sched.tune.tuner import task_of

CHIP = get_target("Ascend910B1")


def _model(name: str, shape: object, dtype: str = "float32", target: str = "Ascend910B1") -> Model:
    return Model(task_of(ops.get(name), shape, dtype, get_target(target), "hot"))


SMALL = Space(core_num=(1, 8, 24, 48), tile_counts=(1, 2, 4), l2_cache="normal")
KNOBS = (
    {"core_num": 48, "tile_length": 4096},
    {"core_num": 20, "tile_length": 1024, "buffer_num": 1, "bank_pad": True},
    {"core_num": 7, "tile_length": 2048, "l2_cache": "bypass", "pack_inputs": True},
)


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("add", (8192, 1024), "float16"),
        ("relu", (100_003,), "float16"),
        ("exp", (65537,), "bfloat16"),
        ("maximum", (1000,), "float32"),
        ("add", (100_003,), "int8"),
        ("huber_loss", (65537,), "float16"),
    ],
)
def test_a_sketch_takes_as_long_as_the_compiled_kernel(name: str, shape: object, dtype: str) -> None:
    model = _model(name, shape, dtype)
    schedules = [Schedule(**k) for k in KNOBS]  # type: ignore[arg-type]
    assert model.compile(schedules) == {}
    for schedule in schedules:
        assert model.time(schedule) == pytest.approx(model.exact(schedule).task_us, rel=0.03)


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [("add", (8, 2048), "float32"), ("relu", (1_000_003,), "float16"), ("mul", (7,), "float16")],
)
def test_the_search_finds_what_the_whole_space_has(name: str, shape: object, dtype: str) -> None:
    candidates = Candidates(SMALL, _model(name, shape, dtype))
    recording = record(candidates)
    assert replay(candidates, recording, descent).regret <= 0.01
    assert len(recording.times) == sum(1 for _ in candidates.all())


def test_the_rule_is_near_the_best_of_the_space() -> None:
    for shape in ((7,), (8, 2048), (1_000_003,), (8192, 8192)):
        model = _model("add", shape, "float16")
        found = descent(Candidates(Space(), model), model.time, time.monotonic() + 60)
        assert model.time(model.rule) <= 1.1 * found.ranked[0][0]


def test_a_strategy_stops_at_the_deadline_with_what_it_has() -> None:
    candidates = Candidates(Space(), _model("add", (8, 2048)))
    found = exhaustive(candidates, candidates.model.time, time.monotonic() - 1)
    assert len(found.ranked) == 1


def test_what_cannot_run_or_cannot_differ_is_pruned_by_name() -> None:
    two = {"two cores": lambda s: s.core_num == 2}
    space = Space(core_num=(2, 99), tile_length=(100, 128, 1 << 18), restrictions=two)
    candidates = Candidates(space, _model("relu", (10_000,)))
    kept = list(candidates.all())
    assert {s.tile_length for s in kept} == {128} and {s.core_num for s in kept} == {2}
    assert candidates.pruned["CoreNumError"] == 1
    assert candidates.pruned["TileLengthError"] and candidates.pruned["UbOverflowError"]
    assert candidates.pruned["no effect: pack_inputs with one input"]
    none = Space(core_num=(2, 4), restrictions={"never": lambda s: False})
    refused = Candidates(none, _model("relu", (10_000,)))
    assert list(refused.all()) == [] and refused.pruned["restriction: never"]


def test_cores_without_work_are_not_tried() -> None:
    candidates = Candidates(Space(), _model("add", (9,)))
    assert candidates.cores == (1, 2) and candidates.pruned["cores without work"]


def test_a_recording_from_the_store_replays() -> None:
    store = Store(None)
    problem = Problem("add", "family", ((8,), (8,)), 8)
    store.record(problem, Measurement(Schedule(core_num=1, tile_length=8), "ok", 2.0))
    store.record(problem, Measurement(Schedule(core_num=2, tile_length=8), "wrong", None, "it differs"))
    recording = Recording.stored(store, problem)
    assert recording.times == {Schedule(core_num=1, tile_length=8): 2.0} and recording.best_us == 2.0
    with pytest.raises(TuningError, match="was not recorded"):
        recording.timer(Schedule(core_num=2, tile_length=8))
    with pytest.raises(TuningError, match="empty"):
        Recording({}).best_us


def test_strategies_can_be_compared_offline() -> None:
    candidates = Candidates(SMALL, _model("add", (100_003,)))
    recording = record(candidates)
    few = replay(candidates, recording, lambda c, t, d: random_sample(c, t, d, count=3, seed=1))
    assert few.looks == 3 and few.regret >= replay(candidates, recording, descent).regret


def test_rows_are_timed_as_compiled_kernels_and_bounded_by_the_budget() -> None:
    declared = op("z = x + y")
    result = declared.tune([(64, 100), (100,)], space=Space(core_num=(4, 8), tile_counts=(1, 2)), budget_s=0.01, top=1)
    assert result.candidates >= 1 and result.shape == (64, 100)
