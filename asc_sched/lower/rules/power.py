"""Powers. In float32: exp of y log|x|, with the logarithm and the product carried in two floats, or the error of the
logarithm would be multiplied by up to 88.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asc_sched.lang.dtypes import DType
from asc_sched.lower.convert import constant, convert, wrapped
from asc_sched.lower.registers import Reg, fill, polynomial, select, with_sign
from asc_sched.lower.rules import coefficients, rule
from asc_sched.lower.rules.exponential import exp2

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call

INF = float("inf")
_HALF_MASK = 0xFFFF_F000  # the upper 12 bits of a significand
_SQRT_HALF_BITS = 0x3F35_04F3
_LN2_HIGH = 0.693359375  # 10 bits: times an exponent it is exact
_LN2_LOW = math.log(2) - _LN2_HIGH


@rule("pow")
def _pow(call: Call) -> Reg:
    exponent = call.constant(1)
    if exponent is not None:
        simple = _simple_power(call.reg(0), float(exponent), 16 if call.narrow else 6)
        if simple is not None:
            return simple
    base = call.constant(0)
    if base == 2 and not call.narrow:
        return exp2(call.reg(1))
    return _general_power(call, base, exponent)


def _simple_power(x: Reg, n: float, most: int) -> Reg | None:
    """Literal exponents that are products (of at most so many factors) or roots, as torch computes them."""
    if n == 0:
        return fill(x.build, x.carrier, 1.0)
    if n in (0.5, -0.5):
        return x.sqrt() if n > 0 else 1.0 / x.sqrt()
    if n in (-1, -2):
        return 1.0 / (x if n == -1 else x * x)
    return integer_power(x, int(n)) if n in range(1, most + 1) else None


def integer_power(x: Reg, n: int) -> Reg:
    """x multiplied by itself, n > 0."""
    if n == 3:  # torch's order
        return x * x * x
    result: Reg | None = None
    while n:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        x = x * x if n else x
    assert result is not None
    return result


def _general_power(call: Call, base: float | int | None, exponent: float | int | None) -> Reg:
    x, y = call.reg(0), call.reg(1)
    a = x.abs()
    if call.narrow:
        result = (y * a.ln()).exp()
    elif base is not None and 0 < base < INF:
        log = constant(math.log(base), "float32")
        result = _exp_product(y, x.like(log), x.like(log), x.like(math.log(base) - log))
    else:
        high, low = _log_two(a)
        infinite = select(a.equals(0.0), -INF, select(a.equals(INF), INF, high))
        result = select(a.is_number(), _exp_product(y, infinite, high, low), a)
    known = exponent is not None and math.isfinite(exponent)
    if known and float(exponent).is_integer():  # type: ignore[arg-type]
        return with_sign(result, x) if exponent % 2 else result  # type: ignore[operator]
    if base is None or not base > 0:
        result = _negative_base(x, y, a, result)
    if known:
        return result
    # 1 to any power and anything to the power 0 are 1, NaN included; so is -1 to an infinite power.
    one = x.equals(1.0) | y.equals(0.0) | (a.equals(1.0) & y.abs().equals(INF))
    return select(one, 1.0, result)


def _negative_base(x: Reg, y: Reg, a: Reg, result: Reg) -> Reg:
    """The sign of x for odd y; NaN for finite negative x and y that isn't a whole number."""
    whole = y.round("RINT")
    half = y * 0.5
    is_whole = whole.equals(y)
    odd = is_whole & half.differs(half.round("RINT"))
    signed = select(odd, with_sign(result, x), result)
    bad = (x < 0.0) & ~is_whole & (a < INF) & y.is_number()
    return select(bad, x.like(math.nan), signed)


# -- arithmetic with two floats ------------------------------------------------------------------------------------
def _split(x: Reg) -> tuple[Reg, Reg]:
    """x as a sum of two floats of 12 bits each."""
    high = x & x.pattern(_HALF_MASK)
    return high, x - high


def exact_product(x: Reg, y: Reg) -> tuple[Reg, Reg]:
    """x y as a sum of two floats (Dekker)."""
    p = x * y
    (xh, xl), (yh, yl) = _split(x), _split(y)
    return p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl


