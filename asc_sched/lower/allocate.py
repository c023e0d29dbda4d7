"""UB by live range: which buffer holds each register.

The buffers that the queues own anyway serve as scratch too: an input's buffer after the input's last use, an output's
before the output is computed. Temporaries are added only when neither has room. What is computed before the rows'
loop and read in it keeps a buffer of its own; the others of those share theirs with the loop's temporaries.
"""

from __future__ import annotations

import enum

import attrs

from asc_sched.lower.program import Step
from asc_sched.lower.spaces import AnyStep, Extent, Phase, TileProgram
from asc_sched.target.instructions import CARRIER_BITS


class Kind(enum.Enum):
    """What a buffer belongs to."""

    IN = "in"  # an input's queue, filled per tile
    ONCE = "once"  # the queue of inputs that are read before the rows' loop
    OUT = "out"
    TEMP = "temp"


@attrs.frozen
class Slot:
    """One buffer: `extent` elements of `bits`. `name` is the input or output, or ``tmp0``..."""

    kind: Kind
    name: str
    bits: int
    extent: Extent


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


def allocate(program: TileProgram) -> Allocation:
    """Linear scan over the steps; deterministic."""
    return _Allocator(program).run()


class _Allocator:
    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.steps = [step for phase in program.phases for step in phase]
        self.body_start = len(program.setup) + len(program.prologue)
        self.hints = dict(program.hints)
        self.end = _last_uses(program)
        self.home: list[int | None] = [None] * len(program.registers)
        self.slots: list[Slot] = []
        self.busy: dict[int, int] = {}  # slot -> the register that lives in it
        self.store_slot: dict[int, int] = {}
        self.store_step = {step.dst: i for i, step in enumerate(self.steps)}
        for kind, loads in ((Kind.ONCE, program.once), (Kind.IN, program.loads)):
            for name, register in loads:
                self.home[register] = slot = self._new(kind, name, register)
                self.busy[slot] = register
        for name, register in program.stores:
            self.store_slot[register] = self._new(Kind.OUT, name, register)
        self.reserved = {slot: register for register, slot in self.store_slot.items()}

    def run(self) -> Allocation:
        for i, step in enumerate(self.steps):
            self._place(i, step)
        return Allocation(tuple(self.slots), tuple(self.home))

    def _new(self, kind: Kind, name: str, register: int) -> int:
        bits = CARRIER_BITS[self.program.registers[register]]
        self.slots.append(Slot(kind, name, bits, self.program.extents[register]))
        return len(self.slots) - 1

    def _bits(self, register: int) -> int:
        return CARRIER_BITS[self.program.registers[register]]

    def _place(self, index: int, step: AnyStep) -> None:
        dying = [s for s in dict.fromkeys(step.srcs) if self.end[s] == index]
        in_place = isinstance(step, Step) and step.instruction.in_place
        overlay = [self.home[s] for s in dying if in_place and self._alike(s, step.dst)]
        slot = self._choose(index, step.dst, [s for s in overlay if s is not None])
        for source in dying:
            home = self.home[source]
            if home is not None:
                self.busy.pop(home, None)
        self.home[step.dst] = slot
        if self.end[step.dst] > index:
            self.busy[slot] = step.dst

    def _alike(self, a: int, b: int) -> bool:
        return self._bits(a) == self._bits(b) and self.program.extents[a] == self.program.extents[b]

    def _choose(self, index: int, register: int, overlay: list[int]) -> int:
        if register in self.store_slot:
            return self.store_slot[register]
        usable = [s for s in overlay if self._reusable(s, register, index)]
        extent = self.program.extents[register]
        free = [
            s
            for s, slot in enumerate(self.slots)
            if s not in self.busy and slot.extent == extent and self._reusable(s, register, index)
        ]
        bits = self._bits(register)
        # Staying in place keeps the fewest buffers alive; else the tightest free one.
        large = sorted((s for s in free if self.slots[s].bits >= bits), key=lambda s: (self.slots[s].bits, s))
        if usable or large:
            return (usable or large)[0]
        small = [s for s in free if self.slots[s].kind is Kind.TEMP]
        if not small:
            number = sum(s.kind is Kind.TEMP for s in self.slots)
            return self._new(Kind.TEMP, self.hints.get(register, f"tmp{number}"), register)
        widest = max(small, key=lambda s: (self.slots[s].bits, -s))  # a wider one costs less than one more
        self.slots[widest] = attrs.evolve(self.slots[widest], bits=bits)
        return widest

    def _reusable(self, slot: int, register: int, index: int) -> bool:
        """A queue's buffer is there within a tile only. An output's is lent to registers that are gone, or consumed in
        place, when the output is made."""
        kind = self.slots[slot].kind
        if kind is Kind.ONCE:
            return False
        if index < self.body_start:
            return kind is Kind.TEMP
        owner = self.reserved.get(slot)
        if owner is None:
            return True
        made = self.store_step[owner]
        if index >= made:
            return False
        if self.end[register] < made:
            return True
        step = self.steps[made]
        in_place = isinstance(step, Step) and step.instruction.in_place
        return self.end[register] == made and in_place and self._alike(register, owner)


def _last_uses(program: TileProgram) -> list[int]:
    """The index of the last step that reads each register; past all steps for those that are stored or that a later
    phase reads; -1 for unused ones."""
    end = [-1] * len(program.registers)
    home = [Phase.TILE] * len(program.registers)
    for phase, steps in zip(Phase, program.phases, strict=True):
        for step in steps:
            home[step.dst] = phase
    for _, register in program.once:
        home[register] = Phase.ONCE
    order = [(phase, step) for phase, steps in zip(Phase, program.phases, strict=True) for step in steps]
    for i, (phase, step) in enumerate(order):
        for s in step.srcs:
            end[s] = len(order) if phase > home[s] else max(end[s], i)
    for _, register in program.stores:
        end[register] = len(order)
    return end


def bank_colours(program: TileProgram, allocation: Allocation) -> tuple[int, ...]:
    """0 or 1 per slot, so that the two sources of a binary instruction differ where that is possible.

    Sources whose addresses agree modulo 512 bytes read the same bank groups and take two cycles per repeat, not one.
    """
    partners: list[dict[int, None]] = [{} for _ in allocation.slots]
    for step in program.body:
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
