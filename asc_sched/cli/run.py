"""`asc-sched run`: compile an op, run it on random tensors, check the result against torch."""

from __future__ import annotations

import sys
from typing import Any

import click

from asc_sched.cli import FAILED
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
@click.option("--backend", help="Where it runs; sim, the simulator, runs on any machine.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(op: str, as_json: bool, **options: Any) -> None:
    """Run OP (a catalogue name, or a declaration such as "z = x + y") and check it against torch.

    Exit code 0: the results agree. 1: they don't. 2: the input is wrong.
    """
    with errors_as_json(as_json):
        report = _run(op, **options)
    if as_json:
        emit_json(report)
    else:
        _print(report)
    sys.exit(0 if report["ok"] else FAILED)


def _run(text: str, **options: Any) -> dict[str, Any]:
    from asc_sched.run.check import check_kernel

    schedule = take_schedule(options)
    op = load_op(text, options["scalars"])
    kernel = op.compile(
        parse_shape(options["shape"]), parse_dtype(options["dtype"]), schedule=schedule, target=options["target"]
    )
    scalars = {n: v for n, v in parse_scalars(options["scalars"]).items() if v is not None}
    return check_kernel(kernel, scalars=scalars, seed=options["seed"], backend=options["backend"])


def _print(report: dict[str, Any]) -> None:
    click.echo(f"{report['expression']}\n{report['schedule_repr']} on {report['target']} (backend {report['backend']})")
    click.echo()
    click.echo(report["tiling_text"])
    click.echo()
    share = 100 * report["ub_bytes"] / report["ub_capacity"]
    click.echo(f"UB: {report['ub_bytes']} of {report['ub_capacity']} bytes ({share:.1f} %)")
    click.echo(f"cores launched: {report['cores']}")
    for name, out in report["outputs"].items():
        click.echo(
            f"check of {name} against torch: {out['elements']} elements compared, "
            f"max abs error {out['max_abs_error']:.3g}, max rel error {out['max_rel_error']:.3g}, "
            f"{out['mismatches']} outside tolerance"
        )
    verdict = "OK" if report["ok"] else "FAILED"
    click.echo(click.style(verdict, fg="green" if report["ok"] else "red", bold=True))
