"""The clock of one core: pipes S, V, MTE2 and MTE3, driven by compiled instruction records.

S issues instructions in program order and waits for none of them. Each pipe executes its own in order; flags and
queue operations make one pipe wait for another. Vector instructions take what `target.costs` says. Copies have a
latency, overlapped between copies that follow each other without a flag, and a data phase that is limited by the
core's port and by its shares of L2 and HBM. Times are cycles of the core's clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from asc_sched.sim.compiled import Load, Loop, Rates, Shares, Sink, Span, Step, Store
from asc_sched.sim.share import MixedShare, Share
from asc_sched.sim.stream import Loc, Pipe


class Lane:
    """One pipe: `free` is when it can take its next instruction, `done` when all it took are complete."""

    __slots__ = ("busy", "data", "done", "free", "limit")

    def __init__(self) -> None:
        self.free = 0.0
        self.done = 0.0
        self.busy = 0.0
        self.data = 0.0  # MTE: end of the last data phase
        self.limit = 0.0  # MTE: end of the last transfer at the core's sustained rate

    def occupy(self, start: float, end: float) -> None:
        """Counts the time from `start` to `end` as busy, once where it overlaps what came before."""
        self.busy += max(0.0, end - max(start, self.done))
        self.done = max(self.done, end)


class Clock:
    """The state of one core's pipes while it executes."""

    __slots__ = (
        "bytes_read", "bytes_written", "drained", "filled", "flags", "hbm", "hbm_bytes", "hbm_write",
        "iteration", "l2_read", "l2_write", "last_miss", "mte2", "mte3", "rates", "s", "s_busy", "s_slack", "sink",
        "stores", "v",
    )  # fmt: skip

    def __init__(self, rates: Rates, shares: Shares, sink: Sink | None = None) -> None:
        self.rates = rates
        self.sink = sink
        self.s = 0.0
        self.s_busy = 0.0
        self.s_slack = _NEVER
        self.v, self.mte2, self.mte3 = Lane(), Lane(), Lane()
        self.l2_read, self.l2_write = Share(shares.l2_read), Share(shares.l2_write)
        self.hbm = MixedShare(shares.hbm_read, shares.hbm_write, rates.turnaround)
        self.hbm_write = Share(shares.hbm_write)
        self.flags: dict[tuple[Pipe, Pipe, int], float] = {}
        self.filled: dict[tuple[int, int], float] = {}
        self.drained: dict[tuple[int, int], float] = {}
        self.stores: list[Span] = []
        self.last_miss = -1
        self.iteration: list[int] = []
        self.bytes_read = self.bytes_written = self.hbm_bytes = 0.0

    # -- scalar unit -------------------------------------------------------------------------------------------
    def scalar(self, cycles: float, name: str, loc: Loc) -> None:
        """Scalar work."""
        if self.sink is not None:
            self.sink(Pipe.S, name, loc, self.s, self.s + cycles)
        self.s += cycles
        self.s_busy += cycles

    def lane(self, pipe: Pipe) -> Lane:
        return self.v if pipe is Pipe.V else self.mte2 if pipe is Pipe.MTE2 else self.mte3

    def _after_s(self, other: float) -> float:
        """The later of S and something else; keeps how close S comes to being the later one."""
        ahead = other - self.s
        if ahead < self.s_slack:
            self.s_slack = ahead
        return other if ahead >= 0 else self.s

    def _queued(self, free: float, most: float) -> float:
        """How long an instruction has been waiting in the queue of a pipe that is free at `free`, at most `most`."""
        ahead = free - self.s
        if ahead - most < self.s_slack:
            self.s_slack = ahead - most
        return min(max(ahead, 0.0), most)

    # -- instructions ------------------------------------------------------------------------------------------
    def vector(self, cycles: float, name: str, loc: Loc) -> None:
        """A vector instruction."""
        start = self._after_s(self.v.free)
        end = start + cycles
        self.v.free = end
        self.v.occupy(start, end)
        if self.sink is not None:
            self.sink(Pipe.V, name, loc, start, end)

    def synchronise(self, cycles: float) -> None:
        """What a queue operation costs the vector pipe."""
        start = self._after_s(self.v.free)
        self.v.free = start + cycles
        self.v.occupy(start, self.v.free)

    def load(self, copy: Load) -> None:
        """A copy from GM to UB."""
        lane, rates = self.mte2, self.rates
        misses = copy.misses and not any(self.iteration[d] for d in copy.reuse)
        saved = 0.0 if misses else self._queued(lane.free, rates.load_queued)
        start = self._after_s(lane.free)
        if misses:
            start = self._after_stores(start)
            # Another DRAM stream than the last load's: its latency isn't hidden behind that.
            begin = start if self.last_miss in (-1, copy.arg) else max(start, lane.done)
            self.last_miss = copy.arg
            end = max(begin + rates.load_miss, lane.data + rates.copy_gap) + copy.port / rates.load_miss_burst
            lane.limit = max(lane.limit, start) + copy.port / rates.load_miss_rate
            ready = max(start + rates.load_hit, lane.data)
            end = max(end, lane.limit, self.hbm.take(ready, copy.hbm))
            self.hbm_bytes += copy.nbytes
        else:
            ready = max(start + rates.load_hit - saved, lane.data)
            end = max(start + rates.load_hit - saved, lane.data + rates.copy_gap) + copy.wire / rates.load_port
        end = max(end, self.l2_read.take(ready, copy.wire), lane.done)
        stall = self._bank_stall(copy.bank, start, end)
        end += stall
        if misses:
            self.hbm.hold(stall)
        # not further ahead of the data than a latency: no earlier start would make the next copy end earlier
        lane.free = max(start + rates.copy_gap, end - (rates.load_miss if misses else rates.load_hit))
        lane.data = end
        lane.occupy(start, end)
        self.bytes_read += copy.nbytes
        if self.sink is not None:
            self.sink(Pipe.MTE2, copy.name, copy.loc, start, end)

    def _after_stores(self, start: float) -> float:
        """When a load from HBM can start: not while what the core stored earlier is being written back."""
        return max(start, *(t.taken for t in self.stores if t.begin <= start), 0.0)

    def _bank_stall(self, bank: int, start: float, end: float) -> float:
        """Cycles that a load loses to stores that read the UB bank it writes to."""
        stall = 0.0
        for t in self.stores:
            if t.bank == bank and t.begin < end and t.end > start:
                stall += t.stall * (min(end, t.end) - max(start, t.begin)) / (t.end - t.begin)
        return stall

    def store(self, copy: Store) -> None:
        """A copy from UB to GM."""
        lane, rates = self.mte3, self.rates
        start = self._after_s(lane.free)
        lane.limit = max(lane.limit, start) + copy.port / rates.store_port
        end = max(start + rates.store, lane.data + rates.copy_gap) + copy.port / rates.store_burst
        end = max(end, lane.limit, self.l2_write.take(start, copy.wire), lane.done)
        taken = 0.0
        if copy.hbm:
            taken = self.hbm_write.take(start, copy.hbm)
            end = max(end, taken)
            self.hbm.write_back(start, copy.hbm)
            self.hbm_bytes += copy.nbytes * copy.hbm_part
        self.stores = [*self.stores[-2:], Span(copy.bank, start, end, taken, copy.nbytes * rates.bank_stall)]
        lane.free = max(start + rates.copy_gap, end - rates.store)
        lane.data = end
        lane.occupy(start, end)
        self.bytes_written += copy.nbytes
        if self.sink is not None:
            self.sink(Pipe.MTE3, copy.name, copy.loc, start, end)

    # -- order between pipes -----------------------------------------------------------------------------------
    def _set(self, pipe: Pipe) -> float:
        """When a pipe has done all that was issued to it. It takes nothing new before that: flags are set in order."""
        if pipe is Pipe.S:
            return self.s
        lane = self.lane(pipe)
        done = max(lane.free, lane.done)
        lane.free = done + self.rates.sync if pipe is not Pipe.V else done
        return self._after_s(done)

    def _wait(self, pipe: Pipe, until: float) -> None:
        if pipe is Pipe.S:
            self.s = self._after_s(until)
            return
        lane = self.lane(pipe)
        lane.free = max(lane.free, until) + (self.rates.sync if pipe is not Pipe.V else 0.0)

    def set_flag(self, src: Pipe, dst: Pipe, event: int) -> None:
        self.flags[src, dst, event] = self._set(src)

    def wait_flag(self, src: Pipe, dst: Pipe, event: int) -> None:
        self._wait(dst, self.flags.pop((src, dst, event), 0.0))

    def enque(self, key: tuple[int, int], fill: Pipe) -> None:
        self.filled[key] = self._set(fill)

    def deque(self, key: tuple[int, int], drain: Pipe) -> None:
        self._wait(drain, self.filled.get(key, 0.0))

    def free(self, key: tuple[int, int], drain: Pipe) -> None:
        self.drained[key] = self._set(drain)

    def alloc(self, key: tuple[int, int], fill: Pipe) -> None:
        if key in self.drained:
            self._wait(fill, self.drained[key])

    def barrier(self, pipe: Pipe | None) -> None:
        """`PipeBarrier`: later instructions of a pipe wait for its earlier ones; of all pipes, for all."""
        if pipe is None:
            end = self._after_s(max(self.v.done, self.mte2.done, self.mte3.done))
            self.s = end
            for lane in (self.v, self.mte2, self.mte3):
                lane.free = max(lane.free, end)
        elif pipe is not Pipe.S:
            self._set(pipe)

    @property
    def end(self) -> float:
        return max(self.s, self.v.done, self.mte2.done, self.mte3.done)

    # -- running -----------------------------------------------------------------------------------------------
    def run(self, steps: Sequence[Step], skip: bool = True) -> None:
        """Executes compiled steps. With `skip`, iterations of a loop in steady state are added up, not executed."""
        for step in steps:
            if isinstance(step, Loop):
                self._loop(step, skip)
            else:
                step(self)

    def _loop(self, loop: Loop, skip: bool) -> None:
        self.iteration.append(0 if loop.first else 1)
        before: deque[tuple[list[float], float]] = deque(maxlen=2 * _PERIODS[-1] + 1)
        slack = self.s_slack
        done = 0
        while done < loop.count:
            self.s_slack = _NEVER
            self.run(loop.body, skip)
            done += 1
            self.iteration[-1] = 1
            slack = min(slack, self.s_slack)
            if skip and loop.count - done > 1:
                before.append((self._state(), self.s_slack))
                skipped = self._steady(before, loop.count - done)
                done += skipped
                if skipped:
                    before.clear()
                    slack = min(slack, self.s_slack)
        self.s_slack = slack
        self.iteration.pop()

    def _steady(self, before: Sequence[tuple[list[float], float]], left: int) -> int:
        """Skips up to `left` iterations if the last ones moved all clocks on evenly, each or so many together; how many
        were skipped. `before`: states after iterations, and how close S came to being waited for in each."""
        for period in _PERIODS:
            if len(before) > 2 * period:
                a, b, c = (before[i][0] for i in (-1 - 2 * period, -1 - period, -1))
                slack = min(before[-1 - i][1] for i in range(period))
                rounds = self._even_rounds(a, b, c, slack, left // period)
                if rounds:
                    return rounds * period
        return 0

    def _even_rounds(self, a: list[float], b: list[float], c: list[float], slack: float, left: int) -> int:
        """Skips up to `left` rounds if the last two, between these states, moved all clocks on evenly; how many.

        A round depends on differences of clocks only, so when every clock that it touches moves on by the same `pace`,
        all rounds to come do the same. S may move on by less (it runs ahead in the program) as long as nothing waits
        for it, and by more until it is about to catch up.
        """
        if not len(a) == len(b) == len(c):
            return 0
        clocks = len(c) - _COUNTERS
        deltas = [z - y for y, z in zip(b, c, strict=True)]
        pace = max(deltas[1:clocks])
        scale = 1e-9 * max(*c[:clocks], 1.0)
        if any(abs(d - pace) > scale and abs(d) > scale for d in deltas[1:clocks]):
            return 0
        if any(abs(d - (y - x)) > scale for d, x, y in zip(deltas, a, b, strict=True)):
            return 0
        slower = deltas[0] - pace
        if slower < -scale and slack < 0:
            return 0
        if slower > scale:
            left = min(left, int(min(slack / slower, left + 1.0)) - 1)  # the slack may be infinite
        for change in self.hbm.rate.until:  # not into a change of rates
            if change > self.end - 2 * pace:
                left = min(left, int((change - self.end) / max(pace, 1e-9)) - 2)
                break
        if left <= 0:
            return 0
        self._advance([d * left for d in deltas])
        self.s_slack = slack - max(0.0, slower) * left
        return left

    def _shares(self) -> tuple[Share, ...]:
        return self.l2_read, self.l2_write, self.hbm, self.hbm_write

    # -- state -------------------------------------------------------------------------------------------------
    def _state(self) -> list[float]:
        """All clocks (S first), then the counters, in an order that depends on the program alone."""
        out = [self.s]
        for lane in (self.v, self.mte2, self.mte3):
            out += (lane.free, lane.done, lane.data, lane.limit)
        for share in self._shares():
            out += share.clocks()
        for span in self.stores:
            out += (span.begin, span.end, span.taken)
        out += self.flags.values()
        out += self.filled.values()
        out += self.drained.values()
        out += (self.s_busy, self.v.busy, self.mte2.busy, self.mte3.busy)
        out += (self.bytes_read, self.bytes_written, self.hbm_bytes)
        for share in self._shares():
            out += share.counters()
        return out

    def _advance(self, deltas: list[float]) -> None:
        """Moves everything that `_state` lists."""
        it = iter(deltas)
        self.s += next(it)
        for lane in (self.v, self.mte2, self.mte3):
            lane.free += next(it)
            lane.done += next(it)
            lane.data += next(it)
            lane.limit += next(it)
        for share in self._shares():
            share.advance(it)
        self.stores = [
            Span(t.bank, t.begin + next(it), t.end + next(it), t.taken + next(it), t.stall) for t in self.stores
        ]
        for flag in self.flags:
            self.flags[flag] += next(it)
        for table in (self.filled, self.drained):
            for key in table:
                table[key] += next(it)
        self.s_busy += next(it)
        for lane in (self.v, self.mte2, self.mte3):
            lane.busy += next(it)
        self.bytes_read += next(it)
        self.bytes_written += next(it)
        self.hbm_bytes += next(it)
        for share in self._shares():
            share.count(it)


#: The counters at the end of `_state`.
_COUNTERS = 15
#: How many iterations together may be what repeats.
_PERIODS = (1, 2, 3, 4)
_NEVER = float("inf")
