"""Sine, cosine, tangent and their inverses, right for every finite argument.

sin and cos are one odd polynomial on [-pi/2, pi/2] after the argument is reduced by a multiple of pi (an odd multiple
of pi/2 for cos), so both keep their relative accuracy at their zeros. Small arguments are reduced by subtracting n pi
in four parts of few bits (every product is exact); large ones multiply by the bits of 1 / (2 pi) that matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import attrs
import numpy as np

from asc_sched.lower.registers import Reg, polynomial, select, with_sign
from asc_sched.lower.rules import coefficients, rule

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call

_ROUNDER = 1.5 * 2**23
_PI_TEXT = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214"
PI = Fraction(_PI_TEXT)  # 104 digits: 345 bits

# Below it, n has 11 bits (12 with the half of cos) and parts of 12 bits multiply exactly. All of float16 does with
# parts of 8 bits: n has 16.
_SMALL = 4096.0
_SHORT = 65535 * math.pi


# -- the reduced argument ------------------------------------------------------------------------------------------
@attrs.frozen
class _Reduced:
    """`angle` in [-pi/2, pi/2] (a little more by rounding) and `sign`, +1.0 or -1.0."""

    angle: Reg
    sign: Reg


def _small(x: Reg, cosine: bool, bits: int) -> _Reduced:
    """x - n pi, with n half-integer for cos: four parts of pi, the first three of `bits` bits."""
    turns = x * (1 / math.pi)
    shifted = (turns - 0.5 if cosine else turns) + _ROUNDER
    n = shifted - _ROUNDER
    if cosine:
        n = n + 0.5
    angle = x
    for part in _parts(PI, (bits, bits, bits, 24)):
        angle = angle - n * part
    odd = shifted.on_bits("shift_left", 31, "float32")  # the sign bit is n's lowest bit
    sign = odd | 1.0
    return _Reduced(angle, -sign if cosine else sign)


def _parts(value: Fraction, widths: Sequence[int]) -> tuple[float, ...]:
    """A number as a sum of floats of the given widths in bits, each rounded toward zero but the last."""
    found = []
    for i, width in enumerate(widths):
        exponent = math.floor(math.log2(value))
        unit = Fraction(2) ** (exponent + 1 - width)
        part = value / unit
        whole = round(part) if i == len(widths) - 1 else math.floor(part)
        found.append(float(whole * unit))
        value -= whole * unit
    return tuple(found)


# -- any argument --------------------------------------------------------------------------------------------------
@lru_cache(maxsize=8)
def _chunks(scale: int, first: int, width: int, count: int) -> tuple[float, ...]:
    """`count` chunks of `width` bits of 2^scale / (2 pi), from the bit of weight 2^(first - 1) down."""
    value = Fraction(2) ** scale / (2 * PI)
    found = []
    for k in range(count):
        unit = Fraction(2) ** (first - width * (k + 1))
        whole = math.floor(value / unit) % 2**width
        found.append(float(np.float32(float(whole * unit))))
        assert Fraction(found[-1]) == whole * unit
    return tuple(found)


def _turns_short(x: Reg) -> Reg:
    """x / (2 pi) modulo 1 for x of 8 significant bits: products with chunks of 16 bits are exact, and so are sums
    until few enough bits are left that the rest can be rounded.
    """
    total = None
    # Chunks down to weight 2^-160, in two scales: x 2^-64 keeps the products of the last ones normal.
    high, low = _chunks(0, -2, 16, 5), _chunks(64, -18, 16, 6)
    tiny = x * 2.0**-64
    for source, chunks in ((x, high), (tiny, low)):
        for c in chunks:
            product = source * c
            total = product if total is None else total + product
            total = total - total.round("RINT")
    assert total is not None
    return total


_GROUPS = ((12, 39), (51, 39), (90, 39))  # exponents: (lowest, width)
_CHUNKS = 10


def _turns_long(x: Reg) -> tuple[Reg, Reg]:
    """x / (2 pi) modulo 1 for 2^12 <= |x| < 2^128 as a sum of two floats, to some 2^-58.

    x is scaled by its group's power of two; 1 / (2 pi) times that power, without the bits whose product is whole
    turns, has 10 chunks of 12 bits that matter. Both halves of x times a chunk are exact; two-sums keep what additions
    lose.
    """
    middle, large = x.abs() >= 2.0 ** _GROUPS[1][0], x.abs() >= 2.0 ** _GROUPS[2][0]
    scales = [low - _GROUPS[0][0] for low, _ in _GROUPS]
    scaled = select(large, x * 2.0 ** -scales[2], select(middle, x * 2.0 ** -scales[1], x))
    top = scaled & scaled.pattern(0xFFFF_F000)
    rest = scaled - top
    # The lowest bit of x is 2^(12 - 23): bits of weight 2^11 and more give whole turns.
    tables = [_chunks(s, 11, 12, _CHUNKS) for s in scales]
    total, lost = None, None
    for first, second, third in zip(*tables, strict=True):
        c = select(large, third, select(middle, second, x.like(first)))
        for part in (top, rest):
            product = part * c
            if total is None:
                total = product - product.round("RINT")
                continue
            sum_ = total + product
            back = sum_ - total
            error = (total - (sum_ - back)) + (product - back)
            lost = error if lost is None else lost + error
            total = sum_ - sum_.round("RINT")
    assert total is not None and lost is not None
    return total, lost


def _from_turns(turns: Reg, lost: Reg | None, cosine: bool) -> _Reduced:
    """The reduced argument for x = 2 pi (turns + lost)."""
    shifted = (turns * 2.0 - 0.5 if cosine else turns * 2.0) + _ROUNDER
    n = shifted - _ROUNDER
    whole = n * -0.5
    rest = (whole - 0.25 if cosine else whole) + turns
    if lost is not None:
        rest = rest + lost
    high, low = _parts(2 * PI, (24, 24))
    angle = rest * high if lost is None else rest * low + rest * high
    sign = shifted.on_bits("shift_left", 31, "float32") | 1.0
    return _Reduced(angle, -sign if cosine else sign)


def _reduce(call: Call, x: Reg) -> dict[bool, _Reduced]:
    """The argument reduced for sin (False) and cos (True), those that the function needs."""
    wanted = {"sin": (False,), "cos": (True,), "tan": (False, True)}[call.node.fn]
    argument = call.lower.typed.types[call.node.args[0]].dtype
    if call.fast or (call.narrow and argument.name == "float16" and _largest(call) < _SHORT):
        return {c: _small(x, c, 8) for c in wanted}
    if call.narrow and argument.name == "bfloat16" and call.argument_is_input(0):
        turns = _turns_short(x)
        return {c: _from_turns(turns, None, c) for c in wanted}
    near = x.abs() < _SMALL
    turns, lost = _turns_long(x)
    found = {}
    for c in wanted:
        small, large = _small(x, c, 12), _from_turns(turns, lost, c)
        found[c] = _Reduced(select(near, small.angle, large.angle), select(near, small.sign, large.sign))
    return found


def _largest(call: Call) -> float:
    """What the argument, of float16 by its dtype, can be at most: only computed values go beyond float16's range."""
    nodes = call.lower.graph.nodes
    node, factor = nodes[call.node.args[0]], 1.0
    if node.fn == "mul":
        consts = [nodes[a] for a in node.args if nodes[a].fn == "const"]
        others = [nodes[a] for a in node.args if nodes[a].fn != "const"]
        if len(consts) == 1:
            node, factor = others[0], abs(float(consts[0].attr))  # type: ignore[arg-type]
    return 65504.0 * factor if node.fn in ("input", "cast") else math.inf


