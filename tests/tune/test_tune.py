"""Searches: on the model, on a backend that misbehaves, and what calls make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from asc_sched import Op, Schedule, get_target, op
from asc_sched.cli import group
from asc_sched.errors import BackendError, TuningError
from asc_sched.tune.space import Space
from asc_sched.tune.store import ENV_STORE, Measurement, Store
from asc_sched.tune.tuner import task_of, task_problem, tune
from tests.tune.fake import SCRIPT

SMALL = Space(core_num=(2, 4), tile_length=(256, 512), l2_cache="normal", bank_pad=False, pack_inputs=False)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "tuning.sqlite"))
    return tmp_path / "tuning.sqlite"


@pytest.fixture
def add() -> Op:
    return op("z = x + y")


def test_the_model_finds_the_fastest_of_a_space(add: Op) -> None:
    result = add.tune((4096,), space=SMALL)
    assert result.backend == "model" and "simulated" in str(result)
    assert "checked" in str(result) and "measured" not in str(result)
    assert result.candidates >= 4 and result.task_us == min(e.task_us for e in result.entries)
    again = add.tune((4096,), space=SMALL)
    assert again.cached and again.best == result.best


def test_what_is_known_is_not_measured_again(add: Op) -> None:
    add.tune((4096,), space=[Schedule(core_num=2, tile_length=256), Schedule(core_num=4, tile_length=256)])
    more = [Schedule(core_num=n, tile_length=256) for n in (4, 2, 3)]
    assert add.tune((4096,), space=more).measured == 1
    assert add.tune((4096,), space=more[::-1]).cached


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (8192,)},
        {"dtype": "float16"},
        {"target": "Ascend910B3"},
        {"l2": "cold"},
    ],
)
def test_anything_that_matters_is_a_new_problem(add: Op, change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"shape": (4096,), "dtype": "float32", "target": "Ascend910B1", "l2": "hot"}
    listed = [Schedule(core_num=2, tile_length=256)]
    add.tune(**base, space=listed)
    assert add.tune(**base, space=listed).cached
    assert not add.tune(**(base | change), space=listed).cached


def test_another_expression_under_the_same_name_is_a_new_problem() -> None:
    listed = [Schedule(core_num=2, tile_length=256)]
    op("z = x + y", name="mine").tune((4096,), space=listed)
    assert not op("z = x - y", name="mine").tune((4096,), space=listed).cached


def test_calls_use_the_winner(add: Op) -> None:
    from asc_sched.run import call

    x, y = torch.rand(4096), torch.rand(4096)
    assert torch.equal(add(x, y), x + y)  # type: ignore[arg-type]
    odd = Schedule(core_num=3, tile_length=136)
    add.tune((4096,), space=[odd])
    kernel, _ = call._prepared(add, *_form(x, y))
    assert kernel.schedule == odd
    assert torch.equal(add(x, y), x + y)  # type: ignore[arg-type]


def _form(*tensors: torch.Tensor) -> tuple[Any, ...]:
    from asc_sched.lang.dtypes import get_dtype
    from asc_sched.run.layout import spec_of

    return tuple(get_dtype(t.dtype) for t in tensors), tuple(spec_of(t) for t in tensors), None, None


def test_nothing_to_tune_says_so(add: Op) -> None:
    result = add.tune((0, 128))
    assert result.candidates == 0 and "nothing is launched" in str(result)


def test_no_schedules_at_all(add: Op) -> None:
    with pytest.raises(TuningError, match=r"tuning add at \(4096,\) float32 on Ascend910B1: the list .* is empty"):
        add.tune((4096,), space=[])


def test_when_all_are_invalid_each_reason_is_given(add: Op, own_store: Path) -> None:
    listed = [Schedule(tile_length=n) for n in (1 << 15, 1 << 16, 1 << 17)]
    with pytest.raises(TuningError) as error:
        add.tune((1 << 20,), space=listed)
    text = str(error.value)
    assert "no schedule works" in text and all(f"tile_length={s.tile_length} needs" in text for s in listed)
    assert Store(own_store).winners() == []


def _faulty(monkeypatch: pytest.MonkeyPatch, add: Op, plan: dict[int, dict[str, Any]], **options: Any) -> Any:
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", root)
    monkeypatch.setenv(SCRIPT, json.dumps(plan))
    listed = [Schedule(core_num=n, tile_length=256) for n in plan]
    return tune(
        add, (4096,), "float32", space=listed, backend="camodel", runner="tests.tune.fake:FakeRunner",
        trial_limit_s=options.pop("limit", 30.0), **options,
    )  # fmt: skip


def test_bad_candidates_are_reported_and_never_win(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: dict[int, dict[str, Any]] = {
        1: {"us": [50.0] * 5},
        2: {"us": [1.0], "fault": "abort"},
        3: {"us": [1.0], "fault": "raise"},
        4: {"us": [1.0], "fault": "wrong"},
        5: {"us": [1.0], "fault": "partial"},
        6: {"us": [1.0], "fault": "input"},
        7: {"us": [0.0, 0.0]},
    }
    result = _faulty(monkeypatch, add, plan)
    assert result.best.core_num == 1 and "measured (camodel)" in str(result)
    reasons = {s.core_num: reason for s, reason in result.rejected}
    assert "SIGABRT" in reasons[2] and "the driver said no" in reasons[3]
    assert "differ from torch" in reasons[4] and "differ from torch" in reasons[5]
    assert "input x was changed" in reasons[6] and "no usable times" in reasons[7]


def test_a_candidate_that_hangs_is_stopped(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _faulty(monkeypatch, add, {1: {"us": [5.0]}, 2: {"us": [1.0], "fault": "hang"}}, limit=8.0)
    assert result.best.core_num == 1 and len(result.rejected) == 1


def test_leaders_that_fail_when_measured_again_make_room_for_the_next(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: dict[int, dict[str, Any]] = {
        1: {"us": [1.0] * 4, "later": {"us": [1.0] * 4, "fault": "wrong"}},
        2: {"us": [2.0] * 4, "later": {"us": [2.0] * 4, "fault": "raise"}},
        3: {"us": [3.0] * 4, "later": {"us": [0.0] * 4}},
        4: {"us": [9.0] * 4},
        5: {"us": [8.0] * 4},
    }
    result = _faulty(monkeypatch, add, plan)
    assert result.best.core_num == 5 and result.task_us == 8.0
    reasons = {s.core_num: reason for s, reason in result.rejected}
    assert reasons[1].startswith("measured again: ") and "differ from torch" in reasons[1]
    assert "measured again: " in reasons[2] and "the driver said no" in reasons[2] and "no usable times" in reasons[3]
    again = _faulty(monkeypatch, add, plan)  # and it is remembered
    assert again.cached and again.best.core_num == 5 and len(again.rejected) == 3


def test_what_is_fast_in_its_first_trial_alone_does_not_win(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: none that wasn't measured again wins."""
    plan: dict[int, dict[str, Any]] = {n: {"us": [n / 10] * 4, "later": {"us": [90.0 + n] * 4}} for n in range(1, 7)}
    plan[7] = {"us": [50.0] * 4}
    plan[8] = {"us": [51.0] * 4, "later": {"us": [49.0] * 4}}
    result = _faulty(monkeypatch, add, plan)
    assert result.best.core_num == 8 and result.task_us == 49.0


