"""What a launch's GM traffic does to L2: which loads miss, how many bytes of stores are written back.

L2 is taken as least-recently-used (asc-devkit's data_copy scenario 5: a 302 MB cyclic read has 0.005 % hits in
192 MB). So it is decided by sizes alone: data that fits stays, data that doesn't is gone before it is needed again.
Lines of stores are written back when something else takes their place: of a launch's stores, that is the part that the
footprint is larger than L2.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from asc_sched.sim.outline import CoreGroup, Node, Repeat, offset_coefficient
from asc_sched.sim.stream import Copy, Pipe
from asc_sched.target import Target

L2_STATES = ("hot", "cold")


@attrs.frozen
class ArgTraffic:
    """One GM argument: bytes moved, and bytes of it that are touched at all."""

    read: int
    written: int
    read_extent: int
    written_extent: int


@attrs.frozen
class Traffic:
    """A launch's GM traffic and what L2 does with it.

    `hits`: everything that allocates in L2 fits into it and is there from the start. `resident`: so it would be
    without any `CACHE_MODE_DISABLE`. `write_back`: the part of the stored bytes that L2 has to write to HBM before the
    launch ends; what fits stays. `unique_reads`: per argument, the part of its read traffic that other cores haven't
    fetched.
    """

    args: tuple[ArgTraffic, ...]
    footprint: int
    hits: bool
    resident: bool
    write_back: float
    unique_reads: tuple[float, ...]

    @property
    def bytes_read(self) -> int:
        return sum(a.read for a in self.args)

    @property
    def bytes_written(self) -> int:
        return sum(a.written for a in self.args)


class _Counter:
    """Adds up the traffic of core groups per argument."""

    def __init__(self, args: int) -> None:
        self.read = [0] * args
        self.written = [0] * args
        self.distinct_read = [0] * args
        self.distinct_written = [0] * args
        self.bypass_read = [True] * args

    def nodes(self, nodes: Sequence[Node], times: int, loops: tuple[Repeat, ...]) -> None:
        for node in nodes:
            if isinstance(node, Repeat):
                self.nodes(node.body, times * node.count, (*loops, node))
            elif isinstance(node, Copy):
                self._copy(node, times, loops)

    def _copy(self, copy: Copy, times: int, loops: tuple[Repeat, ...]) -> None:
        arg, total = copy.gm.arg, copy.gm.nbytes * times
        distinct = total
        for loop in loops:
            if offset_coefficient(copy.gm.offset, loop.var) == 0:
                distinct //= loop.count
        if copy.pipe is Pipe.MTE2:
            self.read[arg] += total
            self.distinct_read[arg] += distinct
            self.bypass_read[arg] &= copy.gm.bypass
        else:
            self.written[arg] += total
            self.distinct_written[arg] += distinct


def analyse(groups: Sequence[CoreGroup], arg_bytes: Sequence[int], target: Target, l2: str) -> Traffic:
    """The traffic of a launch on arrays of `arg_bytes`, with `l2` in the state that earlier runs left ("hot": of the
    same kernel on the same arrays) or empty of them ("cold")."""
    count = _Counter(len(arg_bytes))
    for group in groups:
        count.nodes(group.nodes, group.cores, ())
    args = tuple(
        ArgTraffic(
            count.read[i],
            count.written[i],
            min(nbytes, count.distinct_read[i]),
            min(nbytes, count.distinct_written[i]),
        )
        for i, nbytes in enumerate(arg_bytes)
    )
    footprint = sum(max(0 if count.bypass_read[i] else a.read_extent, a.written_extent) for i, a in enumerate(args))
    fits = footprint <= target.l2_bytes
    write_back = 0.0 if fits else 1 - target.l2_bytes / footprint
    unique = tuple(
        a.read_extent / count.distinct_read[i] if count.distinct_read[i] else 1.0 for i, a in enumerate(args)
    )
    all_bytes = sum(max(a.read_extent, a.written_extent) for a in args)
    resident = l2 == "hot" and all_bytes <= target.l2_bytes
    return Traffic(args, footprint, fits and l2 == "hot", resident, write_back, unique)


def reuse_levels(copy: Copy, loops: Sequence[Repeat], loop_bytes: Sequence[int], target: Target) -> tuple[int, ...]:
    """The loops (by depth) whose later iterations find a load's data in L2: it reads the same place again, and what
    all cores touch in between (`loop_bytes`, per iteration) fits into L2."""
    return tuple(
        depth
        for depth, loop in enumerate(loops)
        if offset_coefficient(copy.gm.offset, loop.var) == 0 and loop_bytes[depth] <= target.l2_bytes
    )


def iteration_bytes(nodes: Sequence[Node]) -> int:
    """GM bytes that one execution of `nodes` allocates in L2 on one core."""
    total = 0
    for node in nodes:
        if isinstance(node, Repeat):
            total += node.count * iteration_bytes(node.body)
        elif isinstance(node, Copy) and not node.gm.bypass:
            total += node.gm.nbytes
    return total


@attrs.frozen
class Lines:
    """How a copy's pieces lie on GM's 512-byte lines: lines touched, and those touched only for being misaligned."""

    lines: float
    extra: float


def lines_of(copy: Copy, loops: Sequence[Repeat], target: Target) -> Lines:
    """Averaged over the offsets that the copy's loops and cores give it."""
    line = target.gm_line_bytes
    offset = copy.gm.offset
    steps = [copy.block_bytes + copy.gm_stride] if copy.block_count > 1 else []
    const = offset if isinstance(offset, int) else offset.const
    if not isinstance(offset, int):
        steps += [c for _, c in offset.terms]
    grain = line
    for step in steps:
        grain = _gcd(grain, step % line)
    starts = range(const % grain, line, grain) if grain < line else [const % line]
    least = -(-copy.block_bytes // line)
    touched = sum((start + copy.block_bytes - 1) // line + 1 for start in starts) / len(starts)
    return Lines(copy.block_count * touched, copy.block_count * (touched - least))


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a
