"""The command line: `asc-sched`. One module per command.

Exit codes: 0 for success, 1 for a failed check, 2 for bad input; 130 when stopped by ^C, 141 when the reader of the
output has gone.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import signal
import sys
from importlib import import_module
from typing import Any

import click

from asc_sched import __version__
from asc_sched.errors import AscSchedError

FAILED, BAD_INPUT = 1, 2
NAME = "asc-sched"
COMPLETE = "_ASC_SCHED_COMPLETE"  # the shell asks for completions

# Command name -> module that defines `command`; loaded when asked for, so that --help is quick.
COMMANDS = {
    "run": "run",
    "show": "show",
    "ops": "ops",
    "profile": "profile",
    "tune": "tune",
    "tuned": "tuned",
    "sim": "sim",
    "doctor": "doctor",
    "twin": "twin",
    "export": "export",
    "build": "build",
    "check": "check",
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
@click.version_option(__version__, prog_name=NAME)
@click.option("-v", "--verbose", count=True, help="Log what is done (-vv: in detail).")
@click.pass_context
def group(ctx: click.Context, verbose: int) -> None:
    """Declare elementwise kernels for Ascend NPUs, schedule them, and generate, run and check them."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)]
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")


def main() -> None:
    """Entry point. A mistake of the user's is one message and exit code 2, never a traceback."""
    try:
        code = _invoke()
        sys.stdout.flush()
    except BrokenPipeError:
        code = 128 + signal.SIGPIPE  # as any command whose reader has gone
        _drop_output()
    except OSError as error:
        click.echo(f"error: {error.filename or 'the output'}: {error.strerror or error}", err=True)
        code = FAILED
        _drop_output()
    sys.exit(code)


def _invoke() -> int:
    if COMPLETE in os.environ:
        group.main(prog_name=NAME)
    # Not group.main(): it turns a closed pipe into exit code 1, which means a failed check here.
    try:
        with group.make_context(NAME, sys.argv[1:]) as ctx:
            group.invoke(ctx)
        return 0
    except SystemExit as stop:
        return int(stop.code or 0)
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except click.ClickException as error:
        error.show()
        return int(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 128 + signal.SIGINT
    except AscSchedError as error:
        from asc_sched.cli.common import exit_code

        click.secho(f"error: {error}", fg="red", err=True, color=False if os.environ.get("NO_COLOR") else None)
        return exit_code(error)


def _drop_output() -> None:
    """Python would write what is left in its buffer at exit, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
