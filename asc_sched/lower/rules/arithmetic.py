"""Sums, products, quotients, roots and extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lang.dtypes import DType
from asc_sched.lower.convert import wrapped
from asc_sched.lower.registers import Reg, select
from asc_sched.lower.rules import rule

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call


def _done(x: Reg, dtype: DType) -> Reg:
    """The result of integer arithmetic, wrapped to the dtype's width."""
    return wrapped(x, dtype)


@rule("add mul", "float int")
def _commutative(call: Call) -> Reg:
    a, b = call.operand(0), call.operand(1)
    if not isinstance(a, Reg) and not isinstance(b, Reg):
        a = call.reg(0)
    result = a + b if call.node.fn == "add" else a * b  # type: ignore[operator]
    assert isinstance(result, Reg)
    return _done(result, call.dtype)


@rule("sub", "float int")
def _sub(call: Call) -> Reg:
    return _done(call.reg(0) - call.operand(1), call.dtype)


@rule("div")
def _div(call: Call) -> Reg:
    return call.reg(0) / call.reg(1)


@rule("neg", "float int")
def _neg(call: Call) -> Reg:
    return _done(-call.reg(0), call.dtype)


@rule("abs")
def _abs(call: Call) -> Reg:
    return call.reg(0).abs()


@rule("abs", "int")
def _abs_int(call: Call) -> Reg:
    x = call.reg(0)
    return _done(x.max(-x), call.dtype)


@rule("sqrt")
def _sqrt(call: Call) -> Reg:
    return call.reg(0).sqrt()


@rule("rsqrt")
def _rsqrt(call: Call) -> Reg:
    return 1.0 / call.reg(0).sqrt()


@rule("reciprocal")
def _reciprocal(call: Call) -> Reg:
    return 1.0 / call.reg(0)


@rule("relu")
def _relu(call: Call) -> Reg:
    """Keeps NaN and -0.0, as torch does: the chip's own Relu isn't documented for either."""
    x = call.reg(0)
    return select(x < 0.0, 0.0, x)


@rule("relu", "int")
def _relu_int(call: Call) -> Reg:
    return call.reg(0).max(0)


@rule("maximum minimum")
def _extreme(call: Call) -> Reg:
    """By comparison, because Max and Min aren't documented for NaN: the first operand that is NaN, as torch."""
    a, b = call.operand(0), call.operand(1)
    if not isinstance(a, Reg):
        a, b = b, a
    a = a if isinstance(a, Reg) else call.reg(0)
    mode = "LT" if call.node.fn == "maximum" else "GT"
    other = select(a.compare(mode, b), b, a)  # a where unordered
    return other if not isinstance(b, Reg) else select(b.is_number(), other, b)


@rule("maximum minimum", "int")
def _extreme_int(call: Call) -> Reg:
    a, b = call.operand(0), call.operand(1)
    if not isinstance(a, Reg):
        a, b = b, a
    a = a if isinstance(a, Reg) else call.reg(0)
    return a.max(b) if call.node.fn == "maximum" else a.min(b)


@rule("fmax fmin")
def _number_extreme(call: Call) -> Reg:
    """The other operand where one is NaN."""
    a, b = call.reg(0), call.reg(1)
    mode = "LT" if call.node.fn == "fmax" else "GT"
    other = select(a.compare(mode, b), b, a)  # a where unordered
    return select(a.is_number(), other, b)


@rule("fmax fmin", "int")
def _number_extreme_int(call: Call) -> Reg:
    a, b = call.reg(0), call.operand(1)
    return a.max(b) if call.node.fn == "fmax" else a.min(b)


@rule("leaky_relu")
def _leaky_relu(call: Call) -> Reg:
    """One instruction, x * slope below 0; both sides agree on zeros, and NaN * slope is NaN."""
    slope = call.operand(1)
    assert not isinstance(slope, Reg)
    return call.reg(0).emit("leaky_relu", imm=slope)
