"""How long a schedule takes, in closed form: what a rule can afford where the time model would be a search.

A kernel is a loop of copy_in, compute and copy_out on queues. With two buffers its pipes overlap, so it takes what its
slowest pipe needs for all tiles, and the others to fill and to drain; with one buffer, neighbouring pipes take turns.
Constants are the time model's (`asc_sched.target.timing`), which follows every instruction instead.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from asc_sched.schedule import Schedule
from asc_sched.target import Target
from asc_sched.target.timing import TIMING, TimingConstants
from asc_sched.tiling.symbolic import Alignment

# Scalar operations of generated kernels, counted in ASC-IR: per copy, and per copy where inputs are packed.
COPY_OPS, PACKED_OPS = 1, 2
_QUEUE_OPS = 4  # alloc, enque, deque, free; two of them hold up the vector pipe


def scalar_ops(alike: bool, single: bool) -> tuple[int, int]:
    """Scalar operations before the first tile and per tile: fewer where all blocks are alike or one tile each."""
    return (3 if alike else 10 if single else 14), (2 if single else 9)


@attrs.frozen(kw_only=True, eq=False)
class Work:
    """One op's work on given dtypes, as a tile's time needs it.

    `in_sizes`, `out_sizes`: bytes per element of a tile of each tensor that is moved; `smallest`: of any argument. Per
    tile there are `instructions` and `view_ops` (scalar operations for counts and views); `temps` are buffers beside
    the queues. `has_pairs`: some instruction reads two buffers.

    `vector_cycles(schedule, tile_length, length)` is what the instructions take on `length` elements of such a tile,
    `longest_tile(schedule, step)` the longest multiple of step that the UB takes (0: none); both raise
    `QueueLimitError` where a schedule's queues are too many.
    """

    in_sizes: tuple[float, ...]
    out_sizes: tuple[float, ...]
    smallest: int
    instructions: int
    view_ops: int
    temps: int
    has_pairs: bool
    vector_cycles: Callable[[Schedule, int, int], float]
    longest_tile: Callable[[Schedule, int], int]

    @property
    def itemsizes(self) -> tuple[float, ...]:
        return (*self.in_sizes, *self.out_sizes)


@attrs.frozen(kw_only=True)
class Split:
    """How blocks come out: cores with work, elements of the longest block, and whether all are alike."""

    core_num: int
    block_length: int
    alike: bool

    @classmethod
    def of(cls, total_length: int, core_num: int, align: Alignment, core_split: str = "even") -> Split:
        """As `symbolic.symbolic_tiling` has it, for total_length >= 1."""
        fits = -(-total_length // align.line_length) >= core_num
        unit = align.line_length if core_split == "even" and fits else align.datablock_length
        units = -(-total_length // unit)
        each = -(-units // min(core_num, units)) if core_split == "even" else -(-units // core_num)
        cores = min(core_num, units) if core_split == "even" else -(-units // each)
        alike = cores == 1 or unit * each * cores == total_length
        return cls(core_num=cores, block_length=min(unit * each, total_length), alike=alike)


class Estimate:
    """Times of schedules for one op and size on one target. `l2` as `sim.time_kernel` takes it; `read_bytes` are the
    bytes of all inputs, where they aren't an element of each for every result's."""

    def __init__(
        self,
        work: Work,
        total_length: int,
        target: Target,
        l2: str = "hot",
        constants: TimingConstants = TIMING,
        read_bytes: int | None = None,
    ) -> None:
        self.read_bytes = read_bytes
        self.work = work
        self.total_length = total_length
        self.target = target
        self.constants = constants
        self.align = Alignment.of((work.smallest,), target)
        self._hot = l2 == "hot"

    def task_us(self, schedule: Schedule) -> float:
        """Microseconds of a launch under a schedule with core_num and tile_length."""
        assert schedule.core_num is not None and schedule.tile_length is not None
        split = Split.of(self.total_length, schedule.core_num, self.align, schedule.core_split)
        return self.split_us(schedule, split)

    def split_us(self, schedule: Schedule, split: Split, before: float = 0.0) -> float:
        """Microseconds of a launch of blocks split so, in tiles of the schedule's tile_length. `before`: cycles of each
        core that don't overlap its tiles."""
        launch = self.constants.launch_us + self.constants.launch_per_core_us * split.core_num
        return launch + (before + _Core(self, schedule, split).cycles()) / self.target.clock_mhz

    def memory(self, bypass: bool) -> tuple[bool, float]:
        """Whether loads miss L2, and the part of the stores that is written back meanwhile (see `sim.traffic`)."""
        read, written = (self.total_length * sum(sizes) for sizes in (self.work.in_sizes, self.work.out_sizes))
        if self.read_bytes is not None:
            read = self.read_bytes
        footprint = written + (0 if bypass else read)
        fits = footprint <= self.target.l2_bytes
        return bypass or not (fits and self._hot), 0.0 if fits else 1 - self.target.l2_bytes / footprint

    @property
    def resident(self) -> bool:
        """Whether everything that the launch touches stays in L2 from one launch to the next."""
        return not self.memory(False)[0]


