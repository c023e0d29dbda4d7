"""Builds: incremental, resumable after anything, the same bytes however they went."""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asc_sched.errors import LibraryError, StorageError
from asc_sched.library import BuildReport, Watcher, build
from asc_sched.library.executors import stations
from tests.library.conftest import TINY, tree
from tests.library.programs import command, environment, run_build, start_build

SMALL: dict[str, Any] = {
    "name": "small",
    "ops": [{"name": "one", "expr": "z = x * y"}, {"name": "two", "expr": "z = x + 2.0"}],
    "dtypes": ["float32", "float16"],
    "shapes": ["dynamic", "100x7"],
}


@pytest.fixture(scope="session")
def small_tree(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an unbroken build of SMALL writes."""
    folder = tmp_path_factory.mktemp("small")
    assert build(SMALL, folder).ok
    return tree(folder)


def mtimes(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*.mlir")}


# -- incremental -------------------------------------------------------------------------------------------------
def test_a_second_build_does_nothing_quickly_and_without_torch(tmp_path: Path) -> None:
    build(SMALL, tmp_path)
    before = tree(tmp_path), mtimes(tmp_path)
    again = run_build(SMALL, tmp_path)
    assert (again["built"], again["cached"], again["loaded"]) == (0, 0, [])
    assert again["seconds"] < 1
    assert (tree(tmp_path), mtimes(tmp_path)) == before


def test_an_edit_rebuilds_only_what_it_touches(tmp_path: Path) -> None:
    build(SMALL, tmp_path, cache=None)
    before = mtimes(tmp_path)
    edited = {**SMALL, "ops": [SMALL["ops"][0], {"name": "two", "expr": "z = x + 3.0"}]}
    report = build(edited, tmp_path, cache=None)
    assert (report.built, report.kept) == (4, 8)
    after = mtimes(tmp_path)
    assert after.keys() == before.keys()
    assert {n.split("/")[-1].split("_")[0] for n in after if after[n] != before[n]} == {"two"}


def test_what_is_no_longer_declared_goes_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    build(SMALL, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "small" / "kernels" / "README").write_text("mine")
    build({**SMALL, "ops": SMALL["ops"][:1]}, tmp_path)
    names = set(tree(tmp_path))
    assert not [n for n in names if "two" in n]
    assert {"notes.txt", "small/kernels/README"} <= names
    renamed = build({**SMALL, "name": "other"}, tmp_path)
    assert renamed.ok
    assert (tmp_path / "small" / "kernels" / "README").exists()
    assert not (tmp_path / "small" / "__init__.py").exists()


def test_another_folder_takes_its_kernels_from_the_cache(tmp_path: Path, small_tree: dict[str, bytes]) -> None:
    report = build(SMALL, tmp_path)
    assert (report.built, report.cached) == (0, report.kernels)
    assert tree(tmp_path) == small_tree


def test_a_damaged_file_is_made_anew(tmp_path: Path, small_tree: dict[str, bytes]) -> None:
    build(SMALL, tmp_path)
    for name in ("small/kernels/one_float32_any_auto_Ascend910B1.mlir", "small/_runtime/layout.py", "README.md"):
        (tmp_path / name).write_bytes(b"broken")
    (tmp_path / "small/kernels/two_float32_any_auto_Ascend910B1.py").unlink()
    report = build(SMALL, tmp_path)
    assert report.kept == report.kernels - 2
    assert tree(tmp_path) == small_tree


def test_a_journal_that_was_cut_short_or_changed_is_read_as_far_as_it_is_whole(
    tmp_path: Path, small_tree: dict[str, bytes]
) -> None:
    build(SMALL, tmp_path)
    journal = tmp_path / ".asc_sched_build" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1].replace(b"one", b"owe", 1) + lines[2][:40] + b"\n\xff\xfe\0\n" + lines[4])
    report = build(SMALL, tmp_path)
    assert report.kept == 2
    assert tree(tmp_path) == small_tree


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(LibraryError, match=r"has other things in it \(thesis.tex\), and no library was built there"):
        build(SMALL, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["thesis.tex"]
    with pytest.raises(LibraryError, match="is a file; a library is built into a folder"):
        build(SMALL, tmp_path / "thesis.tex")


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    build({**SMALL, "name": "first"}, out)
    (out / "small").symlink_to(elsewhere)
    with pytest.raises(LibraryError, match="would lie outside of"):
        build(SMALL, out)
    assert list(elsewhere.iterdir()) == []


# -- interrupted -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("given", [{"kill_after": 5}, {"kill_at_create": 14}, {"kill_at_rename": 9}])
def test_a_killed_build_goes_on_where_it_was_and_ends_with_the_same_bytes(
    tmp_path: Path, given: dict[str, int], small_tree: dict[str, bytes]
) -> None:
    process = start_build(SMALL, tmp_path, **given)
    assert process.wait(timeout=120) == -signal.SIGKILL
    process.communicate()
    assert run_build(SMALL, tmp_path)["kept"] >= 3
    assert tree(tmp_path) == small_tree
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.nightly
@pytest.mark.parametrize("step", ["kill_at_create", "kill_at_rename"])
@pytest.mark.parametrize("at", range(1, 40, 3))
def test_a_build_killed_at_any_file_ends_with_the_same_bytes(
    tmp_path: Path, step: str, at: int, small_tree: dict[str, bytes]
) -> None:
    for again in range(3):
        process = start_build(SMALL, tmp_path, cache=None, **{step: at + again})
        process.communicate(timeout=120)
    run_build(SMALL, tmp_path, cache=None)
    assert tree(tmp_path) == small_tree


def test_a_killed_worker_costs_nothing_but_time(tmp_path: Path, small_tree: dict[str, bytes]) -> None:
    class Killer(Watcher):
        killed: list[int] = []  # noqa: RUF012

        def finished(self, symbol: str) -> None:
            workers = [s._worker for s in stations._busy if s._worker is not None and s._worker.alive]
            if workers and not self.killed:
                self.killed.append(workers[0].pid)
                os.kill(workers[0].pid, signal.SIGKILL)

    killer = Killer()
    report = build(SMALL, tmp_path, jobs=2, cache=None, watcher=killer)
    assert killer.killed
    assert report.ok
    assert tree(tmp_path) == small_tree


CRASH = """
import os, signal
try:
    import asc_sched.library.produce as module
    real = module.produce
    def produce(argument):
        if '"one_float16_any_auto_Ascend910B1"' in argument["job"]:
            os.kill(os.getpid(), signal.SIGSEGV)
        return real(argument)
    module.produce = produce
except ImportError:
    pass
"""


def test_a_kernel_that_crashes_its_worker_is_a_failure_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_tree: dict[str, bytes]
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(CRASH)
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
        report = build(SMALL, tmp_path / "out", jobs=1, cache=None)
    assert [f.symbol for f in report.failures] == ["one_float16_any_auto_Ascend910B1"]
    assert report.failures[0].error == "WorkerCrashError"
    assert "SIGSEGV" in report.failures[0].message
    manifest = json.loads((tmp_path / "out/small/manifest.json").read_text())
    assert len(manifest["kernels"]) == report.kernels - 1
    assert [f["kernel"] for f in manifest["failed"]] == ["one_float16_any_auto_Ascend910B1"]
    assert build(SMALL, tmp_path / "out", cache=None).built == 1
    assert tree(tmp_path / "out") == small_tree


def test_one_kernels_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    too_long = {"tile_length": 40_000, "buffer_num": 2}
    spec = {**SMALL, "ops": SMALL["ops"][:1], "schedules": ["auto", too_long], "shapes": ["dynamic"]}
    report = build(spec, tmp_path)
    assert not report.ok
    assert {f.error for f in report.failures} == {"UbOverflowError"}
    assert all("_s" in f.symbol for f in report.failures)
    assert report.built + report.cached + len(report.failures) == report.kernels
    with pytest.raises(LibraryError, match=r"none of the \d+ kernels could be built; the first: one_float16_any_s"):
        build({**spec, "schedules": spec["schedules"][1:], "gradients": False}, tmp_path / "none")


def test_what_torch_does_not_define_is_skipped_and_listed(tmp_path: Path) -> None:
    spec = {"name": "part", "ops": [{"name": "flip", "expr": "z = ~x"}], "dtypes": ["float32", "int32"]}
    report = build(spec, tmp_path)
    assert report.ok
    assert [(n, d) for n, d, _ in report.skipped] == [("flip", ("float32",))]
    assert "torch says" in report.skipped[0][2]
    with pytest.raises(LibraryError, match="part has no kernel: torch defines none of its ops for its dtypes"):
        build({**spec, "dtypes": ["float32"]}, tmp_path / "none")


def test_ctrl_c_stops_with_a_word_and_the_next_build_goes_on(tmp_path: Path) -> None:
    declared = tmp_path / "big.toml"
    shapes = ", ".join(f'"{100 + i}x7"' for i in range(200))
    declared.write_text(f'name = "big"\nops = ["add", "sub"]\nshapes = [{shapes}]\ngradients = false\n')

    process = subprocess.Popen(
        [sys.executable, "-m", "asc_sched", "build", str(declared), "--out", str(tmp_path / "out"), "--jobs", "2",
         "--no-cache"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # a shell's background jobs, which a test run may be, ignore ^C and hand that down
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    kernels = tmp_path / "out" / "big" / "kernels"
    deadline = time.monotonic() + 60
    while len(list(kernels.glob("*.mlir")) if kernels.exists() else []) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "kernels are done; the same command goes on from there" in err
    assert "Traceback" not in err
    done = len([e for e in (tmp_path / "out/.asc_sched_build/journal").read_bytes().splitlines() if e])
    assert done >= 4


# -- full disks ----------------------------------------------------------------------------------------------------
@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True)
    if made.returncode:
        pytest.skip("a small file system can't be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


FILLING: dict[str, Any] = {
    "name": "filling", "ops": [{"name": "f", "expr": "z = x * 2.0"}], "gradients": False,
    "shapes": [f"{100 + i}x7" for i in range(70)],
}  # fmt: skip


def test_a_full_disk_is_an_error_with_the_path_and_the_next_build_makes_only_what_is_missing(
    small_disk: Path, tmp_path: Path
) -> None:
    out = small_disk / "out"
    with pytest.raises(StorageError, match=rf"can't write {out}.*No space left on device \(ENOSPC\)"):
        build(FILLING, out)
    kept = len(list((out / "filling/kernels").glob("*.mlir")))
    assert 0 < kept < 70
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    report: BuildReport = build(FILLING, out)
    assert report.ok
    assert report.kept >= kept - 1
    assert build(FILLING, tmp_path / "whole").ok
    assert tree(out) == tree(tmp_path / "whole")


def test_a_full_disk_for_the_cache_only_warns(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (small_disk / "filler").write_bytes(bytes((1 << 20) - (16 << 10)))
    monkeypatch.setenv("ASC_SCHED_CACHE_DIR", str(small_disk / "cache"))
    report = build({**FILLING, "shapes": FILLING["shapes"][:6]}, tmp_path / "out")
    assert report.ok
    assert len(caplog.records) == 1
    assert "the cache can't keep kernels" in caplog.text
    assert "ENOSPC" in caplog.text


# -- the same bytes ----------------------------------------------------------------------------------------------
def test_bytes_do_not_depend_on_jobs_hash_seed_folder_or_order(tmp_path: Path, small_tree: dict[str, bytes]) -> None:
    shuffled = {k: SMALL[k][::-1] if isinstance(SMALL[k], list) else SMALL[k] for k in reversed(SMALL)}
    other = tmp_path / "an other place"
    other.mkdir()
    run_build(shuffled, other / "out", jobs=3, cache=None, cwd=other, env={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})
    assert tree(other / "out") == small_tree


@pytest.mark.nightly
@pytest.mark.parametrize("seed", ["0", "1", "2", "random"])
@pytest.mark.parametrize("jobs", [1, 8])
def test_two_hundred_kernels_have_the_same_bytes_for_every_seed_and_job_count(
    tmp_path_factory: pytest.TempPathFactory, seed: str, jobs: int
) -> None:
    shapes = ["dynamic", "8x8", "9x9", "10x10", "11x11", "12x12"]
    spec = {**TINY, "name": "many", "shapes": shapes, "schedules": ["auto", {"core_num": 3}]}
    base = tmp_path_factory.getbasetemp() / "many"
    if not base.exists():
        assert build(spec, base, cache=None).kernels >= 200
    ops = list(spec["ops"])
    random.Random(seed).shuffle(ops)
    folder = tmp_path_factory.mktemp("again") / "deep" / "er"
    run_build({**spec, "ops": ops}, folder, jobs=jobs, cache=None, env={"PYTHONHASHSEED": seed})
    assert tree(folder) == tree(base)


# -- two at once ---------------------------------------------------------------------------------------------------
def test_two_builds_into_one_folder_take_turns(tmp_path: Path, small_tree: dict[str, bytes]) -> None:
    processes = [start_build(SMALL, tmp_path, jobs=1) for _ in range(2)]
    results = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        results.append(json.loads(out))
    assert sorted(r["kept"] for r in results) == [0, 12]
    assert tree(tmp_path) == small_tree


def test_who_waits_is_told_for_whom(tmp_path: Path) -> None:
    import fcntl

    build(SMALL, tmp_path)
    told: list[str] = []
    with (tmp_path / ".asc_sched_build" / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        class Waiter(Watcher):
            def waiting(self, owner: str) -> None:
                told.append(owner)
                fcntl.flock(lock, fcntl.LOCK_UN)

        assert build(SMALL, tmp_path, watcher=Waiter()).kept == 12
    assert told == [f"process {os.getpid()} on {os.uname().nodename}"]


# -- the command -------------------------------------------------------------------------------------------------
def test_the_command_tells_what_it_did_and_its_exit_code_whether_all_is_there(tmp_path: Path) -> None:
    declared = tmp_path / "small.toml"
    declared.write_text(
        'name = "small"\nops = [{ name = "one", expr = "z = x * y" }, { name = "flip", expr = "z = ~x" }]\n'
        'gradients = false\nschedules = ["auto", { tile_length = 40000 }]\n'
    )
    out = str(tmp_path / "out")
    first = command("build", str(declared), "--out", out, "--jobs", "1")
    assert first.returncode == 1, first.stderr
    assert "failed one_float32_any_s" in first.stderr
    assert "UbOverflowError" in first.stderr
    assert "1 kernels could not be built" in first.stderr
    assert "skipped flip (float32): " in first.stdout
    assert "\x1b" not in first.stdout + first.stderr
    declared.write_text('name = "small"\nops = [{ name = "one", expr = "z = x * y" }]\ngradients = false\n')
    second = command("build", str(declared), "--out", out, "--json")
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["kept"] == 1
    third = command("build", str(declared), "--out", out)
    assert "(nothing to do)" in third.stdout
    wrong = command("build", str(tmp_path / "missing.toml"), "--out", out)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: can't read ")
    many = command("build", str(declared), "--out", out, "--jobs", "0")
    assert (many.returncode, many.stderr) == (0, "")  # nothing to do, so no worker is asked for


# -- tuned schedules -----------------------------------------------------------------------------------------------
def test_tuned_schedules_are_used_where_a_search_has_found_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asc_sched import Schedule, op

    monkeypatch.setenv("ASC_SCHED_TUNING_DB", str(tmp_path / "tuning.sqlite"))
    spec = {
        "name": "quick", "ops": [{"name": "f", "expr": "z = x * 3.0"}], "shapes": ["dynamic", "64x100"],
        "schedules": ["tuned"], "gradients": False,
    }  # fmt: skip
    symbols = [f"f_float32_{shape}_tuned_Ascend910B1" for shape in ("64x100", "any")]

    def schedules() -> list[dict[str, Any]]:
        assert build(spec, tmp_path / "out").ok
        kernels = json.loads((tmp_path / "out/quick/manifest.json").read_text())["kernels"]
        return [kernels[s]["schedule"] for s in symbols]

    fixed, dynamic = schedules()
    assert fixed["note"] == "tuned on the model when the library was built"
    assert dynamic["note"].startswith("schedules are tuned for a size")
    choices = [Schedule(core_num=3, tile_length=512), Schedule(core_num=5, tile_length=256)]
    best = op("z = x * 3.0").tune(shape=(64, 100), dtype="float32", space=choices, backend="model").best
    fixed, dynamic = schedules()
    assert (fixed["chosen"], fixed["note"], fixed["fields"]) == ("tuned", "", best.to_dict())
    assert dynamic["note"].startswith("schedules are tuned for a size")


def test_the_modelled_time_is_that_of_the_compiled_kernel(tmp_path: Path) -> None:
    import numpy as np

    from asc_sched import get_target
    from asc_sched.sim import ArraySpec, time_kernel

    assert build(SMALL, tmp_path).ok
    package = tmp_path / "small"
    kernels = json.loads((package / "manifest.json").read_text())["kernels"]
    assert len(kernels) == 12
    for kernel in kernels.values():
        modelled, tiling = kernel["modelled"], kernel["tiling"]
        total_length = modelled["total_length"]
        args: list[Any] = []
        for argument in kernel["arguments"]:
            itemsize = np.dtype(argument["carrier"]).itemsize
            pointer = argument["kind"] == "pointer"
            args.append(ArraySpec(argument["carrier"], total_length * itemsize) if pointer else np.int64(total_length))
        cores = tiling.get("used_cores", min(tiling["core_num"], -(-total_length // tiling["line_length"])))
        text = (package / kernel["files"]["asc_ir"]["path"]).read_text()
        timing = time_kernel(text, args, core_num=cores, target=get_target(kernel["target"]))
        assert modelled["task_us"] == pytest.approx(timing.task_us, rel=0.03), kernel["symbol"]
