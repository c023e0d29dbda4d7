"""A launch: every kind of core run against its share of the chip's bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from asc_sched.errors import ArgumentError
from asc_sched.sim.compiled import Rates, Shares, Sink, Step
from asc_sched.sim.engine import Clock
from asc_sched.sim.outline import CoreGroup, shape
from asc_sched.sim.share import Rate
from asc_sched.sim.steps import Compiler, rates_of
from asc_sched.sim.traffic import L2_STATES, Traffic, analyse
from asc_sched.target import Target
from asc_sched.target.timing import TimingConstants

#: Cores that finish within this part of the run of each other are taken to finish together.
_SAME_END = 0.003
_MAX_STAGES = 8

#: Ranges of cores: (first, how many).
Cores: TypeAlias = "tuple[tuple[int, int], ...]"


@attrs.frozen
class Run:
    """One core group's clock after its run, and the shares of bandwidth it had."""

    group: CoreGroup
    members: Cores
    steps: tuple[Step, ...]
    shares: Shares
    clock: Clock

    @property
    def end(self) -> float:
        return self.clock.end


class Launch:
    """Core groups compiled for a target, ready to be run against shares of bandwidth.

    Groups that only differ in where their data lies are merged: `groups` has one of each kind, with `cores` of all,
    and `members` which cores these are.
    """

    def __init__(
        self,
        groups: Sequence[CoreGroup],
        arg_bytes: Sequence[int],
        target: Target,
        l2: str,
        constants: TimingConstants,
    ) -> None:
        if l2 not in L2_STATES:
            raise ArgumentError(f"l2={l2!r}: allowed is {' or '.join(map(repr, L2_STATES))}")
        self.groups, self.members = _merge(groups, target)
        self.target = target
        self.constants = constants
        self.cores = sum(g.cores for g in groups)
        self.concurrent = min(self.cores, target.vector_cores)
        self.traffic: Traffic = analyse(groups, arg_bytes, target, l2)
        self.rates: Rates = rates_of(target, constants)
        compiler = Compiler(target, constants, self.traffic, self.concurrent)
        self.steps: tuple[tuple[Step, ...], ...] = tuple(compiler.steps(g.nodes) for g in self.groups)

    def clock(self, shares: Shares, sink: Sink | None = None) -> Clock:
        """A core's clock at the start of the launch."""
        clock = Clock(self.rates, shares, sink)
        clock.v.free = clock.v.done = clock.v.busy = self.constants.vector_init_cycles
        return clock

    def shares(self, ends: Sequence[tuple[float, int]]) -> Shares:
        """A core's shares when `ends` lists (cycle, cores still running from then on) after the start."""
        counts = (self.concurrent, *(n for _, n in ends))
        until = tuple(t for t, _ in ends)
        per_cycle = 1 / (self.target.clock_mhz * 1e6)
        hbm = self.target.hbm_bytes_per_s * per_cycle

        def rate(total: float) -> Rate:
            return Rate(tuple(total / max(1, n) for n in counts), until)

        return Shares(
            l2=rate(self.target.l2_bytes_per_s * per_cycle),
            hbm_read=rate(hbm * self.constants.hbm_read_efficiency),
            hbm_write=rate(hbm * self.constants.hbm_write_efficiency),
        )

    def run(self, skip: bool = True) -> list[Run]:
        """Runs every group; groups that outlast others get their share of the bandwidth from then on."""
        final: list[Run] = []
        left = list(range(len(self.groups)))
        ends: list[tuple[float, int]] = []
        running = self.concurrent
        while left:
            runs = {i: self._run(i, ends, skip) for i in left}
            first = min(r.end for r in runs.values())
            last = max(r.end for r in runs.values())
            cut = last if last - first <= _SAME_END * last or len(ends) >= _MAX_STAGES else first * (1 + _SAME_END)
            done = [i for i in left if runs[i].end <= cut]
            final += [runs[i] for i in done]
            left = [i for i in left if i not in done]
            running -= sum(self.groups[i].cores for i in done)
            ends.append((max(runs[i].end for i in done), running))
        return final

    def _run(self, index: int, ends: Sequence[tuple[float, int]], skip: bool) -> Run:
        shares = self.shares(ends)
        clock = self.clock(shares)
        clock.run(self.steps[index], skip)
        return Run(self.groups[index], self.members[index], self.steps[index], shares, clock)


def _merge(groups: Sequence[CoreGroup], target: Target) -> tuple[tuple[CoreGroup, ...], tuple[Cores, ...]]:
    """One group of each kind with the cores of all, and which cores these are."""
    kinds: dict[tuple[object, ...], CoreGroup] = {}
    members: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for group in groups:
        key = shape(group.nodes, target.gm_line_bytes)
        known = kinds.get(key)
        kinds[key] = group if known is None else attrs.evolve(known, cores=known.cores + group.cores)
        members.setdefault(key, []).append((group.start, group.cores))
    return tuple(kinds.values()), tuple(tuple(m) for m in members.values())
