"""`asc-sched export`: a kernel for people who don't have asc_sched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from asc_sched.cli.common import load_op, op_options, parse_dtype, parse_shape, schedule_options, take_schedule
from asc_sched.errors import StorageError

FORMATS = ("script", "cann-op")


@click.command()
@click.argument("op")
@op_options(any_size=True)
@schedule_options
@click.option("--format", "form", type=click.Choice(FORMATS), default="script", show_default=True)
@click.option("--out", required=True, type=click.Path(), help="A .py file, or the project's folder for cann-op.")
@click.option("--name", help="The operator's type in CANN (cann-op); default: the op's name and Custom.")
@click.option("--force", is_flag=True, help="Write over what is there.")
def command(op: str, form: str, out: str, name: str | None, force: bool, **options: Any) -> None:
    """Write OP (a catalogue name or a declaration) for use without asc_sched.

    script: a pyasc script for one shape that needs pyasc and torch only (kernel, launch function, check against
    torch; -r and -v choose backend and platform). cann-op: a CANN custom operator project for any size (prototype,
    host tiling, device kernel, CMake presets, README), to be built into an operator package for GE and aclnn.
    """
    from asc_sched.export import export_cann_op, export_script
    from asc_sched.kernel import generate

    schedule = take_schedule(options)
    declared = load_op(op, options["scalars"])
    dtype, target = parse_dtype(options["dtype"]), options["target"]
    path = Path(out)
    if form == "script":
        if options["shape"] is None:
            raise click.UsageError("--format script is written for one shape: give --shape")
        kernel = generate(declared, parse_shape(options["shape"]), dtype, schedule=schedule, target=target)
        files = {path: export_script(kernel)}
    else:
        if options["shape"] is not None:
            raise click.UsageError("--format cann-op serves any size: leave --shape out")
        project = export_cann_op(declared, dtype, schedule=schedule, target=target, op_type=name)
        files = {path / inside: text for inside, text in project.items()}
    _write(files, force)
    for file in files:
        click.echo(f"wrote {file}")


def _write(files: dict[Path, str], force: bool) -> None:
    from asc_sched.files import storage_error, write_atomic

    there = [str(file) for file in files if file.exists()]
    if there and not force:
        raise StorageError(f"{there[0]} exists already; --force writes over it")
    for file, text in files.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise storage_error(err, "make", file.parent) from err
        write_atomic(file, text)
