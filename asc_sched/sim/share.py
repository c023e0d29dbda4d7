"""A core's share of a bandwidth that all cores draw on (HBM, L2), as a server that transfers bytes one by one.

All cores of a launch start together and do the same, so they want the chip's bandwidth at the same moments: each gets
an equal part of it, also while others compute. When cores finish, the rest get more (`Rate` steps).
"""

from __future__ import annotations

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
    """One core's share of one direction of traffic, served in the order it is asked for."""

    __slots__ = ("free", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.free = 0.0

    def take(self, ready: float, nbytes: float) -> float:
        """Serves `nbytes` that can flow from cycle `ready` on; when they are through."""
        self.free = self.rate.finish(max(ready, self.free), nbytes)
        return self.free

    def state(self) -> list[float]:
        """All clocks of the share, for steady-state detection."""
        return [self.free]

    def advance(self, deltas: list[float]) -> None:
        """Moves all clocks, in the order of `state`."""
        self.free += deltas[0]


class MixedShare(Share):
    """A core's share of a memory that serves loads and write-backs in turn, each at its own rate.

    Write-backs go on while the core does other things: they are kept in `pending`, by the cycle they begin, until a
    load meets them. A load that is under way when one begins is held up by it, and by the turn to writing and back.
    """

    __slots__ = ("pending", "turnaround", "write_rate")

    def __init__(self, rate: Rate, write_rate: Rate, turnaround: float) -> None:
        super().__init__(rate)
        self.write_rate = write_rate
        self.turnaround = turnaround
        self.pending: list[tuple[float, float]] = []

    def write_back(self, at: float, nbytes: float) -> None:
        """Takes the bytes of a write-back that begins at cycle `at`."""
        self.pending.append((at, nbytes))
        if len(self.pending) > 4:  # no load came by for long: none that is still to come began before these
            self._write(*self.pending.pop(0))

    def _write(self, at: float, nbytes: float) -> None:
        self.free = self.write_rate.finish(max(at, self.free), nbytes)

    def take(self, ready: float, nbytes: float) -> float:
        while self.pending and self.pending[0][0] <= ready:
            self._write(*self.pending.pop(0))
        super().take(ready, nbytes)
        while self.pending and self.pending[0][0] < self.free:
            self._write(*self.pending.pop(0))
            self.free += 2 * self.turnaround
        return self.free

    def state(self) -> list[float]:
        return [self.free, *(at for at, _ in self.pending)]

    def advance(self, deltas: list[float]) -> None:
        self.free += deltas[0]
        self.pending = [(at + d, n) for (at, n), d in zip(self.pending, deltas[1:], strict=True)]
