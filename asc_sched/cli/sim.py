"""`asc-sched sim`: any vector kernel of the user's own, executed, checked and timed by the simulator."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import attrs
import click

from asc_sched.cli.common import emit_json, errors_as_json
from asc_sched.errors import ArgumentError
from asc_sched.target import Target, get_target


@click.command()
@click.argument("kernel", metavar="FILE.py:KERNEL")
@click.option("--args", "arguments", multiple=True, help="The kernel's arguments in order, separated by spaces.")
@click.option("--core-num", type=click.IntRange(1, 65535), default=1, show_default=True, help="Cores to launch.")
@click.option("--target", default="Ascend910B1", show_default=True, help="The SoC.")
@click.option("--expect", help='Check against a declaration over the kernel\'s argument names: "z = x + y".')
@click.option("--allow", multiple=True, metavar="CHECK", help="Make this check a warning (all: every one).")
@click.option("--l2", type=click.Choice(["hot", "cold"]), default="hot", show_default=True, help="State of L2.")
@click.option("--clock-mhz", type=click.FloatRange(min=1), help="The vector cores' clock, in place of the target's.")
@click.option("--seed", default=0, show_default=True, help="Of random arrays.")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), help="Write the arrays there as .npy files.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def command(kernel: str, as_json: bool, **options: Any) -> None:
    """Compile FILE.py:KERNEL (an @asc.jit vector kernel) with pyasc, and execute, check and time it without an NPU.

    \b
    Arguments: float32[8x2048]        an array, filled with random numbers
               float32[100]=arange    or =zeros, =ones
               out:float32[8x2048]    an output: must be complete afterwards
               @x.npy                 an array from a file
               5  1.5  int64:7        scalars, as pyasc types them
               const:TILE=128         an asc.ConstExpr parameter

    Exit code 0: no finding. 1: the hardware would go wrong, or --expect isn't met. 2: the input is wrong.
    """
    with errors_as_json(as_json):
        report = _run(kernel, **options)
    if as_json:
        del report["_timing"]
        emit_json(report)
    else:
        _print(report)
    sys.exit(0 if report["ok"] else 1)


def _run(kernel: str, **options: Any) -> dict[str, Any]:
    from asc_sched.run.user_kernel import parse_arguments, simulate_kernel
    from asc_sched.sim import CHECKS, parse

    logging.getLogger("asc_sched.sim").setLevel(logging.ERROR)  # findings are printed below, not logged as well
    words = [w for text in options["arguments"] for w in shlex.split(text)]
    values, outputs, constants = parse_arguments(words, options["seed"])
    before = [v.copy() if hasattr(v, "copy") else v for v in values]
    run = simulate_kernel(
        kernel, *values, core_num=options["core_num"], target=_target(options), l2=options["l2"],
        strict=_strict(options["allow"], CHECKS), outputs=outputs or None, **constants,
    )  # fmt: skip
    names = [a.name for a in parse(run.asc_ir).kernel(kernel.rpartition(":")[2].rpartition(".")[2]).explicit_args]
    if options["save"] is not None:
        _save(options["save"], dict(zip(names, values, strict=True)))
    checked = _expect(options["expect"], names, before, values) if options["expect"] else {}
    return {
        "ok": not run.report.warnings and all(c["mismatches"] == 0 for c in checked.values()),
        "kernel": run.report.kernel,
        "target": options["target"],
        "cores": run.report.core_num,
        "instructions": run.report.instructions,
        "bytes_read": run.report.bytes_read,
        "bytes_written": run.report.bytes_written,
        "ub_bytes": run.report.ub_bytes,
        "warnings": [{"check": w.check, "message": str(w)} for w in run.report.warnings],
        "expect": checked,
        "timing": run.timing.to_json() if run.timing else None,
        "no_timing": run.no_timing,
        "_timing": run.timing,
    }


def _target(options: dict[str, Any]) -> Target:
    target, clock = get_target(options["target"]), options["clock_mhz"]
    return target if clock is None else target.evolve(clock_mhz=clock)


def _strict(allowed: tuple[str, ...], checks: dict[str, Any]) -> Any:
    if "all" in allowed:
        return False
    unknown = [a for a in allowed if a not in checks]
    if unknown:
        raise ArgumentError(f"--allow {unknown[0]}: no such check; checks are: all, {', '.join(sorted(checks))}")
    return [c for c in checks if c not in allowed] if allowed else True


def _expect(text: str, names: list[str], before: list[Any], after: list[Any]) -> dict[str, Any]:
    import torch

    from asc_sched.declare import op
    from asc_sched.run.check import compare

    numbers = {n: v for n, v in zip(names, before, strict=True) if not hasattr(v, "reshape") or v.shape == ()}
    declared = op(text, scalars={n: float(v) for n, v in numbers.items() if n in text})
    missing = [n for n in (*declared.inputs, *declared.outputs) if n not in names]
    if missing:
        raise ArgumentError(f"--expect {text!r}: the kernel has no argument {missing[0]!r}; it has {', '.join(names)}")
    inputs = [torch.from_numpy(before[names.index(n)]) for n in declared.inputs]
    results: dict[str, Any] = {}
    for name, want in zip(declared.outputs, declared.reference(*inputs), strict=True):
        got = torch.from_numpy(after[names.index(name)])
        if got.numel() != want.numel():
            raise ArgumentError(f"--expect {text!r}: {name} has {got.numel()} elements, expected {want.numel()}")
        results[name] = attrs.asdict(compare(got.reshape(want.shape), want))
    return results


def _save(folder: Path, arrays: dict[str, Any]) -> None:
    import io

    import numpy as np

    from asc_sched.files import write_atomic

    folder.mkdir(parents=True, exist_ok=True)
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            buffer = io.BytesIO()
            np.save(buffer, value, allow_pickle=False)
            write_atomic(folder / f"{name}.npy", buffer.getvalue())


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console

    from asc_sched.report.profile import profile_text

    timing = report.pop("_timing")
    click.echo(f"{report['kernel']} on {report['cores']} cores of {report['target']}, simulated")
    click.echo(
        f"{report['instructions']} instructions, {report['bytes_read']} bytes read, {report['bytes_written']} written, "
        f"{report['ub_bytes']} bytes of UB"
    )
    for warning in report["warnings"]:
        click.secho(f"{warning['check']}: {warning['message']}", fg="yellow")
    for name, out in report["expect"].items():
        click.echo(
            f"check of {name}: {out['elements']} elements, max abs error {out['max_abs_error']:.3g}, "
            f"{out['mismatches']} outside tolerance"
        )
    click.echo("")
    if timing:
        Console(no_color=bool(os.environ.get("NO_COLOR")), highlight=False).print(profile_text(timing))
    else:
        click.echo(f"no modelled time: {report['no_timing']}")
    click.secho("OK" if report["ok"] else "FAILED", fg="green" if report["ok"] else "red", bold=True)
