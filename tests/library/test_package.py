"""What is built: a package that installs, imports, says what it is, and doesn't need asc_sched to be read."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asc_sched.library import Library, build
from asc_sched.library.manifest import schema_text
from asc_sched.library.schema import problems, validate
from tests.library.conftest import tree
from tests.library.programs import environment


@pytest.fixture(scope="module")
def manifest(tiny_folder: Path) -> Any:
    return json.loads((tiny_folder / "tinylib" / "manifest.json").read_text(encoding="utf-8"))


def test_the_manifest_fits_the_schema_that_is_shipped_with_it(manifest: Any, tiny_folder: Path) -> None:
    shipped = (tiny_folder / "tinylib" / "manifest.schema.json").read_text(encoding="utf-8")
    assert shipped == schema_text()
    assert list(problems(manifest, json.loads(shipped), "manifest")) == []


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("format",), "asc_sched library 9", "manifest.format is \"asc_sched library 9\", not"),
        (("kernels", 0, "ub_bytes"), -1, ".ub_bytes is -1, below 0"),
        (("kernels", 0, "ub_bytes"), True, ".ub_bytes is true, not of the type integer"),
        (("kernels", 0, "files", "pyasc", "path"), "../../evil.py", "which doesn't match"),
        (("kernels", 0, "files", "pyasc", "path"), "kernels/x.py\n", "which doesn't match"),
        (("kernels", 0, "inputs"), [], ".inputs has 0 items"),
        (("kernels", 0, "inputs"), ["float8"], ".inputs[0] is \"float8\", none of float32, float16"),
        (("kernels", 0, "colour"), "red", "has an unknown field 'colour'"),
        (("operators", 0, "variants", 0, "gradient"), {}, "fits none of the 2 forms"),
    ],
)  # fmt: skip
def test_the_schema_refuses_what_no_manifest_has(manifest: Any, path: tuple[Any, ...], value: Any, told: str) -> None:
    changed = json.loads(json.dumps(manifest))
    place = changed
    for step in path[:-1]:
        place = list(place.values())[step] if isinstance(place, dict) and isinstance(step, int) else place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=re.escape(told)):
        validate(changed, json.loads(schema_text()), "manifest")
    del changed["name"]
    assert any("manifest has no 'name'" in p for p in problems(changed, json.loads(schema_text()), "manifest"))


def test_each_kernel_says_what_it_is_made_of(manifest: Any, tiny_folder: Path) -> None:
    kernel = manifest["kernels"]["product_float32_any_auto_Ascend910B1"]
    assert kernel["inputs"] == ["float32", "float32"]
    assert kernel["schedule"]["chosen"] == "auto"
    assert 0 < kernel["ub_bytes"] <= kernel["ub_capacity"] == 196608
    assert kernel["modelled"]["task_us"] > 1
    assert [a["name"] for a in kernel["arguments"]] == ["x", "y", "z", "total_length"]
    formulas = manifest["tilings"][kernel["tiling"]["formulas"]]["formulas"]
    assert formulas["units"] == "ceil_div(total_length, unit_length)"
    package = tiny_folder / "tinylib"
    source = (package / kernel["files"]["pyasc"]["path"]).read_text()
    assert "z = x * y" in source
    assert "@asc.jit" in source
    assert "__global__" in (package / kernel["files"]["ascendc"]["path"]).read_text()
    assert "module" in (package / kernel["files"]["asc_ir"]["path"]).read_text()


def test_nothing_in_it_tells_of_this_machine(tiny_folder: Path) -> None:
    import getpass
    import socket

    for name, data in tree(tiny_folder).items():
        text = data.decode("utf-8")
        for word in (str(tiny_folder), "/tmp/", socket.gethostname() + ".", f"/home/{getpass.getuser()}"):
            assert word not in text, name


def test_python_files_parse_and_import_nothing_but_torch_and_what_runs_kernels(tiny_folder: Path) -> None:
    allowed = {"torch", "numpy", "asc", "asc_sched", "torch_npu", "tinylib", "pytest"} | sys.stdlib_module_names
    for path in (tiny_folder / "tinylib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(str(node.module))
            assert {n.partition(".")[0] for n in names} <= allowed, path


def test_it_can_be_read_without_asc_sched_and_pyasc(tiny_folder: Path) -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("asc_sched", "asc"):
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Refuse())
import torch, tinylib
print(tinylib.square(torch.empty(3, device="meta")).shape)
print(torch.ops.tinylib.square.default._schema)
try:
    tinylib.square(torch.ones(3))
except RuntimeError as error:
    print(error)
"""
    done = run_python(code, tiny_folder)
    assert done.returncode == 0, done.stderr
    shape, schema, told = done.stdout.splitlines()
    assert shape == "torch.Size([3])"
    assert schema == "tinylib::square(Tensor x) -> Tensor"
    assert told.startswith("CPU tensors run on asc_sched's simulator, which can't be imported")


