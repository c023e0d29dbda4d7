"""`asc-sched tuned`: the schedules that searches have found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from asc_sched.cli import FAILED
from asc_sched.cli.common import emit_json
from asc_sched.errors import TuningError, nearest

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def command() -> None:
    """List, export, import or forget tuned schedules."""


def _store() -> Any:
    from asc_sched.tune.store import Store, default_path

    return Store(default_path())


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def list_(as_json: bool) -> None:
    """The stored winners, one line each."""
    winners = _store().winners()
    if as_json:
        emit_json([
            {"op": w.op, "shapes": w.shapes, "schedule": w.schedule.to_dict(), "task_us": w.task_us, **w.details}
            for w in winners
        ])  # fmt: skip
        return
    for w in winners:
        shape = ",".join("x".join(map(str, s)) or "()" for s in dict.fromkeys(w.shapes))
        dtypes = ",".join(dict.fromkeys(w.details.get("dtypes", [])))
        cold = " cold" if w.details.get("l2") == "cold" else ""  # of L2; hot is the rule
        where = f"{w.details.get('target')} {w.details.get('backend')}{cold}"
        click.echo(f"{w.op:<16} {shape:<16} {dtypes:<10} {where:<24} {w.task_us:>10.2f} us  {w.schedule!r}")
    if not winners:
        click.echo("nothing is tuned yet; see asc-sched tune", err=True)


@command.command()
@click.argument("file", type=_FILE)
@click.option("--target", default="Ascend910B1", show_default=True, help="The SoC.")
def export(file: Path, target: str) -> None:
    """Merge the stored winners of a target into FILE (TOML): those of the catalogue's ops, as an import takes them."""
    from asc_sched import ops
    from asc_sched.target import get_target
    from asc_sched.tune.tables import merge_into, row_of

    get_target(target)  # a misspelt one is told with the nearest
    found = [w for w in _store().winners() if w.details.get("target") == target]
    rows = [row_of(w) for w in found if w.op in ops.catalogue()]
    left = (
        f"; {len(found) - len(rows)} of ops that the catalogue doesn't have left out" if len(rows) < len(found) else ""
    )
    if not rows:
        raise TuningError(f"nothing is tuned for {target}{left}; see asc-sched tuned list")
    click.echo(f"{merge_into(file, target, rows)} of {len(rows)} schedules were new or faster in {file}{left}")


@command.command("import")
@click.argument("file", type=_FILE)
def import_(file: Path) -> None:
    """Take the schedules of FILE (TOML) into the store, for ops of the catalogue; the faster stays.

    Nothing is taken from a file with an entry that can't be used.
    """
    from asc_sched.tune.intake import take

    target, taken = take(file, _store())
    click.echo(
        f"{taken.new + taken.faster} of {taken.total} schedules for {target} taken: {taken.new} new, {taken.faster} "
        f"faster than what was stored; {taken.slower} left out as no faster"
    )


@command.command()
@click.argument("op", required=False)
@click.option("--all", "everything", is_flag=True, help="All ops.")
def forget(op: str | None, everything: bool) -> None:
    """Remove what is stored for OP, or --all of it. Exit code 1: nothing is stored for OP."""
    if (op is None) != everything:
        raise click.UsageError("name one op, or give --all")
    store = _store()
    known = {w.op for w in store.winners()}
    gone = store.forget(op)
    if op is not None and not gone:
        hint = nearest(op, known) or "; see asc-sched tuned list"
        click.echo(f"nothing is tuned for {op!r}{hint}", err=True)
        sys.exit(FAILED)
    click.echo(f"{gone} tuned schedules forgotten")
