"""`asc-sched show`: any stage between a declaration and Ascend C, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from asc_sched.cli.common import load_op, op_options, parse_dtype, parse_shape, schedule_options, take_schedule

if TYPE_CHECKING:
    from asc_sched.declare import Op
    from asc_sched.kernel import Kernel
    from asc_sched.schedule import Schedule
    from asc_sched.tiling.rows import RowTiling

STAGES = ("op", "tiling", "plan", "pyasc", "ascir", "ascendc")


@click.command()
@click.argument("op")
@op_options(any_size=True)
@schedule_options
@click.option("--stage", type=click.Choice(STAGES), default="pyasc", show_default=True, help="What to print.")
@click.option("--symbolic", is_flag=True, help="With --stage tiling: the formulas for any size.")
def command(op: str, stage: str, symbolic: bool, shape: str | None, dtype: str, target: str, **options: Any) -> None:
    """Print one stage of OP (a catalogue name, or a declaration such as "z = x + y") on its way to the chip.

    Without --shape it is the kernel for any size.
    """
    if symbolic and stage != "tiling":
        raise click.UsageError("--symbolic goes with --stage tiling")
    schedule = take_schedule(options)
    declared = load_op(op, options["scalars"])
    if stage == "op":
        click.echo(str(declared))
    elif stage == "tiling" and (symbolic or shape is None):
        click.echo(_formulas(declared, shape, dtype, target, schedule))
    else:
        click.echo(_stage(declared, stage, shape, dtype, target, schedule).rstrip())


def _stage(declared: Op, stage: str, shape: str | None, dtype: str, target: str, schedule: Schedule | None) -> str:
    from asc_sched.kernel import compile_kernel, generate

    make = compile_kernel if stage in ("ascir", "ascendc") else generate
    size = None if shape is None else parse_shape(shape)
    kernel: Kernel = make(declared, size, parse_dtype(dtype), schedule=schedule, target=target)
    return {
        "tiling": lambda: str(kernel.tiling),
        "plan": lambda: str(kernel.plan),
        "pyasc": lambda: kernel.source,
        "ascir": lambda: kernel.asc_ir,
        "ascendc": lambda: kernel.ascendc,
    }[stage]()


def _formulas(declared: Op, shape: str | None, dtype: str, target: str, schedule: Schedule | None) -> str:
    """The split's formulas, symbolic in total_length and in the schedule's numbers."""
    if shape is not None:
        from asc_sched.kernel import generate
        from asc_sched.tiling.rows import RowTiling

        kernel = generate(declared, parse_shape(shape), parse_dtype(dtype), schedule=schedule, target=target)
        if isinstance(kernel.tiling, RowTiling):
            return _row_formulas(kernel, kernel.tiling)
        schedule = kernel.schedule
    return _flat_formulas(declared, dtype, target, schedule)


def _flat_formulas(declared: Op, dtype: str, target: str, schedule: Schedule | None) -> str:
    from asc_sched import Schedule
    from asc_sched.lang.infer import infer
    from asc_sched.target import get_target
    from asc_sched.tiling import Alignment, symbolic_tiling

    chip, dtypes = get_target(target), declared.input_dtypes(parse_dtype(dtype))
    chosen = schedule or Schedule.auto(declared, shape=None, dtype=list(dtypes.values()), target=chip)
    typed = infer(declared.graph, dtypes)
    itemsizes = tuple(d.itemsize for d in (*dtypes.values(), *typed.output_dtypes.values()))
    by_num = "tile_num" if chosen.tile_num is not None else "fill"
    tile_by = "tile_length" if chosen.tile_length is not None else by_num
    formulas = symbolic_tiling(chosen.core_split, Alignment.of(itemsizes, chip), tile_by)
    return f"# {chosen!r} on {chip.name}\n{formulas}"


def _row_formulas(kernel: Kernel, tiling: RowTiling) -> str:
    """Rows are split as elements are; the lengths count rows."""
    from asc_sched.tiling import Alignment, symbolic_tiling

    rows = tiling.rows
    formulas = symbolic_tiling(rows.core_split, Alignment.of(rows.itemsizes, kernel.target), rows.tile_by)
    head = f"# {kernel.schedule!r} on {kernel.target.name}"
    return f"{head}\n# in rows of {tiling.width} elements: lengths and units are numbers of rows\n{formulas}"
