"""Exported scripts: they need pyasc and torch only, and run where pyasc runs."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from asc_sched import Schedule, op, ops
from asc_sched.cli.export import command
from asc_sched.errors import AscSchedError, ShapeError, StorageError
from asc_sched.export import export_script
from asc_sched.kernel import generate
from asc_sched.run.check import random_inputs
from tests.npu.conftest import standin  # noqa: F401  (a fixture)
from tests.npu.standin import Done, StandIn

ADD = op("z = x + y", name="add")

# Runs scripts as `python script.py -r Model -v Ascend910B1` does, one after the other.
RUNNER = """
import runpy, sys
for script in sys.argv[1:]:
    sys.argv = [script, "-r", "Model", "-v", "Ascend910B1"]
    try:
        runpy.run_path(script, run_name="__main__")
    except AssertionError as error:
        print(script, "failed:", str(error).splitlines()[0])
"""


@pytest.fixture(scope="module")
def ran(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Done:  # noqa: F811
    """Scripts of all kinds of arguments, and one whose kernel is wrong."""
    folder = tmp_path_factory.mktemp("scripts")
    add = export_script(generate(ADD, (8, 2048), "float32"))
    broadcast = generate(
        op("z = relu(x) * alpha + y", scalars={"alpha": None}, name="scaled"), [(100, 1), (1, 33)],
        ["bfloat16", "float16"],
    )  # fmt: skip
    pair = generate(
        op("s = maximum(x, y)\nd = x - y", name="pair"), (1003,), "int32", schedule=Schedule(core_num=5, tile_num=3)
    )
    wrong = add.replace("asc.add(z_local, x_local, y_local", "asc.sub(z_local, x_local, y_local")
    assert wrong != add
    texts = {"add": add, "scaled": export_script(broadcast), "pair": export_script(pair), "wrong": wrong}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    done = standin.python(*(str(folder / f"{name}.py") for name in texts), code=RUNNER)
    assert done.returncode == 0, done.err
    return done


@pytest.mark.parametrize("name", ["add", "scaled", "pair"])
def test_exported_scripts_run_on_unmodified_pyasc(ran: Done, name: str) -> None:
    assert ran.err.count(f"[INFO] Sample {name}_custom run success.") == 1
    assert ran.calls("rtKernelLaunch")[["add", "scaled", "pair"].index(name)]["name"].startswith(name)


def test_a_wrong_kernel_fails_the_scripts_own_check(ran: Done) -> None:
    assert len(ran.out.splitlines()) == 1
    assert "wrong.py failed: Tensor-likes are not close!" in ran.out


def test_only_pyasc_and_torch_are_imported() -> None:
    tree = ast.parse(export_script(generate(ADD, (8, 2048), "float32")))
    modules = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert modules == {"argparse", "logging", "asc", "torch", "torch_npu"}
    assert not any(isinstance(n, ast.ImportFrom) for n in ast.walk(tree))


@pytest.mark.parametrize(
    ("text", "scalars"),
    [
        ("z = exp(x) / (1 + abs(y)) - 0.5", {}),
        ("z = maximum(x, 0.25) * minimum(y, alpha)", {"alpha": 0.5}),
        ("t = x * y\nz = t - relu(t)\nw = -t", {}),
        ("z = float16(x) + y", {}),
        ("z = minimum(maximum(x, -limit), limit) * (1 - limit) + y", {"limit": 0.7}),
        ("z = where(x > limit, y, x)", {"limit": 0.1}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_torch_text_is_the_ops_definition(text: str, scalars: dict[str, float], dtype: str) -> None:
    declared = op(text, scalars=scalars, name="it")
    kernel = generate(declared, (50,), dtype)
    tree = ast.parse(export_script(kernel))
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "it_torch")
    scope: dict[str, object] = {"torch": torch}
    exec(compile(ast.Module([function], []), "it", "exec"), scope)
    x, y = (torch.randn(50).to(getattr(torch, dtype)) for _ in range(2))
    seen = scope["it_torch"](x, y, *scalars.values())  # type: ignore[operator]
    for a, b in zip(seen, declared.reference(x, y, **scalars), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "bool"])
def test_every_ops_torch_text_is_its_definition(dtype: str) -> None:
    compared = 0
    for name, declared in ops.catalogue().items():
        try:
            kernel = generate(declared, (37,), dtype)
        except AscSchedError:
            continue
        functions = [n for n in ast.parse(export_script(kernel)).body if isinstance(n, ast.FunctionDef)]
        function = next(f for f in functions if f.name.endswith("_torch"))
        scope: dict[str, object] = {"torch": torch}
        exec(compile(ast.Module([function], []), name, "exec"), scope)
        inputs = random_inputs(kernel)
        scalars = {
            s.name: s.default if s.default is not None else (1.5 if s.dtype.is_float else 2) for s in declared.scalars
        }
        seen = scope[function.name](*inputs, *scalars.values())  # type: ignore[operator]
        for a, b in zip(seen, declared.reference(*inputs, **scalars), strict=True):
            assert a.dtype == b.dtype, name
            torch.testing.assert_close(a.expand(b.shape), b, rtol=0, atol=0, equal_nan=True, msg=name)
        compared += 1
    assert compared > 50


def test_the_text_is_the_same_each_time() -> None:
    assert export_script(generate(ADD, (100,), "float16")) == export_script(generate(ADD, (100,), "float16"))


def test_a_size_is_needed() -> None:
    with pytest.raises(ShapeError, match="takes any size; a script is written for one"):
        export_script(generate(ADD, None, "float32"))
    result = CliRunner().invoke(command, ["z = x + y", "--out", "x.py"])
    assert result.exit_code == 2
    assert "give --shape" in result.output


def test_files_are_not_written_over_unless_asked(tmp_path: Path) -> None:
    out = tmp_path / "add.py"
    out.write_text("mine")
    args = ["z = x + y", "--shape", "64", "--out", str(out)]
    result = CliRunner().invoke(command, args)
    assert isinstance(result.exception, StorageError)
    assert "--force" in str(result.exception)
    assert out.read_text() == "mine"
    assert CliRunner().invoke(command, [*args, "--force"]).exit_code == 0
    assert out.read_text().startswith('"""add on Ascend NPUs')


def test_a_project_is_written_whole(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["z = x + y", "--format", "cann-op", "--out", str(tmp_path / "op")])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "op" / "CMakePresets.json").read_text())["version"] == 1
    assert (tmp_path / "op" / "op_kernel" / "add_custom.cpp").is_file()
    shaped = CliRunner().invoke(command, ["z = x + y", "--shape", "8", "--format", "cann-op", "--out", "p"])
    assert shaped.exit_code == 2
    assert "leave --shape out" in shaped.output
