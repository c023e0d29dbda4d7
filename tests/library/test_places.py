"""Odd places: spaces, quotes and other alphabets in paths, LANG=C, caches that can't be used, deep folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from asc_sched.library import build
from tests.library.conftest import tree
from tests.library.programs import command, environment
from tests.library.test_build import SMALL

ODD = "my dir/昇腾 élan'$x;&"
DECLARED = """
name = "odd"
ops = [{ name = "f", expr = "z = x * 2.0" }, { name = "昇 腾'$x;&/..", expr = "z = élan + x" }]
gradients = false
"""


def test_spaces_quotes_and_other_alphabets_in_paths_work_also_with_lang_c(tmp_path: Path) -> None:
    home = tmp_path / ODD
    home.mkdir(parents=True)
    declared = home / "my lib 昇.toml"
    declared.write_text(DECLARED, encoding="utf-8")
    env = {"HOME": str(home), "LANG": "C", "LC_ALL": "C", "ASC_SCHED_CACHE_DIR": str(home / "cache")}
    for kept, made in ((0, "built"), (2, "nothing to do")):
        done = command("build", declared.name, "--out", "out put", cwd=home, **env)
        assert done.returncode == 0, done.stderr
        assert made in done.stdout
        assert kept == 0 or "2 kernels" in done.stdout
    assert list((home / "cache").rglob("*.txt"))
    names = set(tree(home / "out put"))
    assert "odd/kernels/u6607_u817e__x______float32_any_auto_Ascend910B1.py" in names
    assert all(n.isascii() for n in names)
    code = "import torch, odd; print(odd.f(torch.tensor([3.0])).tolist(), [n for n in odd.__all__])"
    path = f"{home / 'out put'}:{environment()['PYTHONPATH']}"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment(**env, PYTHONPATH=path), cwd=home, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "[6.0] ['f', 'u6607_u817e__x_____']", ran.stderr


def test_nothing_is_written_outside_of_the_folder_whatever_names_say(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "out"
    names = ["../up", "/etc/cron.d/x", "..", "a/../../b", "~"]
    ops = [{"name": n, "expr": f"z = x + {i}.0"} for i, n in enumerate(names)]
    build({"name": "names", "ops": ops, "gradients": False}, out)
    assert {p.name for p in tmp_path.iterdir()} == {"a"}
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["out"]
    assert {Path(n).parts[0] for n in tree(out)} == {"README.md", "names", "pyproject.toml", "tests"}


def test_a_deep_folder_and_long_names_work(tmp_path: Path) -> None:
    out = tmp_path / ("d" * 115) / ("e" * 115)
    ops = [{"name": "n" * 300, "expr": "z = x + 1.0"}, {"name": "n" * 299 + "m", "expr": "z = x + 2.0"},
           {"name": "昇" * 100, "expr": "z = x + 3.0"}]  # fmt: skip
    report = build({"name": "m" * 64, "ops": ops, "gradients": False}, out)
    assert report.ok
    assert len(list((out / ("m" * 64) / "kernels").glob("*.py"))) == 3


@pytest.mark.parametrize("what", ["file", "dangling link"])
def test_a_cache_that_cannot_be_used_is_one_warning(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "place"
    if what == "dangling link":
        place.symlink_to(tmp_path / "nowhere" / "at all")
    else:
        place.write_text("mine")
    monkeypatch.setenv("ASC_SCHED_CACHE_DIR", str(place))
    report = build({**SMALL, "ops": SMALL["ops"][:1], "shapes": ["dynamic"], "gradients": False}, tmp_path / "out")
    assert report.ok
    assert report.built == 2
    assert len(caplog.records) == 1
    assert str(place) in caplog.text
    assert what == "dangling link" or place.read_text() == "mine"


def test_a_read_only_filled_cache_still_gives_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {**SMALL, "ops": SMALL["ops"][:1], "shapes": ["dynamic"], "gradients": False}
    monkeypatch.setenv("ASC_SCHED_CACHE_DIR", str(tmp_path / "cache"))
    assert build(spec, tmp_path / "one").built == 2
    mounted = subprocess.run(
        ["mount", "--bind", "-o", "ro", str(tmp_path / "cache"), str(tmp_path / "cache")], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a folder can't be mounted read-only here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(tmp_path / "cache")], check=True, capture_output=True)
        report = build(spec, tmp_path / "two")
    finally:
        subprocess.run(["umount", str(tmp_path / "cache")], check=True)
    assert (report.built, report.cached) == (0, 2)
    assert tree(tmp_path / "two") == tree(tmp_path / "one")


def test_a_folder_that_cannot_be_written_to_is_an_error_with_its_path(tmp_path: Path) -> None:
    done = command("build", _declared(tmp_path), "--out", "/proc/asc_sched", "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)
    assert told["error"] == "StorageError"
    assert "/proc/asc_sched" in told["message"]


def _declared(folder: Path) -> str:
    path = folder / "f.toml"
    path.write_text('name = "f"\nops = ["add"]\n')
    return str(path)


def test_no_port_is_opened_by_a_local_build(tmp_path: Path) -> None:
    """A socket would show up in /proc/net while workers run: look from inside of a build."""
    code = """
import os, sys
from asc_sched.library import Watcher, build

def listening():
    found = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in open(f"/proc/net/{kind}").readlines()[1:]:
            fields = line.split()
            if fields[3] in ("0A", "07"):
                found.add(fields[9])
    return found

def sockets(pid):
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return {l[8:-1] for l in links if l.startswith("socket:[")}

class Looker(Watcher):
    def finished(self, symbol):
        children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        for pid in [str(os.getpid()), *children]:
            print("open", len(sockets(pid) & listening()))

build({"name": "f", "ops": [{"expr": "z = x + 1", "name": "f"}], "gradients": False}, sys.argv[1], cache=None,
      watcher=Looker())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {"open 0"}
