"""What comes out of lowering, and what is said when pyasc refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asc_sched.build import ArgType, LowerRequest, lower, lower_file, pyasc_version
from asc_sched.errors import CompileError, DtypeError
from tests.build import kernels
from tests.build.kernels import F32, I32, exp_request, tiny
from tests.build.processes import python


def refused(request: LowerRequest) -> str:
    with pytest.raises(CompileError) as caught:
        lower(request, cache=None)
    return str(caught.value)


def test_text_comes_back_after_passes_with_locations_in_the_pseudo_file() -> None:
    result = lower(exp_request(), cache=None)
    assert "ascendc.exp_l2" in result.asc_ir and "func.func @exp_kernel" in result.asc_ir
    assert "func.call" not in result.asc_ir  # the helper is inlined: passes have run
    assert 'extern "C"  __global__ __aicore__ void exp_kernel(' in result.ascendc
    assert result.ascendc.count("AscendC::Exp(") == 1
    line = 1 + kernels.EXP.splitlines().index("        asc.exp(b, a, TILE)")
    assert f'loc("exp_kernel.py":{line}:' in result.asc_ir
    helper = 1 + kernels.EXP.splitlines().index("    asc.data_copy(tile, gm[offset:], tile_length)")
    assert f'loc("exp_kernel.py":{helper}:' in result.asc_ir


def test_text_is_what_pyasc_itself_gives_for_a_file_on_disk(tmp_path: Path) -> None:
    (tmp_path / "exp_kernel.py").write_text(kernels.EXP)
    code = """
