"""Comparisons, choices and logic: masks with one bit per element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lang.dtypes import BOOL
from asc_sched.lower.convert import convert, wrapped
from asc_sched.lower.registers import Reg, select
from asc_sched.lower.rules import rule

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call

_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _ordered(call: Call) -> tuple[str, Reg, Reg | int | float]:
    """The comparison with a register on the left."""
    a, b = call.operand(0), call.operand(1)
    if isinstance(a, Reg) or not isinstance(b, Reg):
        return call.node.fn, a if isinstance(a, Reg) else call.reg(0), b  # type: ignore[return-value]
    return _SWAPPED[call.node.fn], b, a  # type: ignore[return-value]


@rule("lt le gt ge eq ne")
def _compare(call: Call) -> Reg:
    fn, a, b = _ordered(call)
    return a.compare(fn.upper(), b)


@rule("lt le gt ge eq ne", "int")
def _compare_small(call: Call) -> Reg:
    """16-bit integers are exact in float32; 8-bit ones in float16."""
    fn, a, b = _ordered(call)
    carrier = "float16" if call.dtype.itemsize == 1 else "float32"
    return convert(a, carrier).compare(fn.upper(), convert(b, carrier) if isinstance(b, Reg) else float(b))


@rule("lt le gt ge eq ne", "int32")
def _compare_int32(call: Call) -> Reg:
    """The chip has EQ only: a >= b is max(a, b) == a."""
    return compare_int32(*_ordered(call))


def compare_int32(fn: str, a: Reg, b: Reg | int | float) -> Reg:
    if fn in ("eq", "ne"):
        same = a.equals(b)
        return same if fn == "eq" else ~same
    extreme = a.max(b) if fn in ("ge", "lt") else a.min(b)
    found = extreme.equals(a)
    return found if fn in ("ge", "le") else ~found


@rule("eq ne lt le gt ge", "bool")
def _compare_masks(call: Call) -> Reg:
    fn, a, b = call.node.fn, call.reg(0), call.reg(1)
    if fn in ("eq", "ne"):
        return a ^ b if fn == "ne" else ~(a ^ b)
    first, second = (a, b) if fn in ("lt", "le") else (b, a)
    return ~first & second if fn in ("lt", "gt") else ~first | second


@rule("where", "float int bool")
def _where(call: Call) -> Reg:
    mask = call.lower.form(call.node.args[0], "mask")
    return select(mask, call.operand(1), call.operand(2), call.carrier)


@rule("logical_and logical_or logical_xor logical_not", "float int bool")
def _logical(call: Call) -> Reg:
    if call.dtype is BOOL:
        return _bitwise_masks(call)
    masks = [call.mask(k) for k in range(len(call.node.args))]
    return _combine(call.node.fn.removeprefix("logical_"), masks)


@rule("bitwise_and bitwise_or bitwise_xor bitwise_not", "bool")
def _bitwise_masks(call: Call) -> Reg:
    kind = call.node.fn.removeprefix("bitwise_").removeprefix("logical_")
    stored = _as_stored(call, "uint8") if kind != "not" else None  # bytes of 0 and 1 stay such
    return _combine(kind, stored or [call.reg(k) for k in range(len(call.node.args))])


def _as_stored(call: Call, carrier: str) -> list[Reg] | None:
    """The arguments as they lie in GM, where all of them still are: bits need no wider type to be combined."""
    if all(call.lower.carrier_of(a) == carrier for a in call.node.args):
        return [call.lower.form(a, carrier) for a in call.node.args]
    return None


@rule("bitwise_and bitwise_or bitwise_xor bitwise_not", "int")
def _bitwise(call: Call) -> Reg:
    stored = _as_stored(call, call.dtype.name) if call.dtype.itemsize == 1 else None
    if stored:
        return _combine(call.node.fn.removeprefix("bitwise_"), stored)
    found = _combine(call.node.fn.removeprefix("bitwise_"), [call.reg(k) for k in range(len(call.node.args))])
    return wrapped(found, call.dtype) if call.node.fn == "bitwise_not" else found


def _combine(kind: str, values: list[Reg]) -> Reg:
    if kind == "not":
        return ~values[0]
    a, b = values
    return a & b if kind == "and" else a | b if kind == "or" else a ^ b


@rule("add maximum fmax", "bool")
def _either(call: Call) -> Reg:
    return call.reg(0) | call.reg(1)


@rule("mul minimum fmin", "bool")
def _both(call: Call) -> Reg:
    return call.reg(0) & call.reg(1)
