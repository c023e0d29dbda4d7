"""Rounding and signs. Cast from float32 to float32 rounds to whole numbers, in every mode, for every size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asc_sched.lower.convert import convert
from asc_sched.lower.registers import Reg, fill, select, with_sign
from asc_sched.lower.rules import rule

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call

_MODES = {"floor": "FLOOR", "ceil": "CEIL", "round": "RINT", "trunc": "TRUNC"}


@rule("floor ceil round trunc")
def _round(call: Call) -> Reg:
    return call.reg(0).round(_MODES[call.node.fn])


@rule("floor ceil round trunc", "int")
def _round_int(call: Call) -> Reg:
    return call.reg(0)


@rule("frac")
def _frac(call: Call) -> Reg:
    x = call.reg(0)
    return x - x.round("TRUNC")


@rule("sign")
def _sign(call: Call) -> Reg:
    """0 for zeros and for NaN, as torch."""
    x = call.reg(0)
    return select(x > 0.0, 1.0, select(x < 0.0, -1.0, 0.0, x.carrier))


@rule("sign", "int")
def _sign_int(call: Call) -> Reg:
    return call.reg(0).min(1).max(-1)


@rule("sign", "bool")
def _sign_bool(call: Call) -> Reg:
    return call.reg(0)


@rule("signbit")
def _signbit(call: Call) -> Reg:
    return call.reg(0).sign_one() < 0.0


@rule("signbit", "int")
def _signbit_int(call: Call) -> Reg:
    x = call.reg(0)
    if x.carrier == "int32":
        return ~x.max(0).equals(x)
    return convert(x, "float16") < 0.0  # rounding keeps the sign


@rule("signbit", "bool")
def _signbit_bool(call: Call) -> Reg:
    return fill(call.build, "mask", 0)


@rule("copysign")
def _copysign(call: Call) -> Reg:
    x = call.reg(0).abs()
    sign = call.constant(1)
    if sign is None or sign != sign:
        return with_sign(x, call.reg(1))
    return -x if str(float(sign)).startswith("-") else x


@rule("finite")
def _finite(call: Call) -> Reg:
    """NaN to 0, infinities to the largest number of the result's dtype: torch's nan_to_num."""
    x = call.reg(0)
    largest = LARGEST[call.result.name]
    bounded = select(x > largest, largest, select(x < -largest, -largest, x))
    return select(x.is_number(), bounded, 0.0)


LARGEST = {"float32": float(np.finfo(np.float32).max), "float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120}


@rule("finite", "int bool")
def _finite_int(call: Call) -> Reg:
    return call.reg(0)


@rule("isnan isinf isfinite isposinf isneginf")
def _classify(call: Call) -> Reg:
    x, fn = call.reg(0), call.node.fn
    if fn == "isnan":
        return x.differs(x)
    if fn == "isinf":
        return x.abs().equals(float("inf"))
    if fn == "isfinite":
        return x.abs() < float("inf")
    return x.equals(float("inf") if fn == "isposinf" else float("-inf"))


@rule("isnan isinf isfinite isposinf isneginf", "int bool")
def _classify_int(call: Call) -> Reg:
    """Integers are finite numbers."""
    return fill(call.build, "mask", int(call.node.fn == "isfinite"))
