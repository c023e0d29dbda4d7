"""Where each register of a program varies, and so when and on how many elements it is computed.

A value that is the same for all rows is computed before the rows' loop; one that needs fewer elements than the tile
has is computed on those, and spread over the tile where it meets a wider one. The result is a `TileProgram`: the
machine program in three phases, with the steps that spread values in place.
"""

from __future__ import annotations

import enum
import math
from typing import TypeAlias

import attrs

from asc_sched.lower.form import Form, Reach
from asc_sched.lower.program import Immediate, Program, Step
from asc_sched.target.instructions import find_instruction


class Phase(enum.IntEnum):
    """When a step runs."""

    SETUP = 0  # once per core
    ONCE = 1  # once per group of rows, before its tiles
    TILE = 2  # once per tile


@attrs.frozen
class Extent:
    """How many elements a register has: `width`, times the rows of a tile (at most `max_rows`, if not 0) if `per_row`.

    The rows are rounded up to a multiple of `row_step`.
    """

    width: int
    per_row: bool = False
    max_rows: int = 0
    row_step: int = 1

    def length(self, rows: int) -> int:
        if not self.per_row:
            return self.width
        counted = min(rows, self.max_rows) if self.max_rows else rows
        return self.width * (-(-counted // self.row_step) * self.row_step)


@attrs.frozen
class Space:
    """Where a register varies: in these dimensions of the tile, compactly; or `spread` over the whole tile."""

    dims: frozenset[int]
    spread: bool = False

    @property
    def once(self) -> bool:
        """Whether it is the same for all rows."""
        return 0 not in self.dims


@attrs.frozen
class Spread:
    """A step that is several instructions; `lower/spread.py` writes it. `kind` says which, `numbers` how."""

    kind: str
    dst: int
    srcs: tuple[int, ...]
    numbers: tuple[int, ...] = ()


AnyStep: TypeAlias = "Step | Spread"


@attrs.frozen(cache_hash=True)  # a key of caches
class TileProgram:
    """A program in phases. `registers[i]` is the carrier of register i, `extents[i]` its elements.

    `loads` are read for every tile, `once` before the tiles.
    """

    registers: tuple[str, ...]
    extents: tuple[Extent, ...]
    loads: tuple[tuple[str, int], ...]
    once: tuple[tuple[str, int], ...]
    setup: tuple[AnyStep, ...]
    prologue: tuple[AnyStep, ...]
    body: tuple[AnyStep, ...]
    stores: tuple[tuple[str, int], ...]
    reserve_bytes: int
    granule_bytes: int
    hints: tuple[tuple[int, str], ...] = ()
    """Words for what some registers hold, for the names of their buffers."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The instructions of a tile."""
        return tuple(s for s in self.body if isinstance(s, Step))

    @property
    def phases(self) -> tuple[tuple[AnyStep, ...], ...]:
        return self.setup, self.prologue, self.body


class CannotSpreadError(Exception):
    """A load's value can't be spread over a tile by this chip's instructions; it must be expanded before."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def place(program: Program, form: Form, tensors: tuple[str, ...]) -> TileProgram:
    """Every step in its space and phase. `tensors` are the names in the order of the form's accesses.

    Raises `CannotSpreadError` naming an input that the chip can't spread.
    """
    from asc_sched.lower.spread import Spreader

    return _Placer(program, form, tensors, Spreader).run()


FULL = Space(frozenset({0}), spread=True)
WHOLE_ONCE = Space(frozenset(), spread=True)
"""A whole tile of values that are the same for all rows: computed once, read by every tile."""


class _Placer:
    def __init__(self, program: Program, form: Form, tensors: tuple[str, ...], spreader: type) -> None:
        self.program = program
        self.form = form
        self.registers: list[str] = []
        self.extents: list[Extent] = []
        self.steps: tuple[list[AnyStep], list[AnyStep], list[AnyStep]] = ([], [], [])
        self.spaces: dict[int, Space] = {}  # of the program's registers; those without one are made where needed
        self.placed: dict[tuple[int, Space], int] = {}
        self.maker = {step.dst: step for step in program.steps}
        self.order = {step.dst: i for i, step in enumerate(program.steps)}
        self.hints: dict[int, str] = {}
        self.origin: dict[int, str] = {}  # a load that a register depends on, for messages
        self.access = dict(zip(tensors, form.accesses, strict=True))
        self.spreader = spreader(self)

    def run(self) -> TileProgram:
        loads: list[tuple[str, int]] = []
        once: list[tuple[str, int]] = []
        for name, register in self._read_loads():
            space = self._load_space(name)
            new = self.new(self.program.registers[register], self.extent(space))
            self.spaces[register], self.placed[register, space] = space, new
            self.origin[new] = name
            (once if space.once else loads).append((name, new))
        stored = {register for _, register in self.program.stores}
        for step in self.program.steps:
            self._step(step, step.dst in stored)
        stores = tuple((name, self.placed[register, FULL]) for name, register in self.program.stores)
        setup, prologue, body = map(tuple, self.steps)
        return TileProgram(
            registers=tuple(self.registers), extents=tuple(self.extents), loads=tuple(loads), once=tuple(once),
            setup=setup, prologue=prologue, body=body, stores=stores,
            reserve_bytes=self.program.reserve_bytes, granule_bytes=self.program.granule_bytes,
            hints=tuple(self.hints.items()),
        )  # fmt: skip

    # -- registers ---------------------------------------------------------------------------------------------
    def new(self, carrier: str, extent: Extent) -> int:
        """A register of the tile program."""
        self.registers.append(carrier)
        self.extents.append(extent)
        return len(self.registers) - 1

    def extent(self, space: Space) -> Extent:
        """The elements of a register in a space."""
        if space.spread:
            return Extent(self.form.pitch, per_row=True)
        own = space.dims - {0}
        if len(own) == len(self.form.inner):
            return Extent(self.form.pitch, per_row=not space.once)
        return Extent(math.prod(self.form.inner[dim - 1] for dim in own), per_row=not space.once)

    def emit(self, phase: Phase, step: AnyStep) -> int:
        self.steps[phase].append(step)
        return step.dst

    def instruction(
        self, phase: Phase, name: str, carrier: str, extent: Extent, *srcs: int, imm: Immediate | None = None,
        mode: str = "",
    ) -> int:  # fmt: skip
        """Emit one instruction on registers of the tile program, into a new one."""
        found = find_instruction(name, carrier, *(self.registers[s] for s in srcs))
        assert found is not None, f"no instruction {name} on {carrier}"
        return self.emit(phase, Step(found, self.new(carrier, extent), srcs, imm, mode))

    # -- placing -----------------------------------------------------------------------------------------------
    def _read_loads(self) -> list[tuple[str, int]]:
        """Inputs that the computation reads: what isn't used isn't moved."""
        used = {s for step in self.program.steps for s in step.srcs}
        return [(name, register) for name, register in self.program.loads if register in used]

    def _load_space(self, name: str) -> Space:
        access = self.access[name]
        if access.reach is Reach.FULL:
            return FULL
        if self.form.single and access.reach is Reach.ONCE and access.row_length == self.form.width > 1:
            return WHOLE_ONCE  # a tile is one row, so the row is the whole tile as it is
        return Space(access.dims)

    def _step(self, step: Step, stored: bool) -> None:
        known = {self.spaces[s] for s in step.srcs if s in self.spaces}
        if not known and not stored:
            return  # constants alone: made in the space of whatever uses them
        self.spaces[step.dst] = space = FULL if stored else self._meet(step, known)
        self._make(step, space)

    def _meet(self, step: Step, known: set[Space]) -> Space:
        """Equal spaces stay; different ones meet on the whole tile. Masks are bits, which nothing spreads."""
        masks = step.instruction.dst == "mask" or "mask" in step.instruction.srcs
        if len(known) == 1 and not masks:
            return next(iter(known))
        return WHOLE_ONCE if all(s.once for s in known) else FULL

    def _make(self, step: Step, space: Space) -> int:
        srcs = tuple(self.value(s, space) for s in step.srcs)
        dst = self.new(self.program.registers[step.dst], self.extent(space))
        self.placed[step.dst, space] = dst
        self._inherit(dst, srcs)
        return self.emit(Phase.ONCE if space.once else Phase.TILE, attrs.evolve(step, dst=dst, srcs=srcs))

    def _inherit(self, dst: int, srcs: tuple[int, ...]) -> None:
        for source in srcs:
            if source in self.origin and self.extents[source] != self.extent(FULL):
                self.origin.setdefault(dst, self.origin[source])

    def value(self, register: int, space: Space) -> int:
        """The register of the tile program that holds a value as `space` needs it."""
        own = self.spaces.get(register)
        if own is not None and space == FULL and own.once:
            space = WHOLE_ONCE
        found = self.placed.get((register, space))
        if found is not None:
            return found
        if own is None:
            return self._number(register, space)
        compact = self.placed[register, own]
        spread: int = self.spreader.spread(compact, own)
        self.placed[register, space] = spread
        self.hint(spread, compact, "tile")
        return spread

    def _number(self, register: int, space: Space) -> int:
        """Makes a value that depends on no tensor, and those that it is made from, in the order of the program."""
        needed: set[int] = set()
        stack = [register]
        while stack:
            number = stack.pop()
            if number not in needed and (number, space) not in self.placed:
                needed.add(number)
                stack += self.maker[number].srcs
        for step in sorted((self.maker[n] for n in needed), key=lambda step: self.order[step.dst]):
            self._make(step, space)
        return self.placed[register, space]

    def hint(self, register: int, source: int, word: str) -> None:
        """Name a register's buffer after the input that its values come from."""
        if source in self.origin:
            self.hints.setdefault(register, f"{self.origin[source]}_{word}")
