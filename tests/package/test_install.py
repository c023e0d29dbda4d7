"""The package as others get it: from a wheel in a fresh environment, and in editable form."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import attrs
import pytest

import asc_sched

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("asc_sched", "ops", "schedules", "pyproject.toml", "setup.py", "README.md", "LICENSE")


def run(command: list[str | Path], cwd: Path) -> str:
    """Standard output of a command that has to succeed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@attrs.frozen
class Installed:
    """A virtual environment with the package and, from this environment, what it depends on."""

    folder: Path
    elsewhere: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def python(self, code: str) -> str:
        return run([self.bin / "python", "-c", code], self.elsewhere)


def environment(folder: Path, elsewhere: Path) -> Installed:
    elsewhere.mkdir()
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python3*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return Installed(folder, elsewhere)


def pip_install(installed: Installed, *what: str | Path) -> None:
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", installed.bin / "python", "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed", *what], installed.elsewhere)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: building leaves files behind."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    run([*pip, "--no-build-isolation", "-w", target, source], target)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp(request.param)
    made = environment(base / "environment with spaces", base / "elsewhere")
    if request.param == "wheel":
        pip_install(made, request.getfixturevalue("wheel"))
    else:
        pip_install(made, "--editable", source)
    return made


def test_the_wheel_has_every_file_of_the_tree_and_nothing_beside_the_package(wheel: Path, source: Path) -> None:
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    folders = {"asc_sched": "asc_sched", "ops": "asc_sched/ops", "schedules": "asc_sched/schedules"}
    expected = {
        f"{inside}/{path.relative_to(source / folder).as_posix()}"
        for folder, inside in folders.items()
        for path in (source / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected
    assert {"asc_sched/py.typed", "asc_sched/emit/templates/kernel.py.j2", "asc_sched/ops/arithmetic.py"} <= names


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    assert wheel.name == f"asc_sched-{asc_sched.__version__}-py3-none-any.whl"
    archive = zipfile.ZipFile(wheel)
    info = f"asc_sched-{asc_sched.__version__}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: <3.13,>=3.10" in metadata
    assert "Requires-Dist: pyasc==1.1.1" in metadata and "Requires-Dist: numpy<2,>=1.23" in metadata
    assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert archive.read(f"{info}/top_level.txt").decode().split() == ["asc_sched"]
    assert "asc-sched = asc_sched.cli:main" in archive.read(f"{info}/entry_points.txt").decode()


def test_ops_and_schedules_are_inside_the_package_and_nowhere_else(installed: Installed) -> None:
    listed = installed.python(
        "import asc_sched.ops, asc_sched.schedules, importlib.util as u\n"
        "print(asc_sched.ops.add.name, len(asc_sched.ops.catalogue()) > 10)\n"
        "print([u.find_spec(n) and u.find_spec(n).origin for n in ('ops', 'schedules', 'tests')])"
    )
    assert listed.splitlines() == ["add True", "[None, None, None]"]


def test_a_kernel_goes_the_whole_road(installed: Installed) -> None:
    command: list[str | Path] = [installed.bin / "asc-sched", "run", "add", "--shape", "1000", "--json"]
    assert '"ok": true' in run(command, installed.elsewhere)
    made = installed.python("import asc_sched; print(asc_sched.__version__, asc_sched.__file__)")
    assert made.startswith(asc_sched.__version__) and str(ROOT / "asc_sched") not in made


def test_it_runs_as_a_module_too(installed: Installed) -> None:
    run([installed.bin / "python", "-m", "asc_sched", "ops"], installed.elsewhere)
