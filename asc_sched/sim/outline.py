"""What groups of cores execute, as trees of records and repeats: the input of the clock.

`symbolic.outlines` derives these trees from a kernel's IR; anyone who only has a description of a kernel (a tuner) can
build the same trees from `stream` records directly and time them with `timing.time_outlines`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from asc_sched.sim.affine import Affine, Var, make
from asc_sched.sim.stream import Copy, Record

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


def moved(nodes: Sequence[Node], var: Var, by: int, *, keep: bool) -> Iterator[Node]:
    """The nodes with `var` replaced by ``var + by`` in all GM offsets, or, without `keep`, by the number `by`."""
    for node in nodes:
        if isinstance(node, Repeat):
            yield attrs.evolve(node, body=tuple(moved(node.body, var, by, keep=keep)))
        elif isinstance(node, Copy) and offset_coefficient(node.gm.offset, var):
            offset: Any = node.gm.offset
            terms = offset.terms if keep else tuple((v, c) for v, c in offset.terms if v is not var)
            place: Any = make(offset.const + offset.coefficient(var) * by, terms)
            yield attrs.evolve(node, gm=attrs.evolve(node.gm, offset=place))
        else:
            yield node


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


def shape(nodes: Sequence[Node], line_bytes: int, loops: tuple[Var, ...] = ()) -> tuple[object, ...]:
    """What decides the time of a tree: everything but which GM lines it touches. Equal shapes take equal time.

    Of a GM offset there remain its place within a line of `line_bytes` and its steps in the enclosing loops.
    """
    return tuple(
        (node.count, node.first, node.stride, shape(node.body, line_bytes, (*loops, node.var)))
        if isinstance(node, Repeat)
        else _copy_shape(node, line_bytes, loops)
        if isinstance(node, Copy)
        else node
        for node in nodes
    )


def _copy_shape(copy: Copy, line_bytes: int, loops: tuple[Var, ...]) -> tuple[object, ...]:
    offset: int | Affine = copy.gm.offset
    const, terms = (offset, ()) if isinstance(offset, int) else (offset.const, offset.terms)
    steps = tuple((loops.index(v) if v in loops else -1, c) for v, c in terms)
    place = (copy.gm.arg, copy.gm.nbytes, copy.gm.bypass, const % line_bytes, steps)
    return (copy.pipe, copy.name, copy.ub, place, copy.block_count, copy.block_bytes, copy.gm_stride, copy.loc)
