"""The sympy formulas: exact functions, printing to people, Python and C++, and agreement of all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from asc_sched.errors import ScheduleError
from asc_sched.tiling import Alignment, symbolic_tiling
from asc_sched.tiling.exact import ceil_div, floor_div, if_at_least, minimum, mod, to_cpp, to_python, to_text
from asc_sched.tiling.symbolic import formula_names, integer_function
from tests.tiling.plain import steady

ALIGN = Alignment(128, 8)
SPLITS = ("even", "ceil")
WAYS = ("tile_num", "tile_length", "fill")
a, b = sympy.symbols("a b", integer=True, positive=True)

inputs = st.fixed_dictionaries(
    {
        "total_length": st.integers(1, 2**40),
        "core_num": st.integers(1, 65535),
        "tile_num": st.integers(1, 10**6),
        "tile_length": st.integers(1, 10**5).map(lambda n: 8 * n),
        "max_tile_length": st.integers(1, 10**5).map(lambda n: 8 * n),
        "buffer_num": st.integers(1, 8),
    }
)


@steady
@given(st.integers(-(10**30), 10**30), st.integers(1, 10**20))
def test_exact_functions_are_integer_arithmetic_of_any_size(x: int, y: int) -> None:
    assert int(ceil_div(x, y)) == (x + y - 1) // y
    assert int(floor_div(x, y)) == x // y
    assert int(mod(x, y)) == x % y
    assert int(minimum(x, y)) == min(x, y)
    assert int(if_at_least(x, y, 1, 2)) == (1 if x >= y else 2)


def test_exact_functions_stay_symbolic_until_all_is_known() -> None:
    expr = ceil_div(a, 8)
    assert expr.func is ceil_div
    assert expr.is_integer
    assert expr.subs(a, 17) == 3
    # Nothing is cancelled or re-associated behind the reader's back.
    assert ceil_div(8 * a, 8).func is ceil_div
    assert minimum(a, a).func is minimum


@pytest.mark.parametrize("function", [ceil_div, floor_div, mod, minimum])
def test_exact_functions_refuse_what_is_not_an_integer(function: type) -> None:
    for value in (sympy.Rational(1, 2), sympy.Float(2.5), sympy.sqrt(2)):
        with pytest.raises(TypeError, match="takes integers, not"):
            function(value, 8)


def test_a_float_is_refused_even_where_its_value_is_whole() -> None:
    with pytest.raises(TypeError, match=r"ceil_div takes integers, not 16\.0"):
        ceil_div(16.0, 8)


def test_expressions_print_to_people_python_and_cpp() -> None:
    expr = 8 * ceil_div(a + 1, 8 * b) + minimum(a, mod(a, b))
    assert to_text(expr) == "8*ceil_div(a + 1, 8*b) + minimum(a, mod(a, b))"
    assert to_python(expr) == "8*(-(-(a + 1) // (8*b))) + min(a, (a % b))"
    assert to_cpp(expr) == "8*(((a + 1) + (8*b) - 1) / (8*b)) + std::min<int64_t>(a, (a % b))"
    assert to_python(if_at_least(floor_div(a, 2), b, 1, 2)) == "(1 if (a // 2) >= b else 2)"
    assert to_cpp(if_at_least(floor_div(a, 2), b, 1, 2)) == "((a / 2) >= b ? 1 : 2)"


def test_the_even_split_reads_like_this() -> None:
    assert str(symbolic_tiling("even", ALIGN)) == (
        "# for any total_length, core_num, tile_num, buffer_num\n"
        "unit_length     = 128 if ceil_div(total_length, 128) >= core_num else 8\n"
        "units           = ceil_div(total_length, unit_length)\n"
        "used_cores      = minimum(core_num, units)\n"
        "base_units      = floor_div(units, used_cores)\n"
        "extra_units     = mod(units, used_cores)\n"
        "block_length    = minimum(unit_length*ceil_div(units, used_cores), total_length)\n"
        "tile_length     = 8*ceil_div(ceil_div(block_length, buffer_num*tile_num), 8)\n"
        "tile_count      = ceil_div(block_length, tile_length)\n"
        "tail            = block_length - tile_length*(tile_count - 1)\n"
        "# on core block_idx = 0 .. used_cores - 1\n"
        "block_start     = unit_length*(base_units*block_idx + minimum(block_idx, extra_units))\n"
        "core_units      = base_units + (0 if block_idx >= extra_units else 1)\n"
        "core_length     = minimum(core_units*unit_length, -block_start + total_length)\n"
        "core_tile_count = ceil_div(core_length, tile_length)\n"
        "core_tail       = core_length - tile_length*(core_tile_count - 1)"
    )


def test_alignment_may_stay_symbolic_too() -> None:
    symbolic = symbolic_tiling("ceil")
    assert symbolic.inputs[-2:] == ("line_length", "datablock_length")
    assert "unit_length     = datablock_length" in str(symbolic)
    expanded = symbolic.expanded("block_length")
    assert {s.name for s in expanded.free_symbols} == {"total_length", "core_num", "datablock_length"}
    values = {"total_length": 10000, "core_num": 8, "datablock_length": 8}
    assert expanded.subs({s: values[s.name] for s in expanded.free_symbols}) == 1256


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("tile_by", WAYS)
@steady
@given(values=inputs)
def test_generated_function_agrees_with_sympys_substitution(split: str, tile_by: str, values: dict[str, int]) -> None:
    function, names = integer_function(split, ALIGN, tile_by)
    bound = symbolic_tiling(split, ALIGN, tile_by).bind(**{n: values[n] for n in names})
    fast = dict(zip(formula_names(split, tile_by), function(*(values[n] for n in names)), strict=True))
    assert fast == bound
    assert all(type(value) is int for value in fast.values())


@pytest.mark.parametrize("split", SPLITS)
@steady
@given(values=inputs)
def test_a_tile_that_fills_the_ub_never_exceeds_it_and_cuts_alike(split: str, values: dict[str, int]) -> None:
    function, names = integer_function(split, ALIGN, "fill")
    got = dict(zip(formula_names(split, "fill"), function(*(values[n] for n in names)), strict=True))
    assert 0 < got["tile_length"] <= values["max_tile_length"]
    assert got["tile_length"] % 8 == 0
    assert got["tile_count"] <= values["buffer_num"] * -(-got["block_length"] // values["max_tile_length"])


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ScheduleError, match="core_split='odd' is unknown: allowed is 'even' or 'ceil'"):
        symbolic_tiling("odd")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_the_cpp_text_compiles_and_computes_the_same(tmp_path: Path) -> None:
    values = [(1, 1, 1, 1), (1000003, 8, 8, 2), (3_270_680_000, 48, 100, 2), (264 * 8, 64, 1, 1), (9, 8, 1, 1)]
    bodies, calls = [], []
    for split in SPLITS:
        symbolic = symbolic_tiling(split, ALIGN)
        arguments = ", ".join(f"int64_t {name}" for name in symbolic.inputs)
        prints = " ".join(f'std::cout << {name} << " ";' for name in symbolic.formulas)
        bodies.append(f'void {split}({arguments}) {{\n{symbolic.cpp_source()}{prints} std::cout << "\\n";\n}}')
        calls += [f"{split}({', '.join(map(str, v))});" for v in values]
    text = "#include <algorithm>\n#include <cstdint>\n#include <iostream>\n" + "\n".join(bodies)
    (tmp_path / "t.cpp").write_text(text + "\nint main() { " + "\n".join(calls) + " }\n")
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", "-o", "t", "t.cpp"], cwd=tmp_path, check=True)
    lines = subprocess.run(["./t"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.splitlines()
    expected = [
        list(symbolic_tiling(split, ALIGN).bind(**dict(zip(symbolic_tiling(split).inputs, v, strict=False))).values())
        for split in SPLITS
        for v in values
    ]
    assert [[int(number) for number in line.split()] for line in lines] == expected


def test_importing_schedules_and_tilings_does_not_import_sympy() -> None:
    code = "import sys, asc_sched, asc_sched.schedule, asc_sched.tiling; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
