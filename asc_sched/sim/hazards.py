"""Which accesses of a core's pipes are ordered: vector clocks, and a map of UB with the last accesses to each byte.

Two pipes are ordered only by what the kernel (or TQue, for it) makes them wait for. The vector pipe's own instructions
count as ordered (the compiler inserts what is needed), those of a copy pipe don't where their targets overlap: there
the kernel has to put a barrier.

Each instruction gets the next number of its pipe. `known[P][Q]` is the last number of pipe Q that is surely done when
P's next instruction starts: set_flag hands on what the setting pipe knows plus its own number, wait_flag takes it over.
An access races with an earlier one that its pipe doesn't know to be done, when at least one of the two writes.

The scalar unit issues everything in program order, and pyasc compiles with bisheng's ``--cce-auto-sync``, which by its
documentation synchronises the scalar unit with MTE2, MTE3 and the vector unit, and the vector unit with itself; so
scalar accesses are taken as always in order, and PIPE_V needs no barrier.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from asc_sched.sim.queues import Clock
from asc_sched.sim.stream import Loc, Pipe

INDEX: dict[Pipe, int] = {Pipe.S: 0, Pipe.V: 1, Pipe.MTE2: 2, Pipe.MTE3: 3}
PIPES: tuple[Pipe, ...] = tuple(INDEX)
#: Pipes whose own instructions may overtake each other.
_COPY_PIPES = (2, 3)


class Race(NamedTuple):
    """An unordered pair: the earlier access (pipe, line, what it did) that the new one isn't ordered after."""

    pipe: Pipe
    loc: Loc
    wrote: bool


class Clocks:
    """The vector clocks of one core."""

    __slots__ = ("_known", "_now")

    def __init__(self) -> None:
        self._now = [0, 0, 0, 0]
        self._known = [[0, 0, 0, 0] for _ in range(4)]

    def tick(self, pipe: int) -> int:
        """The number of the next instruction of a pipe."""
        self._now[pipe] += 1
        return self._now[pipe]

    def known(self, pipe: int) -> list[int]:
        """What a pipe knows to be done, by pipe."""
        return self._known[pipe]

    def take(self, pipe: int) -> Clock:
        """What is done once the pipe has done everything issued so far."""
        now = self._known[pipe].copy()
        now[pipe] = self._now[pipe]
        return now[0], now[1], now[2], now[3]

    def wait(self, pipe: int, clock: Clock) -> None:
        """The pipe's next instruction starts after `clock`."""
        known = self._known[pipe]
        for q in range(4):
            if clock[q] > known[q]:
                known[q] = clock[q]

    def join(self, pipe: int) -> None:
        """A barrier of one pipe: its next instruction starts after all its own."""
        self._known[pipe][pipe] = self._now[pipe]

    def join_all(self) -> None:
        """PIPE_ALL: every pipe waits for every other."""
        for known in self._known:
            known[:] = self._now


class _Segment:
    """A stretch of UB whose bytes had the same last accesses."""

    __slots__ = ("read", "read_locs", "write", "write_loc", "write_pipe")

    def __init__(self) -> None:
        self.write_pipe = -1
        self.write = 0
        self.write_loc: Loc | None = None
        self.read = [0, 0, 0, 0]
        self.read_locs: list[Loc | None] = [None, None, None, None]

    def copy(self) -> _Segment:
        other = _Segment()
        other.write_pipe, other.write, other.write_loc = self.write_pipe, self.write, self.write_loc
        other.read = self.read.copy()
        other.read_locs = self.read_locs.copy()
        return other