class _Core:
    """One core's time, in cycles."""

    def __init__(self, estimate: Estimate, schedule: Schedule, split: Split) -> None:
        self.work = estimate.work
        self.c = estimate.constants
        self.target = estimate.target
        self.schedule = schedule
        self.split = split
        self.tile = schedule.tile_length or 0
        self.packed = schedule.pack_inputs and len(self.work.in_sizes) > 1
        self.misses, self.write_back = estimate.memory(schedule.l2_cache == "bypass")
        self.per_ns = self.target.clock_mhz / 1000
        self.queues = (1 if self.packed else len(self.work.in_sizes)) + len(self.work.out_sizes)
        cycles = split.core_num * self.target.clock_mhz * 1e6  # per byte, all cores drawing on the same bandwidth
        wire = 1 + self.c.line_overhead_bytes / self.target.gm_line_bytes
        self.l2 = wire * cycles / self.target.l2_bytes_per_s
        hbm = wire * cycles / self.target.hbm_bytes_per_s
        self.hbm_read, self.hbm_write = hbm / self.c.hbm_read_efficiency, hbm / self.c.hbm_write_efficiency

    def cycles(self) -> float:
        """Start-up, then the slowest pipe (or pair of pipes that take turns) with the others' fill and drain."""
        block, tile = self.split.block_length, self.tile
        count = -(-block // tile)
        first, last = min(tile, block), block - (count - 1) * tile
        load, vector, store = ((pipe(first), pipe(last)) for pipe in (self._load, self._vector, self._store))

        def total(*pipes: tuple[float, float]) -> float:
            return sum((count - 1) * whole + rest for whole, rest in pipes)

        setup, scalar = self._scalar()
        if self.schedule.buffer_num == 1:
            chains = [total(load, vector) + store[1], load[0] + total(vector, store)]
        else:
            chains = [total(load) + vector[1] + store[1], load[0] + total(vector) + store[1]]
            chains.append(load[0] + vector[0] + total(store))
        return setup + max(*chains, count * scalar)

    def _scalar(self) -> tuple[float, float]:
        """Before the first tile, and per tile."""
        c, work = self.c, self.work
        setup_ops, tile_ops = scalar_ops(self.split.alike, self.split.block_length <= self.tile)
        setup = c.tpipe_cycles + (self.queues + work.temps) * c.init_buffer_cycles + setup_ops + len(work.itemsizes)
        copies = len(work.itemsizes) * (COPY_OPS + c.copy_issue_cycles)
        work_ops = tile_ops + work.view_ops + work.instructions * c.issue_cycles + copies
        return setup, work_ops + _QUEUE_OPS * self.queues * c.queue_op_cycles

    def _load(self, length: int) -> float:
        """Loads, and what HBM writes back between them: it serves the two in turn, and turning costs bytes, too."""
        back = length * sum(self.work.out_sizes) * self.write_back
        return self._loads(length) + (back + min(back, self.c.hbm_turnaround_bytes)) * self.hbm_write

    def _loads(self, length: int) -> float:
        c = self.c
        sizes = [length * size for size in self.work.in_sizes]
        hit = c.load_hit_ns * self.per_ns
        if self.misses:
            miss, burst = c.load_miss_ns * self.per_ns, self.per_ns / c.load_miss_burst_gbps
            rate = max(self.hbm_read, self.per_ns / c.load_miss_gbps)
            alone = [max(miss + n * burst, hit + n * rate) for n in sizes]
            return max(sum(miss + n * burst for n in sizes), hit + sum(sizes) * rate) if self.packed else sum(alone)
        rate = max(1 / c.load_bytes_per_cycle, self.l2)
        return (1 if self.packed else len(sizes)) * hit + sum(sizes) * rate

    def _vector(self, length: int) -> float:
        sync = _QUEUE_OPS // 2 * self.queues * self.c.queue_sync_vector_cycles
        return self.work.vector_cycles(self.schedule, self.tile, length) + sync

    def _store(self, length: int) -> float:
        c = self.c
        start, back = c.store_ns * self.per_ns, self.write_back * self.hbm_write
        rate = max(1 / c.store_bytes_per_cycle, self.l2, back)
        return sum(
            max(start + length * size / c.store_burst_bytes_per_cycle, length * size * rate)
            for size in self.work.out_sizes
        )
