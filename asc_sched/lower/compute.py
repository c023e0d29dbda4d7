"""The statements of the compute function: every step's pyasc call with the names of its buffers filled in."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import numpy as np

from asc_sched.lower.allocate import Allocation, Kind, Slot
from asc_sched.lower.naming import Namer
from asc_sched.lower.plan import Temp, View
from asc_sched.lower.program import Immediate, Program, ScalarRef, Step
from asc_sched.target.instructions import ASC_TYPE, CARRIER_BITS, COUNTS

_BITS = {f"asc.{c}": bits for c, bits in CARRIER_BITS.items()}


@attrs.frozen
class Written:
    """The compute function's body: views to set up first, then the statements; the scalars that they mention."""

    views: tuple[View, ...]
    statements: tuple[str, ...]
    scalars: tuple[str, ...]


class Locals:
    """Names of local tensors: one per buffer and element type, made when first asked for."""

    def __init__(
        self,
        program: Program,
        allocation: Allocation,
        members: Mapping[tuple[str, str], str],
        temps: tuple[Temp, ...],
        namer: Namer,
    ) -> None:
        self.program = program
        self.allocation = allocation
        self._members = members
        self._namer = namer
        self._temps = dict(zip(allocation.of_kind(Kind.TEMP), temps, strict=True))
        self._own = self._own_types()
        self._names: dict[tuple[int, str], str] = {}
        self._counts: dict[str, str] = {}
        self.views: list[View] = []

    def _own_types(self) -> dict[int, str]:
        """The pyasc type that each queue's tensor is allocated with."""
        own: dict[int, str] = {}
        for kind, pairs in ((Kind.IN, self.program.loads), (Kind.OUT, self.program.stores)):
            for name, register in pairs:
                slot = next(i for i, s in enumerate(self.allocation.slots) if s.kind is kind and s.name == name)
                own[slot] = ASC_TYPE[self.program.registers[register]]
        return own

    def name(self, register: int) -> str:
        """The local tensor that holds a register, viewed as its type."""
        home = self.allocation.home[register]
        assert home is not None
        asc_type = ASC_TYPE[self.program.registers[register]]
        key = (home, asc_type)
        if key not in self._names:
            self._names[key] = self._make(home, self.allocation.slots[home], asc_type)
        return self._names[key]

    def _make(self, index: int, slot: Slot, asc_type: str) -> str:
        short = asc_type.removeprefix("asc.")
        if slot.kind is Kind.TEMP:
            temp = self._temps[index]
            base = temp.name.removesuffix("_buf")
            first = all(i != index for i, _ in self._names)
            name = self._namer(base if first else f"{base}_{short}")
            part = f"[{8 * temp.offset_bytes // _BITS[asc_type]}:]" if temp.offset_bytes else ""
            self.views.append(View(name, f"{temp.name}.get({asc_type}){part}"))
            return name
        local = self._members["VECIN" if slot.kind is Kind.IN else "VECOUT", slot.name]
        if self._own[index] == asc_type:
            return local
        name = self._namer(f"{local}_{short}")
        self.views.append(View(name, f"{local}.reinterpret_cast({asc_type})"))
        return name


    def count(self, hole: str, count: str) -> str:
        """The name of a count derived from the tile's own, set up when first asked for."""
        if hole not in self._counts:
            self._counts[hole] = self._namer(f"{count}_{hole.removeprefix('count_')}")
            self.views.append(View(self._counts[hole], COUNTS[hole].format(count)))
        return self._counts[hole]


def compute_statements(locals_: Locals, scalars: Mapping[str, str], count: str) -> Written:
    """All steps in order. `scalars` maps runtime scalars to their names in the kernel; `count` is the tile's length."""
    lines = tuple(_statement(locals_, step, scalars, count) for step in locals_.program.steps)
    used = {s.imm.name: None for s in locals_.program.steps if isinstance(s.imm, ScalarRef)}
    return Written(tuple(locals_.views), lines, tuple(scalars[n] for n in scalars if n in used))


def _statement(locals_: Locals, step: Step, scalars: Mapping[str, str], count: str) -> str:
    # Sources first: a view is set up in the order of its first use.
    sources = [locals_.name(s) for s in step.srcs]
    holes = {str(i): name for i, name in enumerate(sources)}
    holes["dst"] = locals_.name(step.dst)
    holes["imm"] = immediate_text(step.imm, scalars)
    holes["mode"] = step.mode
    holes["count"] = count
    text = step.instruction.call
    for hole in COUNTS:
        if "{" + hole + "}" in text:
            holes[hole] = locals_.count(hole, count)
    for hole, value in holes.items():
        text = text.replace("{" + hole + "}", value)
    return text


def immediate_text(imm: Immediate | None, scalars: Mapping[str, str]) -> str:
    """An immediate as pyasc source. Non-finite numbers have no literal in Python."""
    if imm is None:
        return ""
    if isinstance(imm, ScalarRef):
        return scalars[imm.name]
    if isinstance(imm, float) and not math.isfinite(imm):
        return f'float("{imm}")'
    return _shortest(imm) if isinstance(imm, float) else repr(imm)


def _shortest(value: float) -> str:
    """The shortest text that rounds to the same float32: immediates are float32 or narrower."""
    short = str(np.float32(value))
    return short if float(np.float32(short)) == value else repr(value)