def _sine(angle: Reg, short: bool) -> Reg:
    z = angle * angle
    return (polynomial(z, coefficients.SIN_SHORT if short else coefficients.SIN) * z + 1.0) * angle


@rule("sin cos")
def _sin_cos(call: Call) -> Reg:
    x = call.reg(0)
    reduced = _reduce(call, x)[call.node.fn == "cos"]
    return _sine(reduced.angle, call.narrow) * reduced.sign


@rule("tan")
def _tan(call: Call) -> Reg:
    reduced = _reduce(call, call.reg(0))
    sine, cosine = (_sine(reduced[c].angle, call.narrow) * reduced[c].sign for c in (False, True))
    return sine / cosine


# -- inverses ------------------------------------------------------------------------------------------------------
_HALF_PI = _parts(PI / 2, (24, 24))
_WHOLE_PI = _parts(PI, (24, 24))


def _atan01(t: Reg, short: bool) -> Reg:
    """atan on [0, 1]."""
    z = t * t
    return (polynomial(z, coefficients.ATAN_SHORT if short else coefficients.ATAN) * z + 1.0) * t


@rule("atan")
def _atan(call: Call) -> Reg:
    """pi/2 - atan(1/a) for a = |x| above 1."""
    x = call.reg(0)
    a = x.abs()
    over = a > 1.0
    r = _atan01(select(over, 1.0 / a, a), call.narrow)
    return with_sign(select(over, (_HALF_PI[0] - r) + _HALF_PI[1], r), x)


