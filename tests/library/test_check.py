"""`asc-sched check`: it finds what isn't what was built, and what isn't torch's."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from asc_sched.cli.check import command as check_command
from asc_sched.errors import LibraryError
from asc_sched.library import build, check, checker
from asc_sched.library.executors import VERIFY
from asc_sched.library.verify import verify
from tests.library.programs import command

SPEC: dict[str, Any] = {
    "name": "checked",
    "ops": [{"name": "plus", "expr": "z = x + y"}, {"name": "scaled", "expr": "z = a * x", "scalars": ["a"]}],
    "dtypes": ["float32", "bfloat16"],
    "shapes": ["dynamic", "13x7"],
    "gradients": False,
}
PLUS = "plus_float32_any_auto_Ascend910B1"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a worker that imports torch takes seconds; most tests are about what `verify` finds."""
    def run(function: str, name: str, job: str) -> Any:
        assert function == VERIFY
        return verify({"job": job})

    monkeypatch.setattr(checker, "run_job", run)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    assert build(SPEC, folder).ok
    return folder


@pytest.fixture
def copy(checked: Path, tmp_path: Path) -> Path:
    shutil.copytree(checked, tmp_path / "copy")
    return tmp_path / "copy"


def edit_manifest(folder: Path, change: Callable[[Any], None]) -> None:
    """Change the manifest as somebody would who knows how it is guarded."""
    path = folder / "checked" / "manifest.json"
    old = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_text(json.dumps(manifest))
    init = folder / "checked" / "__init__.py"
    init.write_text(init.read_text().replace(old, hashlib.sha256(path.read_bytes()).hexdigest()))


def test_what_was_built_is_right(checked: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = check(checked, jobs=1, progress=lambda done, total, problem: seen.append((done, total)))
    assert report.ok, report.problems
    assert (report.name, report.kernels) == ("checked", 8)
    assert report.elements > 8 * 31
    assert seen[-1] == (8, 8)


def test_changed_and_missing_files_are_named_and_not_run(copy: Path) -> None:
    kernels = copy / "checked" / "kernels"
    path = kernels / f"{PLUS}.mlir"
    path.write_bytes(path.read_bytes() + b"\n")
    (kernels / "scaled_float32_any_auto_Ascend910B1.cpp").unlink()
    report = check(copy, jobs=1)
    assert [(p.symbol, p.message.partition(":")[0]) for p in report.problems] == [
        (PLUS, f"kernels/{PLUS}.mlir doesn't have the digest that the manifest names"),
        ("scaled_float32_any_auto_Ascend910B1", f"can't read {kernels}/scaled_float32_any_auto_Ascend910B1.cpp"),
    ]


def test_a_kernel_that_computes_something_else_is_found(copy: Path) -> None:
    path = copy / "checked" / "kernels" / f"{PLUS}.mlir"
    wrong = path.read_text().replace("ascendc.add_l2", "ascendc.sub_l2")
    assert wrong != path.read_text()
    path.write_text(wrong)

    def accept(manifest: Any) -> None:
        entry = manifest["kernels"][PLUS]["files"]["asc_ir"]
        entry["sha256"] = hashlib.sha256(wrong.encode()).hexdigest()

    edit_manifest(copy, accept)
    report = check(copy, jobs=1)
    assert [p.symbol for p in report.problems] == [PLUS]
    assert re.match(r"\d+ of the elements \[0:1\] of 1 of z are not torch's", report.problems[0].message)


def test_a_kernel_that_hardware_would_refuse_is_found(copy: Path) -> None:
    def shorter(manifest: Any) -> None:
        manifest["kernels"][PLUS]["tiling"]["core_num"] = 8

    edit_manifest(copy, shorter)
    assert check(copy, jobs=1).ok  # fewer cores are no fault
    path = copy / "checked" / "kernels" / f"{PLUS}.mlir"
    text = path.read_text()
    broken = text.replace("ascendc.que_bind.enque_tensor", "ascendc.que_bind.free_tensor", 1)
    path.write_text(broken)

    def accept(manifest: Any) -> None:
        manifest["kernels"][PLUS]["files"]["asc_ir"]["sha256"] = hashlib.sha256(broken.encode()).hexdigest()

    edit_manifest(copy, accept)
    (problem,) = check(copy, jobs=1).problems
    assert problem.symbol == PLUS


def test_a_manifest_that_is_not_the_packages_is_told(copy: Path) -> None:
    path = copy / "checked" / "manifest.json"
    path.write_text(path.read_text().replace('"description": ""', '"description": "!"'))
    report = check(copy, jobs=1)
    assert [(p.symbol, p.message) for p in report.problems] == [
        ("", "manifest.json doesn't have the digest that __init__.py names")
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: m["kernels"][PLUS]["files"]["asc_ir"].update(path="../../../etc/passwd"), "which doesn't match"),
        (lambda m: m["kernels"][PLUS].update(symbol="other"), "is listed under another name or operator"),
        (lambda m: m["kernels"][PLUS]["tiling"].update(formulas="none"), "refers to a tiling that isn't there"),
        (lambda m: m["graphs"].clear(), "refers to a graph that isn't there"),
        (lambda m: m["kernels"].pop(PLUS), f"refers to a kernel that isn't there: {PLUS}"),
        (lambda m: m.update(format="zip"), "manifest.json.format is \"zip\""),
    ],
)  # fmt: skip
def test_a_manifest_that_makes_no_sense_is_refused(change: Callable[[Any], None], told: str, copy: Path) -> None:
    edit_manifest(copy, change)
    with pytest.raises(LibraryError, match=re.escape(told)):
        check(copy, jobs=1)


