"""`asc-sched tune`: the best schedule for an op at a size."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from asc_sched.cli.common import emit_json, errors_as_json, load_op, op_options, parse_dtype, parse_shape
from asc_sched.declare import Op
from asc_sched.errors import AscSchedError, DtypeError, TuningError
from asc_sched.schedule import Schedule
from asc_sched.tune.backends import require, timer
from asc_sched.tune.space import Space, read_space


@click.command()
@click.argument("op", required=False)
@click.option("--all", "library", type=click.Path(path_type=Path), help="Tune every kernel that a library declares.")
@op_options(any_size=True)
@click.option("--space", default="default", show_default=True, help="default, plain (no memory knobs), or a TOML file.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="How many to list.")
@click.option("--budget", default="60s", show_default=True, help="Time for the search: 30s, 5m.")
@click.option("--l2", type=click.Choice(["hot", "cold"]), default="hot", show_default=True, help="State of L2.")
@click.option("--backend", help="model, npu or camodel; default: the NPU if there is one, else the model.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(op: str | None, library: Path | None, as_json: bool, **options: Any) -> None:
    """Find the best schedule for OP (a catalogue name or a declaration) and keep it for later calls.

    With --all, for each op, dtype, size and target of a library's declaration (.toml or .py); a budget is for each of
    them; what torch doesn't define for a dtype is skipped. Times of the model are simulated and said to be so. Exit
    code 1: some kernels of a library have no schedule.
    """
    if (op is None) == (library is None):
        raise click.UsageError("name one op, or give --all with a library's declaration")
    if library is None and options["shape"] is None:
        raise click.UsageError("Missing option '--shape'.")
    if library is not None:
        _refuse_declared(click.get_current_context())
    with errors_as_json(as_json):
        options |= _checked(options)
        if library is not None:
            sys.exit(_tune_all(library, as_json, **options))
        result = _tune(str(op), quiet=as_json, **options)
    if as_json:
        emit_json(result.to_json())
    else:
        click.echo(str(result))


_DECLARED = ("shape", "dtype", "scalars", "target")


def _refuse_declared(ctx: click.Context) -> None:
    """Raises `click.UsageError` for options of what a library declares itself."""
    unset = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    given = [f"--{name}" for name in _DECLARED if ctx.get_parameter_source(name) not in unset]
    if given:
        verb = "doesn't" if len(given) == 1 else "don't"
        raise click.UsageError(f"{', '.join(given)} {verb} apply with --all: the library declares what it has")


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The options of every search, read; a mistake in them is one error, whatever there is to tune."""
    backend = timer(options["backend"])
    budget_s, space = parse_seconds(options["budget"]), _space(options["space"])
    require(backend)
    return {"backend": backend, "budget_s": budget_s, "space": space}


def _tune(text: str, quiet: bool, **options: Any) -> Any:
    declared = load_op(text, options["scalars"])
    shape, dtype = parse_shape(options["shape"]), parse_dtype(options["dtype"])
    return _search(declared, shape, dtype, options["target"], quiet, options)


def _search(declared: Op, shape: Any, dtype: Any, target: str, quiet: bool, options: dict[str, Any]) -> Any:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from asc_sched.tune.tuner import tune

    console = Console(stderr=True)
    shown = console.is_terminal and not quiet
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        bar = _Bar(progress)
        return tune(
            declared, shape, dtype, target=target, space=options["space"], backend=options["backend"],
            l2=options["l2"], budget_s=options["budget_s"], top=options["top"], progress=bar,
        )  # fmt: skip


def _tune_all(path: Path, as_json: bool, **options: Any) -> int:
    """Every kernel of a library; one that can't be tuned doesn't stop the others."""
    from asc_sched.library import load

    rows: list[dict[str, Any]] = []
    for entry, shape, dtypes, target in _kernels(load(path)):
        what = {"op": entry.name, "shape": list(shape), "dtypes": list(dtypes), "target": target}
        try:
            found = _search(entry.op, shape, list(dtypes), target, as_json, options)
            row = {**what, **found.to_json(), "ok": True}
        except DtypeError as error:  # a library has no such kernel
            row = {**what, "ok": True, "skipped": str(error)}
        except AscSchedError as error:
            row = {**what, "ok": False, "error": type(error).__name__, "message": str(error)}
        rows.append(row)
        if not as_json:
            _print_row(row)
    if not rows:
        raise TuningError(f"{path}: schedules are tuned for a size, and this library has kernels of any size only")
    if as_json:
        emit_json(rows)
    return 0 if all(r["ok"] for r in rows) else 1


def _kernels(library: Any) -> Iterator[tuple[Any, tuple[int, ...], tuple[str, ...], str]]:
    """Ops with each fixed size, dtypes and target that they are declared for."""
    from asc_sched.library.analysis import input_dtypes

    for entry in library.ops:
        for shape in (s for s in entry.shapes if s is not None):
            for given in entry.dtypes:
                dtypes = input_dtypes(entry.op.graph, given)
                for target in entry.targets:
                    yield entry, shape, dtypes, target


def _print_row(row: dict[str, Any]) -> None:
    what = f"{row['op']:<16} {'x'.join(map(str, row['shape'])):<12} {','.join(dict.fromkeys(row['dtypes'])):<10}"
    if "skipped" in row:
        click.secho(f"{what} {row['target']:<12} skipped: {row['skipped']}", dim=True)
    elif row["ok"]:
        best = Schedule.from_dict(row["best"])
        click.echo(f"{what} {row['target']:<12} {row['task_us']:>10.2f} us ({row['backend']})  {best!r}")
    else:
        click.secho(f"{what} {row['target']:<12} {row['message']}", fg="red", err=True)


class _Bar:
    """The search's progress: how many schedules a backend has looked at, and the best of its own times so far."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task = progress.add_task("looking", total=None)
        self._backend, self._looked, self._best, self._shown = "", 0, math.inf, 0.0

    def __call__(self, backend: str, count: int, task_us: float | None) -> None:
        if backend != self._backend:  # the model ranks, a device measures: their times are not of one kind
            self._backend, self._looked, self._best, self._shown = backend, 0, math.inf, 0.0
        self._looked += count
        self._best = min(self._best, task_us or math.inf)
        if time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            best = f", best so far {self._best:.2f} us" if self._best < math.inf else ""
            self._progress.update(self._task, description=f"{backend}: {self._looked} schedules{best}")


def _space(name: str) -> Space | str:
    """A space from a file, or the name of one that `tune` knows."""
    if name in ("default", "plain"):
        return name
    if not name.endswith(".toml"):
        raise TuningError(f"unknown space {name!r}; known: default, plain, or a file that ends with .toml")
    return read_space(Path(name))


def parse_seconds(text: str) -> float:
    """``60s``, ``5m``, ``1.5h`` or plain seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not match or not 0 < float(match[1]) < math.inf:
        raise TuningError(f"budget {text!r}: expected a time such as 60s, 5m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
