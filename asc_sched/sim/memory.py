"""The memories: a core's Unified Buffer with a shadow of what is defined, and GM with who touched what."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs
import numpy as np

from asc_sched.sim.dtypes import DType
from asc_sched.sim.patterns import CMP_MASK_BYTES

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

#: What undefined UB holds: NaN as any float, -1 as any signed integer; so that what leaks out shows.
POISON = 0xFF
_VIEWS = 4096


class UbMemory:
    """Unified Buffer of one core. `shadow` has a set bit for every bit of `data` that nobody defined."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.data: Bytes = np.full(nbytes + CMP_MASK_BYTES, POISON, np.uint8)
        self.shadow: Bytes = np.full(nbytes + CMP_MASK_BYTES, 0xFF, np.uint8)
        self._views: dict[tuple[int, int, str], Any] = {}

    def view(self, addr: int, count: int, dtype: DType) -> Any:
        """`count` elements at `addr` as a numpy array (shared memory)."""
        key = (addr, count, dtype.ir)
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= _VIEWS:
                self._views.clear()
            found = self._views[key] = self.data[addr : addr + count * dtype.size].view(dtype.np)
        return found

    def forget(self, addr: int, nbytes: int) -> None:
        """The bytes have no defined contents from now on."""
        self.shadow[addr : addr + nbytes] = 0xFF


class IntervalSet:
    """Disjoint half-open intervals, merged where they touch."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Adds [start, end)."""
        starts, ends = self.starts, self.ends
        if starts and start == ends[-1]:  # the usual case: tile after tile
            ends[-1] = end
            return
        i = bisect_left(ends, start)
        j = bisect_right(starts, end)
        if i < j:
            start, end = min(start, starts[i]), max(end, ends[j - 1])
        starts[i:j] = [start]
        ends[i:j] = [end]

    def overlap(self, start: int, end: int) -> tuple[int, int] | None:
        """The first common piece with [start, end), or None."""
        i = bisect_right(self.ends, start)
        if i < len(self.starts) and self.starts[i] < end:
            return max(start, self.starts[i]), min(end, self.ends[i])
        return None

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The pieces of [start, end) that aren't covered."""
        at = start
        for i in range(bisect_right(self.ends, start), len(self.starts)):
            if self.starts[i] >= end:
                break
            if self.starts[i] > at:
                yield at, self.starts[i]
            at = max(at, self.ends[i])
        if at < end:
            yield at, end

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.starts, self.ends, strict=True))


@attrs.define
class GmBuffer:
    """One GM argument: the caller's memory as bytes, and where it lies (arguments may share memory)."""

    name: str
    dtype: DType
    data: Bytes
    address: int
    nbytes: int
    is_output: bool = False
    is_writable: bool = True


@attrs.define
class GmTouch:
    """What one core read and wrote of GM, by byte address."""

    reads: IntervalSet = attrs.field(factory=IntervalSet)
    writes: IntervalSet = attrs.field(factory=IntervalSet)


class Gm:
    """All GM of a launch: the arguments, and for every core that ran what it touched."""

    def __init__(self, buffers: list[GmBuffer]) -> None:
        self.buffers = buffers
        self._cores: dict[int, GmTouch] = {}
        self._others = GmTouch()
        self.undefined = IntervalSet()
        given = IntervalSet()
        for buffer in buffers:
            if not buffer.is_output and buffer.nbytes:
                given.add(buffer.address, buffer.address + buffer.nbytes)
        for buffer in buffers:  # an output that is an input as well (in place) has contents
            if buffer.is_output:
                for start, end in given.gaps(buffer.address, buffer.address + buffer.nbytes):
                    self.undefined.add(start, end)

    def start_core(self, core: int) -> GmTouch:
        """The record of a core that starts."""
        touch = self._cores[core] = GmTouch()
        return touch

    def finish_core(self, core: int) -> None:
        """Adds what a core touched to what the cores before it touched."""
        touch = self._cores[core]
        for start, end in touch.writes:
            self._others.writes.add(start, end)
        for start, end in touch.reads:
            self._others.reads.add(start, end)

    def written_by_others(self, start: int, end: int) -> tuple[int, int] | None:
        """A piece that a core that ran before wrote."""
        return self._others.writes.overlap(start, end)

    def read_by_others(self, start: int, end: int) -> tuple[int, int] | None:
        """A piece that a core that ran before read."""
        return self._others.reads.overlap(start, end)

    def owner(self, address: int, wrote: bool) -> int:
        """The core that touched a byte."""
        for core, touch in self._cores.items():
            if (touch.writes if wrote else touch.reads).overlap(address, address + 1):
                return core
        return -1

    @property
    def all_reads(self) -> IntervalSet:
        """What all finished cores read."""
        return self._others.reads

    @property
    def all_writes(self) -> IntervalSet:
        """What all finished cores wrote."""
        return self._others.writes