def test_no_code_of_the_library_is_run(copy: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for path in (copy / "checked").rglob("*.py"):
        if path.parent.name != "kernels":
            path.write_text(f"open({str(marker)!r}, 'w')\n" + path.read_text())
    check(copy, jobs=1)
    assert not marker.exists()


def test_what_is_no_library_is_told(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"is not a built library: it has no manifest\.json"):
        check(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "manifest.json").write_text("{")
    with pytest.raises(LibraryError, match=r"manifest.json is not JSON"):
        check(tmp_path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").write_text("{}")
    with pytest.raises(LibraryError, match=r"it has 2 manifests \(a, b\)"):
        check(tmp_path)
    with pytest.raises(LibraryError, match=r"manifest.json has no 'format'"):
        check(tmp_path / "b")


def test_the_commands_exit_code_tells(checked: Path, copy: Path) -> None:
    good = command("check", str(checked), "--jobs", "1")  # in workers of its own
    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "OK"), good.stderr
    (copy / "checked" / "kernels" / f"{PLUS}.mlir").unlink()
    bad = CliRunner().invoke(check_command, [str(copy), "--jobs", "1", "--json"])
    report = json.loads(bad.stdout)
    assert (bad.exit_code, report["ok"], len(report["problems"])) == (1, False, 1)
    assert f"wrong {PLUS}: can't read" in bad.stderr
    nothing = CliRunner().invoke(check_command, [str(copy / "nothing"), "--json"])
    assert (nothing.exit_code, json.loads(nothing.stdout)["error"]) == (2, "LibraryError")


def test_results_beyond_the_first_period_are_compared_too() -> None:
    """Those that repeat the first ones by the bit are right; any others are compared with torch."""
    from asc_sched import op
    from asc_sched.lang.dtypes import DTYPES
    from asc_sched.lang.infer import infer
    from asc_sched.library.verify import PERIOD, _compare, _random

    length = 2 * PERIOD + 13
    typed = infer(op("z = x * 3.0").graph, {"x": DTYPES["float32"]})
    x = _random(DTYPES["float32"], length, 0)
    assert x[:13].tobytes() == x[-13:].tobytes() and x[0] != x[1]
    z = x * 3
    assert _compare(typed, {"x": x}, {"z": z}, {}, length) == (length, 0.0, "")
    z[-1] = np.nextafter(z[-1], np.float32(np.inf))  # other bits, and right all the same
    elements, error, wrong = _compare(typed, {"x": x}, {"z": z}, {}, length)
    assert (elements, wrong) == (length, "") and 0 < error < 1e-6
    z[-2] += 1
    wrong = _compare(typed, {"x": x}, {"z": z}, {}, length)[2]
    assert wrong.startswith(f"1 of the elements [{2 * PERIOD}:{length}] of {length} of z are not torch's")
