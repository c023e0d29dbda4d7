"""Quotients rounded to whole numbers, and remainders: exact for floats and integers, with torch's signs.

Integers divided by zero raise in torch; here their result is unspecified.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asc_sched.lower.convert import convert, wrapped
from asc_sched.lower.registers import Operand, Reg, select, with_sign
from asc_sched.lower.rules import rule
from asc_sched.lower.rules.power import exact_product
from asc_sched.lower.wide import less_unsigned

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call

_BITS = 12  # of the quotient per step: times half of the divisor's significand they are exact
_STEPS = 4


# -- floats --------------------------------------------------------------------------------------------------------
@rule("fmod")
def _fmod(call: Call) -> Reg:
    x, y = call.reg(0), call.reg(1)
    return with_sign(fmod_magnitude(x, y, 2 if call.fast else _STEPS), x)


@rule("remainder")
def _remainder(call: Call) -> Reg:
    """fmod, plus the divisor where the signs differ."""
    x, y = call.reg(0), call.reg(1)
    return _move_to_sign(with_sign(fmod_magnitude(x, y, 2 if call.fast else _STEPS), x), y)


def _move_to_sign(rest: Reg, y: Reg) -> Reg:
    differ = ((rest < 0.0) & (y > 0.0)) | ((rest > 0.0) & (y < 0.0))
    return select(differ, rest + y, rest)


def fmod_magnitude(x: Reg, y: Reg, steps: int) -> Reg:
    """|x| modulo |y|, exact for quotients below 2^(12 steps); NaN for larger ones.

    Each step takes a whole number of 12 bits times a power of two off the quotient. The products with the halves of
    the divisor are exact, and so are the differences: what is left fits the significand.
    """
    a, b = x.abs(), y.abs()
    # Divisors scaled up by 2^36 must not overflow; scaling both down loses nothing while |x| >= |y|.
    large = b > 2.0**60
    rest = select(large, a * 2.0**-64, a)
    divisor = select(large, b * 2.0**-64, b)
    high = divisor & divisor.pattern(0xFFFF_F000)
    low = divisor - high
    for k in reversed(range(steps)):
        scale = 2.0 ** (_BITS * k)
        d, h, l = (divisor, high, low) if k == 0 else (divisor * scale, high * scale, low * scale)
        q = (rest / d).round("RINT")
        rest = (rest - q * h) - q * l
    rest = select(rest < 0.0, rest + divisor, rest)
    rest = select(large, rest * 2.0**64, rest)
    rest = select(a < b, a, rest)
    return select(a >= b * 2.0 ** (_BITS * steps), x.like(math.nan), rest)


@rule("floor_div")
def _floor_div(call: Call) -> Reg:
    """The nearest whole number of x / y, less one where that is too much by the exact rest; x / y itself where that has
    no fraction bits left.
    """
    x, y = call.reg(0), call.reg(1)
    quotient = x / y
    whole = quotient.round("FLOOR") if call.narrow else _exact_floor(x, y, quotient.round("RINT"))
    # A negative quotient is at least one less than 0, however small it is.
    differ = (x < 0.0) & (y > 0.0) | (x > 0.0) & (y < 0.0)
    whole = select(differ & whole.equals(0.0), -1.0, whole)
    result = select(quotient.abs() < 2.0**24, whole, quotient)
    return select(x.abs().equals(math.inf) & y.differs(0.0), x.like(math.nan), result)


def _exact_floor(x: Reg, y: Reg, nearest: Reg) -> Reg:
    scale = select(y.abs() > 2.0**100, 2.0**-30, 1.0, y.carrier)  # or the product might overflow
    product, product_low = exact_product(nearest, y * scale)
    rest = (x * scale - product) - product_low
    return select(rest * y.sign_one() < 0.0, nearest - 1.0, nearest)


@rule("trunc_div")
def _trunc_div(call: Call) -> Reg:
    return (call.reg(0) / call.reg(1)).round("TRUNC")


# -- integers ------------------------------------------------------------------------------------------------------
@rule("floor_div remainder trunc_div fmod", "int")
def _int_division(call: Call) -> Reg:
    fn = call.node.fn
    x = call.reg(0)
    literal = call.constant(1)
    if literal is not None and literal > 0 and int(literal) & (int(literal) - 1) == 0 and fn in _BY_BITS:
        return _by_power_of_two(x, int(literal), fn)
    floor = fn in ("floor_div", "remainder")
    y = call.reg(1)
    if x.carrier == "int32":
        quotient, rest = _divide_int32(x, y, floor)
        return quotient if fn.endswith("div") else rest
    quotient = _divide_small(x, y, floor, call)
    return wrapped(quotient if fn.endswith("div") else x - quotient * y, call.dtype)


_BY_BITS = ("floor_div", "remainder")


def _by_power_of_two(x: Reg, divisor: int, fn: str) -> Reg:
    if fn == "floor_div":
        bits = divisor.bit_length() - 1
        return x >> bits if bits else x
    return x & (divisor - 1)


def _divide_small(x: Reg, y: Reg, floor: bool, call: Call) -> Reg:
    """int16 by way of float32, 8-bit integers by way of float16.

    A quotient that isn't whole differs from whole numbers by 1 / |y| at least, which the rounding of the quotient
    can't bridge.
    """
    mode = "FLOOR" if floor else "TRUNC"
    if call.dtype.itemsize == 1:
        return (convert(x, "float16") / convert(y, "float16")).cast("int16", mode)
    quotient = (convert(x, "float32") / convert(y, "float32")).cast("int32", mode)
    return ((quotient << 16) >> 16).cast("int16")  # 32768 wraps


def _divide_int32(x: Reg, y: Reg, floor: bool) -> tuple[Reg, Reg]:
    """Floor (or truncated) quotient and its remainder: a float quotient, the quotient of what it left, one correction.

    The first is off by 2^9 at most, the second by one.
    """
    fy = y.cast("float32", "RINT")
    first = (x.cast("float32", "RINT") / fy).cast("int32", "TRUNC")
    rest = x - first * y
    second = (rest.cast("float32", "RINT") / fy).cast("int32", "FLOOR" if floor else "TRUNC")
    quotient = first + second
    rest = rest - second * y
    # The floor's rest has the divisor's sign, the truncated quotient's has that of x. Seen with it, the rest belongs
    # into [0, |y|).
    sign = (y >> 31) | y.like(1)
    own = sign if floor else (x >> 31) | x.like(1)
    seen = rest * own
    below = is_negative(seen)
    above = ~(is_negative(seen - y * sign) | below)  # of -2^31 the difference may overflow
    one, step = (x.like(1), y) if floor else (sign * own, y * (sign * own))
    quotient = quotient - select(below, one, 0) + select(above, one, 0)
    return quotient, rest + select(below, step, 0) - select(above, step, 0)


def is_negative(x: Reg) -> Reg:
    """The sign of an int32 as a mask: the chip compares int32 for equality only."""
    return x.min(-1).equals(x)


# -- shifts --------------------------------------------------------------------------------------------------------
@rule("shift_left shift_right", "int")
def _shift(call: Call) -> Reg:
    left = call.node.fn == "shift_left"
    x, width = call.reg(0), 8 * call.dtype.itemsize
    amount = call.constant(1)
    if amount is not None:
        return _literal_shift(x, int(amount), left, width, call)
    return _tensor_shift(x, call.reg(1), left, width, call)


def _literal_shift(x: Reg, amount: int, left: bool, width: int, call: Call) -> Reg:
    """Beyond the width nothing is left but the sign of a right shift, as torch has it."""
    if not 0 <= amount < width:
        return x.like(0) if left else _sign_of(x)
    if amount == 0:
        return x
    return wrapped(x << amount, call.dtype) if left else x >> amount


def _tensor_shift(x: Reg, amount: Reg, left: bool, width: int, call: Call) -> Reg:
    """One shift per bit of the amount."""
    result = x
    bit = 1
    while bit < width:
        taken = _any_bit(amount, bit)
        result = select(taken, result << bit if left else result >> bit, result)
        bit *= 2
    outside: Operand = 0 if left else _sign_of(x)
    usable = ~_any_bit(amount, ~(width - 1))  # negative amounts too
    result = select(usable, result, outside)
    return wrapped(result, call.dtype) if left else result


def _sign_of(x: Reg) -> Reg:
    """-1 for negative numbers, else 0."""
    return x >> (31 if x.carrier == "int32" else 15)


def _any_bit(x: Reg, bits: int) -> Reg:
    return convert(x & bits, "mask")


# -- greatest common divisor -----------------------------------------------------------------------------------------
# Euclid's algorithm takes the most steps on Fibonacci numbers.
_EUCLID_STEPS = {"int8": 11, "uint8": 12, "int16": 23}


@rule("gcd", "int")
def _gcd(call: Call) -> Reg:
    """Euclid's algorithm for as many steps as the dtype's largest numbers can take."""
    x, y = call.reg(0), call.reg(1)
    # Whole numbers up to 2^24 and their quotients' floors are exact in float32; -32768 has no positive twin in int16.
    a, b = convert(x, "float32").abs(), convert(y, "float32").abs()
    for _ in range(_EUCLID_STEPS[call.dtype.name]):
        running = b.differs(0.0)
        rest = a - (a / b).round("FLOOR") * b
        a, b = select(running, b, a), select(running, rest, 0)
    return wrapped(_whole(a), call.dtype)


def _whole(x: Reg) -> Reg:
    """A whole number up to 2^15 as int16; 2^15 itself wraps."""
    return ((x.cast("int32", "TRUNC") << 16) >> 16).cast("int16")


@rule("gcd", "int32")
def _gcd_int32(call: Call) -> Reg:
    """Stein's algorithm, by halving and subtracting; Euclid's divisions would cost half as much again."""
    x, y = call.reg(0), call.reg(1)
    a, b = x.max(-x), y.max(-y)  # seen as unsigned: -2^31 is its own magnitude
    zero = a.equals(0)
    a, b = select(zero, b, a), select(zero, a, b)
    twos = a.like(0)
    for bits in _HALVINGS:  # common ones are put back at the end
        even = _divisible(a | b, bits)
        a, b = select(even, a.shift_right_logical(bits), a), select(even, b.shift_right_logical(bits), b)
        twos = twos + select(even, bits, 0, "int32")
    for bits in _HALVINGS:
        a = select(_divisible(a, bits), a.shift_right_logical(bits), a)
    # Now a is odd and stays so. Each step takes a bit off one of them, until b is 0.
    for _ in range(63):
        odd = convert(b & 1, "mask")
        less = odd & less_unsigned(b, a)
        rest = select(odd, b - a, b)
        a, b = select(less, b, a), select(less, -rest, rest).shift_right_logical(1)
    for bits in _HALVINGS:
        a = select(convert(twos & bits, "mask"), a << bits, a)
    return a


_HALVINGS = (16, 8, 4, 2, 1)


def _divisible(x: Reg, bits: int) -> Reg:
    """Whether the lowest so many bits are 0."""
    return (x & ((1 << bits) - 1)).equals(0)
