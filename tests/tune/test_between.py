"""Sizes that weren't tuned: what was found nearby, where the model finds it better than the rule."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from asc_sched import Schedule, get_target, op
from asc_sched.tune.between import between
from asc_sched.tune.choice import near_schedule
from asc_sched.tune.model import Model
from asc_sched.tune.store import ENV_STORE, Winner
from asc_sched.tune.tuner import task_of

ADD = op("z = x + y")
CHIP = get_target("Ascend910B1")
SIZES = (1, 1009, 16384, 100_003, 1_000_003, 8192 * 8192)


def _winner(length: int, **knobs: object) -> Winner:
    return Winner("add", ((length,), (length,)), length, Schedule(**knobs), 1.0, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("length", SIZES)
@pytest.mark.parametrize(
    "knobs",
    [
        {"core_num": 1, "tile_length": 64, "buffer_num": 1},
        {"core_num": 20, "tile_length": 8192, "bank_pad": True},
        {"core_num": 48, "tile_length": 16384, "l2_cache": "bypass", "pack_inputs": True},
        {"core_num": 48, "tile_length": 1 << 17},  # fits no UB
        {"core_num": 8},  # tiles that fill the UB can't be adapted
    ],
)
def test_it_is_never_worse_than_the_rule_on_the_model(length: int, knobs: dict[str, object]) -> None:
    task = task_of(ADD, (length,), "float16", CHIP, "hot")
    model = Model(task)
    chosen = between(task, [_winner(5000, **knobs)])
    if chosen is not None:
        assert model.time(chosen) < model.time(model.rule)
        assert model.compile([chosen]) == {}


def test_a_good_neighbour_is_taken() -> None:
    length = 2048 * 1031
    task = task_of(ADD, (length,), "float32", CHIP, "hot")
    good = {"tile_length": 8192, "pack_inputs": True}
    model = Model(task)
    best = min(range(16, 48, 4), key=lambda n: model.time(Schedule(core_num=n, **good)))  # type: ignore[arg-type]
    chosen = between(task, [_winner(length - 1, core_num=best, **good)])
    assert chosen is None or model.time(chosen) < model.time(model.rule)
    assert chosen is not None or model.time(Schedule(core_num=best, **good)) >= model.time(model.rule)  # type: ignore[arg-type]


def test_nothing_nearby_and_nothing_to_do_is_the_rules() -> None:
    assert between(task_of(ADD, (100,), "float32", CHIP, "hot"), []) is None
    assert between(task_of(ADD, (0,), "float32", CHIP, "hot"), [_winner(8, core_num=1, tile_length=8)]) is None
    rows = task_of(ADD, [(4, 8), (8,)], "float32", CHIP, "hot")
    assert between(rows, [_winner(8, core_num=1, tile_length=8)]) is None


def test_calls_at_other_sizes_stay_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "t.sqlite"))
    add = op("z = x + y")
    add.tune((4096,), space=[Schedule(core_num=2, tile_length=2048, pack_inputs=True)])
    for length in (1, 1000, 4096, 4097, 9001):
        x, y = torch.rand(length), torch.rand(length)
        assert torch.equal(add(x, y), x + y)  # type: ignore[arg-type]
    float32 = (task_of(add, (8,), "float32", CHIP, "hot").dtypes[0],) * 2
    assert near_schedule(op("z = x - y"), ((9001,),) * 2, 9001, float32) is None
