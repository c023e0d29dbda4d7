"""The tables that ship with the package: of the model, for the catalogue, and still right."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from asc_sched import Op, Schedule, get_target, ops
from asc_sched import op as declare
from asc_sched.lang.dtypes import get_dtype
from asc_sched.run import call
from asc_sched.run.torch_strides import contiguous
from asc_sched.tune import tables
from asc_sched.tune.choice import tuned_schedule
from asc_sched.tune.model import Model
from asc_sched.tune.store import ENV_STORE
from asc_sched.tune.tuner import task_of

TARGETS = ("Ascend910B1", "Ascend910B3")
EVERY = 40  # rows; all of them at night


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "tuning.sqlite"))


def _rows(target: str) -> list[tables.Row]:
    text = resources.files("asc_sched.schedules").joinpath(f"{target}.toml").read_text(encoding="utf-8")
    found, rows = tables.from_toml(text, target)
    assert found == target and 'backend = "model" means simulated' in text.splitlines()[0]
    return sorted(rows.values(), key=lambda r: r.key)


@pytest.mark.parametrize("target", TARGETS)
def test_every_op_of_the_catalogue_has_a_simulated_winner(target: str) -> None:
    rows = _rows(target)
    assert {ops.get(r.op).graph for r in rows} == {o.graph for o in ops.catalogue().values()}
    assert {r.backend for r in rows} == {"model"}


def _check(row: tables.Row, target: str) -> None:
    """It runs on the target, in the time that the table tells, and is no worse than the rule's choice."""
    op = ops.get(row.op)
    model = Model(task_of(op, [list(s) for s in row.shapes], list(row.dtypes), get_target(target), row.l2))
    assert model.exact(row.schedule).task_us == pytest.approx(row.task_us, rel=2e-3), row
    assert row.task_us <= model.exact(model.rule).task_us * 1.002, row


@pytest.mark.parametrize("target", TARGETS)
def test_rows_are_what_the_model_says_today(target: str) -> None:
    for row in _rows(target)[::EVERY]:
        _check(row, target)


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_all_rows_are_what_the_model_says_today(target: str) -> None:
    for row in _rows(target):
        _check(row, target)


def _used(op: Op, dtype: str, shape: tuple[int, ...]) -> Schedule:
    """The schedule of a call on contiguous tensors of that shape."""
    spec = (shape, contiguous(shape))
    return call._prepared(op, (get_dtype(dtype),) * 2, (spec, spec), None, None)[0].schedule


def test_calls_of_catalogue_ops_use_them() -> None:
    row = next(r for r in _rows("Ascend910B1") if (r.op, r.dtypes[0]) == ("add", "float16"))
    add = ops.get("add")
    assert _used(add, "float16", (8192, 8192)) == row.schedule
    assert _used(add, "float16", (1 << 26,)) == row.schedule  # the same run of elements
    assert tuned_schedule(add, ((8192, 8191),) * 2, 8192 * 8191, (get_dtype("float16"),) * 2) is None
    of_one, of_other = (_used(ops.get(name), "float32", (8192, 8192)) for name in ("div_floor", "floor_divide"))
    assert of_one == of_other  # two names for one computation


def test_a_users_op_of_the_same_name_does_not() -> None:
    mine = declare("z = x + y + y", name="add")
    asked = (((8192, 8192),) * 2, 1 << 26, (get_dtype("float16"),) * 2)
    assert tuned_schedule(ops.get("add"), *asked) is not None
    assert tuned_schedule(mine, *asked) is None
