"""What groups of cores execute, as trees of records and repeats: the input of the clock.

`symbolic.outlines` derives these trees from a kernel's IR; anyone who only has a description of a kernel (a tuner) can
build the same trees from `stream` records directly and time them with `timing.time_outlines`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import attrs

from asc_sched.sim.affine import Affine, Var
from asc_sched.sim.stream import Record

Node: TypeAlias = "Record | Repeat"


@attrs.frozen
class Repeat:
    """`count` executions of `body`, all alike but for GM offsets that are linear in `var`.

    `var` is 0 in the first execution and moves on by `stride` with each. `first`: whether this starts a loop, or goes
    on with one whose earlier iterations came before.
    """

    var: Var
    count: int
    body: tuple[Node, ...]
    first: bool = True
    stride: int = 1


@attrs.frozen
class CoreGroup:
    """`cores` cores, from number `start` on, that execute the same records (GM offsets may be linear in `var`)."""

    start: int
    cores: int
    nodes: tuple[Node, ...]
    var: Var | None = None


def offset_coefficient(offset: int | Affine, var: Var) -> int:
    """How many bytes a GM offset moves on per step of `var`."""
    return offset.coefficient(var) if isinstance(offset, Affine) else 0


def walk(nodes: Sequence[Node], times: int = 1) -> Iterator[tuple[Record, int]]:
    """Every record of a tree with how often it is executed."""
    for node in nodes:
        if isinstance(node, Repeat):
            yield from walk(node.body, times * node.count)
        else:
            yield node, times