class AccessMap:
    """The last write and the last read of each pipe, for every byte of UB, kept by segments."""

    __slots__ = ("_segments", "_starts")

    def __init__(self, nbytes: int) -> None:
        self._starts = [0, nbytes]
        self._segments = [_Segment(), _Segment()]

    def _cut(self, at: int) -> int:
        """The index of the segment that starts at `at`, made by splitting if there is none."""
        i = bisect_right(self._starts, at) - 1
        if self._starts[i] != at:
            i += 1
            self._starts.insert(i, at)
            self._segments.insert(i, self._segments[i - 1].copy())
        return i

    def read(self, pipe: int, number: int, known: list[int], start: int, end: int, loc: Loc) -> Race | None:
        """Records a read of bytes [start, end); gives a write that it isn't ordered after."""
        race = None
        for i in range(self._cut(start), self._cut(end)):
            s = self._segments[i]
            w = s.write_pipe
            if w > 0 and w != pipe and s.write > known[w] and s.write_loc is not None:
                race = Race(PIPES[w], s.write_loc, True)
            s.read[pipe] = number
            s.read_locs[pipe] = loc
        return race

    def write(self, pipe: int, number: int, known: list[int], start: int, end: int, loc: Loc) -> Race | None:
        """Records a write of bytes [start, end); gives an access that it isn't ordered after."""
        race = own = None
        for i in range(self._cut(start), self._cut(end)):
            s = self._segments[i]
            w = s.write_pipe
            if w > 0 and s.write > known[w] and s.write_loc is not None:
                if w != pipe:
                    race = Race(PIPES[w], s.write_loc, True)
                elif w in _COPY_PIPES:
                    own = Race(PIPES[w], s.write_loc, True)
            read = s.read
            for q in (1, 2, 3):
                if q != pipe and read[q] > known[q]:
                    where = s.read_locs[q]
                    if where is not None:
                        race = race or Race(PIPES[q], where, False)
            s.write_pipe, s.write, s.write_loc = pipe, number, loc
        return race or own


class GmAccess(NamedTuple):
    """A copy's access to GM (byte addresses) by instruction number."""

    start: int
    end: int
    number: int
    loc: Loc


class _Open:
    """Accesses of one copy pipe that may still be under way, sorted by address."""

    __slots__ = ("_done", "_found", "_longest")

    def __init__(self) -> None:
        self._found: list[GmAccess] = []
        self._longest = 0
        self._done = 0

    def add(self, access: GmAccess) -> None:
        insort(self._found, access)
        self._longest = max(self._longest, access.end - access.start)

    def forget(self, done: int) -> None:
        """Drops accesses up to number `done`: they are over."""
        if done > self._done:
            self._done = done
            self._found = [a for a in self._found if a.number > done]

    def meet(self, start: int, end: int, number: int = -1) -> GmAccess | None:
        """An access by another instruction than `number` that touches bytes [start, end)."""
        found = self._found
        for i in range(bisect_left(found, (start - self._longest,)), len(found)):
            a = found[i]
            if a.start >= end:
                return None
            if a.end > start and a.number != number:
                return a
        return None


class GmOrder:
    """Order of a core's own loads and stores in GM: MTE2 and MTE3 run beside each other there, too.

    Only accesses that the other pipe doesn't yet know to be done are kept; in a kernel with queues that is a handful.
    """

    __slots__ = ("_loads", "_stores")

    def __init__(self) -> None:
        self._loads = _Open()
        self._stores = _Open()

    def load(self, number: int, known_store: int, start: int, end: int, loc: Loc) -> Race | None:
        """Records a load by MTE2; gives a store that it isn't ordered after."""
        self._stores.forget(known_store)
        self._loads.add(GmAccess(start, end, number, loc))
        hit = self._stores.meet(start, end)
        return Race(Pipe.MTE3, hit.loc, True) if hit is not None else None

    def store(self, number: int, known: list[int], start: int, end: int, loc: Loc) -> Race | None:
        """Records a store by MTE3 (which knows `known`); gives a load or store that it isn't ordered after."""
        self._loads.forget(known[2])
        self._stores.forget(known[3])
        load, store = self._loads.meet(start, end), self._stores.meet(start, end, number)
        self._stores.add(GmAccess(start, end, number, loc))
        if load is not None:
            return Race(Pipe.MTE2, load.loc, False)
        return Race(Pipe.MTE3, store.loc, True) if store is not None else None
