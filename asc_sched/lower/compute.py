"""The statements of the device functions: every step's pyasc call with the names of its buffers filled in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from asc_sched.lower.allocate import Allocation, Kind
from asc_sched.lower.naming import Namer
from asc_sched.lower.plan import Body, Temp, View
from asc_sched.lower.program import Immediate, ScalarExpr, ScalarRef, Step, scalar_names
from asc_sched.lower.spaces import AnyStep, Extent, Phase, TileProgram
from asc_sched.lower.spread_text import Operands, spread_statements
from asc_sched.target.instructions import ASC_TYPE, CARRIER_BITS, COUNTS

_BITS = {f"asc.{c}": bits for c, bits in CARRIER_BITS.items()}
_QUEUES = {Kind.IN: "VECIN", Kind.ONCE: "ONCE", Kind.OUT: "VECOUT"}


@attrs.frozen
class Place:
    """What the statements of a kernel need to know: its program, where registers lie, the names of the buffers.

    `members` maps (queue kind, tensor) to the local tensor of that name, `counts` extents that differ from tile to
    tile to the name of their count, `scalars` runtime scalars to theirs. `frees` has the statements that free input
    buffers, by the number of the tile's step that they follow.
    """

    program: TileProgram
    allocation: Allocation
    members: Mapping[tuple[str, str], str]
    temps: tuple[Temp, ...]
    rows: int
    counts: Mapping[Extent, str]
    scalars: Mapping[str, str]
    frees: Mapping[int, tuple[str, ...]] = attrs.field(factory=dict)


class Names:
    """Names of local tensors: one per buffer and element type, the same in every function."""

    def __init__(self, place: Place, namer: Namer) -> None:
        self.place = place
        self.namer = namer
        self.temps = dict(zip(place.allocation.of_kind(Kind.TEMP), place.temps, strict=True))
        self.own = self._own_types()
        self._names: dict[tuple[int, str], str] = {}
        self._derived: dict[tuple[str, str], str] = {}

    def derived(self, count: str, hole: str) -> str:
        """The name of a count made from another."""
        key = (count, hole)
        if key not in self._derived:
            self._derived[key] = self.namer(f"{count}_{hole.removeprefix('count_')}")
        return self._derived[key]

    def _own_types(self) -> dict[int, str]:
        """The pyasc type that each queue's tensor is allocated with."""
        program, slots = self.place.program, self.place.allocation.slots
        own: dict[int, str] = {}
        for kind, pairs in ((Kind.IN, program.loads), (Kind.ONCE, program.once), (Kind.OUT, program.stores)):
            by_name = {s.name: i for i, s in enumerate(slots) if s.kind is kind}
            for name, register in pairs:
                own[by_name[name]] = ASC_TYPE[program.registers[register]]
        return own

    def get(self, home: int, asc_type: str) -> str:
        """The name of a buffer seen as a type."""
        key = (home, asc_type)
        if key not in self._names:
            self._names[key] = self._make(home, asc_type)
        return self._names[key]

    def _make(self, home: int, asc_type: str) -> str:
        short = asc_type.removeprefix("asc.")
        slot = self.place.allocation.slots[home]
        if slot.kind is Kind.TEMP:
            base = self.temps[home].name.removesuffix("_buf")
            first = all(i != home for i, _ in self._names)
            return self.namer(base if first else f"{base}_{short}")
        local = self.place.members[_QUEUES[slot.kind], slot.name]
        return local if self.own[home] == asc_type else self.namer(f"{local}_{short}")


