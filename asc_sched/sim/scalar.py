"""Scalar code: `arith.*` and `emitc.*` as closures over a list of values, with C's widths and wrap-around."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from asc_sched.sim import dtypes
from asc_sched.sim.dtypes import DType
from asc_sched.sim.values import Unknown

Env = list[Any]
Fn = Callable[..., Any]


def wrap(value: int, dtype: DType) -> int:
    """`value` modulo the width of an integer dtype, as two's complement."""
    if dtype.bits == 1:
        return value & 1
    mask = (1 << dtype.bits) - 1
    value &= mask
    if dtype.signed and value >> (dtype.bits - 1):
        value -= mask + 1
    return value


def unsigned(value: int, dtype: DType) -> int:
    """The bits of `value` read as an unsigned number."""
    return value & ((1 << dtype.bits) - 1)


def round_float(value: float, dtype: DType) -> float:
    """`value` rounded to a float dtype (to nearest, ties to even)."""
    if dtype.ir == "f64":
        return value
    with np.errstate(over="ignore"):
        if dtype.ir == "f32":
            return float(np.float32(value))
        if dtype.ir == "f16":
            return float(np.float16(value))
    return float(ml_dtypes.bfloat16(value))


def to_integer(value: float, dtype: DType) -> int:
    """C's conversion of a float to an integer on the scalar unit: toward zero; out of range saturates, NaN is 0."""
    if math.isnan(value):
        return 0
    low, high = (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.signed else (0, (1 << dtype.bits) - 1)
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(int(value), low), high)


def convert(value: Any, src: DType, dst: DType) -> Any:
    """`static_cast<dst>(value)`."""
    if dst.is_float:
        return round_float(float(value), dst)
    if src.is_float:
        return to_integer(value, dst)
    if dst.bits == 1:
        return int(value != 0)
    return wrap(value, dst)


# -- integer operations ----------------------------------------------------------------------------------------
def _div(a: int, b: int) -> int:
    """C's quotient, toward zero. Raises `ZeroDivisionError`."""
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def _rem(a: int, b: int) -> int:
    return a - b * _div(a, b)


def _shift_count(a: int, b: int, dtype: DType) -> int:
    if not 0 <= b < dtype.bits:
        raise ArithmeticError(f"shift of a {dtype.c} by {b}")
    return b


