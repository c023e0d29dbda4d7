"""The machine program: an op in terms of the chip's own instructions, on virtual registers (one per value)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

import attrs

from asc_sched.target.instructions import Instruction, find_instruction


@attrs.frozen
class ScalarRef:
    """An immediate that is known at the call only: a runtime scalar argument."""

    name: str


def _told_apart(imm: object) -> object:
    """An immediate as a key of caches: Python calls 0.0 and -0.0 equal."""
    return imm.hex() if isinstance(imm, float) else imm


@attrs.frozen
class ScalarExpr:
    """Arithmetic of runtime scalars in float32, which the scalar unit does once per use, not the vector unit."""

    symbol: str  # + - * /
    left: Immediate = attrs.field(eq=_told_apart)
    right: Immediate = attrs.field(eq=_told_apart)

    def names(self) -> tuple[str, ...]:
        """The runtime scalars in it."""
        return tuple(n for side in (self.left, self.right) for n in scalar_names(side))


Immediate: TypeAlias = "int | float | ScalarRef | ScalarExpr"


def scalar_names(imm: Immediate | None) -> tuple[str, ...]:
    """The runtime scalars that an immediate depends on."""
    if isinstance(imm, ScalarRef):
        return (imm.name,)
    return imm.names() if isinstance(imm, ScalarExpr) else ()


@attrs.frozen
class Step:
    """One instruction: writes register `dst` from registers `srcs`, with an immediate or a mode where it has one."""

    instruction: Instruction
    dst: int
    srcs: tuple[int, ...]
    imm: Immediate | None = attrs.field(default=None, eq=_told_apart)
    mode: str = ""


@attrs.frozen(cache_hash=True)  # a key of caches
class Program:
    """`registers[i]` is the carrier of register i. `loads`/`stores` tie inputs and outputs to registers; an input that
    no step reads is not loaded.

    Every stored register is written by a step of its own and stored once.
    """

    registers: tuple[str, ...]
    loads: tuple[tuple[str, int], ...]
    steps: tuple[Step, ...]
    stores: tuple[tuple[str, int], ...]

    @property
    def reserve_bytes(self) -> int:
        """UB that must stay unallocated for the instructions used."""
        return max((s.instruction.reserve_bytes for s in self.steps), default=0)

    @property
    def granule_bytes(self) -> int:
        """What buffers must be a multiple of: 32 bytes, or a whole repeat where an instruction works on those."""
        return max((s.instruction.count_bytes for s in self.steps), default=0) or 32


class ProgramBuilder:
    """Collects steps; equal steps on equal registers are one."""

    def __init__(self) -> None:
        self.registers: list[str] = []
        self.steps: list[Step] = []
        self._loads: dict[str, int] = {}
        self._known: dict[Hashable, int] = {}

    def load(self, name: str, carrier: str) -> int:
        if name not in self._loads:
            self._loads[name] = self._register(carrier)
        return self._loads[name]

    def has(self, name: str, *signature: str) -> bool:
        return find_instruction(name, *signature) is not None

    def emit(
        self, name: str, carrier: str, *srcs: int, imm: Immediate | None = None, mode: str = "", fresh: bool = False
    ) -> int:
        """The register with the instruction's result, of type `carrier`. `fresh` forces a register of its own."""
        signature = (carrier, *(self.registers[s] for s in srcs))
        instruction = find_instruction(name, *signature)
        assert instruction is not None, f"no instruction {name}{signature}"
        key = (name, signature, srcs, _imm_key(imm), mode)
        if not fresh and key in self._known:
            return self._known[key]
        dst = self._register(carrier)
        self.steps.append(Step(instruction, dst, srcs, imm, mode))
        if not fresh:
            self._known[key] = dst
        return dst

    def finish(self, stores: list[tuple[str, int]]) -> Program:
        from asc_sched.lower.order import remake_constants

        stored = frozenset(r for _, r in stores)
        steps = remake_constants(_live_steps(self.steps, set(stored)), self.registers, stored)
        read = {r for step in steps for r in step.srcs}
        loads = tuple((name, register) for name, register in self._loads.items() if register in read)
        return Program(tuple(self.registers), loads, steps, tuple(stores))

    def _register(self, carrier: str) -> int:
        self.registers.append(carrier)
        return len(self.registers) - 1


def _imm_key(imm: Immediate | None) -> Hashable:
    return (type(imm).__name__, imm.hex()) if isinstance(imm, float) else (type(imm).__name__, imm)


def _live_steps(steps: list[Step], wanted: set[int]) -> tuple[Step, ...]:
    kept: list[Step] = []
    for step in reversed(steps):
        if step.dst in wanted:
            kept.append(step)
            wanted.update(step.srcs)
    return tuple(reversed(kept))
