"""Clocks and msprof's tables, without a device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from asc_sched import op
from asc_sched.errors import ArgumentError, BackendError, BackendNameError, StorageError
from asc_sched.kernel import Kernel
from asc_sched.run import npu_profile
from asc_sched.run.backend import get_backend
from asc_sched.run.measure import Measurement, clock_for, measure
from asc_sched.run.msprof import measurement, msprof_command, read_op_summary, run_msprof
from asc_sched.run.npu_profile import LaunchSpec, profile_npu


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return op("z = alpha * x + y", scalars={"alpha": None}).compile((8, 2048), "float32")


# -- the model ---------------------------------------------------------------------------------------------------------
def test_the_models_clock_needs_no_tensors_and_never_differs(kernel: Kernel) -> None:
    first = measure(kernel, repeats=5, backend="sim")
    assert first.source == "model"
    assert len(first.times_us) == 1
    assert first == measure(kernel, repeats=1, backend="sim")
    tensors = [torch.rand(8, 2048), torch.rand(8, 2048)]
    assert measure(kernel, tensors, backend="sim") == first


def test_a_cold_l2_takes_longer(kernel: Kernel) -> None:
    assert measure(kernel, backend="sim", l2="cold").median_us > measure(kernel, backend="sim", l2="hot").median_us


def test_a_kernel_of_any_size_is_measured_on_tensors() -> None:
    any_size = op("z = x + y").compile(None, "float32")
    with pytest.raises(ArgumentError, match="takes any size: pass the tensors"):
        measure(any_size, backend="sim")
    small, large = (
        measure(any_size, [torch.rand(n), torch.rand(n)], backend="sim").median_us for n in (1000, 1_000_000)
    )
    assert large > small


def test_median_and_minimum() -> None:
    found = Measurement((3.0, 1.0, 2.0, 10.0), "test")
    assert (found.median_us, found.min_us) == (2.5, 1.0)


def test_wrong_requests_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ArgumentError, match=r"l2='warm' is unknown \(supported: hot, cold\)"):
        clock_for("sim", l2="warm")
    with pytest.raises(ArgumentError, match="repeats=0"):
        measure(kernel, repeats=0, backend="sim")
    with pytest.raises(ArgumentError, match="use l2='hot'"):
        clock_for("camodel", l2="cold")
    with pytest.raises(BackendNameError):
        clock_for("gpu")


# -- msprof ------------------------------------------------------------------------------------------------------------
# Columns as msprof 8 writes them (task-based AI Core metrics of PipeUtilization), values made up.
SUMMARY = (
    "\ufeffDevice_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),"
    "Task Duration(us),Task Wait Time(us),Block Dim,Mix Block Dim,aicore_time(us),aic_total_cycles,aiv_time(us),"
    "aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),"
    "aiv_mte2_ratio,aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate\r\n"
    "0,4294967295,1,2,add_float32,add_float32,static,AI_VECTOR_CORE,1000.5\t,9.50,0,20,0,0,0,8.1,267300,"
    "0.4,0.049,1.2,0.148,3.9,0.481,2.8,0.346,0.15\r\n"
    "0,4294967295,2,2,add_float32,add_float32,static,AI_VECTOR_CORE,1100.5\t,1.93,0,20,0,0,0,1.2,39600,"
    "0.4,0.333,0.5,0.417,0.6,0.5,0.5,0.417,0\r\n"
    "0,4294967295,3,2,Cast_1,Cast,static,AI_VECTOR_CORE,1200.5\t,4.00,0,40,0,0,0,N/A,N/A,"
    "N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A\r\n"
)
BASIC = "Op Name,Op Type,Task Duration(us),Block Dim,Device Id,Current Freq,\nadd_float32,vector,2.25,8,0,1800,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As msprof leaves it."""
    output = tmp_path / "PROF_000001" / "mindstudio_profiler_output"
    output.mkdir(parents=True)
    (output / "op_summary_20260101000000.csv").write_text(SUMMARY, encoding="utf-8")
    return tmp_path


def test_the_op_summary_is_found_and_read(folder: Path) -> None:
    cold, warm = read_op_summary(folder, "add_float32")
    assert (cold.duration_us, warm.duration_us) == (9.5, 1.93)
    assert (warm.core_num, warm.core_us, warm.task_type) == (20, 1.2, "AI_VECTOR_CORE")
    assert {p: (u.busy_us, u.ratio) for p, u in warm.pipes.items()} == {
        "S": (0.5, 0.417), "V": (0.4, 0.333), "MTE2": (0.6, 0.5), "MTE3": (0.5, 0.417),
    }  # fmt: skip
    assert warm.extra["aivicachemissrate"] == "0"


def test_values_that_were_not_collected_are_none(folder: Path) -> None:
    cast = read_op_summary(folder, "Cast")[0]
    assert cast.core_us is None
    assert all(u.busy_us is None and u.ratio is None for u in cast.pipes.values())


