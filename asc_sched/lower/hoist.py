"""Numbers that every tile needs in a register: filled once per core where that pays.

A Duplicate per tile takes the vector unit's time, a buffer that keeps the number takes UB from the tiles. So they are
kept where the vector unit, not memory, would be what a long run of tiles waits for, and only as many as make it faster.
Only where steps stand changes: results are the same bit for bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

import attrs

from asc_sched.lower.allocate import Allocation, bank_colours, done_with
from asc_sched.lower.layout import Layout
from asc_sched.lower.pressure import eased
from asc_sched.lower.program import ScalarRef, Step
from asc_sched.lower.spaces import AnyStep, TileProgram
from asc_sched.lower.work import Call, addresses
from asc_sched.target.instructions import CARRIER_BITS
from asc_sched.target.soc import Target

_MOST_KEPT = 4  # buffers for numbers; more never paid in the catalogue
_STEP = 32  # rows by which tiles are compared
# About what a core loads, of HBM when all do, and alone. Not the chip's own figures, so that all get the same kernel.
_HBM_BYTES_PER_CYCLE = 20
_PORT_BYTES_PER_CYCLE = 64
_WORTH = 0.99  # of the time: less of a gain isn't worth the lines


def hoisted(program: TileProgram, target: Target) -> tuple[TileProgram, Allocation]:
    """The program in its best order, those numbers filled before the tiles that make long runs of tiles faster."""
    best = eased(program)
    numbers = _Numbers(program)
    if not numbers.read:
        return best
    least = _cycles_per_row(*best, target)
    if least <= _moved_bytes(program) / _HBM_BYTES_PER_CYCLE:
        return best
    for count in range(1, min(len(numbers.read), _MOST_KEPT) + 1):
        other = eased(numbers.kept(numbers.read[:count]))
        cycles = _cycles_per_row(*other, target)
        if cycles < _WORTH * least:
            best, least = other, cycles
    return best


def _cycles_per_row(program: TileProgram, allocation: Allocation, target: Target) -> float:
    """What a row of the longest tiles takes, with two buffers or with one, whatever is faster.

    Two: the slower of the vector unit and HBM. One: a core's load overlaps with what it computes after the load's
    buffer is free, and has the core's whole port, since the others don't all load at once.
    """
    nbytes = _moved_bytes(program)
    hbm = nbytes / _HBM_BYTES_PER_CYCLE
    colours = bank_colours(program, allocation)
    layout = Layout(allocation, 2, True, True, colours, program.reserve_bytes, program.granule_bytes)
    calls = [Call.of(step, program, allocation) for step in program.steps]
    double, single = (_vector_cycles(calls, attrs.evolve(layout, buffer_num=n), target) for n in (2, 1))
    free = max(done_with(program, allocation).values(), default=0)
    waits = max(0.0, nbytes / _PORT_BYTES_PER_CYCLE - sum(single[free + 1 :]))
    return max(min(sum(double), sum(single) + waits), hbm)


def _vector_cycles(calls: Sequence[Call], layout: Layout, target: Target) -> list[float]:
    """What each step of the body takes per row of the longest tiles."""
    rows = layout.largest_tile(target, _STEP)
    if not rows:
        return [math.inf]
    base = addresses(layout, rows).base
    return [call.cycles(base, rows) / rows for call in calls]


def _moved_bytes(program: TileProgram) -> float:
    """What a row has to load (stores mostly go to L2 meanwhile), or to store if that is more."""

    def nbytes(moved: tuple[tuple[str, int], ...]) -> float:
        return sum(program.extents[r].length(1) * CARRIER_BITS[program.registers[r]] / 8 for _, r in moved)

    return max(nbytes(program.loads), nbytes(program.stores))


class _Numbers:
    """The steps of a program's body that depend on no tensor, by what they compute.

    `made[register]` is the number of what is in a register, `read` are the numbers that other steps read, those first
    that take the most steps.
    """

    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.made: dict[int, int] = {}
        self.steps: list[Step] = []  # by number
        known: dict[Hashable, int] = {}
        stored = {register for _, register in program.stores}
        times: Counter[int] = Counter()
        for step in program.body:
            if isinstance(step, Step) and step.dst not in stored and all(s in self.made for s in step.srcs):
                same = (step.instruction, repr(step.imm), step.mode, tuple(self.made[s] for s in step.srcs))
                number = self.made[step.dst] = known.setdefault(same, len(self.steps))
                if number == len(self.steps):
                    self.steps.append(step)
                times[number] += 1
        others = (step for step in program.body if step.dst not in self.made)
        read = dict.fromkeys(self.made[s] for step in others for s in step.srcs if s in self.made)
        self.read = sorted(read, key=lambda number: -sum(times[n] for n in self._needed([number])))

    def kept(self, chosen: Collection[int]) -> TileProgram:
        """The program with the chosen numbers filled once per core."""
        program = self.program
        registers, extents = list(program.registers), list(program.extents)
        setup: list[AnyStep] = list(program.setup)
        place: dict[int, int] = {}
        for number in sorted(self._needed(chosen)):  # sources have lower numbers
            step = self.steps[number]
            registers.append(program.registers[step.dst])
            extents.append(program.extents[step.dst])
            place[number] = len(registers) - 1
            setup.append(attrs.evolve(step, dst=place[number], srcs=tuple(place[self.made[s]] for s in step.srcs)))
        new = {register: place[number] for register, number in self.made.items() if number in chosen}
        hints = (*program.hints, *((place[number], self._word(number)) for number in chosen))
        return attrs.evolve(
            program, registers=tuple(registers), extents=tuple(extents), setup=tuple(setup),
            body=self._reading(new), hints=hints,
        )  # fmt: skip

    def _needed(self, chosen: Collection[int]) -> set[int]:
        """The chosen numbers and those that they are made from."""
        found: set[int] = set()
        stack = list(chosen)
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += [self.made[s] for s in self.steps[number].srcs]
        return found

    def _word(self, number: int) -> str:
        """What a number's buffer is called."""
        step = self.steps[number]
        while step.srcs:
            step = self.steps[self.made[step.srcs[0]]]
        return f"{step.imm.name}_tile" if isinstance(step.imm, ScalarRef) else "constant"

    def _reading(self, new: Mapping[int, int]) -> tuple[AnyStep, ...]:
        """The body with registers replaced, without the steps that nothing reads any more."""
        steps = [attrs.evolve(s, srcs=tuple(new.get(r, r) for r in s.srcs)) for s in self.program.body]
        read = {register for _, register in self.program.stores}
        body: list[AnyStep] = []
        for step in reversed(steps):
            if step.dst in read or step.dst not in self.made:
                body.append(step)
                read.update(step.srcs)
        return tuple(reversed(body))
