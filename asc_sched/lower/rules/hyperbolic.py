"""Hyperbolic functions and their inverses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asc_sched.lower.registers import Reg, polynomial, select, with_sign
from asc_sched.lower.rules import coefficients, rule
from asc_sched.lower.rules.exponential import LN2, log1p

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call

_LARGE = 4096.0  # beyond it, 1 is lost beside the square


@rule("tanh")
def _tanh(call: Call) -> Reg:
    """1 - 2 / (exp(2x) + 1), which saturates by itself; a polynomial where that cancels."""
    x = call.reg(0)
    far = (1.0 / ((x + x).exp() + 1.0)) * -2.0 + 1.0
    z = x * x
    near = (polynomial(z, coefficients.TANH_SHORT if call.narrow else coefficients.TANH) * z + 1.0) * x
    return select(x.abs() < 0.6, near, far)


def _halved_exp(x: Reg) -> Reg:
    """exp(|x|) / 2 without overflow before its time."""
    half = (x.abs() * 0.5).exp()
    return half * 0.5 * half


@rule("cosh")
def _cosh(call: Call) -> Reg:
    t = _halved_exp(call.reg(0))
    return t + 0.25 / t


@rule("sinh")
def _sinh(call: Call) -> Reg:
    x = call.reg(0)
    t = _halved_exp(x)
    far = t - 0.25 / t
    z = x * x
    near = (polynomial(z, coefficients.SINH_SHORT if call.narrow else coefficients.SINH) * z + 1.0) * x
    return select(x.abs() < 1.0, near, with_sign(far.abs(), x))


@rule("asinh")
def _asinh(call: Call) -> Reg:
    """log1p(a + a^2 / (1 + sqrt(a^2 + 1))) for a = |x|; log(2a) where a is large."""
    x = call.reg(0)
    a = x.abs()
    square = a * a
    near = log1p(a + square / ((square + 1.0).sqrt() + 1.0))
    return with_sign(select(a < _LARGE, near, a.ln() + LN2).abs(), x)


@rule("acosh")
def _acosh(call: Call) -> Reg:
    """log1p(t + sqrt(t (t + 2))) for t = x - 1; log(2x) where x is large; NaN below 1."""
    x = call.reg(0)
    t = x - 1.0
    near = log1p(t + (t * (t + 2.0)).sqrt())
    return select(x < 1.0, x.like(math.nan), select(x > _LARGE, x.ln() + LN2, near))


@rule("atanh")
def _atanh(call: Call) -> Reg:
    """log1p(2a / (1 - a)) / 2 for a = |x|; beyond 1 it is NaN."""
    x = call.reg(0)
    a = x.abs()
    ratio = (a + a) / (1.0 - a)
    inside = log1p(ratio) * 0.5
    return with_sign(select(a.equals(1.0), ratio, inside).abs(), x)
