"""int64, exactly, on two int32 words (`lower/wide.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lower import wide
from asc_sched.lower.convert import convert, filled
from asc_sched.lower.registers import Reg, fill, select
from asc_sched.lower.rules import rule
from asc_sched.lower.rules.division import is_negative
from asc_sched.lower.wide import Words

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


# -- shifts --------------------------------------------------------------------------------------------------------
@rule("shift_left shift_right", "int64")
def _shift(call: Call) -> Reg:
    left = call.node.fn == "shift_left"
    amount = call.constant(1)
    if amount is None:
        return _tensor_shift(call, left)
    if not 0 <= amount < 64:
        if left:
            return wide.fill64(call.build, 0)
        amount = 63
    if amount == 0:
        return call.reg(0)
    return call.join((wide.shift_left if left else wide.shift_right)(call.words(0), int(amount)))


def _tensor_shift(call: Call, left: bool) -> Reg:
    """One shift per bit of the amount; beyond 63 nothing is left but the sign of a right shift."""
    x, amount = call.words(0), call.words(1)
    sign = x.high.like(0) if left else x.high >> 31
    outside = convert(amount.low & ~63, "mask") | convert(amount.high, "mask")
    for bit in (1, 2, 4, 8, 16, 32):
        moved = (wide.shift_left if left else wide.shift_right)(x, bit)
        x = _choose(convert(amount.low & bit, "mask"), moved, x)
    return call.join(_choose(outside, Words(sign, sign), x))


def _choose(mask: Reg, a: Words, b: Words) -> Words:
    return Words(select(mask, a.low, b.low), select(mask, a.high, b.high))


# -- division ------------------------------------------------------------------------------------------------------
@rule("floor_div remainder trunc_div fmod", "int64")
def _division(call: Call) -> Reg:
    fn = call.node.fn
    floor = fn in ("floor_div", "remainder")
    literal = call.constant(1)
    if floor and literal is not None and literal > 0 and int(literal) & (int(literal) - 1) == 0:
        return _by_power_of_two(call, int(literal).bit_length() - 1)
    quotient, rest = _divide(call, call.words(0), call.words(1), call.reg(1), floor)
    return call.join(quotient if fn.endswith("div") else rest)


def _divide(call: Call, x: Words, y: Words, divisor: Reg, floor: bool) -> tuple[Words, Words]:
    """Quotients of floats, each of what the last one left: a float32 quotient takes 22 bits off; one correction."""
    fy = divisor.cast("float32", "RINT")
    zero = wide.extend(x.low.like(0))
    quotient, rest = zero, x
    for _ in range(4):
        part = wide.split((wide.join(rest).cast("float32", "RINT") / fy).cast("int64", "TRUNC"))
        quotient = wide.add(quotient, part)
        rest = wide.subtract(rest, wide.multiply(part, y))
    # Now |rest| < 2 |y|. Its sign must be the divisor's (the dividend's when truncated), and it less than |y|.
    wanted = is_negative(y.high) if floor else is_negative(x.high)
    for _ in range(2):
        quotient, rest = _correct(quotient, rest, y, wanted)
    return quotient, rest


def _correct(quotient: Words, rest: Words, y: Words, wanted: Reg) -> tuple[Words, Words]:
    """One step of the divisor towards the rest's place: 0 <= rest < |y| with the wanted sign."""
    zero, one = wide.extend(rest.low.like(0)), wide.extend(rest.low.like(1))
    negative_y = is_negative(y.high)
    nonzero = ~(rest.low.equals(0) & rest.high.equals(0))
    below = nonzero & (is_negative(rest.high) ^ wanted)  # on the wrong side of 0
    size = _choose(negative_y, wide.subtract(zero, y), y)
    magnitude = _choose(is_negative(rest.high), wide.subtract(zero, rest), rest)
    above = ~below & ~wide.compare_unsigned(magnitude, size)  # -2^63 has no positive twin
    # Moving the rest up by |y| lowers a quotient by a positive divisor, and so on.
    up = (below & ~wanted) | (above & wanted)
    down = (below & wanted) | (above & ~wanted)
    step = _choose(up, size, _choose(down, wide.subtract(zero, size), zero))
    minus = wide.subtract(zero, one)
    raised, lowered = (up & negative_y) | (down & ~negative_y), (up & ~negative_y) | (down & negative_y)
    count = _choose(raised, one, _choose(lowered, minus, zero))
    return wide.add(quotient, count), wide.add(rest, step)


