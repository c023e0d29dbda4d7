"""What no schedule of a kernel can beat on its chip: the bytes at the bandwidth in reach, and the vector cycles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from asc_sched.sim.outline import walk
from asc_sched.sim.stream import Compute, Copy, Init, Pipe, Record
from asc_sched.target.costs import cost_of, ideal_cycles

if TYPE_CHECKING:
    from asc_sched.sim.launch import Launch


def bound(launch: Launch) -> tuple[float, str]:
    """(us, what it is): the least time that the launch's bytes and vector instructions take on the whole chip.

    The roofline, and what no schedule escapes here beyond it: no tile is longer than UB holds, so HBM turns from
    reading to writing at least once, and each instruction starts, per so many bytes. Launch and start-up of the cores
    aren't in it.
    """
    return _largest(launch, _longer(launch))


def roofline(launch: Launch) -> tuple[float, str]:
    """(us, what it is): bytes over the bandwidth that streams reach, or vector cycles at full throughput.

    Every touched byte is read once and written once, with the overhead of its line, at what HBM or L2 reaches; what is
    written beyond L2's size is written back to HBM. The slowest core's disadvantage at HBM is in it, too. Throughput
    cycles are spread over all vector cores. It is the bound for tiles without end.
    """
    return _largest(launch, math.inf)


def _largest(launch: Launch, longer: float) -> tuple[float, str]:
    return max(
        (_hbm_us(launch, longer), "HBM bandwidth"),
        (_l2_us(launch), "L2 bandwidth"),
        (_vector_us(launch, longer), "vector throughput"),
    )


def _records(launch: Launch) -> Iterator[tuple[Record, float]]:
    """All records, with how often all cores together execute them."""
    for group in launch.groups:
        for record, times in walk(group.nodes):
            yield record, times * group.cores


def _longer(launch: Launch) -> float:
    """How many times longer than its own a kernel's tiles are that fill UB, each buffer being there once."""
    single = sum(r.nbytes for r, _ in walk(launch.groups[0].nodes) if isinstance(r, Init)) if launch.groups else 0
    if not single:  # static tensors: what the longest copy of each argument takes
        largest: dict[int, int] = {}
        for record, _ in _records(launch):
            if isinstance(record, Copy):
                largest[record.gm.arg] = max(largest.get(record.gm.arg, 0), record.gm.nbytes)
        single = sum(largest.values())
    return max(1.0, launch.target.ub_bytes / single) if single else 1.0


def _touched(launch: Launch) -> tuple[int, int]:
    args = launch.traffic.args
    return sum(a.read_extent for a in args), sum(a.written_extent for a in args)


def _wire(launch: Launch) -> float:
    """Bytes on the way to and from GM per byte of data."""
    return 1 + launch.constants.line_overhead_bytes / launch.target.gm_line_bytes


def _l2_us(launch: Launch) -> float:
    read, written = _touched(launch)
    target = launch.target
    seconds = max(max(read, written) / target.l2_bytes_per_s, (read + written) / target.l2_mixed_bytes_per_s)
    return seconds * _wire(launch) * 1e6


def _hbm_us(launch: Launch, longer: float) -> float:
    target, constants = launch.target, launch.constants
    if launch.traffic.resident:
        return 0.0
    read, written = _touched(launch)
    back = max(0, written - target.l2_bytes) * _wire(launch)
    turns = _stores(launch) / longer
    turning = turns * min(back / turns, constants.hbm_turnaround_bytes) if turns else 0.0
    bytes_at_peak = read * _wire(launch) / constants.hbm_read_efficiency
    bytes_at_peak += (back + turning) / constants.hbm_write_efficiency
    spread = constants.hbm_spread if target.vector_cores > 1 else 0.0
    return bytes_at_peak / target.hbm_bytes_per_s * (1 + spread) * 1e6


def _stores(launch: Launch) -> float:
    """How often the argument that is stored most often is stored."""
    times: dict[int, float] = {}
    for record, count in _records(launch):
        if isinstance(record, Copy) and record.pipe is Pipe.MTE3:
            times[record.gm.arg] = times.get(record.gm.arg, 0.0) + count
    return max(times.values(), default=0.0)


def _vector_us(launch: Launch, longer: float) -> float:
    cycles = 0.0
    for record, times in _records(launch):
        if isinstance(record, Compute):
            srcs = tuple(s.dtype for s in record.srcs)
            cost = cost_of(record.name, record.dst.dtype, srcs[0] if srcs else record.dst.dtype)
            cycles += times * (ideal_cycles(record.name, record.dst.dtype, srcs, record.count) + cost.startup / longer)
    return cycles / launch.target.vector_cores / launch.target.clock_mhz
