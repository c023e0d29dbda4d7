"""A user's own @asc.jit kernel: run, checked and timed through the Python call and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from asc_sched.cli import group
from asc_sched.errors import ArgumentError, CompileError
from asc_sched.run.user_kernel import parse_arguments, simulate_kernel
from asc_sched.sim import errors

TUTORIAL = f"{Path(__file__).parent / 'kernels' / 'tutorial_add.py'}:tutorial_add"


def test_torch_tensors_are_updated_in_place_and_the_run_is_timed() -> None:
    x, y, z = torch.rand(8, 2048), torch.rand(8, 2048), torch.empty(8, 2048)
    run = simulate_kernel(TUTORIAL, x, y, z, x.numel(), core_num=8, outputs=[2])
    assert torch.equal(z, x + y)
    assert run.timing is not None and run.timing.task_us > 1
    assert "Add(" in run.ascendc


def test_numpy_arrays_work_too() -> None:
    x, z = np.arange(16384, dtype=np.float32), np.empty(16384, np.float32)
    simulate_kernel(TUTORIAL, x, x, z, 16384, core_num=8, outputs=[2])
    assert np.array_equal(z, x + x)


def test_a_dropped_tail_is_named_with_its_source_line() -> None:
    x, z = np.ones(10000, np.float32), np.empty(10000, np.float32)
    with pytest.raises(errors.CountError, match=r"tutorial_add.py:16: DataCopy of 78 float = 312 bytes"):
        simulate_kernel(TUTORIAL, x, x, z, 10000, core_num=8, outputs=[2])


def test_findings_as_warnings_leave_the_result_to_look_at() -> None:
    x, z = np.ones(10000, np.float32), np.zeros(10000, np.float32)
    run = simulate_kernel(TUTORIAL, x, x, z, 10000, core_num=8, outputs=[2], strict=False)
    assert {w.check for w in run.report.warnings} == {"count", "not_written"}
    assert int((z != 2).sum()) == 784


@pytest.mark.parametrize(
    ("kernel", "args", "error", "text"),
    [
        ("add", (), ArgumentError, "expected FILE.py:name"),
        ("gone.py:add", (), CompileError, "there is no file"),
        (TUTORIAL, (np.ones((4, 4), np.float32)[:, ::2],), ArgumentError, "not contiguous"),
        (TUTORIAL, (2**40,), ArgumentError, "over int32"),
        (TUTORIAL, ("x",), ArgumentError, "argument 0 is a str"),
        (TUTORIAL, (np.ones(4, np.float32),), CompileError, r"4 run-time arguments \(x, y, z, total_length\)"),
    ],
)
def test_wrong_use_is_explained(kernel: str, args: tuple[object, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        simulate_kernel(kernel, *args, core_num=1)


def test_arguments_as_text(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    words = ["float32[2x3]=ones", "out:int8[4]=zeros", f"@{tmp_path / 'x.npy'}", "5", "1.5", "int64:7", "const:T=128"]
    values, outputs, constants = parse_arguments(words)
    assert values[0].shape == (2, 3) and values[0].dtype == np.float32 and values[0].sum() == 6
    assert outputs == {1} and constants == {"T": 128}
    assert list(values[2]) == [0, 1, 2] and values[3:] == [5, 1.5, np.int64(7)]


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("float99[3]", "unknown dtype"),
        ("float32[3", "expected an array"),
        ("const:=3", "const:NAME=VALUE"),
        ("float32[3]=sevens", "random, zeros, ones or arange"),
        ("@gone.npy", "gone.npy"),
        ("int8:300", "300 is no int8"),
    ],
)
def test_unreadable_arguments_say_what_is_expected(word: str, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        parse_arguments([word])


def _sim(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, ["sim", TUTORIAL, *options])
    return result.exit_code, result.output


def test_command_checks_against_a_declaration() -> None:
    args = "float32[16384] float32[16384] out:float32[16384] 16384"
    code, text = _sim("--args", args, "--core-num", "8", "--expect", "z = x + y")
    assert code == 0 and "0 outside tolerance" in text and "OK" in text
    code, text = _sim("--args", args, "--core-num", "8", "--expect", "z = x - y")
    assert code == 1 and "FAILED" in text


def test_command_gives_json_for_machines(tmp_path: Path) -> None:
    args = "float32[10000] float32[10000] out:float32[10000] 10000"
    code, text = _sim("--args", args, "--core-num", "8", "--allow", "all", "--json", "--save", str(tmp_path))
    report = json.loads(text)
    assert code == 1 and report["ok"] is False and report["timing"]["task_us"] > 1
    assert {w["check"] for w in report["warnings"]} == {"count", "not_written"}
    assert np.load(tmp_path / "z.npy").shape == (10000,)
    code, text = _sim("--args", args, "--core-num", "8", "--json")
    assert code == 1 and json.loads(text)["error"] == "CountError"
