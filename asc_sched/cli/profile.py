"""`asc-sched profile`: where a kernel's time goes, per pipe, as msprof shows it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from asc_sched.cli.common import (
    emit_json,
    errors_as_json,
    load_op,
    op_options,
    parse_dtype,
    parse_scalars,
    parse_shape,
    schedule_options,
    take_schedule,
)


@click.command()
@click.argument("op")
@op_options(any_size=False)
@schedule_options
@click.option("--l2", type=click.Choice(["hot", "cold"]), default="hot", show_default=True, help="State of L2 before.")
@click.option("--clock-mhz", type=click.FloatRange(min=1), help="The vector cores' clock, in place of the target's.")
@click.option("--backend", type=click.Choice(["model", "npu"]), default="model", show_default=True, help="npu: msprof.")
@click.option("--csv", type=click.Path(exists=True, path_type=Path), help="With npu: read msprof's table from here.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write a Chrome/Perfetto trace there.")
@click.option("--trace-tiles", default=8, show_default=True, help="Tiles per core in the trace; 0 shows all.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(op: str, as_json: bool, **options: Any) -> None:
    """Show where the time of OP (a catalogue name or a declaration) goes: task, pipes, bytes, bandwidth, the bound.

    Times are simulated (the time model) unless --backend npu runs the kernel under msprof. The trace opens in
    Perfetto, chrome://tracing and MindStudio Insight.
    """
    with errors_as_json(as_json):
        _run(op, as_json, **options)


def _run(text: str, as_json: bool, **options: Any) -> None:
    schedule = take_schedule(options)
    if options["backend"] == "npu":
        emit_json(_on_npu(text, schedule, options))
        return
    from asc_sched.run.profile import profile, profile_trace

    kernel = load_op(text, options["scalars"]).compile(
        parse_shape(options["shape"]), parse_dtype(options["dtype"]), schedule=schedule, target=options["target"]
    )
    clock = options["clock_mhz"]
    target = kernel.target if clock is None else kernel.target.evolve(clock_mhz=clock)
    timing = profile(kernel, l2=options["l2"], target=target)
    if options["trace"] is not None:
        data = profile_trace(kernel, l2=options["l2"], target=target, tiles=options["trace_tiles"] or None)
        _write(options["trace"], data)
    if as_json:
        emit_json({**timing.to_json(), "source": "model", "kernel": kernel.name, "schedule": kernel.schedule.to_dict()})
        return
    from rich.console import Console

    from asc_sched.report.profile import profile_text

    click.echo(f"{kernel.name}: {kernel.schedule!r}\n")
    Console(no_color=bool(os.environ.get("NO_COLOR")), highlight=False).print(profile_text(timing))
    if options["trace"] is not None:
        click.echo(f"trace written to {options['trace']}; open it in Perfetto")


def _write(path: Path, data: dict[str, Any]) -> None:
    from asc_sched.files import write_atomic

    write_atomic(path, json.dumps(data, separators=(",", ":")))


def _on_npu(text: str, schedule: Any, options: dict[str, Any]) -> dict[str, Any]:
    from asc_sched.run.npu_profile import LaunchSpec, profile_npu

    spec = LaunchSpec(
        op=text,
        shape=parse_shape(options["shape"]),
        dtype=parse_dtype(options["dtype"]),
        scalars={n: 1.0 if v is None else float(v) for n, v in parse_scalars(options["scalars"]).items()},
        schedule=None if schedule is None else schedule.to_dict(),
        target=options["target"],
    )
    return profile_npu(spec, options["csv"])
