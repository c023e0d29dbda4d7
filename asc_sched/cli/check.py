"""`asc-sched check`: verify a built library, file by file and kernel by kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from asc_sched.cli.common import emit_json, errors_as_json

if TYPE_CHECKING:
    from asc_sched.library.checker import CheckReport


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--jobs", type=int, help="Worker processes. Default: one per processor.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(folder: Path, jobs: int | None, as_json: bool) -> None:
    """Verify the library in FOLDER: manifest, digests, and every kernel against torch on the simulator.

    No code of the library is run. Exit code 0: all is right. 1: something isn't. 2: there is no library to check.
    """
    with errors_as_json(as_json):
        report = _check(folder, jobs)
    if as_json:
        emit_json({"ok": report.ok, **attrs.asdict(report)})
    else:
        _print(report)
    sys.exit(0 if report.ok else 1)


def _check(folder: Path, jobs: int | None) -> CheckReport:
    from asc_sched.library.checker import check
    from asc_sched.report.progress import CheckProgress

    with CheckProgress() as progress:
        return check(folder, jobs=jobs, progress=progress.step)


def _print(report: CheckReport) -> None:
    for problem in report.problems:
        if not problem.symbol:
            click.echo(f"{report.name}: {problem.message}", err=True)
    click.echo(
        f"{report.name}: {report.kernels} kernels, {report.elements} elements compared, max rel error "
        f"{report.max_rel_error:.3g}, {len(report.problems)} problems, in {report.seconds:.1f} s"
    )
    click.secho("OK" if report.ok else "FAILED", fg="green" if report.ok else "red", bold=True)
