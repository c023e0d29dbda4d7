"""`asc-sched build`: a whole library of kernels, as a Python package with torch operators."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from asc_sched.cli.common import emit_json, errors_as_json

if TYPE_CHECKING:
    from asc_sched.library.builder import BuildReport


@click.command()
@click.argument("declaration", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder to build into.")
@click.option("--jobs", type=int, help="Worker processes. Default: one per processor.")
@click.option("--executor", default="local", show_default=True, help="local, or dask://HOST:PORT for a cluster.")
@click.option("--no-cache", is_flag=True, help="Neither take kernels from the user's cache nor keep them there.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(
    declaration: Path, out: Path, jobs: int | None, executor: str, no_cache: bool, as_json: bool
) -> None:
    """Build the library that DECLARATION (a .toml or .py file) declares.

    What is in the folder already and hasn't changed is kept, so a build that was stopped goes on where it was.
    Exit code 0: every kernel is there. 1: some could not be built. 2: the input is wrong. 130: stopped with ^C.
    """
    with errors_as_json(as_json):
        report = _build(declaration, out, jobs, executor, no_cache)
    if as_json:
        emit_json({"ok": report.ok, **attrs.asdict(report)})
    else:
        _print(report)
    sys.exit(0 if report.ok else 1)


def _build(declaration: Path, out: Path, jobs: int | None, executor: str, no_cache: bool) -> BuildReport:
    from asc_sched.library.builder import build
    from asc_sched.report.progress import BuildProgress

    with BuildProgress() as progress:
        try:
            return build(
                declaration, out, jobs=jobs, executor=executor, cache=None if no_cache else "default", watcher=progress
            )
        except KeyboardInterrupt:
            progress.close()
            click.echo(
                f"stopped: {progress.done} of {progress.todo} kernels are done; the same command goes on from there",
                err=True,
            )
            sys.exit(130)


def _print(report: BuildReport) -> None:
    for name, dtypes, reason in report.skipped:
        click.echo(f"skipped {name} ({', '.join(dtypes)}): {reason}")
    made = f"{report.built} built, {report.cached} from the cache, {report.kept} kept"
    if not report.changed:
        made = "nothing to do"
    click.echo(f"{report.name}: {report.kernels} kernels in {report.folder} ({made}) in {report.seconds:.1f} s")
    if report.failures:
        click.secho(f"{len(report.failures)} kernels could not be built", fg="red", err=True)

