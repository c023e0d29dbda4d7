"""Searches that are stopped half way: nothing finished is lost, nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from asc_sched import Schedule, op
from asc_sched.tune.store import ENV_STORE, Store
from asc_sched.tune.tuner import task_of, task_problem, tune
from tests.tune.fake import SCRIPT

# Whole processes, each loading torch: a minute of work on a busy machine.
pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
FAKE = "tests.tune.fake:FakeRunner"
_SEARCH = """
import signal
from asc_sched import Schedule, op
from asc_sched.tune.tuner import tune
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
listed = [Schedule(core_num=n, tile_length=256) for n in (1, 2, 3)]
tune(op("z = x + y"), (4096,), "float32", space=listed, backend="camodel", runner="{runner}", trial_limit_s=60.0)
"""


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "tuning.sqlite"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "tuning.sqlite"


def _problem() -> Any:
    from asc_sched import get_target

    return task_problem(task_of(op("z = x + y"), (4096,), "float32", get_target(), "hot"), "camodel")


def _hanging_search(monkeypatch: pytest.MonkeyPatch, store: Path) -> subprocess.Popen[bytes]:
    """A search in a process of its own that has a result and hangs at its last candidate: the model's slowest."""
    plan: dict[str, Any] = {str(n): {"us": [float(n)] * 4, "fault": "hang" if n == 1 else None} for n in (1, 2, 3)}
    monkeypatch.setenv(SCRIPT, json.dumps(plan))
    process = subprocess.Popen([sys.executable, "-c", _SEARCH.format(runner=FAKE)], stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None and not _children(process.pid):
        time.sleep(0.05)
    while time.monotonic() < until and process.poll() is None and not Store(store).measurements(_problem()):
        time.sleep(0.1)
    return process


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(p) for p in listed.read_text().split()] if listed.exists() else []


def _wait_gone(pids: list[int]) -> bool:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not any(_alive(p) for p in pids):
            return True
        time.sleep(0.1)
    return False


def _alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_a_search_that_is_killed_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch, own_store: Path
) -> None:
    process = _hanging_search(monkeypatch, own_store)
    children = _children(process.pid)
    process.kill()
    process.wait(10)
    known = Store(own_store).measurements(_problem())
    assert known and all(m.status == "ok" for m in known.values())
    assert _wait_gone(children)
    plan = {str(n): {"us": [float(n)] * 4} for n in (1, 2, 3)}
    monkeypatch.setenv(SCRIPT, json.dumps(plan))
    listed = [Schedule(core_num=n, tile_length=256) for n in (1, 2, 3)]
    result = tune(op("z = x + y"), (4096,), "float32", space=listed, backend="camodel", runner=FAKE)
    assert result.measured == 3 - len(known) and result.best.core_num == 1


def test_an_interrupt_stops_at_once_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch, own_store: Path
) -> None:
    process = _hanging_search(monkeypatch, own_store)
    children = _children(process.pid)
    started = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - started < 10 and process.returncode not in (0, None)
    assert b"KeyboardInterrupt" in errors
    assert _wait_gone(children)
