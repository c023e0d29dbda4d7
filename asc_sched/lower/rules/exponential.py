"""Exponentials and logarithms, from the chip's Exp and Ln."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asc_sched.lower.registers import Reg, polynomial, select
from asc_sched.lower.rules import coefficients, rule

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call

LN2 = math.log(2)
_ROUNDER = 1.5 * 2**23  # adding it leaves a whole number in the lowest bits of a float32
INF = float("inf")


@rule("exp")
def _exp(call: Call) -> Reg:
    return call.reg(0).exp()


@rule("log")
def _log(call: Call) -> Reg:
    return call.reg(0).ln()


@rule("log2 log10")
def _log_base(call: Call) -> Reg:
    base = 2 if call.node.fn == "log2" else 10
    return call.reg(0).ln() * (1 / math.log(base))


@rule("exp2")
def _exp2(call: Call) -> Reg:
    x = call.reg(0)
    return (x * LN2).exp() if call.narrow else exp2(x, _is_below_zero(call, call.node.args[0]))


def exp2(x: Reg, below_zero: bool = False) -> Reg:
    """2^n e^(f ln 2) with n + f = x: x ln 2 rounded once would cost 40 units in the last place near 128.

    The scale 2^n is put together from the bits of n; below -126 it stays there and f takes the rest. `below_zero`:
    x isn't above 0.
    """
    clipped = select(x > -126.0, x, -126.0)  # f keeps NaN
    if not below_zero:
        clipped = select(x < 127.0, clipped, 127.0)
    shifted = clipped + (_ROUNDER + 127)
    scale = shifted.on_bits("shift_left", 23, "float32")
    f = x - (shifted - (_ROUNDER + 127))
    return (f * LN2).exp() * scale


@rule("expm1")
def _expm1(call: Call) -> Reg:
    x = call.reg(0)
    if call.narrow:
        near = ((x * (1 / 6) + 0.5) * x + 1.0) * x
        return select(x.abs() < 0.0625, near, x.exp() - 1.0)
    return expm1(x)


def expm1(x: Reg) -> Reg:
    """x + x^2 P(x) near 0, where exp(x) - 1 would cancel."""
    near = (polynomial(x, coefficients.EXPM1) * x + 1.0) * x
    return select(x.abs() < 0.5, near, x.exp() - 1.0)


@rule("log1p")
def _log1p(call: Call) -> Reg:
    x = call.reg(0)
    u, result = _log1p_parts(x)
    if not _is_decay(call, call.node.args[0]):
        result = select(result.is_number(), result, u.ln())  # u is infinite or 0: no correction to make
    if call.lower.graph.nodes[call.node.args[0]].fn in ("exp", "exp2", "abs"):  # no zero below 0
        return result
    return select(u.differs(1.0), result, x)  # else x is so small that it's the result; also keeps the sign of zero


def _is_decay(call: Call, index: int) -> bool:
    """Whether a node is exp(-|y|) or 2^(-|y|), from 0 to 1 or NaN, as in logaddexp."""
    node = call.lower.graph.nodes[index]
    return node.fn in ("exp", "exp2") and _is_below_zero(call, node.args[0])


def _is_below_zero(call: Call, index: int) -> bool:
    """Whether a node is -|y| in floats; unsigned integers wrap around."""
    nodes, is_float = call.lower.graph.nodes, call.lower.typed.types[index].dtype.is_float
    return is_float and nodes[index].fn == "neg" and nodes[nodes[index].args[0]].fn == "abs"


def log1p(x: Reg) -> Reg:
    """log(1 + x) for finite x > -1."""
    return _log1p_parts(x)[1]


def _log1p_parts(x: Reg) -> tuple[Reg, Reg]:
    """u = 1 + x rounded, and ln(u) plus what the rounding lost, divided by u."""
    u = x + 1.0
    lost = x - (u - 1.0)
    return u, u.ln() + lost / u

