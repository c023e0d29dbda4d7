"""`asc-sched tune`: options are read before anything is searched, and a mistake in them is one message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asc_sched.cli.tune import _Bar
from asc_sched.tune.store import ENV_STORE
from tests.cli.conftest import Ran

Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "tuning.sqlite"))
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)


@pytest.fixture
def library(tmp_path: Path) -> str:
    spec = tmp_path / "lib.toml"
    spec.write_text('name = "small"\nops = ["add"]\ndtypes = ["float16", "float32"]\nshapes = ["64x64"]\n')
    return str(spec)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shape", "8"), "--shape doesn't apply with --all"),
        (("--target", "Ascend910B1", "--dtype", "int32"), "--dtype, --target don't apply with --all"),
        (("--scalars", "alpha=2.0"), "--scalars doesn't apply with --all"),
    ],
)
def test_what_a_library_declares_isnt_an_option(
    asc_sched: Run, library: str, options: tuple[str, ...], message: str
) -> None:
    ran = asc_sched("tune", "--all", library, *options)
    assert (ran.code, ran.out) == (2, "") and message in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", "soon"), "budget 'soon': expected a time such as 60s, 5m or 1h"),
        (("--budget", "9" * 400), "expected a time such as 60s, 5m or 1h"),
        (("--space", "plian"), "unknown space 'plian'; known: default, plain, or a file"),
        (("--space", "/none.toml"), "/none.toml: No such file or directory"),
        (("--backend", "foo"), "unknown backend 'foo' (supported: model, camodel, npu)"),
        (("--backend", "modle"), "unknown backend 'modle'; did you mean 'model'? (supported: model, camodel, npu)"),
        (("--backend", "npu"), "backend 'npu' needs CANN, and ASCEND_HOME_PATH is not set"),
        (("--backend", "camodel"), "backend 'camodel' needs CANN, and ASCEND_HOME_PATH is not set"),
    ],
)
def test_a_mistake_in_an_option_is_one_message(
    asc_sched: Run, library: str, options: tuple[str, ...], message: str
) -> None:
    for what in (("--all", library), ("add", "--shape", "8")):
        ran = asc_sched("tune", *what, *options)
        assert (ran.code, ran.out, ran.err.count("error: "), len(ran.err.splitlines())) == (2, "", 1, 1)
        assert message in ran.err
        ran = asc_sched("tune", *what, *options, "--json")
        assert ran.code == 2 and ran.json["ok"] is False and message in ran.json["message"]


class _Shown:
    """What the bar shows."""

    def __init__(self) -> None:
        self.text = ""

    def add_task(self, text: str, total: None) -> int:
        return 0

    def update(self, task: int, description: str) -> None:
        self.text = description


def test_the_best_so_far_is_of_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1, 100))
    monkeypatch.setattr("asc_sched.cli.tune.time.monotonic", lambda: float(next(clock)))
    shown: Any = _Shown()
    bar = _Bar(shown)
    bar("model", 5, 2.0)
    assert shown.text == "model: 5 schedules, best so far 2.00 us"
    bar("npu", 1, None)
    assert shown.text == "npu: 1 schedules"
    bar("npu", 1, 7.5)
    bar("npu", 1, 9.0)
    assert shown.text == "npu: 3 schedules, best so far 7.50 us"
