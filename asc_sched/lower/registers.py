"""Registers with operators, so that a lowering rule reads like the formula that it computes.

Every operator emits the instruction of its carrier (`target/instructions.py`); a number on either side becomes the
instruction's immediate where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from asc_sched.lower.program import Immediate, ProgramBuilder, ScalarExpr, ScalarRef

Operand: TypeAlias = "Reg | int | float | ScalarRef | ScalarExpr"


class Reg:
    """One register of a program under construction: a value per element, of type `carrier`."""

    __slots__ = ("build", "carrier", "index")

    def __init__(self, build: ProgramBuilder, index: int) -> None:
        self.build = build
        self.index = index
        self.carrier = build.registers[index]

    def emit(self, name: str, *others: Reg, carrier: str = "", imm: Immediate | None = None, mode: str = "") -> Reg:
        """The result of an instruction on this register (and others)."""
        srcs = (self.index, *(o.index for o in others))
        kind = self.carrier if self.carrier != "mask" else carrier or self.carrier
        if isinstance(imm, int) and kind.startswith("float") and "bits" not in name:
            imm = float(imm)  # pyasc tells 0 from 0.0
        return Reg(self.build, self.build.emit(name, carrier or self.carrier, *srcs, imm=imm, mode=mode))

    def like(self, value: Immediate) -> Reg:
        """A register of this carrier filled with one number."""
        return fill(self.build, self.carrier, value)

    def _other(self, value: Operand) -> Reg:
        return value if isinstance(value, Reg) else self.like(value)

    # -- arithmetic --------------------------------------------------------------------------------------------
    def __add__(self, other: Operand) -> Reg:
        return self.emit("add", other) if isinstance(other, Reg) else self.emit("adds", imm=other)

    __radd__ = __add__

    def __mul__(self, other: Operand) -> Reg:
        return self.emit("mul", other) if isinstance(other, Reg) else self.emit("muls", imm=other)

    __rmul__ = __mul__

    def __sub__(self, other: Operand) -> Reg:
        if isinstance(other, (int, float)):  # x - c is x + (-c), exactly
            return self.emit("adds", imm=_negative(other, self.carrier))
        if isinstance(other, (ScalarRef, ScalarExpr)) and self.carrier.startswith("float"):
            return self.emit("adds", imm=ScalarExpr("*", other, -1.0))
        return self.emit("sub", self._other(other))

    def __rsub__(self, other: Immediate) -> Reg:
        return self.like(other).emit("sub", self)

    def __truediv__(self, other: Operand) -> Reg:
        return self.emit("div", self._other(other))

    def __rtruediv__(self, other: Immediate) -> Reg:
        return self.like(other).emit("div", self)

    def __neg__(self) -> Reg:
        return self.emit("muls", imm=-1.0 if self.carrier.startswith("float") else -1)

    # -- bits ----------------------------------------------------------------------------------------------------
    def __and__(self, other: Operand) -> Reg:
        return self.emit("bitwise_and", self._other(other))

    def __or__(self, other: Operand) -> Reg:
        return self.emit("bitwise_or", self._other(other))

    def __xor__(self, other: Operand) -> Reg:
        """(a | b) & ~(a & b): the chip has no Xor of its own."""
        b = self._other(other)
        return (self | b) & ~(self & b)

    def __invert__(self) -> Reg:
        return self.emit("bitwise_not")

    def __lshift__(self, bits: int) -> Reg:
        return self.emit("shift_left", imm=bits)

    def __rshift__(self, bits: int) -> Reg:
        """Arithmetic: the sign comes in from the left."""
        return self.emit("shift_right", imm=bits)

    def shift_right_logical(self, bits: int) -> Reg:
        """Zeros come in from the left."""
        return self.emit("shift_right_logical", imm=bits)

    def pattern(self, bits: int) -> Reg:
        """A register of this float carrier filled with a bit pattern."""
        width = 16 if self.carrier == "float16" else 32
        return Reg(self.build, self.build.emit("duplicate_bits", self.carrier, imm=wrap(bits, width)))

    def sign_bit(self) -> Reg:
        """The sign alone: -0.0 or 0.0."""
        return self & self.pattern(0x8000 if self.carrier == "float16" else 0x8000_0000)

    def sign_one(self) -> Reg:
        """1.0 with the sign of this register, also of its zeros and NaNs."""
        return self.sign_bit() | 1.0

    def on_bits(self, name: str, other: Reg | int, carrier: str) -> Reg:
        """An int32 instruction (adds, sub, shift_left) on the bits of a float."""
        if isinstance(other, Reg):
            return self.emit(f"bits_{name}", other, carrier=carrier)
        return self.emit(f"bits_{name}", carrier=carrier, imm=other)

    # -- comparisons, as masks -------------------------------------------------------------------------------------
    def compare(self, mode: str, other: Operand) -> Reg:
        """A native comparison: LT GT EQ LE GE NE on floats, EQ on int32. All but NE are false where one is NaN."""
        if isinstance(other, Reg):
            return self.emit("compare", other, carrier="mask", mode=mode)
        return self.emit("compare_scalar", carrier="mask", imm=other, mode=mode)

    def __lt__(self, other: Operand) -> Reg:
        return self.compare("LT", other)

    def __gt__(self, other: Operand) -> Reg:
        return self.compare("GT", other)

    def __le__(self, other: Operand) -> Reg:
        return self.compare("LE", other)

    def __ge__(self, other: Operand) -> Reg:
        return self.compare("GE", other)

    def equals(self, other: Operand) -> Reg:
        return self.compare("EQ", other)

    def differs(self, other: Operand) -> Reg:
        return self.compare("NE", other)

    def is_number(self) -> Reg:
        """False for NaN. Against a number, Compare takes half as long as of two tensors in one bank."""
        return self.compare("LE", math.inf)

    # -- other instructions --------------------------------------------------------------------------------------
    def abs(self) -> Reg:
        return self.emit("abs")

    def exp(self) -> Reg:
        return self.emit("exp")

    def ln(self) -> Reg:
        return self.emit("ln")

    def sqrt(self) -> Reg:
        return self.emit("sqrt")

    def max(self, other: Operand) -> Reg:
        """NaN operands: undocumented; only where both are numbers."""
        return self.emit("max", other) if isinstance(other, Reg) else self.emit("maxs", imm=other)

    def min(self, other: Operand) -> Reg:
        """NaN operands: undocumented; only where both are numbers."""
        return self.emit("min", other) if isinstance(other, Reg) else self.emit("mins", imm=other)

    def round(self, mode: str) -> Reg:
        """To a whole number, as a float: RINT (ties to even), FLOOR, CEIL, ROUND (ties away), TRUNC."""
        return self.emit("round", mode=f"CAST_{mode}")

    def cast(self, carrier: str, mode: str = "NONE") -> Reg:
        return self.emit("cast", carrier=carrier, mode=f"CAST_{mode}")


def _negative(value: int | float, carrier: str) -> int | float:
    if carrier.startswith("float"):
        return -float(value)
    bits = 16 if carrier == "int16" else 32
    return wrap(-int(value), bits)


def wrap(value: int, bits: int) -> int:
    """An integer modulo 2**bits, as a signed number."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def fill(build: ProgramBuilder, carrier: str, value: Immediate) -> Reg:
    """A register filled with one number. NaN goes in by its bits: pyasc writes it as an expression C++ refuses."""
    if isinstance(value, float) and math.isnan(value):
        kind = np.dtype(carrier)
        bits = int(np.array(math.nan, kind).view(f"int{8 * kind.itemsize}"))
        return Reg(build, build.emit("duplicate_bits", carrier, imm=bits))
    if carrier == "mask":
        value = -1 if value else 0
    elif carrier.startswith("float") and isinstance(value, int):
        value = float(value)
    return Reg(build, build.emit("duplicate", carrier, imm=value))