def run_python(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    path = ":".join(map(str, (*folders, environment()["PYTHONPATH"])))
    return subprocess.run(
        [sys.executable, "-c", code], env=environment(PYTHONPATH=path), capture_output=True, text=True, timeout=120
    )


def test_it_installs_with_pip_and_works_from_there(tiny_folder: Path, tmp_path: Path) -> None:
    import shutil

    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(tiny_folder, source)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet",
         "--disable-pip-version-check", "--target", str(site), str(source)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    installed = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    built = {n for n in tree(tiny_folder) if n.startswith("tinylib/")}
    assert built <= installed
    code = "import torch, tinylib; print(tinylib.__file__, torch.ops.tinylib.square(torch.tensor([3.0])).tolist())"
    ran = run_python(code, site)
    assert ran.stdout.split() == [str(site / "tinylib" / "__init__.py"), "[9.0]"], ran.stderr


@pytest.mark.parametrize("name", ["kernels/square_float32_any_auto_Ascend910B1.mlir", "manifest.json"])
def test_a_file_that_is_not_what_was_built_is_not_loaded(name: str, tiny_folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tiny_folder, tmp_path / "copy")
    path = tmp_path / "copy" / "tinylib" / name
    path.write_bytes(path.read_bytes().replace(b"mul", b"add"))
    done = run_python("import torch, tinylib; tinylib.square(torch.ones(3))", tmp_path / "copy")
    assert "doesn't have the digest that " in done.stderr.splitlines()[-1]
    assert "build it again" in done.stderr.splitlines()[-1]


def test_stubs_type_the_operators(tiny_folder: Path) -> None:
    stub = (tiny_folder / "tinylib" / "__init__.pyi").read_text()
    functions = {n.name: ast.unparse(n) for n in ast.parse(stub).body if isinstance(n, ast.FunctionDef)}
    assert set(functions) == {"choose", "copied", "halved", "mixed", "pair", "positive", "product", "scaled", "square"}
    assert "def scaled(x: Tensor, *, a: builtins.float=..., b: builtins.float=...) -> Tensor" in functions["scaled"]
    assert "-> builtins.tuple[Tensor, Tensor]" in functions["pair"]


def test_the_readme_lists_the_operators(tiny_folder: Path) -> None:
    text = (tiny_folder / "README.md").read_text()
    schema = "scaled(Tensor x, *, float a=1.0, float b=0.5) -> Tensor"
    assert f"| `{schema}` | `z = a * x + b` | float32; float16 | yes |" in text
    assert "_vjp(" not in text


def test_texts_of_a_users_cannot_break_out_of_the_files_they_stand_in(tmp_path: Path) -> None:
    nasty = 'a """ + __import__("os").system("touch marker") + """ \\ {{ 7 * 7 }} {% raw %} | ` \n\x00\x7f 昇腾'
    library = Library(
        "nasty", description=nasty, gradients=False,
        ops=[{"name": 'f"""); import os #', "expr": "z = x", "doc": nasty}],
    )  # fmt: skip
    build(library, tmp_path)
    compile((tmp_path / "nasty/__init__.py").read_text(encoding="utf-8"), "__init__.py", "exec")
    tree_ = ast.parse((tmp_path / "nasty/__init__.py").read_text(encoding="utf-8"))
    called = {ast.unparse(n.func) for n in ast.walk(tree_) if isinstance(n, ast.Call)}
    assert called == {"_runtime.open_library", "_library.operator"}
    ast.parse((tmp_path / "nasty/__init__.pyi").read_text(encoding="utf-8"))
    if sys.version_info >= (3, 11):
        import tomllib

        project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert "{{ 7 * 7 }}" in project["description"]
        assert "\n" not in project["description"]
    assert "49" not in (tmp_path / "README.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_its_own_tests_pass(tiny_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"], cwd=tiny_folder,
        env=environment(PYTHONPATH=f"{tiny_folder}:{environment()['PYTHONPATH']}"), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