class _Function:
    """One device function under construction."""

    def __init__(self, names: Names, phase: Phase) -> None:
        self.names = names
        self.place = names.place
        self.phase = phase
        self.views: dict[str, str] = {}
        self.temps: dict[str, None] = {}
        self.scalars: dict[str, None] = {}

    def body(self, steps: Sequence[AnyStep]) -> Body:
        frees = self.place.frees if self.phase is Phase.TILE else {}
        lines = [line for i, step in enumerate(steps) for line in (*self._statements(step), *frees.get(i, ()))]
        views = tuple(View(name, text) for name, text in self.views.items())
        order = [t.name for t in self.place.temps]
        scalars = [name for name in self.place.scalars.values() if name in self.scalars]
        return Body(views, tuple(lines), tuple(sorted(self.temps, key=order.index)), tuple(scalars))

    def _statements(self, step: AnyStep) -> list[str]:
        # Sources first: a view is set up in the order of its first use.
        srcs = tuple(self._local(s) for s in step.srcs)
        dst = self._local(step.dst)
        if isinstance(step, Step):
            return [self._call(step, dst, srcs)]
        extent = self.place.program.extents[step.dst]
        bits = CARRIER_BITS[self.place.program.registers[step.dst]]
        whole = extent.length(self.place.rows)
        return spread_statements(step, Operands(dst, srcs, bits, self.place.rows, whole, self._count(extent)))

    def _call(self, step: Step, dst: str, srcs: tuple[str, ...]) -> str:
        holes = {str(i): name for i, name in enumerate(srcs)}
        count = self._count(self.place.program.extents[step.dst])
        holes |= {"dst": dst, "imm": self._immediate(step.imm), "mode": step.mode, "count": count}
        text = step.instruction.call
        for hole, formula in COUNTS.items():
            if "{" + hole + "}" in text:
                holes[hole] = self._derived(hole, formula, count)
        for hole, value in holes.items():
            text = text.replace("{" + hole + "}", value)
        return text

    def _count(self, extent: Extent) -> str:
        """How many elements a step works on: a name where that differs from tile to tile."""
        if self.phase is Phase.TILE and extent in self.place.counts:
            return self.place.counts[extent]
        return str(extent.length(self.place.rows))

    def _derived(self, hole: str, formula: str, count: str) -> str:
        """A count made from another, set up when first asked for."""
        if not count.isidentifier():
            return formula.format(count)
        name = self.names.derived(count, hole)
        self.views[name] = formula.format(count)
        return name

    def _local(self, register: int) -> str:
        """The local tensor that holds a register, viewed as its type."""
        home = self.place.allocation.home[register]
        assert home is not None
        asc_type = ASC_TYPE[self.place.program.registers[register]]
        name = self.names.get(home, asc_type)
        slot = self.place.allocation.slots[home]
        if slot.kind is Kind.TEMP:
            temp = self.names.temps[home]
            part = f"[{8 * temp.offset_bytes // _BITS[asc_type]}:]" if temp.offset_bytes else ""
            self.views.setdefault(name, f"{temp.name}.get({asc_type}){part}")
            self.temps[temp.name] = None
        elif self.names.own[home] != asc_type:
            local = self.place.members[_QUEUES[slot.kind], slot.name]
            self.views.setdefault(name, f"{local}.reinterpret_cast({asc_type})")
        return name

    def _immediate(self, imm: Immediate | None) -> str:
        for name in scalar_names(imm):
            self.scalars[self.place.scalars[name]] = None
        return immediate_text(imm, self.place.scalars)


def write_bodies(place: Place, namer: Namer) -> tuple[Body, Body, Body]:
    """The bodies of set-up, preparation and computation."""
    names = Names(place, namer)
    setup, prepare, compute = (
        _Function(names, phase).body(steps) for phase, steps in zip(Phase, place.program.phases, strict=True)
    )
    return setup, prepare, compute


def immediate_text(imm: Immediate | None, scalars: Mapping[str, str]) -> str:
    """An immediate as pyasc source. Non-finite numbers have no literal in Python."""
    if imm is None:
        return ""
    if isinstance(imm, ScalarRef):
        return scalars[imm.name]
    if isinstance(imm, ScalarExpr):
        return f"({immediate_text(imm.left, scalars)} {imm.symbol} {immediate_text(imm.right, scalars)})"
    if isinstance(imm, float) and not math.isfinite(imm):
        return f'float("{imm}")'
    return _shortest(imm) if isinstance(imm, float) else repr(imm)


def _shortest(value: float) -> str:
    """The shortest text that rounds to the same float32: immediates are float32 or narrower."""
    short = str(np.float32(value))
    return short if float(np.float32(short)) == value else repr(value)
