"""UB by live range: which buffer holds each register.

The buffers that the queues own anyway serve as scratch too: an input's buffer after the input's last use, an output's
before the output is computed. Temporaries are added only when neither has room. What is computed before the rows'
loop and read in it keeps a buffer of its own; the others of those share theirs with the loop's temporaries.

Wide registers are placed first, each into the tightest buffer that is free for as long as it lives, so that a narrow
one never takes the place that a wide one needs.
"""

from __future__ import annotations

import enum
from bisect import bisect_left

import attrs

from asc_sched.lower.program import Step
from asc_sched.lower.spaces import Extent, Phase, TileProgram
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


@attrs.frozen(cache_hash=True)  # a key of caches
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
    """The buffers of a program; deterministic."""
    return _Allocator(program).run()


class _Buffer:
    """A buffer under construction: the registers in it, in the order of their lives."""

    def __init__(self, kind: Kind, name: str, bits: int, extent: Extent, opens: int) -> None:
        self.kind = kind
        self.name = name
        self.bits = bits
        self.extent = extent
        self.opens = opens  # the first step at which it can hold a register
        self.starts: list[int] = []
        self.held: list[int] = []

    def slot(self, name: str) -> Slot:
        return Slot(self.kind, name, self.bits, self.extent)


class _Allocator:
    """A register lives from the step that makes it (`made`) to the last that reads it (`end`)."""

    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.steps = [step for phase in program.phases for step in phase]
        self.body = len(program.setup) + len(program.prologue)
        self.hints = dict(program.hints)
        self.end = _last_uses(program)
        self.made = {step.dst: i for i, step in enumerate(self.steps)}
        self.buffers: list[_Buffer] = []
        self.home: dict[int, _Buffer] = {}
        for name, register in program.once:
            self._keep(self._new(Kind.ONCE, name, register), register)
        for name, register in program.loads:
            self.made[register] = self.body - 1  # filled before the first step of a tile
            self._keep(self._new(Kind.IN, name, register, self.body), register)
        for name, register in program.stores:
            self._keep(self._new(Kind.OUT, name, register, self.body), register)

    def run(self) -> Allocation:
        order = [s.dst for s in self.steps if s.dst not in self.home]
        for register in sorted(order, key=lambda r: (-self._bits(r), self.made[r])):
            self._place(register)
        temps = sorted((b for b in self.buffers if b.kind is Kind.TEMP), key=lambda b: b.starts[0])
        buffers = [b for b in self.buffers if b.kind is not Kind.TEMP] + temps
        slots = [b.slot(b.name) for b in buffers[: len(buffers) - len(temps)]]
        slots += [b.slot(self.hints.get(self._owner(b), f"tmp{i}")) for i, b in enumerate(temps)]
        number = {id(b): i for i, b in enumerate(buffers)}
        registers = range(len(self.program.registers))
        home = (self.home.get(r) for r in registers)
        return Allocation(tuple(slots), tuple(None if b is None else number[id(b)] for b in home))

    def _owner(self, buffer: _Buffer) -> int:
        """The register that a temporary is named after: what stays in it, else what comes first."""
        last = buffer.held[-1]
        return last if self.end[last] == len(self.steps) else buffer.held[0]

    def _bits(self, register: int) -> int:
        return CARRIER_BITS[self.program.registers[register]]

    def _new(self, kind: Kind, name: str, register: int, opens: int = 0) -> _Buffer:
        buffer = _Buffer(kind, name, self._bits(register), self.program.extents[register], opens)
        self.buffers.append(buffer)
        return buffer

    def _keep(self, buffer: _Buffer, register: int) -> None:
        """Put a register into a buffer that is free for it."""
        start = self.made.get(register, -1)
        at = bisect_left(buffer.starts, start)
        buffer.starts.insert(at, start)
        buffer.held.insert(at, register)
        self.home[register] = buffer

    def _place(self, register: int) -> None:
        """The buffer of a source that the step may overwrite, else the tightest free one, else a new one."""
        bits, extent = self._bits(register), self.program.extents[register]
        own = {id(self.home[s]) for s in self.steps[self.made[register]].srcs if s in self.home}
        free = [b for b in self.buffers if b.bits >= bits and b.extent == extent and self._fits(b, register)]
        if free:
            self._keep(min(free, key=lambda b: (b.bits, id(b) not in own)), register)
        else:
            self._keep(self._new(Kind.TEMP, "", register), register)

    def _fits(self, buffer: _Buffer, register: int) -> bool:
        """Whether a buffer is free from the register's making to its end."""
        made = self.made[register]
        if buffer.kind is Kind.ONCE or made < buffer.opens:
            return False
        at = bisect_left(buffer.starts, made)
        if at and not self._follows(buffer.held[at - 1], register):
            return False
        return at == len(buffer.held) or self._follows(register, buffer.held[at])

    def _follows(self, first: int, second: int) -> bool:
        """Whether `second` may be written where `first` is: after it is gone, or over it by a step in place."""
        end, made = self.end[first], self.made[second]
        if end != made:
            return end < made
        step = self.steps[made]
        in_place = isinstance(step, Step) and step.instruction.in_place
        return in_place and first in step.srcs and self._alike(first, second)

    def _alike(self, a: int, b: int) -> bool:
        return self._bits(a) == self._bits(b) and self.program.extents[a] == self.program.extents[b]


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


def done_with(program: TileProgram, allocation: Allocation) -> dict[int, int]:
    """For each input's slot the step of the body, by number, after which nothing of a tile is in it any more."""
    ins = allocation.of_kind(Kind.IN)
    last: dict[int, int] = {}
    for i, step in enumerate(program.body):
        for register in (step.dst, *step.srcs):
            home = allocation.home[register]
            if home in ins:
                last[home] = i
    return last


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
