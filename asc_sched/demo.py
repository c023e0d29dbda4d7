"""The main job in one go: what `make demo` shows."""

from __future__ import annotations

import os
import sys

import click


def main() -> int:
    """An add: declared, scheduled, generated, compiled by pyasc, simulated and checked. Exit code 0 if right."""
    import torch

    from asc_sched import Schedule, op
    from asc_sched.run.check import check_kernel

    colour = False if os.environ.get("NO_COLOR") else None

    def title(text: str) -> None:
        click.secho(f"\n== {text}", bold=True, color=colour)

    title("declare")
    add = op("z = x + y")
    click.echo(str(add))

    title("schedule, on 1000003 elements: a size that nothing divides")
    schedule = Schedule(core_num=8, tile_num=8, buffer_num=2)
    kernel = add.compile(shape=(1000003,), dtype="float32", schedule=schedule, target="Ascend910B1")
    click.echo(f"{schedule!r}\n\n{kernel.tiling}\n\n{kernel.plan}")

    title("generated pyasc kernel")
    click.echo(kernel.source.rstrip())

    title("compiled by the real pyasc: Ascend C, first and last lines")
    lines = kernel.ascendc.strip().splitlines()
    click.echo("\n".join([*lines[:6], f"  ... {len(lines) - 12} lines ...", *lines[-6:]]))

    title("executed on the simulator and checked against torch")
    report = check_kernel(kernel)
    for name, out in report["outputs"].items():
        click.echo(f"{name}: {out['elements']} elements compared, max abs error {out['max_abs_error']:.3g}")

    title("any size, schedule chosen automatically")
    x, y = torch.rand(3, 333_331), torch.rand(3, 333_331)
    z = add(x, y)
    same = isinstance(z, torch.Tensor) and torch.equal(z, x + y)
    click.echo(f"add(x, y) on {tuple(x.shape)}: {'equal to torch, bit for bit' if same else 'DIFFERENT from torch'}")

    ok = bool(report["ok"]) and same
    click.secho(f"\n{'OK' if ok else 'FAILED'}", bold=True, fg="green" if ok else "red", color=colour)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
