"""`asc-sched profile` and `Kernel.profile`: modelled times, said to be modelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from asc_sched import Schedule, op
from asc_sched.cli import group
from asc_sched.errors import ArgumentError


def _profile(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, ["profile", *options])
    return result.exit_code, result.output


def test_json_has_the_figures() -> None:
    code, text = _profile("add", "--shape", "1024x1024", "--dtype", "float16", "--json")
    report = json.loads(text)
    assert code == 0 and report["source"] == "model" and report["target"] == "Ascend910B1" and report["l2"] == "hot"
    assert report["bytes_read"] == 2 * report["bytes_written"] == 4 << 20
    assert 0 < report["bound_us"] < report["task_us"]
    assert report["share_of_bound"] == pytest.approx(report["bound_us"] / report["task_us"])
    assert set(report["pipes"]) == {"S", "V", "MTE2", "MTE3"}
    assert all(p["busy_us"] > 0 and 0 < p["ratio"] <= 1 for p in report["pipes"].values())


def test_table_says_that_times_are_not_measured() -> None:
    code, text = _profile("z = exp(x)", "--shape", "100003")
    assert code == 0 and "not measured" in text and "MTE2" in text and "held up by" in text


def test_clock_and_l2_change_the_time() -> None:
    def task(*options: str) -> float:
        return float(json.loads(_profile("add", "--shape", "1024x1024", "--json", *options)[1])["task_us"])

    assert task("--clock-mhz", "925") > 1.2 * task()
    assert task("--l2", "cold") > task()


def test_trace_has_a_track_per_core_and_pipe(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    code, text = _profile("add", "--shape", "8x2048", "--core-num", "2", "--tile-num", "2", "--trace", str(file))
    events = json.loads(file.read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert code == 0 and "trace written to" in text
    assert {e["pid"] for e in slices} == {0, 1}
    assert {"Add", "DataCopyPad"} <= {e["name"].split()[0] for e in slices}


def test_a_broadcast_input_is_read_once_per_core() -> None:
    report = json.loads(_profile("add", "--shape", "128x1,1x128", "--json")[1])
    assert report["bytes_written"] == 4 * 128 * 128
    assert report["bytes_read"] == 4 * 128 + report["core_num"] * 4 * 128


def test_nothing_to_launch_takes_no_time() -> None:
    code, text = _profile("add", "--shape", "0", "--json")
    assert code == 0 and json.loads(text)["task_us"] == 0


def test_kernels_profile_themselves() -> None:
    kernel = op("z = x + y").compile((8, 2048), schedule=Schedule(core_num=8, tile_num=8))
    assert kernel.profile().task_us > kernel.profile().bound_us
    with pytest.raises(ArgumentError, match=r"l2='warm' is unknown \(supported: hot, cold\)"):
        kernel.profile(l2="warm")
    with pytest.raises(ArgumentError, match="compile it with a shape to profile it"):
        op("z = x + y").compile().profile()


def test_a_wrong_size_is_one_message() -> None:
    code, text = _profile("add", "--shape", "8x", "--json")
    assert code != 0 and json.loads(text)["ok"] is False
