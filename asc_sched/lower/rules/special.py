"""Error functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lower.registers import Reg, polynomial, select, with_sign
from asc_sched.lower.rules import coefficients, rule

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call


@rule("erf")
def _erf(call: Call) -> Reg:
    """x + x P(x^2) near 0, 1 - exp(-P(|x|)) beyond, 1 from 4 on."""
    x = call.reg(0)
    a = x.abs()
    tail = coefficients.ERF_TAIL_SHORT if call.narrow else coefficients.ERF_TAIL
    far = 1.0 - (-polynomial(select(a > 4.0, 4.0, a), tail)).exp()
    return select(a < 0.9, _erf_near(x, call.narrow), with_sign(far.abs(), x))


def _erf_near(x: Reg, short: bool) -> Reg:
    return polynomial(x * x, coefficients.ERF_SHORT if short else coefficients.ERF) * x + x


@rule("erfc")
def _erfc(call: Call) -> Reg:
    """t P(t) exp(-a^2) for a = |x|, t = 2 / (2 + a); 2 minus that for negative x.

    a^2 is taken apart into h^2 (exact: h has 12 bits) and (a - h)(a + h), or its rounding would show in exp.
    """
    x = call.reg(0)
    a = x.abs()
    a = select(a > 11.0, 11.0, a)
    t = 2.0 / (a + 2.0)
    if call.narrow:
        tail = polynomial(t, coefficients.ERFCX_SHORT) * t * (-(a * a)).exp()
    else:
        h = a & a.pattern(0xFFFF_F000)
        tail = polynomial(t, coefficients.ERFCX) * t * (-(h * h)).exp()
        tail = tail + tail * (((h - a) * (h + a)).exp() - 1.0)
    return select(x < 0.0, 2.0 - tail, tail)