def test_when_all_fail_when_measured_again_each_reason_is_given(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: dict[int, dict[str, Any]] = {n: {"us": [1.0 * n], "later": {"fault": "wrong"}} for n in (1, 2)}
    with pytest.raises(TuningError, match="no schedule works") as error:
        _faulty(monkeypatch, add, plan)
    assert str(error.value).count("measured again: ") == 2


def test_times_that_were_not_measured_again_are_when_a_search_goes_on(
    add: Op, monkeypatch: pytest.MonkeyPatch, own_store: Path
) -> None:
    """As after a kill between the first measurements and the second ones."""
    plan: dict[int, dict[str, Any]] = {1: {"us": [100.0] * 4}, 2: {"us": [50.0] * 4}}
    task = task_of(add, (4096,), "float32", get_target(), "hot")
    for cores, us in ((1, 10.0), (2, 50.0)):
        listed = Schedule(core_num=cores, tile_length=256)
        Store(own_store).record(task_problem(task, "camodel"), Measurement(listed, "ok", us))
    result = _faulty(monkeypatch, add, plan)
    assert result.best.core_num == 2 and result.entries[1].task_us == 100.0


def test_the_same_search_again_has_the_same_winner(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was a tie: how far times spread is kept with them."""
    plan = {n: {"us": [us - 4, us - 2, us, us + 2, us + 4]} for n, us in ((1, 103), (2, 100))}
    first, again = _faulty(monkeypatch, add, plan), _faulty(monkeypatch, add, plan)
    assert again.cached and first.best == again.best == Schedule(core_num=1, tile_length=256)
    assert all(e.tied for e in again.entries)


def test_what_failed_is_tried_again_where_nothing_else_works(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TuningError, match="the driver said no"):
        _faulty(monkeypatch, add, {1: {"fault": "raise"}, 2: {"fault": "abort"}})
    assert _faulty(monkeypatch, add, {1: {"us": [5.0]}, 2: {"us": [9.0]}}).best.core_num == 1


def test_how_a_trial_ended_is_not_blamed_on_the_compiler(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _faulty(monkeypatch, add, {1: {"us": [5.0]}, 2: {"fault": "abort"}})
    assert result.rejected[0][1].startswith("its process ended with SIGABRT")


def test_a_worse_search_does_not_replace_a_better_winner(add: Op, own_store: Path) -> None:
    good, bad = Schedule(core_num=48, tile_length=2048), Schedule(core_num=1, tile_length=64)
    add.tune((1 << 20,), space=[good])
    result = add.tune((1 << 20,), space=[bad])
    assert result.best == bad and "calls keep Schedule(core_num=48" in str(result)
    assert [w.schedule for w in Store(own_store).winners()] == [good]
    assert add.tune((1 << 20,), space=[good, bad]).best == good


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top=0: it has to be a whole number of at least 1"),
        ({"budget_s": "60s"}, "budget_s='60s': it has to be a number of seconds of at least 0"),
        ({"trial_limit_s": 0}, "trial_limit_s=0: it has to be a number of seconds above 0"),
        ({"budget": 3}, "tune has no keyword 'budget'"),
        ({"l2": "warm"}, "l2='warm' is unknown"),
        ({"strategy": 3}, "strategy=3 is no strategy"),
    ],
)
def test_options_that_cannot_be_are_named(add: Op, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TuningError) as error:
        add.tune((4096,), **options)
    assert message in str(error.value)


@pytest.mark.parametrize("space", [Schedule(core_num=2), "small", 3, [None], [{"core_num": 2}]])
def test_what_is_no_space_is_named(add: Op, space: Any) -> None:
    with pytest.raises(TuningError, match=r"space= takes a Space or a list of Schedule|unknown space 'small'"):
        add.tune((4096,), space=space)


def test_a_backend_that_is_not_there_is_one_error_before_the_search(
    add: Op, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    with pytest.raises(BackendError, match="npu"):
        add.tune((4096,), backend="npu")
    with pytest.raises(BackendError, match="unknown backend 'modle'; did you mean 'model'"):
        add.tune((4096,), backend="modle")


def test_a_size_that_nothing_can_hold_is_told(add: Op) -> None:
    with pytest.raises(TuningError, match="no schedule works") as error:
        add.tune((1 << 40, 1 << 40))
    assert len(str(error.value).splitlines()) > 1


def test_the_fastest_measured_one_wins(add: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _faulty(monkeypatch, add, {1: {"us": [9.0] * 4}, 2: {"us": [7.0] * 4}, 3: {"us": [8.0] * 4}})
    assert result.best.core_num == 2 and result.task_us == 7.0
    assert [e.schedule.core_num for e in result.entries] == [2, 3, 1]


def _cli(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, list(options))
    return result.exit_code, result.stdout


def test_command_line_from_search_to_table(tmp_path: Path) -> None:
    code, text = _cli("tune", "add", "--shape", "4096", "--space", "plain", "--top", "3", "--json")
    report = json.loads(text)
    assert code == 0 and report["backend"] == "model" and len(report["top"]) == 3
    assert {"best", "task_us", "share_of_bound", "candidates", "pruned", "measured"} <= set(report)
    assert _cli("tuned", "list")[1].startswith("add ")
    table = tmp_path / "table.toml"
    assert "1 of 1 schedules were new" in _cli("tuned", "export", str(table))[1]
    assert "1 tuned schedules forgotten" in _cli("tuned", "forget", "add")[1]
    assert json.loads(_cli("tuned", "list", "--json")[1]) == []
    assert "1 of 1 schedules for Ascend910B1 taken" in _cli("tuned", "import", str(table))[1]
    assert json.loads(_cli("tuned", "list", "--json")[1])[0]["schedule"] == report["best"]


def test_command_line_mistakes_are_one_message() -> None:
    code, text = _cli("tune", "add", "--shape", "8", "--budget", "soon", "--json")
    assert code != 0 and "expected a time such as 60s" in json.loads(text)["message"]
    code, text = _cli("tune", "add", "--shape", "8", "--space", "huge", "--json")
    assert code != 0 and "known: default, plain, or a file" in json.loads(text)["message"]


def test_tuning_in_place_ops_leaves_tensors_alone() -> None:
    leaky = op("y = where(x > 0, x, 0.5 * x)", name="leaky")
    x = torch.tensor([-3.0, -1.0, 0.0, 2.0])
    kept = x.clone()
    leaky.tune((4,), space=[Schedule(core_num=1, tile_length=n) for n in (8, 16, 32, 64)])
    assert torch.equal(x, kept)
    want = torch.tensor([-1.5, -0.5, 0.0, 2.0])
    for _ in range(2):
        fresh = kept.clone()
        leaky(fresh, out=fresh)
        assert torch.equal(fresh, want)
    given = kept.clone()
    assert torch.equal(leaky(given), want) and torch.equal(given, kept)  # type: ignore[arg-type]


def test_a_whole_library_is_tuned_and_dynamic_kernels_are_left_out(tmp_path: Path) -> None:
    spec = tmp_path / "lib.toml"
    spec.write_text('name = "small"\nops = ["add"]\ndtypes = ["float16", "float32"]\nshapes = ["64x64", "dynamic"]\n')
    result = CliRunner().invoke(group, ["tune", "--all", str(spec), "--space", "plain", "--json"])
    rows = json.loads(result.stdout)
    assert result.exit_code == 0 and [r["ok"] for r in rows] == [True, True]
    assert {tuple(r["dtypes"]) for r in rows} == {("float16",) * 2, ("float32",) * 2}
    spec.write_text('name = "small"\nops = ["where", "bitwise_and"]\nshapes = ["64x64"]\n')
    result = CliRunner().invoke(group, ["tune", "--all", str(spec), "--space", "plain", "--json"])
    masked, bits = sorted(json.loads(result.stdout), key=lambda r: len(r["dtypes"]), reverse=True)
    assert result.exit_code == 0 and masked["dtypes"] == ["bool", "float32", "float32"] and masked["best"]
    assert "bitwise_and(float32, float32) is not defined" in bits["skipped"]
    spec.write_text('name = "small"\nops = ["add"]\n')
    result = CliRunner().invoke(group, ["tune", "--all", str(spec), "--json"])
    assert result.exit_code == 2 and "any size only" in json.loads(result.stdout)["message"]


@pytest.mark.parametrize("arguments", [["tune"], ["tune", "add"], ["tune", "add", "--all", "x.toml"]])
def test_what_to_tune_must_be_said_once(arguments: list[str]) -> None:
    assert CliRunner().invoke(group, arguments).exit_code == 2
