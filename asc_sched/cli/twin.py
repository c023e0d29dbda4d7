"""`asc-sched twin`: pyasc's Model backend on a machine without CANN, with the simulator as its device."""

from __future__ import annotations

import os
import shlex
import sys

import click

from asc_sched.cli.common import emit_json

SHELLS = ("sh", "fish", "json")


@click.group()
def command() -> None:
    """Run pyasc scripts for vector kernels where there is no CANN: pyasc's Model backend with the simulator behind it.

    The scripts stay as they are, also those that don't use asc_sched. Every launch is checked as by `asc-sched sim`
    and timed. A C++ compiler is needed; what is built is kept in the cache folder.
    """


@command.command()
@click.option("--shell", type=click.Choice(SHELLS), default="sh", show_default=True, help="The form of the exports.")
def env(shell: str) -> None:
    """Print the environment for a shell: eval "$(asc-sched twin env)"."""
    from asc_sched.twin.build import is_twin, twin_home

    home = twin_home()
    real = os.environ.get("ASCEND_HOME_PATH")
    if real and not is_twin(real):
        click.echo(f"note: this hides the CANN at {real} from the shell", err=True)
    if shell == "json":
        emit_json(home.environment)
        return
    for name, value in home.environment.items():
        click.echo(_export(shell, name, value))


def _export(shell: str, name: str, value: str) -> str:
    more = name == "LD_LIBRARY_PATH"
    if shell == "fish":
        quoted = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return f"set -gx {name} {quoted}{' $LD_LIBRARY_PATH' if more else ''};"
    tail = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" if more else ""
    return f"export {name}={shlex.quote(value)}{tail}"


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(script: str, args: tuple[str, ...]) -> None:
    """Run SCRIPT (a Python file) with ARGS in that environment: asc-sched twin run add.py -r Model -v Ascend910B1."""
    from asc_sched.twin.build import twin_home

    home = twin_home()
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, script, *args], home.merged(os.environ))


@command.command()
def path() -> None:
    """Print the twin's folder, built if need be."""
    from asc_sched.twin.build import twin_home

    click.echo(twin_home().path)
