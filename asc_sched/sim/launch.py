"""A launch: every kind of core run against its share of the chip's bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from asc_sched.errors import ArgumentError
from asc_sched.sim.compiled import Rates, Shares, Sink, Step
from asc_sched.sim.engine import Clock
from asc_sched.sim.outline import CoreGroup, shape
from asc_sched.sim.share import Rate, Share
from asc_sched.sim.steps import Compiler, rates_of
from asc_sched.sim.traffic import L2_STATES, Traffic, analyse
from asc_sched.target import Target
from asc_sched.target.timing import TimingConstants

#: Cores that finish within this part of the run of each other are taken to finish together.
_SAME_END = 0.003
_MAX_STAGES = 8
#: A launch is worked out again until its time changes by less than this part, or its demand is known to this part of
#: the time, at most so often.
_SAME_TIME = 0.001
_SAME_DEMAND = 0.004
_MAX_ROUNDS = 12

#: Ranges of cores: (first, how many).
Cores: TypeAlias = "tuple[tuple[int, int], ...]"


@attrs.frozen
class Demand:
    """How much of the time a core draws on L2 (reading, writing) and on HBM: its part of the cores that do so at once.

    Cores start together, so at first all want the same at the same moment, and get out of step over their tiles. From
    then on a core shares a bandwidth with those of the others that want it at the same moment. `l2_mixed`: by how much
    L2 is slower for serving loads and stores at once.
    """

    l2_read: float = 1.0
    l2_write: float = 1.0
    hbm: float = 1.0
    l2_mixed: float = 1.0

    def after(self, found: Demand, earlier: tuple[Demand, Demand] | None) -> Demand:
        """A guess of the demand that brings itself about, when this one brought about `found` (and before it the
        first of `earlier` the second): where the straight line through both pairs meets it."""
        if earlier is None:
            return found
        pairs = (attrs.astuple(d) for d in (*earlier, self, found))
        guess = Demand(*(_meets_itself(*values) for values in zip(*pairs, strict=True)))
        return attrs.evolve(guess, l2_mixed=found.l2_mixed)


def _meets_itself(x0: float, y0: float, x1: float, y1: float) -> float:
    if abs(x1 - x0) < 1e-9:
        return y1
    slope = max(-4.0, min(0.8, (y1 - y0) / (x1 - x0)))
    return min(1.0, max(0.0, x1 + (y1 - x1) / (1 - slope)))


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


_ALL = Demand()


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
        self.is_cold = l2 == "cold"
        self.cores = sum(g.cores for g in groups)
        self.concurrent = min(self.cores, target.vector_cores)
        self.traffic: Traffic = analyse(groups, arg_bytes, target, l2)
        self.rates: Rates = rates_of(target, constants)
        compiler = Compiler(target, constants, self.traffic, self.concurrent)
        self.steps: tuple[tuple[Step, ...], ...] = tuple(compiler.steps(g.nodes) for g in self.groups)

    def clock(self, shares: Shares, sink: Sink | None = None) -> Clock:
        """A core's clock at the start of the launch."""
        clock = Clock(self.rates, shares, sink)
        clock.s = self.start_cycles
        clock.v.free = clock.v.done = clock.v.busy = self.constants.vector_init_cycles
        return clock

    @property
    def start_cycles(self) -> float:
        """What a core waits before its first instruction: in a first launch for its instructions."""
        return self.constants.cold_start_us * self.target.clock_mhz if self.is_cold else 0.0

    def shares(self, ends: Sequence[tuple[float, int]], demand: Demand = _ALL) -> Shares:
        """A core's shares when `ends` lists (cycle, cores still running from then on) after the start."""
        counts = (self.concurrent, *(n for _, n in ends))
        until = tuple(t for t, _ in ends)
        per_cycle = 1 / (self.target.clock_mhz * 1e6)
        target, constants = self.target, self.constants
        hbm, l2 = target.hbm_bytes_per_s, target.l2_bytes_per_s / demand.l2_mixed

        def rate(total: float, wanted: float) -> Rate:
            return Rate(tuple(total * per_cycle / (1 + max(0, n - 1) * wanted) for n in counts), until)

        return Shares(
            l2_read=rate(l2, demand.l2_read),
            l2_write=rate(l2, demand.l2_write),
            hbm_read=rate(hbm * constants.hbm_read_efficiency, demand.hbm),
            hbm_write=rate(hbm * constants.hbm_write_efficiency, demand.hbm),
        )

    def run(self, skip: bool = True) -> list[Run]:
        """Runs every group against the shares of bandwidth that follow from what all of them want.

        Where cores that get more bandwidth fall into another rhythm, and then want much more of HBM, no demand may
        bring itself about: then it is the least for which the cores don't draw more than HBM has.
        """
        demand, earlier, time = _ALL, None, 0.0
        low, high = 0.0, 1.0  # demands at which cores draw more than assumed, and not more
        for _ in range(_MAX_ROUNDS):
            runs = self._runs(demand, skip)
            last, time = time, max((r.end for r in runs), default=0.0)
            found = self._demand(runs, demand)
            if found.hbm <= demand.hbm + _SAME_DEMAND:
                possible, high = runs, min(high, demand.hbm)
                if found == demand or abs(time - last) <= _SAME_TIME * time:
                    break
            else:
                low = max(low, demand.hbm)
            if high - low <= _SAME_DEMAND:
                break
            guess = demand.after(found, earlier)
            if not low < guess.hbm < high:
                guess = attrs.evolve(guess, hbm=(low + high) / 2)
            demand, earlier = guess, (demand, found)
        return possible

    def spread(self, run: Run) -> float:
        """By how much the slowest core of a kind takes longer than the mean: HBM doesn't serve all alike when busy."""
        time = run.end - self.start_cycles
        if self.cores < 2 or time <= 0:
            return 0.0
        most = self.target.hbm_bytes_per_s * self.constants.hbm_read_efficiency / (self.target.clock_mhz * 1e6)
        served = run.clock.hbm.busy / time * run.shares.hbm_read.rates[0] * self.concurrent
        return self.constants.hbm_spread * min(1.0, served / most)

    def _demand(self, runs: Sequence[Run], before: Demand) -> Demand:
        """What the cores of a run drew on, averaged over them."""
        if self.concurrent < 2:
            return _ALL

        time = sum((r.end - self.start_cycles) * r.group.cores for r in runs)

        def part(pick: Callable[[Clock], Share]) -> float:
            shares = [(pick(r.clock), r.group.cores) for r in runs]
            busy = min(1.0, sum(s.busy * cores for s, cores in shares) / time)
            turns = sum(s.turns * cores for s, cores in shares) / self.cores
            return 1 - (1 - busy) * (1 - self._in_step(1 - busy, turns)) * self.constants.idle_filled

        l2_read, l2_write = part(lambda c: c.l2_read), part(lambda c: c.l2_write)
        moved = sum((r.clock.bytes_read + r.clock.bytes_written) * r.group.cores for r in runs)
        seconds = (max(r.end for r in runs) - self.start_cycles) / (self.target.clock_mhz * 1e6)
        reached = moved / seconds * self.concurrent / self.cores
        mixed = max(1.0, before.l2_mixed * reached / self.target.l2_mixed_bytes_per_s)
        return Demand(l2_read, l2_write, part(lambda c: c.hbm), mixed)

    def _in_step(self, pause: float, turns: float) -> float:
        """The part of a run in which all cores pause at the same time, in pauses of that part of the time.

        They start together, and each turn moves the fastest and the slowest apart by `hbm_spread` of it.
        """
        return min(1.0, pause / max(1e-9, self.constants.hbm_spread * turns))

    def _runs(self, demand: Demand, skip: bool) -> list[Run]:
        """Runs every group; groups that outlast others get their share of the bandwidth from then on."""
        final: list[Run] = []
        left = list(range(len(self.groups)))
        ends: list[tuple[float, int]] = []
        running = self.concurrent
        while left:
            runs = {i: self._run(i, self.shares(ends, demand), skip) for i in left}
            first = min(r.end for r in runs.values())
            last = max(r.end for r in runs.values())
            cut = last if last - first <= _SAME_END * last or len(ends) >= _MAX_STAGES else first * (1 + _SAME_END)
            done = [i for i in left if runs[i].end <= cut]
            final += [runs[i] for i in done]
            left = [i for i in left if i not in done]
            running -= sum(self.groups[i].cores for i in done)
            ends.append((max(runs[i].end for i in done), running))
        return final

    def _run(self, index: int, shares: Shares, skip: bool) -> Run:
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
