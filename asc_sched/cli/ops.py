"""`asc-sched ops`: the catalogue."""

from __future__ import annotations

from typing import Any

import click

from asc_sched.cli.common import emit_json


@click.command()
@click.argument("pattern", default="")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(pattern: str, as_json: bool) -> None:
    """List the catalogue's ops, one line each; PATTERN keeps those whose name contains it."""
    from asc_sched import ops

    found = {n: o for n, o in ops.catalogue().items() if pattern.lower() in n.lower()}
    if as_json:
        emit_json([_as_dict(o, ops.family_of(n)) for n, o in found.items()])
        return
    width = max((len(n) for n in found), default=0)
    for name, op in found.items():
        click.echo(f"{name:<{width}}  {_one_line(str(op))}")
    if not found:
        click.echo(f"no op contains {pattern!r}", err=True)


def _one_line(text: str) -> str:
    line = "; ".join(text.splitlines())
    return line if len(line) <= 100 else line[:97] + "..."


def _as_dict(op: Any, family: str) -> dict[str, Any]:
    return {
        "name": op.name,
        "family": family,
        "expression": str(op),
        "inputs": list(op.inputs),
        "outputs": list(op.outputs),
        "scalars": [{"name": s.name, "dtype": s.dtype.name, "default": s.default} for s in op.scalars],
    }
