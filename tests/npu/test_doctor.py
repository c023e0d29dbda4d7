"""What `asc-sched doctor` says of machines with and without CANN and NPUs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from asc_sched.cli.doctor import command
from asc_sched.run import backend, cann
from asc_sched.run.doctor import Finding, examine


@pytest.fixture(autouse=True)
def no_memory() -> None:
    backend._found.cache_clear()


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with CANN, two cards and torch_npu."""
    home = tmp_path / "cann"
    simulator = home / "tools" / "simulator" / "Ascend910B1" / "lib"
    simulator.mkdir(parents=True)
    (simulator / "libruntime_camodel.so").touch()
    (home / "version.cfg").write_text("runtime_running_version=[7.7:8.1.RC1]\n")
    tool = home / "bin" / "bisheng"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in ("davinci10", "davinci2", "davinci_manager"):
        (dev / name).touch()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(simulator))
    monkeypatch.delenv("PYASC_COMPILER", raising=False)
    monkeypatch.delenv("ASC_SCHED_BACKEND", raising=False)
    monkeypatch.setattr(cann, "DEV", dev)
    monkeypatch.setattr(backend, "_has_torch_npu", lambda: True)
    return home


def found() -> dict[str, Finding]:
    return {f.name: f for f in examine()}


def test_a_board_is_described(board: Path) -> None:
    seen = found()
    assert seen["CANN"].detail == f"8.1.RC1 at {board}"
    assert seen["compiler"].found
    assert seen["camodel"].found
    assert seen["NPU"].detail == "davinci2, davinci10"
    assert seen["access"].found
    assert seen["backend"].detail.startswith("npu: the machine has CANN, davinci2 and torch_npu")


def test_missing_permission_is_seen(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: "davinci" not in str(path))
    access = found()["access"]
    assert not access.found
    assert "davinci_manager" in access.detail
    assert "HwHiAiUser" in access.remedy


def test_a_simulator_that_is_not_on_the_path_is_seen(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    simulator = found()["camodel"]
    assert not simulator.found
    assert simulator.detail == "Ascend910B1; none of them on LD_LIBRARY_PATH"


def test_the_twin_is_not_taken_for_cann(board: Path) -> None:
    (board / "asc_sched_twin").touch()
    backend._found.cache_clear()
    seen = found()
    assert not seen["CANN"].found
    assert "asc_sched's twin of CANN" in seen["CANN"].detail
    assert seen["backend"].detail.startswith("sim: the machine has no CANN")


def test_the_reason_of_the_decision_is_given(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASC_SCHED_BACKEND", "sim")
    result = CliRunner().invoke(command, ["--json"])
    assert json.loads(result.stdout)["backend"] == {"name": "sim", "reason": "ASC_SCHED_BACKEND=sim is set"}
    text = CliRunner().invoke(command, []).stdout
    assert "backend    sim: ASC_SCHED_BACKEND=sim is set" in text


def test_an_unknown_backend_in_the_environment_fails(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASC_SCHED_BACKEND", "gpu")
    result = CliRunner().invoke(command, ["--json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["ok"] is False
    assert document["backend"]["name"] is None
    assert "supported: sim, camodel, npu" in document["backend"]["reason"]