import sys, exp_kernel
from asc._C import translation
from asc.codegen.function_visitor import CodegenOptions
from asc.codegen.specialization import PlainArgType, PointerArgType, Specialization
from asc.language.core.dtype import DataType
from asc.runtime.compiler import Compiler, CompileOptions
f32 = PointerArgType(DataType("float32"))
types = {"x": f32, "z": f32, "tile_num": PlainArgType(DataType("int32"))}
module = exp_kernel.exp_kernel._run_codegen(Specialization(types), CodegenOptions())
compiler = Compiler.__new__(Compiler)
compiler.options = CompileOptions()
compiler.run_passes(module)
sys.stdout.write(str(module) + "\\0" + translation.ir_to_ascendc(module))
"""
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    asc_ir, ascendc = done.stdout.split("\0")
    ours = lower(exp_request(), cache=None)
    assert ours.ascendc == ascendc
    assert ours.asc_ir == asc_ir.replace(str(tmp_path) + "/", "")


@pytest.mark.parametrize("seed", ["1", "2", "random"])
def test_text_does_not_depend_on_the_hash_seed_of_the_caller(seed: str, tmp_path: Path) -> None:
    code = (
        "from tests.build import kernels as k; from asc_sched.build import *\n"
        "r = lower(LowerRequest(source=k.CARRIED, entry='carried',"
        " arg_types=(ArgType('pointer', 'int32'), k.I32)), cache=None)\n"
        "import sys; sys.stdout.write(r.asc_ir + r.ascendc)"
    )
    done = python(code, cwd=tmp_path, env={"PYTHONHASHSEED": seed})
    types = (ArgType("pointer", "int32"), I32)
    here = lower(LowerRequest(source=kernels.CARRIED, entry="carried", arg_types=types), cache=None)
    assert done.stdout == here.asc_ir + here.ascendc


def test_text_does_not_depend_on_what_was_lowered_before() -> None:
    first = lower(exp_request(), cache=None)
    for index in range(70):  # more than share one MLIR context
        lower(kernels.nth(index), cache=None)
        if index % 20 == 0:
            refused(tiny("bad", "nonsense(x)"))
    assert lower(exp_request(), cache=None) == first


def test_constexpr_values_are_baked_in_by_name_and_type() -> None:
    body = "g = asc.GlobalTensor()\ng.set_global_buffer(x)\ng.set_value(0, value)"
    request = tiny("fill", body, "x, value: asc.ConstExpr[float]", (F32,))
    half = LowerRequest(**{**_fields(request), "constexprs": {"value": 0.5}})
    assert "SetValue(v3, c0_5_f32)" in lower(half, cache=None).ascendc
    assert "'value' is an asc.ConstExpr and needs a value" in refused(tiny("fill", body, "x, value: asc.ConstExpr"))
    assert "is required for 'value' argument, int was provided: 1" in refused(
        LowerRequest(**{**_fields(request), "constexprs": {"value": 1}})
    )
    assert "'n' is not an asc.ConstExpr" in refused(
        LowerRequest(**{**_fields(tiny("k", "pass", types=(F32,))), "constexprs": {"n": 1}})
    )
    assert "constexpr 'm' is no parameter of 'k'; it has x, n" in refused(
        LowerRequest(**{**_fields(tiny("k", "pass")), "constexprs": {"m": 1}})
    )


def _fields(request: LowerRequest) -> dict[str, object]:
    return {name: getattr(request, name) for name in ("source", "entry", "arg_types", "constexprs", "options")}


def test_options_of_the_decorator_count_and_the_requests_win() -> None:
    body = "asc.printf('hi')"
    plain = tiny("k", body)
    stripped = LowerRequest(**{**_fields(plain), "options": {"strip_loc": True}})
    in_source = LowerRequest(
        **{**_fields(plain), "source": plain.source.replace("@asc.jit", "@asc.jit(strip_loc=True)")}
    )
    undone = LowerRequest(**{**_fields(in_source), "options": {"strip_loc": False}})
    with_lines, without = 'loc("k.py":', "loc(unknown)"
    assert with_lines in lower(plain, cache=None).asc_ir
    assert with_lines not in lower(stripped, cache=None).asc_ir and without in lower(stripped, cache=None).asc_ir
    assert with_lines not in lower(in_source, cache=None).asc_ir
    assert with_lines in lower(undone, cache=None).asc_ir
    with pytest.raises(CompileError, match="unknown option 'opt_level' for kernel 'k'; known: insert_sync"):
        LowerRequest(**{**_fields(plain), "options": {"opt_level": True}})


# -- refusals --------------------------------------------------------------------------------------------------
def test_unknown_name_is_told_with_its_line() -> None:
    message = refused(tiny("k", "g = asc.GlobalTensor()\ng.set_global_buffer(y)"))
    assert message == "pyasc refused kernel 'k' at k.py:7: NameError: y is not defined\n    g.set_global_buffer(y)"


def test_error_below_a_decorator_of_several_lines_is_on_the_right_line() -> None:
    source = "import asc\n\n\n@asc.jit(\n    strip_loc=False,\n)\ndef k(x, n):\n    a = n\n    b = a + zz\n"
    message = refused(LowerRequest(source=source, entry="k", arg_types=(F32, I32)))
    assert "at k.py:9: NameError: zz is not defined\n    b = a + zz" in message


def test_error_in_a_helper_is_told_with_the_helpers_line() -> None:
    message = refused(exp_request(source=kernels.EXP.replace("gm[offset:]", "gm[offsets:]")))
    line = 1 + kernels.EXP.splitlines().index("    asc.data_copy(tile, gm[offset:], tile_length)")
    assert f"at exp_kernel.py:{line}: NameError: offsets is not defined" in message
    assert "asc.data_copy(tile, gm[offsets:], tile_length)" in message


def test_unsupported_syntax_is_told_with_its_line() -> None:
    message = refused(tiny("k", "try:\n    a = n\nfinally:\n    b = n"))
    assert "at k.py:6: Try syntax is not supported" in message and "    try:" in message


def test_failure_inside_the_passes_carries_what_mlir_said() -> None:
    body = "g = asc.GlobalTensor()\ng.set_global_buffer(x)\na = n + n\nasc.data_copy(g[a:], g, 8)"
    message = refused(tiny("k", body, types=(F32, ArgType("scalar", "uint32"))))
    assert "at k.py:8: RuntimeError: Failed to run passes: 'arith.addi' op operand #0 must be signless" in message
    assert message.endswith("    a = n + n")


def test_syntax_error_in_the_source_is_told_with_its_line() -> None:
    message = refused(LowerRequest(source="import asc\ndef k(:\n    pass\n", entry="k", arg_types=()))
    assert message.startswith("pyasc refused kernel 'k' at k.py:2: SyntaxError: ") and "def k(:" in message


def test_exception_while_the_module_runs_is_told_with_its_line() -> None:
    message = refused(LowerRequest(source="import asc\nx = 1 // 0\n", entry="k", arg_types=()))
    assert "at k.py:2: ZeroDivisionError" in message and "x = 1 // 0" in message
    assert "SystemExit: 3" in refused(LowerRequest(source="raise SystemExit(3)\n", entry="k", arg_types=()))


def test_wrong_number_of_argument_types_names_the_parameters() -> None:
    assert "3 run-time arguments (x, z, tile_num), but 1 types are given" in refused(exp_request(arg_types=(F32,)))


def test_missing_or_undecorated_entry_is_told() -> None:
    assert "the source has no @asc.jit function 'other'; it has load, exp_kernel" in refused(exp_request(entry="other"))
    bare = LowerRequest(source="def k(x):\n    pass\n", entry="k", arg_types=(F32,))
    assert "k.py:1: function 'k' is not decorated with @asc.jit" in refused(bare)


def test_types_and_names_that_pyasc_lacks_are_refused_when_declared() -> None:
    with pytest.raises(DtypeError, match=r"no argument type 'bfloat16'; pass bfloat16 data as uint16; it has float16"):
        ArgType("pointer", "bfloat16")
    with pytest.raises(CompileError, match=r"'double' is a reserved word of C\+\+ .* use for example 'double_kernel'"):
        exp_request(entry="double")
    with pytest.raises(CompileError, match="'a-b' is not a Python identifier"):
        exp_request(entry="a-b")
    with pytest.raises(CompileError, match="must be a plain printable name"):
        exp_request(filename="/tmp/k.py")


# -- keys ------------------------------------------------------------------------------------------------------
def test_key_covers_everything_that_changes_the_text() -> None:
    base = exp_request()
    keys = {base.key("1.1.1"), base.key("1.1.2")}
    for changes in (
        {"source": kernels.EXP + "\n"},
        {"entry": "load"},
        {"arg_types": (F32, kernels.F16, I32)},
        {"arg_types": (F32, ArgType("scalar", "float32"), I32)},
        {"constexprs": {"n": 1}},
        {"constexprs": {"n": 1.0}},
        {"constexprs": {"n": True}},
        {"constexprs": {"n": "1"}},
        {"target": "Ascend910B3"},
        {"filename": "other.py"},
        {"options": {"insert_sync": True}},
        {"options": {"insert_sync": False}},
    ):
        keys.add(exp_request(**changes).key("1.1.1"))
    assert len(keys) == 14
    assert exp_request(filename="exp_kernel.py").key("1.1.1") == base.key("1.1.1")
    assert pyasc_version() == "1.1.1"


# -- kernels on disk -------------------------------------------------------------------------------------------
def test_kernel_in_a_users_file_is_lowered_without_importing_it_here(tmp_path: Path) -> None:
    (tmp_path / "consts.py").write_text("TILE = 256\n")
    text = kernels.EXP.replace("TILE = 256\n", "from consts import TILE\nprint('imported')\n")
    path = tmp_path / "my kernels é.py"
    path.write_text(text)
    result = lower_file(path, "exp_kernel", (F32, F32, I32))
    assert result.ascendc == lower(exp_request(), cache=None).ascendc
    assert 'loc("my kernels' in result.asc_ir and str(tmp_path) not in result.asc_ir
    assert result.diagnostics == "imported\n"
    assert "consts" not in sys.modules


def test_edit_of_a_users_file_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "asc.py"  # even under the name of pyasc's own package
    path.write_text(kernels.EXP)
    assert "c256_i32" in lower_file(path, "exp_kernel", (F32, F32, I32)).ascendc
    path.write_text(kernels.EXP.replace("TILE = 256", "TILE = 512"))
    assert "c512_i32" in lower_file(path, "exp_kernel", (F32, F32, I32)).ascendc


def test_file_of_a_package_may_import_its_siblings(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "kernels"
    package.mkdir(parents=True)
    for name in (package / "__init__.py", package.parent / "__init__.py"):
        name.write_text("")
    (package / "consts.py").write_text("TILE = 128\n")
    (package / "exp.py").write_text(kernels.EXP.replace("TILE = 256\n", "from .consts import TILE\n"))
    assert "c128_i32" in lower_file(package / "exp.py", "exp_kernel", (F32, F32, I32)).ascendc


def test_error_in_a_helper_of_another_file_is_told_with_that_files_line(tmp_path: Path) -> None:
    split = kernels.EXP.index("@asc.jit\ndef exp_kernel")
    (tmp_path / "helpers.py").write_text("\n" + kernels.EXP[:split].replace("gm[offset:]", "gm[offsets:]"))
    path = tmp_path / "k.py"
    path.write_text("import asc\nfrom helpers import TILE, load\n\n\n" + kernels.EXP[split:])
    with pytest.raises(CompileError) as caught:
        lower_file(path, "exp_kernel", (F32, F32, I32))
    line = 2 + kernels.EXP.splitlines().index("    asc.data_copy(tile, gm[offset:], tile_length)")
    assert f"at helpers.py:{line}: NameError: offsets is not defined" in str(caught.value)
    assert str(caught.value).endswith("    asc.data_copy(tile, gm[offsets:], tile_length)")


def test_trouble_with_a_users_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    with pytest.raises(CompileError, match=r"there is no file .*k\.py to take kernel 'f' from"):
        lower_file(path, "f", ())
    path.write_text("import asc\nimport no_such_module_here\n")
    with pytest.raises(CompileError, match=r"at k\.py:2: importing k\.py failed with ModuleNotFoundError") as caught:
        lower_file(path, "f", ())
    assert str(caught.value).endswith("    import no_such_module_here")
    path.write_text("import asc\nimport math\n\n\n@asc.jit\ndef f(x):\n    a = math.sqrt(2.0)\n")
    with pytest.raises(CompileError, match="Unsupported function referenced"):
        lower_file(path, "f", (F32,))
    with pytest.raises(CompileError, match=r"k\.py: function 'g' is not there"):
        lower_file(path, "g", (F32,))