def test_the_cold_launch_does_not_count(folder: Path) -> None:
    tasks = read_op_summary(folder, "add_float32")
    assert measurement(tasks) == Measurement((1.93,), "msprof")
    assert measurement(tasks[:1]).times_us == (9.5,)


def test_the_newest_table_is_taken(folder: Path) -> None:
    newer = folder / "OpBasicInfo.csv"
    newer.write_text(BASIC)
    os.utime(newer, (4e9, 4e9))
    (task,) = read_op_summary(folder)
    assert (task.name, task.duration_us, task.core_num) == ("add_float32", 2.25, 8)
    assert read_op_summary(newer) == (task,)


def test_an_unknown_kernel_lists_the_known_ones(folder: Path) -> None:
    with pytest.raises(ArgumentError, match="no task 'mul'; it has Cast_1, add_float32"):
        read_op_summary(folder, "mul")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("Op Name,Something\nadd,1\n", r"lacks a value of 'Op Name' or 'Task Duration\(us\)'"),
        ("Op Name,Task Duration(us)\nadd,N/A\n", "lacks a value"),
    ],
)
def test_tables_of_another_kind_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "op_summary_1.csv"
    file.write_text(text)
    with pytest.raises(ArgumentError, match=message):
        read_op_summary(file)


def test_bytes_that_are_no_text_and_missing_tables_are_told(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="there is no op_summary"):
        read_op_summary(tmp_path)
    file = tmp_path / "op_summary_1.csv"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StorageError, match="not a csv file of text"):
        read_op_summary(file)


def test_msprof_is_run_on_a_command_and_its_table_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "msprof"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\nfor a in "$@"; do case "$a" in --output=*) out="${{a#--output=}}";; esac; done\n'
        f'mkdir -p "$out/PROF"; printf %s "$*" > "$out/args"; cp {tmp_path}/table.csv "$out/PROF/op_summary_1.csv"\n'
    )
    tool.chmod(0o755)
    (tmp_path / "table.csv").write_text(SUMMARY, encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    tasks = run_msprof(["python", "my script.py", "-r", "NPU"], tmp_path / "out", "add_float32")
    assert [t.duration_us for t in tasks] == [9.5, 1.93]
    args = (tmp_path / "out" / "args").read_text()
    assert "--application=python 'my script.py' -r NPU" in args
    assert "--aic-metrics=PipeUtilization" in args


def test_msprofs_absence_and_failure_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match=r"msprof is not on PATH.*set_env\.sh"):
        run_msprof(["true"], tmp_path)
    tool = tmp_path / "msprof"
    tool.write_text("#!/bin/sh\necho 'no device' >&2\nexit 3\n")
    tool.chmod(0o755)
    with pytest.raises(BackendError, match=r"exit code 3\):\nno device"):
        run_msprof(["true"], tmp_path)


def test_the_command_line_is_one_argument_per_option(tmp_path: Path) -> None:
    command = msprof_command(["python", "x.py"], tmp_path)
    assert command[0] == "msprof"
    assert all(a.startswith("--") and "=" in a for a in command[1:])


# -- the NPU's profile -------------------------------------------------------------------------------------------------
def test_a_profile_is_the_median_of_the_warm_launches(folder: Path) -> None:
    spec = LaunchSpec(op="z = x + y", shape=[64])
    seen = profile_npu(spec, folder)
    assert (seen["task_us"], seen["core_mean_us"], seen["core_num"], seen["launches"]) == (1.93, 1.2, 20, 1)
    assert seen["pipes"]["MTE2"] == {"busy_us": 0.6, "ratio": 0.5}
    assert seen["target"] == "Ascend910B1"
    with pytest.raises(ArgumentError, match="has no task 'sub_float32'"):
        profile_npu(LaunchSpec(op="z = x - y", shape=[64]), folder)


def test_the_kernel_is_launched_by_a_process_under_msprof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table.csv").write_text(SUMMARY, encoding="utf-8")
    ran = {}

    def run(command: list[str], folder: str, kernel: str) -> object:
        ran["argument"], ran["kernel"] = command[-1], kernel
        return read_op_summary(tmp_path / "table.csv", kernel)

    monkeypatch.setattr(npu_profile, "run_msprof", run)
    spec = LaunchSpec(
        op="z = x + y", shape=[[8, 16], [16]], scalars={}, schedule={"core_num": 2}, repeats=3, backend="sim"
    )
    assert profile_npu(spec)["source"] == "msprof"
    assert ran["kernel"] == "add_float32"
    launches = []
    monkeypatch.setattr(type(get_backend("sim")), "run", lambda self, kernel, args: launches.append(args.core_num))
    npu_profile.main(ran["argument"])
    assert launches == [2] * 4
