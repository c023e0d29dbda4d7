"""Sums, products, quotients, roots and extremes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asc_sched.lang.dtypes import DType
from asc_sched.lower.convert import wrapped
from asc_sched.lower.program import ScalarExpr, ScalarRef
from asc_sched.lower.registers import Operand, Reg, select
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
    literal = call.constant(1)
    if literal is not None and _has_exact_inverse(literal):
        return call.reg(0) * (1 / literal)
    if not call.fast:
        return call.reg(0) / call.reg(1)
    return call.reg(0) * (call.reg(1).emit("reciprocal") if literal is None or literal == 0 else 1 / literal)


def _has_exact_inverse(value: float) -> bool:
    """Powers of two, whose inverse is a power of two as well and no subnormal."""
    return math.isfinite(value) and math.frexp(value)[0] in (0.5, -0.5) and 2.0**-14 <= abs(value) <= 2.0**14


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
    return call.reg(0).emit("rsqrt") if call.fast else 1.0 / call.reg(0).sqrt()


@rule("reciprocal")
def _reciprocal(call: Call) -> Reg:
    return call.reg(0).emit("reciprocal") if call.fast else 1.0 / call.reg(0)


@rule("relu")
def _relu(call: Call) -> Reg:
    """Keeps NaN and -0.0, as torch does: the chip's own Relu isn't documented for either."""
    if call.fast:
        return _fast_relu(call)
    x = call.reg(0)
    return select(x < 0.0, 0.0, x)


def _fast_relu(call: Call) -> Reg:
    """Relu, or AddRelu where a sum has no other use."""
    index = call.node.args[0]
    node = call.lower.graph.nodes[index]
    if node.fn == "add" and call.lower.uses[index] == 1 and call.lower.carrier_of(index) == call.carrier:
        a, b = (call.lower.form(k, call.carrier) for k in node.args)
        return a.emit("add_relu", b)
    return call.reg(0).emit("relu")


@rule("relu", "int")
def _relu_int(call: Call) -> Reg:
    return call.reg(0).max(0)


def _register_first(call: Call) -> tuple[Reg, Operand]:
    """The arguments of a function that takes them in either order; of two numbers, one becomes a register."""
    a, b = call.operand(0), call.operand(1)
    if not isinstance(a, Reg):
        a, b = b, a
    return (a if isinstance(a, Reg) else call.reg(1)), b


@rule("maximum minimum")
def _extreme(call: Call) -> Reg:
    """By comparison, because Max and Min aren't documented for NaN: the first operand that is NaN, as torch."""
    a, b = _register_first(call)
    larger = call.node.fn == "maximum"
    if call.fast:
        return a.max(b) if larger else a.min(b)
    if isinstance(b, (ScalarRef, ScalarExpr)):  # may be NaN: taken where unordered, and a where that is NaN itself
        return select(a.is_number(), select(a.compare("GE" if larger else "LE", b), a, b), a)
    other = select(a.compare("LT" if larger else "GT", b), b, a)  # a where unordered
    return other if not isinstance(b, Reg) else select(b.is_number(), other, b)


@rule("maximum minimum", "int")
def _extreme_int(call: Call) -> Reg:
    a, b = _register_first(call)
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
