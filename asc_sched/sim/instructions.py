"""The vector instructions by Ascend C name: what each computes, for which dtypes A2 has it, and its constraints.

Dtype sets are the "A2" rows of the public Ascend C API documentation; pyasc itself accepts far more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
import numpy as np

from asc_sched.sim.numerics import arith

Array: TypeAlias = "np.ndarray[Any, Any]"
#: out, sources, scalar, mode. `out` may be one of the sources; it never overlaps one partly.
Compute: TypeAlias = Callable[[Array, tuple[Array, ...], Any, int], None]

FLOATS = frozenset(("half", "float"))
ARITH = frozenset(("half", "float", "int16_t", "int32_t"))


@attrs.frozen
class Instruction:
    """One Ascend C vector call.

    `signatures`: allowed (dst, src...) dtypes. `kind`: ``map`` (element by element), ``compare`` (dst is bits),
    ``select`` (first source is bits). `count_bytes`: count times dtype size must be a multiple of it.
    `reads_dst`: the destination is a source too. `separate`: destination and sources must not overlap at all.
    """

    name: str
    compute: Compute
    signatures: frozenset[tuple[str, ...]]
    kind: str = "map"
    count_bytes: int = 1
    reads_dst: bool = False
    separate: bool = False
    adv: bool = False


def _same(dtypes: frozenset[str], operands: int) -> frozenset[tuple[str, ...]]:
    return frozenset((d,) * operands for d in dtypes)


def _table() -> dict[str, Instruction]:
    found: dict[str, Instruction] = {}

    def add(op: str, name: str, compute: Compute, signatures: frozenset[tuple[str, ...]], **more: Any) -> None:
        found[op] = Instruction(name, compute, signatures, **more)

    for op, name, compute in (
        ("add", "Add", arith.add),
        ("sub", "Sub", arith.sub),
        ("mul", "Mul", arith.mul),
        ("max", "Max", arith.maximum),
        ("min", "Min", arith.minimum),
    ):
        add(op, name, compute, _same(ARITH, 3))
    add("div", "Div", arith.div, _same(FLOATS, 3))
    return found


BASIC: Mapping[str, Instruction] = _table()
