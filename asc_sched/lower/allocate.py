"""UB by live range: which buffer holds each register.

The buffers that the queues own anyway serve as scratch too: an input's buffer after the input's last use, an output's
before the output is computed. Temporaries are added only when neither has room.
"""

from __future__ import annotations

import enum

import attrs

from asc_sched.lower.program import Program, Step
from asc_sched.target.instructions import CARRIER_BITS


class Kind(enum.Enum):
    """What a buffer belongs to."""

    IN = "in"
    OUT = "out"
    TEMP = "temp"


@attrs.frozen
class Slot:
    """One buffer per tile: `bits` per element. `name` is the input or output, or ``tmp0``..."""

    kind: Kind
    name: str
    bits: int


@attrs.frozen
class Allocation:
    """`home[register]` is the index of the slot that holds the register while it lives."""

    slots: tuple[Slot, ...]
    home: tuple[int | None, ...]

    @property
    def temps(self) -> tuple[Slot, ...]:
        return tuple(s for s in self.slots if s.kind is Kind.TEMP)

    def of_kind(self, kind: Kind) -> tuple[int, ...]:
        """Indices of the slots of one kind, in order."""
        return tuple(i for i, s in enumerate(self.slots) if s.kind is kind)


def allocate(program: Program) -> Allocation:
    """Linear scan over the steps; deterministic."""
    return _Allocator(program).run()


class _Allocator:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.end = _last_uses(program)
        self.home: list[int | None] = [None] * len(program.registers)
        self.slots: list[Slot] = []
        self.busy: dict[int, int] = {}  # slot -> the register that lives in it
        self.store_slot: dict[int, int] = {}
        self.store_step = {step.dst: i for i, step in enumerate(program.steps)}
        for name, register in program.loads:
            slot = self._new(Kind.IN, name, register)
            self.home[register] = slot
            if self.end[register] >= 0:
                self.busy[slot] = register
        for name, register in program.stores:
            self.store_slot[register] = self._new(Kind.OUT, name, register)
        self.reserved = {slot: register for register, slot in self.store_slot.items()}

    def run(self) -> Allocation:
        for i, step in enumerate(self.program.steps):
            self._place(i, step)
        return Allocation(tuple(self.slots), tuple(self.home))

    def _new(self, kind: Kind, name: str, register: int) -> int:
        self.slots.append(Slot(kind, name, CARRIER_BITS[self.program.registers[register]]))
        return len(self.slots) - 1

    def _place(self, index: int, step: Step) -> None:
        dying = [s for s in dict.fromkeys(step.srcs) if self.end[s] == index]
        bits = CARRIER_BITS[self.program.registers[step.dst]]
        overlay = [
            self.home[s] for s in dying if step.instruction.in_place and CARRIER_BITS[self.program.registers[s]] == bits
        ]
        slot = self._choose(index, step.dst, bits, [s for s in overlay if s is not None])
        for source in dying:
            home = self.home[source]
            if home is not None:
                self.busy.pop(home, None)
        self.home[step.dst] = slot
        if self.end[step.dst] > index:
            self.busy[slot] = step.dst

    def _choose(self, index: int, register: int, bits: int, overlay: list[int]) -> int:
        if register in self.store_slot:
            return self.store_slot[register]
        usable = [s for s in overlay if self._reusable(s, register, index)]
        free = [
            s
            for s, slot in enumerate(self.slots)
            if s not in self.busy and slot.bits >= bits and self._reusable(s, register, index)
        ]
        # Staying in place keeps the fewest buffers alive; else the tightest free one.
        candidates = usable or sorted(free, key=lambda s: (self.slots[s].bits, s))
        if candidates:
            return candidates[0]
        return self._new(Kind.TEMP, f"tmp{sum(s.kind is Kind.TEMP for s in self.slots)}", register)

    def _reusable(self, slot: int, register: int, index: int) -> bool:
        """An output's buffer is lent only to registers that are gone, or consumed in place, when the output is made."""
        owner = self.reserved.get(slot)
        if owner is None:
            return True
        made = self.store_step[owner]
        if index >= made:
            return False
        if self.end[register] < made:
            return True
        step = self.program.steps[made]
        same = CARRIER_BITS[self.program.registers[register]] == CARRIER_BITS[self.program.registers[owner]]
        return self.end[register] == made and step.instruction.in_place and same


def _last_uses(program: Program) -> list[int]:
    """The index of the last step that reads each register; the end for stored ones; -1 for unused ones."""
    end = [-1] * len(program.registers)
    for i, step in enumerate(program.steps):
        for s in step.srcs:
            end[s] = i
    for _, register in program.stores:
        end[register] = len(program.steps)
    return end


def bank_colours(program: Program, allocation: Allocation) -> tuple[int, ...]:
    """0 or 1 per slot, so that the two sources of a binary instruction differ where that is possible.

    Sources whose addresses agree modulo 512 bytes read the same bank groups and take two cycles per repeat, not one.
    """
    partners: list[dict[int, None]] = [{} for _ in allocation.slots]
    for step in program.steps:
        homes = [allocation.home[s] for s in dict.fromkeys(step.srcs)]
        if len(homes) == 2 and homes[0] != homes[1] and homes[0] is not None and homes[1] is not None:
            partners[homes[0]][homes[1]] = None
            partners[homes[1]][homes[0]] = None
    colours: list[int | None] = [None] * len(allocation.slots)
    for root in range(len(colours)):
        if colours[root] is None:
            _colour(root, colours, partners)
    return tuple(c or 0 for c in colours)


def _colour(root: int, colours: list[int | None], partners: list[dict[int, None]]) -> None:
    """Breadth-first two-colouring; an odd cycle leaves one pair alike."""
    colours[root] = 0
    queue = [root]
    for slot in queue:
        for other in partners[slot]:
            if colours[other] is None:
                colours[other] = 1 - (colours[slot] or 0)
                queue.append(other)
