"""The vector instructions of a placed program, as a tile of a given size executes them: what times are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from asc_sched.lower.allocate import Allocation, Kind
from asc_sched.lower.form import Form
from asc_sched.lower.program import Step
from asc_sched.lower.spaces import AnyStep, Spread, TileProgram
from asc_sched.lower.spread_records import spread_parts
from asc_sched.lower.work import Addresses, ascendc_type, form_of
from asc_sched.target.costs import vector_cycles
from asc_sched.target.instructions import ASC_TYPE, CARRIER_BITS, COUNTS

# Scalar operations for a count that is made from another (about so many).
_COUNT_OPS = 6


@attrs.frozen
class Call:
    """One vector instruction, or scalar operations after the last one.

    `name`: Ascend C's (empty for scalar operations alone). `operands`: (register, type, first element) each, the
    destination first. `ops`: scalar operations before it. `repeats` and `strides` are as in `stream.Compute`.
    """

    name: str
    operands: tuple[tuple[int, str, int], ...]
    count: int
    ops: int = 0
    repeats: int | None = None
    strides: tuple[tuple[int, int], ...] | None = None


@attrs.frozen
class Calls:
    """The instructions of a program in a form, for tiles of `tile_rows` rows."""

    program: TileProgram
    form: Form
    tile_rows: int

    def of(self, step: AnyStep, tile: tuple[int, int] | None) -> Iterator[Call]:
        """The instructions of a step. `tile`: rows and columns of this tile; None before the tiles, where a step works
        on a whole one's."""
        length = self._length(step.dst, tile)
        if isinstance(step, Step):
            form = form_of(step.instruction)
            pairs = zip((step.dst, *step.srcs), form.types, strict=True)
            operands = tuple((register, dtype, 0) for register, dtype in pairs)
            yield Call(step.instruction.ascendc, operands, form.count(length))
        else:
            yield from self._spread(step, length)

    def _spread(self, step: Spread, length: int) -> Iterator[Call]:
        registers, carriers = (step.dst, *step.srcs), self.program.registers
        bits = CARRIER_BITS[carriers[step.dst]]
        whole = self.program.extents[step.dst].length(self.tile_rows)
        for part in spread_parts(step.kind, step.numbers, bits, self.tile_rows, whole, length):
            operands = tuple((registers[i], ascendc_type(carriers[registers[i]]), at) for i, at in part.operands)
            yield Call(part.name, operands, part.count, part.ops, part.repeats, part.strides)

    def _length(self, register: int, tile: tuple[int, int] | None) -> int:
        """The elements of a register that a step works on."""
        extent = self.program.extents[register]
        if tile is None or not extent.per_row or extent.max_rows or extent.row_step > 1:
            return extent.length(self.tile_rows)
        rows, columns = tile
        if extent.width == self.form.pitch:
            return columns if self.form.cut else rows * self.form.pitch
        return extent.length(rows)

    def cycles(
        self, steps: Sequence[AnyStep], allocation: Allocation, where: Addresses, tile: tuple[int, int] | None
    ) -> tuple[float, int]:
        """Cycles of the vector pipe for steps in their first buffers, and the number of instructions."""
        total, number = 0.0, 0
        for step in steps:
            for call in (c for c in self.of(step, tile) if c.name):
                spots = tuple(self.address(allocation, where, r, at, 0) for r, _, at in call.operands)
                types = [dtype for _, dtype, _ in call.operands]
                total += vector_cycles(
                    call.name, types[0], tuple(types[1:]), call.count, spots, call.repeats, call.strides
                )
                number += 1
        return total, number

    def address(self, allocation: Allocation, where: Addresses, register: int, start: int, turn: int) -> int:
        """The UB address of a register's element in the buffers of a turn."""
        slot = allocation.home[register]
        assert slot is not None
        turns = turn if allocation.slots[slot].kind in (Kind.IN, Kind.OUT) else 0
        return where.of(slot, turns) + start * CARRIER_BITS[self.program.registers[register]] // 8


def view_ops_of(steps: Sequence[AnyStep], program: TileProgram, allocation: Allocation) -> int:
    """Scalar operations that set up the views and counts of a phase."""
    slots = allocation.slots
    views = {(allocation.home[r], ASC_TYPE[program.registers[r]]) for s in steps for r in (s.dst, *s.srcs)}
    queued = {home for home, _ in views if home is not None and slots[home].kind is not Kind.TEMP}
    counts = {h for s in steps if isinstance(s, Step) for h in COUNTS if "{" + h + "}" in s.instruction.call}
    return len(views) - len(queued) + _COUNT_OPS * len(counts)