def _log_two(a: Reg) -> tuple[Reg, Reg]:
    """log(a) for positive a as a sum of two floats, to some 2^-32."""
    tiny = a < 2.0**-126
    scaled = select(tiny, a * 2.0**24, a)
    # a = m 2^e with m in [sqrt(1/2), sqrt(2)), by integer arithmetic on the bits
    steps = scaled.on_bits("adds", -_SQRT_HALF_BITS, "int32") >> 23
    m = scaled.on_bits("sub", steps << 23, "float32")
    e = steps.cast("float32", "RINT")
    e = select(tiny, e - 24.0, e)
    # s = f / (2 + f), log(m) = 2 s + s^3 P(s^2)
    f = m - 1.0
    d = m + 1.0
    d_low = f - (d - 2.0)
    s = f / d
    p, p_low = exact_product(s, d)
    s_low = (((f - p) - p_low) - s * d_low) / d
    z = s * s
    series = polynomial(z, coefficients.LOG) * z * s
    # e ln2 and 2 s, exactly added
    big, small = e * _LN2_HIGH, s * 2.0
    high = big + small
    rest = small - (high - big)  # |big| >= |small| unless e is 0, and then nothing is lost
    low = e * _LN2_LOW + (s_low * 2.0 + series) + rest
    total = high + low
    return total, low - (total - high)


def _exp_product(y: Reg, infinite_log: Reg, high: Reg, low: Reg) -> Reg:
    """exp(y (high + low)); `infinite_log` is `high` with the infinities of log(0) and log(inf)."""
    exponent = y * infinite_log
    p_low = exact_product(y, high)[1]
    correction = p_low + y * low
    usable = exponent.abs() < 200.0  # beyond, exp is 0 or infinite (and the correction no number)
    correction = select(usable, correction, 0.0)
    e = exponent.exp()
    return (correction + 1.0) * e


@rule("pow", "bool")
def _pow_bool(call: Call) -> Reg:
    """torch has literal exponents only."""
    x = call.reg(0)
    return x if call.constant(1) else fill(x.build, x.carrier, 1)


# -- integers ------------------------------------------------------------------------------------------------------
@rule("pow", "int")
def _pow_int(call: Call) -> Reg:
    """Square and multiply, with wrap-around; exponents beyond the dtype's bits by their bits."""
    exponent = call.constant(1)
    x = call.reg(0)
    if exponent is not None:
        return _literal_int_power(x, int(exponent), call.dtype)
    return _tensor_int_power(x, call.reg(1), call.dtype)


def _literal_int_power(x: Reg, n: int, dtype: DType) -> Reg:
    if n == 0:
        return fill(x.build, x.carrier, 1)
    result: Reg | None = None
    while n:
        if n & 1:
            result = x if result is None else wrapped(result * x, dtype)
        n >>= 1
        x = wrapped(x * x, dtype) if n else x
    assert result is not None
    return result


def _tensor_int_power(x: Reg, n: Reg, dtype: DType) -> Reg:
    """One step per bit of the exponent; a negative one leaves 1, -1, or 0 (1 / x toward zero)."""
    bits = {"int8": 7, "uint8": 8, "int16": 15, "int32": 31}[dtype.name]
    result = fill(x.build, x.carrier, 1)
    one = fill(x.build, x.carrier, 1)
    factor, left = x, n
    for i in range(bits):
        odd = convert((left & one), "mask")
        result = select(odd, wrapped(result * factor, dtype), result)
        if i < bits - 1:
            factor, left = wrapped(factor * factor, dtype), left >> 1
    if dtype.name == "uint8":
        return result
    even = ~convert(n & one, "mask")
    inverse = select(even, x * x, x)  # of 1 and -1: the power itself
    unit = ~convert(x.max(-x) - 1, "mask")
    return select(_negative(n), select(unit, inverse, 0), result)


def _negative(n: Reg) -> Reg:
    if n.carrier == "int32":
        return ~n.max(0).equals(n)
    return convert(n, "float16") < 0.0
