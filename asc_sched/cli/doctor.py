"""`asc-sched doctor`: what this machine has, and what each lack means."""

from __future__ import annotations

import sys

import attrs
import click

from asc_sched.cli.common import emit_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(as_json: bool) -> None:
    """Say what this machine has: pyasc, CANN, an NPU, compilers; what each lack means and how to get it; and which
    backend kernels run on by default, and why.

    Exit code 0 when the main job (generate, compile, simulate) works here.
    """
    from asc_sched.errors import BackendError
    from asc_sched.run.backend import decide
    from asc_sched.run.doctor import examine

    findings = examine()
    ok = all(f.found for f in findings if f.needed)
    if as_json:
        try:
            backend = attrs.asdict(decide())
        except BackendError as error:
            backend = {"name": None, "reason": str(error)}
        emit_json({"ok": ok, "backend": backend, "findings": [attrs.asdict(f) for f in findings]})
    else:
        for f in findings:
            click.echo(f"{click.style('found  ' if f.found else 'missing', fg='green' if f.found else 'yellow')} "
                       f"{f.name:<10} {f.detail}")  # fmt: skip
            if not f.found:
                click.echo(f"{'':19}means: {f.means}\n{'':19}to get it: {f.remedy}")
        verdict = "Generating, compiling and simulating kernels works here." if ok else "The main job can't run here."
        click.echo(f"\n{verdict}")
    sys.exit(0 if ok else 1)