@rule("atan2")
def _atan2(call: Call) -> Reg:
    """atan(min / max) of the magnitudes, put into its octant by the signs, zeros' included."""
    y, x = call.reg(0), call.reg(1)
    b, a = y.abs(), x.abs()
    swap = a < b
    low, high = select(swap, a, b), select(swap, b, a)
    ratio = select(high.equals(0.0), 0.0, low / high)
    ratio = select(low.equals(float("inf")), 1.0, ratio)
    r = _atan01(ratio, call.narrow)
    r = select(swap, (_HALF_PI[0] - r) + _HALF_PI[1], r)
    r = select(x.sign_one() < 0.0, (_WHOLE_PI[0] - r) + _WHOLE_PI[1], r)
    return select((a + b).is_number(), with_sign(r.abs(), y), a + b)


def _asin_core(a: Reg, short: bool) -> tuple[Reg, Reg]:
    """(whether a > 1/2, asin of a or of sqrt((1 - a) / 2))."""
    over = a > 0.5
    square = select(over, (1.0 - a) * 0.5, a * a)
    s = select(over, square.sqrt(), a)
    return over, (polynomial(square, coefficients.ASIN_SHORT if short else coefficients.ASIN) * square + 1.0) * s


@rule("asin")
def _asin(call: Call) -> Reg:
    x = call.reg(0)
    over, p = _asin_core(x.abs(), call.narrow)
    big = (_HALF_PI[0] - p * 2.0) + _HALF_PI[1]
    return with_sign(select(over, big, p).abs(), x)


@rule("acos")
def _acos(call: Call) -> Reg:
    x = call.reg(0)
    over, p = _asin_core(x.abs(), call.narrow)
    twice = p * 2.0
    big = select(x < 0.0, (_WHOLE_PI[0] - twice) + _WHOLE_PI[1], twice)
    signed = with_sign(p.abs(), x)
    return select(over, big, (_HALF_PI[0] - signed) + _HALF_PI[1])


@rule("hypot")
def _hypot(call: Call) -> Reg:
    """m sqrt(1 + (n / m)^2) for m, n the larger and smaller magnitude: neither square overflows."""
    a, b = call.reg(0).abs(), call.reg(1).abs()
    swap = a < b
    high, low = select(swap, b, a), select(swap, a, b)
    ratio = low / high
    length = high * (ratio * ratio + 1.0).sqrt()
    length = select(high.equals(0.0), low, length)
    infinite = a.equals(float("inf")) | b.equals(float("inf"))
    return select(infinite, float("inf"), length)
