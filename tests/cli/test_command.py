"""The command as a whole: help, catalogue, doctor, colours, and readers that go away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import asc_sched as package
from asc_sched import cli, ops
from asc_sched.run import doctor
from tests.cli.conftest import Ran

Run = Callable[..., Ran]


def test_help_names_every_command(asc_sched: Run) -> None:
    for arguments in (["--help"], ["-h"]):
        ran = asc_sched(*arguments)
        assert ran.code == 0
        assert all(f"\n  {name} " in ran.out for name in cli.COMMANDS)


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_every_command_has_help(asc_sched: Run, command: str) -> None:
    ran = asc_sched(command, "--help")
    assert ran.code == 0 and f"Usage: asc-sched {command}" in ran.out


def test_the_version_is_the_packages(asc_sched: Run) -> None:
    assert asc_sched("--version").out == f"asc-sched, version {package.__version__}\n"


def test_an_unknown_command_is_told_with_the_nearest(asc_sched: Run) -> None:
    ran = asc_sched("shw")
    assert ran.code == 2 and "No such command 'shw'. Did you mean 'show'?" in ran.err
    ran = asc_sched("frobnicate")
    assert ran.code == 2 and "No such command 'frobnicate'" in ran.err and "Did you mean" not in ran.err


# -- the catalogue -------------------------------------------------------------------------------------------------
def test_ops_lists_the_catalogue_one_line_each(asc_sched: Run) -> None:
    ran = asc_sched("ops")
    lines = ran.out.splitlines()
    assert ran.code == 0 and len(lines) == len(ops.catalogue())
    assert lines[0].split(maxsplit=1) == ["add", "z = x + y"]
    assert [line.split()[0] for line in lines] == list(ops.catalogue())


def test_ops_takes_a_part_of_a_name(asc_sched: Run) -> None:
    names = [line.split()[0] for line in asc_sched("ops", "SQRT").out.splitlines()]
    assert {"sqrt", "rsqrt"} <= set(names) and all("sqrt" in n for n in names)
    ran = asc_sched("ops", "nothing_like_it")
    assert (ran.code, ran.out, ran.err) == (0, "", "no op contains 'nothing_like_it'\n")


def test_ops_tells_machines_what_each_takes(asc_sched: Run) -> None:
    listed = {o["name"]: o for o in asc_sched("ops", "--json").json}
    assert list(listed) == list(ops.catalogue())
    axpby = listed["axpby"]
    assert (axpby["inputs"], axpby["outputs"]) == (["x", "y"], ["z"])
    assert axpby["expression"] == "z = alpha * x + beta * y"
    assert axpby["scalars"][0] == {"name": "alpha", "dtype": "float32", "default": 1.0}


# -- doctor --------------------------------------------------------------------------------------------------------
def test_doctor_says_what_a_lack_means_and_how_to_mend_it(asc_sched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    ran = asc_sched("doctor")
    assert ran.code == 0
    for name in ("python", "pyasc", "torch", "CANN", "compiler", "NPU"):
        assert name in ran.out
    after = ran.out.partition("CANN")[2].splitlines()
    assert after[0].strip() == "ASCEND_HOME_PATH is not set"
    assert after[1].strip().startswith("means: ") and after[2].strip().startswith("to get it: ")
    assert ran.out.splitlines()[-1] == "Generating, compiling and simulating kernels works here."


def test_doctor_fails_where_the_main_job_cant_run(asc_sched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.metadata.version

    def version(name: str) -> str:
        if name == "pyasc":
            raise doctor.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    ran = asc_sched("doctor")
    assert ran.code == 1
    assert "pip install pyasc" in ran.out and ran.out.splitlines()[-1] == "The main job can't run here."
    report = asc_sched("doctor", "--json").json
    assert report["ok"] is False
    assert {f["name"]: f["found"] for f in report["findings"]}["pyasc"] is False


# -- colours, pipes, interruptions ---------------------------------------------------------------------------------
def test_colours_are_off_for_who_wants_none(coloured: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in coloured("run", "add", "--shape", "8")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in coloured("run", "add", "--shape", "8")


def test_colours_stay_out_of_pipes(asc_sched: Run) -> None:
    assert "\x1b[" not in asc_sched("run", "add", "--shape", "8").out
    assert "\x1b[" not in asc_sched("run", "nothing", "--shape", "8").err


def test_a_reader_that_goes_away_ends_it_quietly(shell: Run) -> None:
    ran = shell("asc-sched ops | true")
    assert (ran.code, ran.err) == (141, "")
    ran = shell("asc-sched ops | head -1")
    assert ran.out.startswith("add ") and ran.err == ""


def test_a_full_disk_is_told_in_one_line(shell: Run) -> None:
    ran = shell("asc-sched ops > /dev/full")
    assert (ran.code, ran.err) == (1, "error: the output: No space left on device\n")


def test_an_interruption_is_one_word(monkeypatch: pytest.MonkeyPatch, asc_sched: Run) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("asc_sched.ops.catalogue", stop)
    ran = asc_sched("ops")
    assert (ran.code, ran.out, ran.err) == (130, "", "stopped\n")


def test_the_shell_can_ask_for_completions(shell: Run) -> None:
    ran = shell("asc-sched", _ASC_SCHED_COMPLETE="bash_source")
    assert ran.code == 0 and "_ASC_SCHED_COMPLETE" in ran.out


def test_help_and_the_catalogue_load_no_heavy_library() -> None:
    script = (
        "import sys; from asc_sched.cli import group\n"
        "for a in (['--help'], ['ops'], ['doctor'], ['show', 'add', '--stage', 'op']):\n"
        "    try: group(a)\n"
        "    except SystemExit: pass\n"
        "heavy = {'torch', 'sympy', 'jinja2', 'asc'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
