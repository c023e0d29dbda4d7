"""`asc-sched tune`: the best schedule for an op at a size."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import click

from asc_sched.cli import exit_code
from asc_sched.cli.common import emit_json, fail_json, load_op, op_options, parse_dtype, parse_shape
from asc_sched.errors import AscSchedError, TuningError


@click.command()
@click.argument("op")
@op_options(any_size=False)
@click.option("--space", default="default", show_default=True, help="default, or plain (no memory knobs).")
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="How many to list.")
@click.option("--budget", default="60s", show_default=True, help="Time for the search: 30s, 5m.")
@click.option("--l2", type=click.Choice(["hot", "cold"]), default="hot", show_default=True, help="State of L2.")
@click.option("--backend", help="model, npu or camodel; default: the NPU if there is one, else the model.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(op: str, as_json: bool, **options: Any) -> None:
    """Find the best schedule for OP (a catalogue name or a declaration) and keep it for later calls.

    Times of the model are simulated and said to be so.
    """
    try:
        result = _tune(op, quiet=as_json, **options)
    except AscSchedError as error:
        if not as_json:
            raise
        fail_json(error)
        sys.exit(exit_code(error))
    if as_json:
        emit_json(result.to_json())
    else:
        click.echo(str(result))


def _tune(text: str, quiet: bool, **options: Any) -> Any:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from asc_sched.tune.tuner import tune

    console = Console(stderr=True)
    shown = console.is_terminal and not quiet
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        bar = _Bar(progress)
        return tune(
            load_op(text, options["scalars"]), parse_shape(options["shape"]), parse_dtype(options["dtype"]),
            target=options["target"], space=_space(options["space"]), backend=options["backend"], l2=options["l2"],
            budget_s=parse_seconds(options["budget"]), top=options["top"], progress=bar,
        )  # fmt: skip


class _Bar:
    """The search's progress: how many schedules were looked at, and the best time so far."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task = progress.add_task("looking", total=None)
        self._looked, self._best, self._shown = 0, float("inf"), 0.0

    def __call__(self, backend: str, count: int, task_us: float | None) -> None:
        self._looked += count
        self._best = min(self._best, task_us or float("inf"))
        if time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._progress.update(
                self._task, description=f"{backend}: {self._looked} schedules, best so far {self._best:.2f} us"
            )


def _space(name: str) -> Any:
    from asc_sched import schedules

    known = {"default": schedules.DEFAULT_SPACE, "plain": schedules.PLAIN_SPACE}
    if name not in known:
        raise TuningError(f"unknown space {name!r}; known: {', '.join(known)}")
    return known[name]


def parse_seconds(text: str) -> float:
    """``60s``, ``5m``, ``1.5h`` or plain seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not match or float(match[1]) <= 0:
        raise TuningError(f"budget {text!r}: expected a time such as 60s, 5m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