def _by_power_of_two(call: Call, bits: int) -> Reg:
    if bits == 0:
        return call.reg(0) if call.node.fn == "floor_div" else wide.fill64(call.build, 0)
    if call.node.fn == "floor_div":
        return call.join(wide.shift_right(call.words(0), bits))
    return call.reg(0) & filled(call.build, "int64", (1 << bits) - 1)


# -- powers --------------------------------------------------------------------------------------------------------
@rule("pow", "int64")
def _power(call: Call) -> Reg:
    exponent = call.constant(1)
    if exponent is None:
        return call.join(_tensor_power(call.words(0), call.words(1)))
    n = int(exponent)
    if n == 0:
        return wide.fill64(call.build, 1)
    result, factor = None, call.words(0)
    while n:
        if n & 1:
            result = factor if result is None else wide.multiply(result, factor)
        n >>= 1
        factor = wide.multiply(factor, factor) if n else factor
    assert result is not None
    return call.join(result)


def _tensor_power(x: Words, n: Words) -> Words:
    """Square and multiply, one step per bit; a negative exponent leaves 1, -1, or 0 (1 / x toward zero)."""
    result, factor = wide.extend(x.low.like(1)), x
    for bit in range(63):
        word = n.low if bit < 32 else n.high
        place = bit % 32
        odd = convert(word & (1 << place if place < 31 else -(2**31)), "mask")
        result = _choose(odd, wide.multiply(result, factor), result)
        factor = wide.multiply(factor, factor) if bit < 62 else factor
    unit = (x.low.equals(1) & x.high.equals(0)) | (x.low.equals(-1) & x.high.equals(-1))
    return _choose(is_negative(n.high) & ~unit, wide.extend(x.low.like(0)), result)


# -- greatest common divisor -----------------------------------------------------------------------------------------
@rule("gcd", "int64")
def _gcd(call: Call) -> Reg:
    """Stein's algorithm: halving and subtracting, for a division takes 600 cycles. Magnitudes are unsigned."""
    a, b = _magnitude(call.words(0)), _magnitude(call.words(1))
    zero = a.low.equals(0) & a.high.equals(0)
    a, b = _choose(zero, b, a), _choose(zero, a, b)
    twos = a.low.like(0)
    for bits in _HALVINGS:  # common ones are put back at the end
        even = _divisible(Words(a.low | b.low, a.high | b.high), bits)
        a, b = _choose(even, _shift_unsigned(a, bits), a), _choose(even, _shift_unsigned(b, bits), b)
        twos = twos + select(even, bits, 0, "int32")
    for bits in _HALVINGS:
        a = _choose(_divisible(a, bits), _shift_unsigned(a, bits), a)
    # Now a is odd and stays so. Each step takes a bit off one of them, until b is 0.
    for _ in range(127):
        odd = convert(b.low & 1, "mask")
        less = odd & wide.compare_unsigned(b, a)
        gap = _choose(less, wide.subtract(a, b), wide.subtract(b, a))
        a, b = _choose(less, b, a), _shift_unsigned(_choose(odd, gap, b), 1)
    for bits in _HALVINGS:
        a = _choose(convert(twos & bits, "mask"), wide.shift_left(a, bits), a)
    return call.join(a)


_HALVINGS = (32, 16, 8, 4, 2, 1)


def _magnitude(x: Words) -> Words:
    return _choose(is_negative(x.high), wide.subtract(wide.extend(x.low.like(0)), x), x)


def _divisible(x: Words, bits: int) -> Reg:
    """Whether the lowest so many bits are 0."""
    return x.low.equals(0) if bits == 32 else (x.low & ((1 << bits) - 1)).equals(0)


def _shift_unsigned(x: Words, bits: int) -> Words:
    """To the right, with zeros from the left."""
    if bits == 32:
        return Words(x.high, x.high.like(0))
    low = x.low.shift_right_logical(bits) | (x.high << (32 - bits))
    return Words(low, x.high.shift_right_logical(bits))
