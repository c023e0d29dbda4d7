"""`asc-sched show`: any stage between a declaration and Ascend C, as text."""

from __future__ import annotations

from typing import Any

import click

from asc_sched.cli.common import load_op, op_options, parse_dtype, parse_shape, schedule_options, take_schedule

STAGES = ("op", "tiling", "plan", "pyasc", "ascir", "ascendc")


@click.command()
@click.argument("op")
@op_options
@schedule_options
@click.option("--stage", type=click.Choice(STAGES), default="pyasc", show_default=True)
@click.option("--symbolic", is_flag=True, help="With --stage tiling: the formulas for any size.")
def command(op: str, stage: str, symbolic: bool, **options: Any) -> None:
    """Print one stage of OP (a catalogue name or a declaration) on its way to the chip."""
    schedule = take_schedule(options)
    declared = load_op(op, options["scalars"])
    if symbolic and stage != "tiling":
        raise click.UsageError("--symbolic goes with --stage tiling")
    kernel_of = declared.compile if stage in ("ascir", "ascendc") else _generate(declared)
    kernel = kernel_of(
        parse_shape(options["shape"]), parse_dtype(options["dtype"]), schedule=schedule, target=options["target"]
    )
    if symbolic:
        click.echo(_formulas(kernel))
        return
    stages: dict[str, Any] = {
        "op": lambda: str(declared), "tiling": lambda: str(kernel.tiling), "plan": lambda: str(kernel.plan),
        "pyasc": lambda: kernel.source, "ascir": lambda: kernel.asc_ir, "ascendc": lambda: kernel.ascendc,
    }  # fmt: skip
    text: str = stages[stage]()
    click.echo(text.rstrip())


def _generate(declared: Any) -> Any:
    from functools import partial

    from asc_sched.kernel import generate

    return partial(generate, declared)


def _formulas(kernel: Any) -> str:
    from asc_sched.tiling import Alignment, symbolic_tiling

    tiling = kernel.tiling
    align = Alignment.of(kernel.itemsizes, kernel.target)
    return str(symbolic_tiling(tiling.core_split, align, tiling.tile_by))
