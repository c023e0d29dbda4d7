from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from asc_sched.errors import SimulationError
from asc_sched.run import check
from tests.cli.conftest import Ran

Run = Callable[..., Ran]
KNOBS = ("--core-num", "8", "--tile-num", "8", "--buffer-num", "2")


def test_run_prints_tiling_ub_cores_and_the_check(asc_sched: Run) -> None:
    ran = asc_sched("run", "z = x + y", "--shape", "8x2048", "--dtype", "float32", *KNOBS)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "z = x + y"
    assert lines[1] == "Schedule(core_num=8, tile_num=8) on Ascend910B1 (backend sim)"
    assert "16384 elements on 8 of 8 cores (Ascend910B1)" in lines
    assert "  core 0..7  from 0: 2048 elements = 16 x 128" in lines
    assert "UB: 3072 of 196608 bytes (1.6 %)" in lines
    assert "cores launched: 8" in lines
    assert any(
        line.startswith("check of z against torch: 16384 elements compared, max abs error 0, max rel error 0")
        for line in lines
    )
    assert lines[-1] == "OK"


def test_run_tells_machines_the_same(asc_sched: Run) -> None:
    ran = asc_sched("run", "add", "--shape", "13243", *KNOBS, "--json")
    report = ran.json
    assert ran.code == 0 and ran.err == ""
    assert report["ok"] is True
    assert report["schedule"] == {
        "core_num": 8, "tile_num": 8, "buffer_num": 2, "core_split": "even", "l2_cache": "normal", "bank_pad": False,
        "pack_inputs": False,
    }  # fmt: skip
    assert {"total_length": 13243, "core_num": 8, "block_length": 1664, "tile_length": 104}.items() <= report[
        "tiling"
    ].items()
    assert (report["ub_bytes"], report["ub_capacity"], report["cores"]) == (6 * 104 * 4, 196608, 8)
    assert (report["max_abs_error"], report["max_rel_error"], report["elements"]) == (0.0, 0.0, 13243)


@pytest.mark.parametrize(
    ("arguments", "elements"),
    [
        (["z = x + y", "--shape", "0"], 0),
        (["z = x + y", "--shape", "()"], 1),
        (["z = x + y", "--shape", "3x0x5"], 0),
        (["z = x + y", "--shape", "5", "--dtype", "int32,float16"], 5),
        (["a = x + 1; b = exp(x)", "--shape", "7x9"], 126),
        (["z = alpha * x + k", "--shape", "100", "--scalars", "alpha=2.5, k=3"], 100),
        (["z = alpha * x", "--shape", "100", "--scalars", "alpha"], 100),
        (["axpby", "--shape", "100", "--scalars", "alpha=2"], 100),
        (["add", "--shape", "1000", "--target", "Ascend910B4"], 1000),
        (["add", "--shape", "1000", "--tile-length", "64", "--core-split", "ceil", "--pack-inputs"], 1000),
        (["add", "--shape", "1000", "--l2-cache", "bypass", "--bank-pad", "--seed", "7"], 1000),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_run_takes(asc_sched: Run, arguments: list[str], elements: int) -> None:
    ran = asc_sched("run", *arguments, "--json")
    assert ran.code == 0, ran.out + ran.err
    assert ran.json["ok"] and ran.json["elements"] == elements


def test_a_failed_check_is_exit_code_1(asc_sched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three elements of the result are wrong: the check says so, in words and to machines."""
    right = check.launch

    def wrong(*arguments: Any) -> torch.Tensor:
        result: torch.Tensor = right(*arguments)
        result[:3] += 1.0
        return result

    monkeypatch.setattr(check, "launch", wrong)
    ran = asc_sched("run", "add", "--shape", "100")
    assert ran.code == 1
    assert ran.out.splitlines()[-1] == "FAILED"
    assert "max abs error 1, " in ran.out and "3 outside tolerance" in ran.out
    ran = asc_sched("run", "add", "--shape", "100", "--json")
    assert ran.code == 1
    assert ran.json["ok"] is False and ran.json["outputs"]["z"]["mismatches"] == 3


def test_what_the_simulator_finds_is_exit_code_1(asc_sched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> torch.Tensor:
        raise SimulationError("add.py:7: reads beyond the end of x")

    monkeypatch.setattr(check, "launch", broken)
    ran = asc_sched("run", "add", "--shape", "100")
    assert (ran.code, ran.out, ran.err) == (1, "", "error: add.py:7: reads beyond the end of x\n")
    ran = asc_sched("run", "add", "--shape", "100", "--json")
    assert ran.code == 1 and ran.json["error"] == "SimulationError"


BAD = {
    ("z = foo(x)", "--shape", "8"): "error: 'z = foo(x)', line 1, column 5: unknown function 'foo'",
    ("foo(x)", "--shape", "8"): "error: 'foo(x)', line 1, column 1: expected 'name = expression'",
    ("ad", "--shape", "8"): "error: no op 'ad' in the catalogue; did you mean add",
    ("add", "--shape", "8y8"): "error: shape '8y8': expected sizes joined by x, such as 8x2048 (or ()",
    ("add", "--shape", "8,9"): "error: add: shapes (8,) of x and (9,) of y don't fit",
    ("add", "--shape", "8", "--dtype", "floaty"): "error: unknown dtype 'floaty'",
    ("add", "--shape", "8", "--core-num", "99"): "error: core_num=99 is more than the 48 vector cores",
    ("add", "--shape", "8", "--tile-num", "0"): "error: tile_num=0 is out of range",
    ("add", "--shape", "8", "--target", "Ascend910"): "error: unknown target 'Ascend910'; nearest: Ascend910B",
    ("add", "--shape", "8", "--backend", "sym"): "error: unknown backend 'sym'; did you mean 'sim'?",
    ("add", "--shape", "8", "--scalars", "alpha=1"): "the catalogue's add has no such scalar; it has none",
    ("axpby", "--shape", "8", "--scalars", "gamma=1"): "axpby has no such scalar; its scalars are alpha, beta",
    ("z = x*a", "--shape", "8", "--scalars", "a=b"): "error: --scalars 'a=b': expected name or name=number",
}


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_wrong_input_is_one_line_and_exit_code_2(asc_sched: Run, arguments: tuple[str, ...]) -> None:
    ran = asc_sched("run", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert BAD[arguments] in ran.err
    assert len(ran.err.splitlines()) == 1
    ran = asc_sched("run", *arguments, "--json")
    assert (ran.code, ran.err) == (2, "")
    assert ran.json["ok"] is False and BAD[arguments].removeprefix("error: ") in ran.json["message"]


def test_a_missing_or_mistyped_option_is_exit_code_2_with_a_hint(asc_sched: Run) -> None:
    ran = asc_sched("run", "add")
    assert ran.code == 2 and "Missing option '--shape'" in ran.err
    ran = asc_sched("run", "add", "--shap", "8")
    assert ran.code == 2 and "'--shape'" in ran.err
    ran = asc_sched("run", "add", "--shape", "8", "--core-num", "x")
    assert ran.code == 2 and "'x' is not a valid integer" in ran.err
