"""What the commands share: reading ops, shapes, dtypes and schedules from options; JSON out."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from asc_sched.cli import BAD_INPUT, FAILED
from asc_sched.declare import Op, op
from asc_sched.errors import AscSchedError, DeclarationError, ShapeError, SimulationError
from asc_sched.schedule import Schedule

F = TypeVar("F", bound=Callable[..., Any])


def load_op(text: str, scalars: str | None = None) -> Op:
    """A catalogue name (``add``), or a declaration (``z = x + y``)."""
    if re.fullmatch(r"\s*[\w.-]+\s*", text):
        from asc_sched import ops

        found: Op = ops.get(text.strip())
        given, own = parse_scalars(scalars), [s.name for s in found.scalars]
        for name in given:
            if name not in own:
                has = f"its scalars are {', '.join(own)}" if own else "it has none"
                raise DeclarationError(f"--scalars {name}: the catalogue's {found.name} has no such scalar; {has}")
        return found
    return op(text, scalars=parse_scalars(scalars))


def parse_scalars(text: str | None) -> dict[str, Any]:
    """``a,b=2.0,k=3`` to runtime scalars with optional values; one without a point is an integer."""
    result: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in (text or "").split(","))):
        name, _, value = part.partition("=")
        try:
            result[name.strip()] = _number(value.strip()) if value else None
        except ValueError:
            raise DeclarationError(f"--scalars {part!r}: expected name or name=number, such as alpha=2.0") from None
    return result


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def parse_shape(text: str) -> Any:
    """``8x2048``, ``1000003``, ``0`` or ``()`` for a scalar; ``128x1,1x128`` for one shape per input."""
    parts = [p.strip() for p in text.split(",")]
    shapes = [_one_shape(p) for p in parts]
    return shapes[0] if len(shapes) == 1 else shapes


def _one_shape(text: str) -> tuple[int, ...]:
    if text == "()":
        return ()
    if not re.fullmatch(r"\d+(x\d+)*", text):
        raise ShapeError(f"shape {text!r}: expected sizes joined by x, such as 8x2048 (or () for a 0-d tensor)")
    return tuple(int(d) for d in text.split("x"))


def parse_dtype(text: str) -> Any:
    """``float32``, or one per input: ``int32,float16``."""
    parts = [p.strip() for p in text.split(",")]
    return parts[0] if len(parts) == 1 else parts


def op_options(*, any_size: bool) -> Callable[[F], F]:
    """--shape (may be left out where a kernel of any size will do), --dtype, --scalars, --target."""
    shape = "Such as 8x2048, or () for a 0-d tensor; one per input: 128x1,1x128."
    options = [
        click.option("--shape", required=not any_size, help=shape + (" Default: any size." if any_size else "")),
        click.option("--dtype", default="float32", show_default=True, help="One for all inputs, or one per input."),
        click.option("--scalars", help="Runtime scalars and their values: alpha=2.0,beta=1.0."),
        click.option("--target", default="Ascend910B1", show_default=True, help="The SoC."),
    ]

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def schedule_options(function: F) -> F:
    """The knobs of a schedule; with none given, the schedule is chosen automatically."""
    for option in reversed(
        [
            click.option("--core-num", type=int, help="Cores (USE_CORE_NUM)."),
            click.option("--tile-num", type=int, help="TILE_NUM: a core's block is tile_num x buffer_num tiles."),
            click.option("--tile-length", type=int, help="Elements of a tile, in place of --tile-num."),
            click.option("--buffer-num", type=int, help="BUFFER_NUM: 2 is double buffering."),
            click.option("--core-split", help="even or ceil."),
            click.option("--l2-cache", help="normal or bypass."),
            click.option("--bank-pad/--no-bank-pad", default=None, help="Offset sources by 256 B against conflicts."),
            click.option("--pack-inputs/--no-pack-inputs", default=None, help="Several inputs in one queue buffer."),
        ]
    ):
        function = option(function)
    return function


SCHEDULE_FIELDS = (
    "core_num", "tile_num", "tile_length", "buffer_num", "core_split", "l2_cache", "bank_pad", "pack_inputs",
)  # fmt: skip


def take_schedule(options: dict[str, Any]) -> Schedule | None:
    """Removes the schedule's options from `options`; None where none is given."""
    given = {name: options.pop(name) for name in SCHEDULE_FIELDS}
    fields = {name: value for name, value in given.items() if value is not None}
    return Schedule(**fields) if fields else None


def emit_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


@contextlib.contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """Where `wanted`, an error of ours is a JSON document on standard output, and ends the command."""
    try:
        yield
    except AscSchedError as error:
        if not wanted:
            raise
        emit_json({"ok": False, "error": type(error).__name__, "message": str(error)})
        sys.exit(exit_code(error))


def exit_code(error: AscSchedError) -> int:
    """What the simulator finds is a failed check; all else is the input's fault."""
    return FAILED if isinstance(error, SimulationError) else BAD_INPUT