def select(mask: Reg, a: Operand, b: Operand, carrier: str = "") -> Reg:
    """`a` where the mask is set, else `b`. Two numbers need `carrier`."""
    build = mask.build
    kind = a.carrier if isinstance(a, Reg) else b.carrier if isinstance(b, Reg) else carrier
    if kind == "mask":
        return _select_mask(mask, a, b)
    if not isinstance(a, Reg) and isinstance(b, Reg) and _takes_scalar(kind, a):
        return select(~mask, b, a)
    first = a if isinstance(a, Reg) else fill(build, kind, a)
    if not isinstance(b, Reg) and _takes_scalar(kind, b):
        if kind.startswith("float"):
            return mask.emit("select_scalar", first, carrier=kind, imm=b)
        return mask.emit("select_zero", first, carrier=kind)
    second = b if isinstance(b, Reg) else fill(build, kind, b)
    return mask.emit("select", first, second, carrier=kind)


def _select_mask(mask: Reg, a: Operand, b: Operand) -> Reg:
    """Choices between masks; True and False are numbers here."""
    if isinstance(a, Reg) and isinstance(b, Reg):
        return (mask & a) | (~mask & b)
    if isinstance(a, Reg):
        return ~mask | a if b else mask & a
    if isinstance(b, Reg):
        return mask | b if a else ~mask & b
    return fill(mask.build, "mask", a) if a == b else mask if a else ~mask


def _takes_scalar(carrier: str, value: Immediate) -> bool:
    """Select's scalar is a float literal: any number but NaN for floats, only zero for integers."""
    if carrier.startswith("float"):
        return not (isinstance(value, float) and math.isnan(value))
    return value == 0 and not isinstance(value, (ScalarRef, ScalarExpr))


def polynomial(x: Reg, coefficients: Sequence[float]) -> Reg:
    """Horner's rule, highest power first; at least two coefficients."""
    result = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        result = result * x + c
    return result


def with_sign(x: Reg, sign: Reg) -> Reg:
    """The magnitude of `x` (which must not be negative) with the sign of `sign`."""
    return x | sign.sign_bit()
