"""int64, exactly, on two int32 words (`lower/wide.py`). What isn't here is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lower import wide
from asc_sched.lower.convert import convert
from asc_sched.lower.registers import Reg, fill
from asc_sched.lower.rules import refuse, rule

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call


@rule("add sub mul", "int64")
def _arithmetic(call: Call) -> Reg:
    combine = {"add": wide.add, "sub": wide.subtract, "mul": wide.multiply}[call.node.fn]
    return call.join(combine(call.words(0), call.words(1)))


@rule("neg", "int64")
def _neg(call: Call) -> Reg:
    x = call.words(0)
    zero = wide.extend(fill(call.build, "int32", 0))
    return call.join(wide.subtract(zero, x))


@rule("abs", "int64")
def _abs(call: Call) -> Reg:
    x = call.reg(0)
    return wide.choose(_is_negative(x), _neg(call), x)


@rule("relu", "int64")
def _relu(call: Call) -> Reg:
    x = call.reg(0)
    return wide.choose(_is_negative(x), wide.fill64(call.build, 0), x)


@rule("sign", "int64")
def _sign(call: Call) -> Reg:
    """By way of float32, which keeps the sign of every int64 and zero."""
    f = call.reg(0).cast("float32", "RINT")
    return f.max(-1.0).min(1.0).cast("int32", "TRUNC").cast("int64")


@rule("signbit", "int64")
def _is_negative_rule(call: Call) -> Reg:
    return _is_negative(call.reg(0))


def _is_negative(x: Reg) -> Reg:
    return x.cast("float32", "RINT") < 0.0


@rule("maximum minimum fmax fmin", "int64")
def _extreme(call: Call) -> Reg:
    a, b = call.reg(0), call.reg(1)
    smaller = wide.compare(call.words(0), call.words(1))
    return wide.choose(smaller, b, a) if call.node.fn in ("maximum", "fmax") else wide.choose(smaller, a, b)


@rule("lt le gt ge", "int64")
def _ordered(call: Call) -> Reg:
    fn = call.node.fn
    for k, mode in ((1, fn), (0, _SWAPPED[fn])):
        literal = call.constant(k)
        if literal is not None and abs(literal) <= 2**24:
            # float32 rounds to nearest, and its neighbours of such a number are whole numbers
            return call.reg(1 - k).cast("float32", "RINT").compare(mode.upper(), float(literal))
    first, second = (0, 1) if fn in ("lt", "ge") else (1, 0)
    found = wide.compare(call.words(first), call.words(second))
    return found if fn in ("lt", "gt") else ~found


_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@rule("eq ne", "int64")
def _equal(call: Call) -> Reg:
    differs = convert(call.reg(0) ^ call.reg(1), "mask")
    return differs if call.node.fn == "ne" else ~differs


@rule("where", "int64")
def _where(call: Call) -> Reg:
    mask = call.lower.form(call.node.args[0], "mask")
    return wide.choose(mask, call.reg(1), call.reg(2))


@rule("shift_left shift_right", "int64")
def _shift(call: Call) -> Reg:
    amount = call.constant(1)
    if amount is None:
        raise refuse(call.node.fn, call.dtype, "shifts of int64 take a literal number of bits")
    left = call.node.fn == "shift_left"
    if not 0 <= amount < 64:
        amount = 63
        if left:
            return wide.fill64(call.build, 0)
    if amount == 0:
        return call.reg(0)
    return call.join((wide.shift_left if left else wide.shift_right)(call.words(0), int(amount)))


@rule("floor_div remainder", "int64")
def _division(call: Call) -> Reg:
    literal = call.constant(1)
    if literal is None or literal <= 0 or int(literal) & (int(literal) - 1):
        raise refuse(call.node.fn, call.dtype, "int64 is divided by literal powers of two only; cast to int32 or float32")
    bits = int(literal).bit_length() - 1
    if bits == 0:
        return call.reg(0) if call.node.fn == "floor_div" else wide.fill64(call.build, 0)
    if call.node.fn == "floor_div":
        return call.join(wide.shift_right(call.words(0), bits))
    return call.reg(0) & _low_bits(call, bits)


def _low_bits(call: Call, bits: int) -> Reg:
    """An int64 with the lowest bits set, joined from parts that float32 holds."""
    found = wide.fill64(call.build, (1 << min(bits, 24)) - 1)
    for start in range(24, bits, 24):
        stop = min(bits, start + 24)
        found = found | wide.fill64(call.build, ((1 << stop - start) - 1) << start)
    return found


@rule("trunc_div fmod pow", "int64")
def _refused(call: Call) -> Reg:
    raise refuse(call.node.fn, call.dtype, "the chip has no division or power of int64; cast to int32 or float32")
