"""A good schedule for a flat kernel by rule: its own costs, weighed in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from asc_sched.errors import QueueLimitError, UbOverflowError
from asc_sched.schedule import Schedule
from asc_sched.target import Target
from asc_sched.tiling.estimate import Estimate, Split, Work

# Core counts that are weighed, first and then around the best; the target's own is the last.
CORES = (1, 2, 4, 8, 12, 16, 24, 32, 40)
BETWEEN = (3, 6, 10, 14, 20, 28, 36, 44)
# A core's block is cut into the fewest tiles that fit, or into some more.
_MORE_TILES = (1, 2, 3, 4, 6, 8)
# Near the longest tile, buffers may lie in other banks.
_PARTS = (1, 31 / 32, 15 / 16, 7 / 8, 13 / 16)
MIN_COPY_BYTES = 4096
"""Shorter copies (of the widest tensor) are nearly all latency; tiles aren't cut below it to gain overlap."""
WORTH = 0.01
"""Part of the time that a knob must save to be worth the more elaborate kernel."""


def weighed_schedule(total_length: int, work: Work, target: Target) -> Schedule:
    """A schedule for `total_length` elements, near the best of a search. Raises `UbOverflowError` when not even the
    shortest tile fits.

    - Inputs share one queue where there are several: one wait for all of them, and the queue limit is out of the way.
      Outputs do where they are too many for queues of their own.
    - Inputs bypass L2 where it can't hold everything anyway.
    - Two buffers where a core has two tiles to overlap.
    - Cores and tiles are weighed by `Estimate`: one more core costs its launch, one more tile its latencies, and a
      single long tile overlaps nothing.
    - Then tiles somewhat shorter, and sources kept out of each other's UB banks, where that saves enough.
    """
    rule = _Rule(max(total_length, 1), work, target)
    return rule.refined(rule.best())


class _Rule:
    def __init__(self, total_length: int, work: Work, target: Target) -> None:
        self.total_length = total_length
        self.work = work
        self.target = target
        self.estimate = Estimate(work, total_length, target)
        self.align = self.estimate.align
        self.plain = Schedule(
            pack_inputs=len(work.in_sizes) > 1 or not self._longest(Schedule(buffer_num=1)),
            l2_cache="normal" if self.estimate.resident else "bypass",
        )
        self.longest = {n: self._longest(attrs.evolve(self.plain, buffer_num=n)) for n in (1, 2)}
        if self.longest[1] == 0:
            shortest = self.align.datablock_length
            raise UbOverflowError(
                f"the shortest tile, {shortest} elements of {len(work.itemsizes)} tensors and {work.temps} temporaries,"
                f" doesn't fit into {target.ub_bytes} bytes of UB; split the computation into several ops"
            )

    def _longest(self, schedule: Schedule) -> int:
        """The longest tile, in whole GM lines where that is possible; 0 where queues are too many or nothing fits."""
        try:
            longest = self.work.longest_tile(schedule, self.align.datablock_length)
        except QueueLimitError:
            return 0
        line = self.align.line_length
        return longest // line * line if longest >= line else longest

    def best(self) -> Schedule:
        """The best cores and tiles by the estimate."""
        limit = min(self.target.vector_cores, self.target.max_block_dim)
        found = self._weigh([*(c for c in CORES if c < limit), limit])
        middle = min(found, key=lambda s: (found[s], s.sort_key)).core_num or 1
        fewer = max((c for c in BETWEEN if c < middle), default=1)
        more = min((c for c in BETWEEN if middle < c < limit), default=1)
        found |= self._weigh([fewer, more])
        return min(found, key=lambda s: (found[s], s.sort_key))

    def _weigh(self, cores: Sequence[int]) -> dict[Schedule, float]:
        schedules = dict.fromkeys(s for core_num in cores for s in self._schedules(core_num))
        return {s: self.estimate.task_us(s) for s in schedules}

    def _schedules(self, core_num: int) -> Iterator[Schedule]:
        split = Split.of(self.total_length, core_num, self.align)
        for tile in self._tiles(split.block_length):
            two = tile < split.block_length and tile <= self.longest[2]
            if two or tile <= self.longest[1]:
                buffers = 2 if two else 1
                yield attrs.evolve(self.plain, core_num=split.core_num, tile_length=tile, buffer_num=buffers)

    def _tiles(self, block_length: int) -> list[int]:
        """Equal tiles of whole GM lines, from the longest on."""
        lengths: dict[int, None] = {}
        for longest in (self.longest[1] if block_length <= self.longest[1] else 0, self.longest[2] or self.longest[1]):
            if not longest:
                continue
            step = self.align.step(min(longest, block_length))
            fewest = -(-block_length // longest)
            for more in _MORE_TILES:
                tile = -(-block_length // (fewest * more * step)) * step
                if more == 1 or tile * max(self.work.itemsizes) >= MIN_COPY_BYTES:
                    lengths[tile] = None
        return list(lengths)

    def refined(self, schedule: Schedule) -> Schedule:
        """The schedule, or one beside it that is worth its lines: other banks, tiles a little shorter."""
        block = Split.of(self.total_length, schedule.core_num or 1, self.align).block_length
        usual = self.estimate.task_us(schedule)
        found = {schedule: usual}
        for variant in self._variants(schedule):
            found |= {s: self.estimate.task_us(s) for s in self._near(variant, schedule.tile_length or 0, block)}
        best = min(found, key=lambda s: (found[s], s.sort_key))
        return best if found[best] < (1 - WORTH) * usual else schedule

    def _variants(self, schedule: Schedule) -> list[Schedule]:
        return [attrs.evolve(schedule, bank_pad=pad) for pad in ((False, True) if self.work.has_pairs else (False,))]

    def _near(self, variant: Schedule, tile_length: int, block_length: int) -> Iterator[Schedule]:
        """With the tile as it is, as far as it fits; where there are several, with the longest and somewhat shorter."""
        longest = self._longest(variant)
        if not longest:
            return
        lengths = {min(tile_length, longest)}
        if block_length > longest:
            line = self.align.line_length if longest >= self.align.line_length else self.align.datablock_length
            lengths |= {int(longest * part) // line * line for part in _PARTS}
        for length in sorted(lengths - {0}):
            yield attrs.evolve(variant, tile_length=length)
