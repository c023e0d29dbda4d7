from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from asc_sched import Schedule, op
from tests.cli.conftest import Ran

Run = Callable[..., Ran]
KNOBS = ("--core-num", "8", "--tile-num", "8")
ADD = op("z = x + y", name="add")


@pytest.mark.parametrize("stage", ["op", "tiling", "plan", "pyasc", "ascir", "ascendc"])
def test_show_prints_what_the_library_has(asc_sched: Run, stage: str) -> None:
    kernel = ADD.compile((8, 2048), "float32", schedule=Schedule(core_num=8, tile_num=8))
    stages = {
        "op": str(ADD), "tiling": str(kernel.tiling), "plan": str(kernel.plan), "pyasc": kernel.source,
        "ascir": kernel.asc_ir, "ascendc": kernel.ascendc,
    }  # fmt: skip
    ran = asc_sched("show", "add", "--shape", "8x2048", *KNOBS, "--stage", stage)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.rstrip() == stages[stage].rstrip()


@pytest.mark.parametrize("stage", ["op", "plan", "pyasc", "ascir", "ascendc"])
def test_without_a_shape_it_is_the_kernel_for_any_size(asc_sched: Run, stage: str) -> None:
    kernel = ADD.compile(None)
    stages = {
        "op": str(ADD), "plan": str(kernel.plan), "pyasc": kernel.source, "ascir": kernel.asc_ir,
        "ascendc": kernel.ascendc,
    }  # fmt: skip
    ran = asc_sched("show", "add", "--stage", stage)
    assert (ran.code, ran.out.rstrip()) == (0, stages[stage].rstrip())


def test_show_prints_pyasc_unless_told_otherwise(asc_sched: Run) -> None:
    ran = asc_sched("show", "z = exp(x) - y", "--dtype", "float16")
    functions = [n.name for n in ast.parse(ran.out).body if isinstance(n, ast.FunctionDef)]
    assert functions[-1] == "exp_sub_float16"


def test_formulas_are_symbolic_in_the_size(asc_sched: Run) -> None:
    for arguments in (("--symbolic",), (), ("--symbolic", "--shape", "8x2048")):
        ran = asc_sched("show", "add", "--stage", "tiling", *KNOBS, *arguments)
        lines = [line.split() for line in ran.out.splitlines()]
        assert ran.code == 0
        assert ran.out.startswith("# Schedule(core_num=8, tile_num=8) on Ascend910B1\n# for any total_length, core_num")
        assert "block_length = minimum(unit_length*ceil_div(units, used_cores), total_length)".split() in lines
        assert "tile_length = 8*ceil_div(ceil_div(block_length, buffer_num*tile_num), 8)".split() in lines
        assert any(line[:2] == ["block_start", "="] for line in lines)


def test_formulas_follow_the_schedule_and_the_dtypes(asc_sched: Run) -> None:
    ceil = asc_sched("show", "add", "--stage", "tiling", "--core-split", "ceil", "--tile-length", "64").out
    assert "# for any total_length, core_num, tile_length\n" in ceil
    assert "base_units      = ceil_div(units, core_num)" in ceil
    fill = asc_sched("show", "add", "--stage", "tiling", "--core-num", "4", "--dtype", "int32,float16").out
    assert "max_tile_length" in fill and "256 if ceil_div(total_length, 256) >= core_num else 16" in fill


def test_broadcasts_have_formulas_in_rows(asc_sched: Run) -> None:
    out = asc_sched("show", "add", "--stage", "tiling", "--symbolic", "--shape", "64x1000,64x1").out
    assert "# in rows of 1000 elements: lengths and units are numbers of rows" in out
    assert "unit_length     = 16 if ceil_div(total_length, 16) >= core_num else 1" in out
    out = asc_sched("show", "add", "--stage", "tiling", "--shape", "64x1000,64x1").out
    assert out.startswith("64 rows of 1000 elements on ")


def test_a_given_size_has_its_numbers_beside_the_formulas(asc_sched: Run) -> None:
    out = asc_sched("show", "add", "--stage", "tiling", "--shape", "13243", *KNOBS).out
    assert "  block_length  1664  = minimum(" in out
    assert "  core 7     from 11648: 1595 elements = 15 x 104 + 1 x 35" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "--stage", "plan", "--symbolic"], "--symbolic goes with --stage tiling"),
        (["add", "--stage", "asm"], "'asm' is not one of"),
        (["add", "--tile-num", "8"], "tile_num=8 needs a size to be resolved"),
        (["add", "--shape", "8", "--core-num", "49"], "nearest valid: core_num=48"),
        (["z = x +"], "invalid syntax"),
        (["addd"], "did you mean add"),
    ],
)
def test_wrong_input_is_exit_code_2(asc_sched: Run, arguments: list[str], message: str) -> None:
    ran = asc_sched("show", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
