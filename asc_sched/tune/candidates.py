"""From a space to the schedules worth timing: everything that can't run, or can't differ, is pruned by a named rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs

from asc_sched.errors import AscSchedError
from asc_sched.schedule import Schedule
from asc_sched.tune.model import Model
from asc_sched.tune.space import Space


class Candidates:
    """The valid part of a space for one task, with a count of what was pruned by each rule."""

    def __init__(self, space: Space, model: Model) -> None:
        self.space = space
        self.model = model
        self.pruned: Counter[str] = Counter()
        self.reasons: dict[Schedule, str] = {}
        self.variants = tuple(self._variants())
        self.cores = self._cores()

    def _variants(self) -> Iterator[Schedule]:
        """Combinations of the text-changing knobs that the chip can run and that differ from simpler ones."""
        meaningful = [v for v in self.space.variants() if not self._without_effect(v)]
        self.model.prepare(meaningful)
        for variant in sorted(meaningful):
            try:
                self.model.variant(variant)
            except AscSchedError as error:
                self._prune(type(error).__name__, variant, str(error))
            else:
                yield variant

    def _without_effect(self, variant: Schedule) -> bool:
        """Knobs that change nothing for this op: the simpler schedule is in the space too."""
        task = self.model.task
        one_input = len(task.op.inputs) < 2
        if variant.pack_inputs and one_input and False in self.space.pack_inputs:
            self._prune("no effect: pack_inputs with one input", variant, "")
            return True
        if variant.bank_pad and not self.model.has_pairs and False in self.space.bank_pad:
            self._prune("no effect: bank_pad without a two-source instruction", variant, "")
            return True
        return False

    def _cores(self) -> tuple[int, ...]:
        """Core counts that get at least one alignment unit each; larger ones launch the same cores."""
        model = self.model
        units = max(1, -(-model.task.shapes.total_length // model.align.datablock_length))
        wanted = self.space.cores(model.task.target.vector_cores)
        kept = tuple(c for c in wanted if c <= units) or wanted[:1]
        self.pruned["cores without work"] += (len(wanted) - len(kept)) * max(1, len(self.variants))
        return kept

    def tiles(self, variant: Schedule, core_num: int) -> tuple[int, ...]:
        """Tile lengths for a variant on so many cores, longest first."""
        model = self.model
        align = model.align
        longest = model.longest_tile(variant)
        block = -(-model.task.shapes.total_length // core_num)
        step = align.line_length if min(block, longest) >= align.line_length else align.datablock_length
        if self.space.tile_length is None:
            return self.space.tiles(block, longest // step * step or longest, step, model.widest)
        wanted = self.space.tiles(block, longest, step, model.widest)
        kept = [t for t in wanted if t <= longest and t % align.datablock_length == 0]
        for tile in wanted:
            if tile > longest:
                self._prune("UbOverflowError", attrs.evolve(variant, core_num=core_num, tile_length=tile),
                            f"tile_length={tile}: at most {longest} elements fit into the UB")  # fmt: skip
            elif tile % align.datablock_length:
                self._prune("TileLengthError", attrs.evolve(variant, core_num=core_num, tile_length=tile),
                            f"tile_length={tile} is not a multiple of {align.datablock_length}")  # fmt: skip
        return tuple(kept)

    def grid(self, variant: Schedule) -> Iterator[Schedule]:
        """Every schedule of a variant that the rules and the restrictions allow."""
        for core_num in self.cores:
            for tile in self.tiles(variant, core_num):
                schedule = attrs.evolve(variant, core_num=core_num, tile_length=tile)
                rule = self.space.refused_by(schedule)
                if rule is None:
                    yield schedule
                else:
                    self._prune(f"restriction: {rule}", schedule, rule)

    def all(self) -> Iterator[Schedule]:
        """The whole valid space."""
        for variant in self.variants:
            yield from self.grid(variant)

    def _prune(self, rule: str, schedule: Schedule, reason: str) -> None:
        if schedule not in self.reasons:
            self.pruned[rule] += 1
            self.reasons[schedule] = reason or rule
