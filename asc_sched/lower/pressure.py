"""The order of a tile's steps that needs the fewest temporaries, so that tiles can be longer; and of its loads.

Finding the best order is as hard as colouring; a few good ones are laid out and the one whose buffers are smallest is
taken, the order as written where none is better. Only where steps stand changes: results are the same bit for bit.
"""

from __future__ import annotations

import attrs

from asc_sched.lower.allocate import Allocation, allocate, done_with
from asc_sched.lower.program import Step
from asc_sched.lower.spaces import AnyStep, TileProgram
from asc_sched.target.instructions import CARRIER_BITS

_ROWS = 64  # rows of a tile for which buffers are compared: those of a value per row weigh less than of one per element
_MOST_STEPS = 2000  # orders are looked for in time that grows with the square of the steps


def eased(program: TileProgram) -> tuple[TileProgram, Allocation]:
    """The program with the steps of its body in the best order found, and its buffers.

    What a tile is done with first is loaded first: MTE2 loads in order, and a load waits for its buffer to be free.
    """
    best, allocation = _shortest(program)
    done = {allocation.slots[slot].name: step for slot, step in done_with(best, allocation).items()}
    loads = tuple(sorted(best.loads, key=lambda load: done[load[0]]))
    if loads == best.loads:
        return best, allocation
    best = attrs.evolve(best, loads=loads)
    return best, allocate(best)


def _shortest(program: TileProgram) -> tuple[TileProgram, Allocation]:
    best, allocation = program, allocate(program)
    if not allocation.temps or len(program.body) > _MOST_STEPS:
        return best, allocation
    size = _temp_bits(allocation)
    own = sum(slot.bits * slot.extent.length(_ROWS) for slot in allocation.slots) - size
    for walk in (_Walk(program).smallest_first(), _Walk(program).deepest_first()):
        if walk.peak - own >= size:  # what is kept at once doesn't fit into less
            continue
        other = attrs.evolve(program, body=walk.order())
        buffers = allocate(other)
        if _temp_bits(buffers) < size:
            best, allocation, size = other, buffers, _temp_bits(buffers)
    return best, allocation


def _temp_bits(allocation: Allocation) -> int:
    return sum(slot.bits * slot.extent.length(_ROWS) for slot in allocation.temps)


class _Walk:
    """Lays out the steps of a body one by one.

    `made_by[r]` is the step that makes register r, `users[r]` are those that read it, `bits[r]` what it takes of UB
    from the temporaries: nothing where a queue's buffer holds it. `peak` is the most that was kept at once.
    """

    def __init__(self, program: TileProgram) -> None:
        self.steps = program.body
        self.made_by = {step.dst: i for i, step in enumerate(self.steps)}
        self.stored = dict.fromkeys(r for _, r in program.stores)
        self.bits = [0] * len(program.registers)
        for r in self.made_by.keys() - self.stored.keys():
            self.bits[r] = CARRIER_BITS[program.registers[r]] * program.extents[r].length(_ROWS)
        self.sources = [tuple(dict.fromkeys(s.srcs)) for s in self.steps]
        self.users: dict[int, list[int]] = {}
        for i, sources in enumerate(self.sources):
            for r in sources:
                self.users.setdefault(r, []).append(i)
        self.to_come = {r: len(users) for r, users in self.users.items()}
        self.waits_for = [sum(r in self.made_by for r in sources) for sources in self.sources]
        self.place: dict[int, int] = {}  # step -> where it stands
        self.kept = self.peak = 0

    # -- what a step costs -----------------------------------------------------------------------------------------
    def growth(self, i: int) -> int:
        """By how much a step makes the values larger that are kept after it."""
        return self.bits[self.steps[i].dst] - sum(self.bits[r] for r in self.sources[i] if self.to_come[r] == 1)

    def is_ready(self, i: int) -> bool:
        return self.waits_for[i] == 0 and i not in self.place

    def put(self, i: int) -> None:
        """The step stands next."""
        self.place[i] = len(self.place)
        self.kept += self.growth(i)
        self.peak = max(self.peak, self.kept)
        for r in self.sources[i]:
            self.to_come[r] -= 1
        for j in self.users.get(self.steps[i].dst, ()):
            self.waits_for[j] -= 1

    def order(self) -> tuple[AnyStep, ...]:
        assert len(self.place) == len(self.steps)
        return tuple(self.steps[i] for i in self.place)

    # -- ways to choose --------------------------------------------------------------------------------------------
    def smallest_first(self) -> _Walk:
        """Of the steps that have all their sources: the first that keeps no more than before, else the least more."""
        growth = {i: self.growth(i) for i in range(len(self.steps)) if self.is_ready(i)}
        while growth:
            i = min(growth, key=lambda i: (max(growth[i], 0), growth[i], i))
            del growth[i]
            self.put(i)
            last = [j for r in self.sources[i] if self.to_come[r] == 1 for j in self.users[r] if j in growth]
            new = [j for j in self.users.get(self.steps[i].dst, ()) if self.is_ready(j)]
            growth |= {j: self.growth(j) for j in (*last, *new)}
        return self

    def deepest_first(self) -> _Walk:
        """Depth first from each result, the source that needs most UB before the others (Sethi and Ullman); a step
        that frees as much as it takes at once."""
        need = self._needs()
        for result in self.stored:
            stack = [self.made_by[result]] if result in self.made_by else []
            while stack:
                i = stack[-1]
                missing = [r for r in self.sources[i] if r in self.made_by and self.made_by[r] not in self.place]
                if missing:
                    stack.append(self.made_by[max(missing, key=lambda r: (need[r] - self.bits[r], -self.made_by[r]))])
                    continue
                stack.pop()
                if i not in self.place:
                    self._put_with_gains(i)
        return self

    def _put_with_gains(self, first: int) -> None:
        """A step, and then those that it makes possible or cheap and that keep no more than before."""
        stack = [first]
        while stack:
            i = stack.pop()
            if i in self.place or (i != first and self.growth(i) > 0):
                continue
            self.put(i)
            after = self.users.get(self.steps[i].dst, [])
            beside = [j for r in self.sources[i] for j in self.users[r] if self.is_ready(j) and self.growth(j) < 0]
            stack += reversed([j for j in (*after, *beside) if self.is_ready(j)])

    def _needs(self) -> dict[int, int]:
        """UB that making each register takes, when it is the only thing made."""
        need: dict[int, int] = {}
        for i, step in enumerate(self.steps):
            held = peak = 0
            made = [r for r in self.sources[i] if r in self.made_by]
            for r in sorted(made, key=lambda r: self.bits[r] - need[r]):
                peak = max(peak, held + need[r])
                held += self.bits[r]
            over = bool(made) and isinstance(step, Step) and step.instruction.in_place
            need[step.dst] = max(peak, held if over else held + self.bits[step.dst])
        return need
