"""From a space to the schedules worth timing: everything that can't run, or can't differ, is pruned by a named rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import attrs

from asc_sched.errors import AscSchedError, ScheduleError, TileLengthError, UbOverflowError
from asc_sched.schedule import Schedule
from asc_sched.tiling.binding import check_core_num, check_tile_length
from asc_sched.tune.model import Model
from asc_sched.tune.space import Space


def variant_of(schedule: Schedule) -> Schedule:
    """A schedule's memory knobs alone."""
    return attrs.evolve(schedule, core_num=None, tile_length=None)


class Candidates:
    """The valid part of a space for one task. `pruned` counts what isn't in it by rule, `reasons` has every case."""

    def __init__(self, space: Space, model: Model) -> None:
        self.space = space
        self.model = model
        self.pruned: Counter[str] = Counter()
        self.reasons: dict[Schedule, str] = {}
        self._longest: dict[Schedule, int] = {}
        self.variants = tuple(sorted(self._variants()))
        self.cores = self._cores()
        self.tiles = lru_cache(maxsize=None)(self._tiles)

    def estimate(self, schedule: Schedule) -> float:
        """A first idea of a schedule's time, without looking at it."""
        return self.model.estimate.task_us(schedule)

    def starts(self) -> list[Schedule]:
        """The rule's own choice (`Schedule.auto`), if the space and the rules allow it."""
        try:
            schedule = self.model.rule
        except AscSchedError:
            return []
        variant = variant_of(schedule)
        longest = self._longest.get(variant, 0)
        tiles = self.space.tile_length
        known = schedule.core_num in self.cores and variant in self.variants
        known = known and (tiles is None or schedule.tile_length in tiles)
        return [schedule] if known and longest and self._allowed(schedule, longest) else []

    def grid(self, variant: Schedule) -> Iterator[Schedule]:
        """Every schedule of a variant that the rules and the restrictions allow."""
        for core_num in self.cores:
            for tile in self.tiles(variant, core_num):
                yield attrs.evolve(variant, core_num=core_num, tile_length=tile)

    def all(self) -> Iterator[Schedule]:
        """The whole valid space."""
        for variant in self.variants:
            yield from self.grid(variant)

    # -- knobs ----------------------------------------------------------------------------------------------------
    def _variants(self) -> Iterator[Schedule]:
        """Combinations of the memory knobs that the chip can run and that differ from simpler ones."""
        for variant in self.space.variants():
            reason = self._without_effect(variant)
            if reason:
                self._prune(reason, variant, reason)
                continue
            try:
                longest = self.model.lengths.longest(variant)
            except AscSchedError as error:
                self._prune(type(error).__name__, variant, str(error))
                continue
            if longest == 0:
                self._prune(UbOverflowError.__name__, variant, "not even the shortest tile fits into the UB")
                continue
            self._longest[variant] = longest
            yield variant

    def _without_effect(self, variant: Schedule) -> str:
        """Why a variant is the same as a simpler one that is in the space too; empty if it isn't."""
        lengths = self.model.lengths
        if variant.pack_inputs and lengths.inputs < 2 and False in self.space.pack_inputs:
            return "no effect: pack_inputs with one input"
        if variant.bank_pad and not lengths.has_pairs and False in self.space.bank_pad:
            return "no effect: bank_pad without a two-source instruction"
        return ""

    def _cores(self) -> tuple[int, ...]:
        """Core counts that the target has and that all get work; larger ones launch the same cores."""
        task = self.model.task
        kept: dict[int, None] = {}
        for core_num in self.space.cores(task.target.vector_cores):
            schedule = Schedule(core_num=core_num)
            try:
                check_core_num(schedule, task.target)
            except ScheduleError as error:
                self._prune(type(error).__name__, schedule, str(error))
                continue
            used = self.model.lengths.used_cores(core_num)
            if used in kept and used < core_num:
                self._prune("cores without work", schedule, f"core_num={core_num}: {used} cores have work")
            else:
                kept[used if used < core_num else core_num] = None
        return tuple(sorted(kept))

    def _tiles(self, variant: Schedule, core_num: int) -> tuple[int, ...]:
        """Tile lengths of a variant on so many cores that fit, longest first."""
        wanted = self.model.lengths.tiles(self.space, variant, core_num, self.cores)
        longest = self._longest[variant]

        def allowed(tile: int) -> bool:
            if tile <= longest and not self.space.restrictions and self._is_aligned(tile):
                return True  # without the schedule, which takes longer to make than to judge
            return self._allowed(attrs.evolve(variant, core_num=core_num, tile_length=tile), longest)

        return tuple(filter(allowed, wanted))

    def _is_aligned(self, tile: int) -> bool:
        try:
            check_tile_length(tile, self.model.align)
        except TileLengthError:
            return False
        return True

    def _allowed(self, schedule: Schedule, longest: int) -> bool:
        tile = schedule.tile_length or 0
        try:
            check_tile_length(tile, self.model.align)
        except TileLengthError as error:
            self._prune(type(error).__name__, schedule, str(error))
            return False
        if tile > longest:
            reason = f"tile_length={tile} is over the {longest} elements that fit into the UB"
            self._prune(UbOverflowError.__name__, schedule, reason)
            return False
        rule = self.space.refused_by(schedule)
        if rule is not None:
            self._prune(f"restriction: {rule}", schedule, rule)
        return rule is None

    def _prune(self, rule: str, schedule: Schedule, reason: str) -> None:
        if schedule not in self.reasons:
            self.pruned[rule] += 1
            self.reasons[schedule] = reason