_WRAPPING: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": _div,
    "remsi": _rem,
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
    "maxsi": max,
    "minsi": min,
    "ceildivsi": lambda a, b: -((-a) // b),
    "floordivsi": operator.floordiv,
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divui": operator.floordiv,
    "remui": operator.mod,
    "maxui": max,
    "minui": min,
    "ceildivui": lambda a, b: -((-a) // b),
}


def _wrapper(dtype: DType) -> Callable[[int], int]:
    if dtype.bits == 1:  # C++ computes bools as ints and stores "is it zero?"
        return lambda v: int(v != 0)
    mask, half = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    if dtype.signed:
        return lambda v: ((v + half) & mask) - half
    return lambda v: v & mask


def integer_binary(kind: str, dtype: DType) -> Fn | None:
    """The function of an integer operation (``addi``) on two Python ints of `dtype`, or None if it isn't one."""
    fit = _wrapper(dtype)
    if kind in _WRAPPING:
        plain = _WRAPPING[kind]
        return lambda a, b: fit(plain(a, b))
    if kind in _UNSIGNED:
        other = _UNSIGNED[kind]
        return lambda a, b: fit(other(unsigned(a, dtype), unsigned(b, dtype)))
    if kind == "shli":
        return lambda a, b: fit(a << _shift_count(a, b, dtype))
    if kind == "shrsi":
        return lambda a, b: fit(a >> _shift_count(a, b, dtype))
    if kind == "shrui":
        return lambda a, b: fit(unsigned(a, dtype) >> _shift_count(a, b, dtype))
    return None


# -- float operations ------------------------------------------------------------------------------------------
def _fdiv(a: float, b: float) -> float:
    if b == 0.0:
        if a == 0.0 or math.isnan(a) or math.isnan(b):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _maximum(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _minimum(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else min(a, b)


_FLOAT: dict[str, Callable[[float, float], float]] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
    "divf": _fdiv,
    "remf": math.fmod,
    "maximumf": _maximum,
    "minimumf": _minimum,
    "maxnumf": lambda a, b: b if math.isnan(a) else a if math.isnan(b) else max(a, b),
    "minnumf": lambda a, b: b if math.isnan(a) else a if math.isnan(b) else min(a, b),
}


def float_binary(kind: str, dtype: DType) -> Fn | None:
    """The function of a float operation (``addf``), rounded once to `dtype`, or None if it isn't one."""
    plain = _FLOAT.get(kind)
    if plain is None:
        return None
    return lambda a, b: round_float(plain(a, b), dtype)


# -- comparisons -----------------------------------------------------------------------------------------------
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
}
_COMPARE_UNSIGNED: dict[str, Callable[[Any, Any], bool]] = {
    "ult": operator.lt,
    "ule": operator.le,
    "ugt": operator.gt,
    "uge": operator.ge,
}
_FLOAT_ORDERED: dict[str, Callable[[float, float], bool]] = {
    "oeq": operator.eq,
    "olt": operator.lt,
    "ole": operator.le,
    "ogt": operator.gt,
    "oge": operator.ge,
}


def integer_compare(predicate: str, dtype: DType) -> Fn | None:
    """The function of `arith.cmpi`; its result is 0 or 1."""
    if predicate in _COMPARE:
        plain = _COMPARE[predicate]
        return lambda a, b: int(plain(a, b))
    if predicate in _COMPARE_UNSIGNED:
        other = _COMPARE_UNSIGNED[predicate]
        return lambda a, b: int(other(unsigned(a, dtype), unsigned(b, dtype)))
    return None


def float_compare(predicate: str) -> Fn | None:
    """The function of `arith.cmpf`. Unordered forms are true for NaN, as C++'s `!(a > b)` is."""
    nan = math.isnan
    if predicate in _FLOAT_ORDERED:
        plain = _FLOAT_ORDERED[predicate]
        return lambda a, b: int(plain(a, b))
    if predicate == "one":
        return lambda a, b: int(not nan(a) and not nan(b) and a != b)
    if predicate == "une":
        return lambda a, b: int(a != b)
    if predicate[:1] == "u" and "o" + predicate[1:] in _FLOAT_ORDERED:
        ordered = _FLOAT_ORDERED["o" + predicate[1:]]
        return lambda a, b: int(nan(a) or nan(b) or ordered(a, b))
    if predicate in ("ord", "uno"):
        want = predicate == "uno"
        return lambda a, b: int((nan(a) or nan(b)) == want)
    return None


# -- casts -----------------------------------------------------------------------------------------------------
_CASTS = frozenset(
    "extsi extui trunci index_cast index_castui sitofp uitofp fptosi fptoui extf truncf bitcast cast".split()
)


def cast(kind: str, src: DType, dst: DType) -> Fn | None:
    """The function of `arith.<kind>` or `emitc.cast` from `src` to `dst`, or None if it isn't a cast."""
    if kind not in _CASTS:
        return None
    if kind == "bitcast":
        return lambda v: np.array(v, src.np).view(dst.np).item()
    if kind in ("extui", "uitofp", "index_castui"):
        return lambda v: convert(unsigned(v, src), dtypes.BY_IR["ui64"], dst)
    return lambda v: v if isinstance(v, Unknown) else convert(v, src, dst)


def constant(value: Any, dtype: DType) -> Any:
    """A constant's text value as this module's representation of `dtype`."""
    if dtype.is_float:
        return round_float(float(value), dtype)
    return wrap(int(value), dtype)
