"""The command line: `asc-sched`. One module per command.

Exit codes: 0 for success, 1 for a failed check, 2 for bad input.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from importlib import import_module
from typing import Any

import click

from asc_sched import __version__
from asc_sched.errors import AscSchedError

# Command name -> module that defines `command`; loaded when asked for, so that --help is quick.
COMMANDS = {
    "run": "run",
    "show": "show",
    "ops": "ops",
    "doctor": "doctor",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"asc_sched.cli.{COMMANDS[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None
            raise


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="asc-sched")
@click.option("-v", "--verbose", count=True, help="Log what is done (-vv: in detail).")
def group(verbose: int) -> None:
    """Declare elementwise kernels for Ascend NPUs, schedule them, and generate, check, time and tune them."""
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)]
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")


def main() -> None:
    """Entry point. A mistake of the user's is one message and exit code 2, never a traceback."""
    try:
        group(prog_name="asc-sched", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except AscSchedError as error:
        click.secho(f"error: {error}", fg=None if os.environ.get("NO_COLOR") else "red", err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
