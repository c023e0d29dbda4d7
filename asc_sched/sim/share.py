"""A core's share of a bandwidth that all cores draw on (HBM, L2), as a server that transfers bytes one by one.

Which part of it a core gets, `launch` decides. When cores finish, the rest get more (`Rate` steps).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs


@attrs.frozen
class Rate:
    """Bytes per cycle over time: `rates[i]` until cycle `until[i]`; the last one for ever."""

    rates: tuple[float, ...]
    until: tuple[float, ...] = ()

    def finish(self, start: float, nbytes: float) -> float:
        """When a transfer of `nbytes` that starts at cycle `start` is through."""
        if not self.until:
            return start + nbytes / self.rates[0]
        for rate, end in zip(self.rates, self.until, strict=False):
            if start >= end:
                continue
            if start + nbytes / rate <= end:
                return start + nbytes / rate
            nbytes -= (end - start) * rate
            start = end
        return start + nbytes / self.rates[-1]


class Share:
    """One core's share of one direction of traffic, served in the order it is asked for.

    `busy` are the cycles of transfer, `turns` how often it begins again after a pause.
    """

    __slots__ = ("busy", "free", "rate", "turns")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.free = 0.0
        self.busy = 0.0
        self.turns = 0.0

    def take(self, ready: float, nbytes: float) -> float:
        """Serves `nbytes` that can flow from cycle `ready` on; when they are through."""
        return self._serve(self.rate, ready, nbytes)

    def _serve(self, rate: Rate, ready: float, nbytes: float) -> float:
        start = self.free
        if ready > start:
            start = ready
            self.turns += 1
        self.free = rate.finish(start, nbytes)
        self.busy += self.free - start
        return self.free

    def hold(self, cycles: float) -> None:
        """The last transfer took so much longer for a reason of the core's own."""
        self.free += cycles
        self.busy += cycles

    def clocks(self) -> list[float]:
        """All clocks of the share, for steady-state detection."""
        return [self.free]

    def counters(self) -> tuple[float, float]:
        """What grows by the same in every steady iteration."""
        return self.busy, self.turns

    def advance(self, clocks: Iterator[float]) -> None:
        """Moves all clocks, in the order of `clocks`."""
        self.free += next(clocks)

    def count(self, counters: Iterator[float]) -> None:
        """Adds to all counters, in the order of `counters`."""
        self.busy += next(counters)
        self.turns += next(counters)


class MixedShare(Share):
    """A core's share of a memory that serves loads and write-backs in turn, each at its own rate.

    Write-backs go on while the core does other things: they are kept in `pending`, by the cycle they begin, until a
    load meets them. A load that is under way when one begins is held up by it. Turning to writing and back costs as
    much as `turnaround` bytes more, at most as many as are written before the next load.
    """

    __slots__ = ("pending", "turnaround", "turned", "write_rate")

    def __init__(self, rate: Rate, write_rate: Rate, turnaround: float) -> None:
        super().__init__(rate)
        self.write_rate = write_rate
        self.turnaround = turnaround
        self.pending: list[tuple[float, float]] = []
        self.turned = 0.0  # bytes paid for turning since the last load

    def write_back(self, at: float, nbytes: float) -> None:
        """Takes the bytes of a write-back that begins at cycle `at`."""
        self.pending.append((at, nbytes))
        if len(self.pending) > 4:  # no load came by for long: none that is still to come began before these
            self._write(*self.pending.pop(0))

    def _write(self, at: float, nbytes: float) -> None:
        paid = self.turned
        self.turned = min(paid + nbytes, self.turnaround)
        self._serve(self.write_rate, at, nbytes + self.turned - paid)

    def take(self, ready: float, nbytes: float) -> float:
        while self.pending and self.pending[0][0] <= ready:
            self._write(*self.pending.pop(0))
        self.turned = 0.0
        super().take(ready, nbytes)
        while self.pending and self.pending[0][0] < self.free:
            self._write(*self.pending.pop(0))
        return self.free

    def clocks(self) -> list[float]:
        return [*super().clocks(), self.turned, *(at for at, _ in self.pending)]

    def advance(self, clocks: Iterator[float]) -> None:
        super().advance(clocks)
        self.turned += next(clocks)
        self.pending = [(at + next(clocks), n) for at, n in self.pending]
