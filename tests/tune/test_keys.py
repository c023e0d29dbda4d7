"""A stored winner is found again exactly where nothing that matters has changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import asc_sched
from asc_sched import Op, Schedule, get_target, op
from asc_sched.lang.dtypes import get_dtype
from asc_sched.run import call
from asc_sched.run.layout import spec_of
from asc_sched.tune import keys
from asc_sched.tune.choice import tuned_schedule
from asc_sched.tune.store import ENV_STORE
from asc_sched.tune.tuner import task_of, task_problem

ODD = Schedule(core_num=3, tile_length=136)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "tuning.sqlite"))


@pytest.fixture
def add() -> Op:
    return op("z = x + y")


def _key(declared: Op, backend: str = "npu", **changes: Any) -> str:
    asked: dict[str, Any] = {"shape": (4096,), "dtype": "float32", "target": get_target("Ascend910B1"), "l2": "hot"}
    return task_problem(task_of(declared, **asked | changes), backend).key


def test_the_same_question_has_the_same_key(add: Op) -> None:
    assert _key(add) == _key(op("z = x + y")) == _key(op("z = x + y", name="other"))
    assert _key(add) == _key(add, shape=(64, 64)) == _key(add, shape=[(64, 64), (64, 64)])  # one run of elements


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (1 << 22,)},
        {"shape": [(64, 64), (64,)]},
        {"shape": [(64, 64), (64, 1)]},
        {"dtype": "float16"},
        {"target": get_target("Ascend910B3")},
        {"target": get_target("Ascend910B1").evolve(vector_cores=40)},
        {"target": get_target("Ascend910B1").evolve(clock_mhz=1650)},
        {"l2": "cold"},
        {"backend": "model"},
    ],
)
def test_everything_about_the_problem_is_in_it(add: Op, changes: dict[str, Any]) -> None:
    assert _key(add, **changes) != _key(add)


def test_an_expression_counts_by_what_it_computes() -> None:
    assert _key(op("z = x + y", name="same")) != _key(op("z = y + x", name="same"))
    assert _key(op("z = x + 1.0 * y", name="same")) != _key(op("z = x + y", name="same"))


def test_another_pyasc_or_cann_is_another_key(add: Op, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = {backend: _key(add, backend) for backend in ("npu", "model")}
    (tmp_path / "version.cfg").write_text("runtime_running_version=[8.2.0:8.2.0]\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert _key(add, "npu") != before["npu"]
    assert _key(add, "model") == before["model"]  # nothing of CANN takes part in simulated times
    monkeypatch.setattr("asc_sched.build.pyasc_version", lambda: "1.2.0")
    assert _key(add, "model") != before["model"]


@pytest.mark.parametrize("edited", [
    "emit/templates", "lower/rule.py", "sim/engine.py", "target/timing.py", "tune/row_sketch.py", "kernel.py",
])  # fmt: skip
def test_an_edit_of_the_generator_is_another_key(
    add: Op, edited: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "asc_sched"
    shutil.copytree(Path(asc_sched.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(asc_sched, "__file__", str(copy / "__init__.py"))
    keys.generator_version.cache_clear()
    try:
        before = _key(add)
        place = copy / edited
        file = place if place.is_file() else sorted(place.rglob("*.j2"))[0]
        file.write_text(file.read_text() + "\n")
        keys.generator_version.cache_clear()
        assert _key(add) != before
    finally:
        keys.generator_version.cache_clear()


def _chosen(declared: Op, *tensors: torch.Tensor, out: torch.Tensor | None = None) -> Schedule:
    dtypes = tuple(get_dtype(t.dtype) for t in tensors)
    written = None if out is None else (spec_of(out),)
    return call._prepared(declared, dtypes, tuple(spec_of(t) for t in tensors), written, None)[0].schedule


def test_calls_with_other_strides_do_not_use_it(add: Op) -> None:
    add.tune((64, 64), space=[ODD])
    x = torch.rand(64, 64)
    assert _chosen(add, x, x) == ODD
    assert _chosen(add, x.t(), x) != ODD
    assert _chosen(add, torch.rand(64, 128)[:, ::2], x) != ODD
    assert _chosen(add, x, x, out=torch.empty(64, 64).t()) != ODD


def test_calls_that_write_to_a_tensor_use_it(add: Op) -> None:
    add.tune((64, 64), space=[ODD])
    x, y = torch.rand(64, 64), torch.rand(64, 64)
    assert _chosen(add, x, y, out=torch.empty(64, 64)) == ODD
    want = x + y
    add(x, y, out=x)
    assert torch.equal(x, want)


def test_calls_with_broadcast_inputs_use_what_was_tuned_for_them(add: Op) -> None:
    rows = Schedule(core_num=3, tile_length=256)
    add.tune([(64, 128), (128,)], space=[rows])
    x, y = torch.rand(64, 128), torch.rand(128)
    assert _chosen(add, x, y) == rows
    assert _chosen(add, x, torch.rand(64, 128)) != rows
    assert torch.equal(add(x, y), x + y)  # type: ignore[arg-type]


def test_a_winner_that_no_longer_fits_is_not_used(add: Op, caplog: pytest.LogCaptureFixture) -> None:
    """Tables come from elsewhere: other versions laid the buffers out in another way."""
    from asc_sched.tune.store import Store, Winner, default_path

    shapes, task = ((4096,), (4096,)), task_of(add, (4096,), "float32", get_target(), "hot")
    huge = Schedule(core_num=1, tile_length=1 << 16)
    details = {"dtypes": ["float32"] * 2, "target": get_target().name, "backend": "model", "l2": "hot"}
    Store(default_path()).set_winner(task_problem(task, "model"), Winner("add", shapes, 4096, huge, 1.0, details))
    assert tuned_schedule(add, shapes, 4096, (get_dtype("float32"),) * 2) == huge
    x = torch.rand(4096)
    assert torch.equal(add(x, x), x + x)  # type: ignore[arg-type]
    assert "add: a tuned schedule is not used: " in caplog.text
