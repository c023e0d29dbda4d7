"""`asc-sched tuned`: the schedules that searches have found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from asc_sched.cli.common import emit_json
from asc_sched.errors import TuningError

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
        where = f"{w.details.get('target')} {w.details.get('backend')}"
        click.echo(f"{w.op:<16} {shape:<16} {dtypes:<10} {where:<20} {w.task_us:>10.2f} us  {w.schedule!r}")
    if not winners:
        click.echo("nothing is tuned yet; see asc-sched tune", err=True)


@command.command()
@click.argument("file", type=_FILE)
@click.option("--target", default="Ascend910B1", show_default=True, help="The SoC.")
def export(file: Path, target: str) -> None:
    """Merge the stored winners of a target into FILE (TOML)."""
    from asc_sched.tune.tables import merge_into, row_of

    rows = [row_of(w) for w in _store().winners() if w.details.get("target") == target]
    if not rows:
        raise TuningError(f"nothing is tuned for {target}; see asc-sched tuned list")
    click.echo(f"{merge_into(file, target, rows)} of {len(rows)} schedules were new or faster in {file}")


@command.command("import")
@click.argument("file", type=_FILE)
def import_(file: Path) -> None:
    """Take the schedules of FILE (TOML) into the store, for ops of the catalogue."""
    from asc_sched.tune.tables import read
    from asc_sched.tune.tuner import adopt

    target, rows = read(file)
    taken = sum(adopt(row, target, _store()) for row in rows.values())
    click.echo(f"{taken} of {len(rows)} schedules for {target} taken")


@command.command()
@click.argument("op", required=False)
@click.option("--all", "everything", is_flag=True, help="All ops.")
def forget(op: str | None, everything: bool) -> None:
    """Remove what is stored for OP, or --all of it."""
    if (op is None) != everything:
        raise click.UsageError("name one op, or give --all")
    click.echo(f"{_store().forget(op)} tuned schedules forgotten")
