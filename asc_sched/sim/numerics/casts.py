"""Cast and its relatives: rounding modes, saturation, dequantisation.

Rules from the Ascend C documentation of `Cast`: a conversion to a narrower integer saturates, CAST_NONE is CAST_RINT
where precision is lost, and a float result that overflows is infinite in A2's default Inf/NaN mode.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from asc_sched.sim.numerics import arith, choices
from asc_sched.sim.numerics.widths import BFLOAT16, Array, double, store, widen

Srcs = tuple[Array, ...]


class Round(enum.IntEnum):
    """`AscendC::RoundMode`, with pyasc's numbers."""

    CAST_NONE = 0
    CAST_RINT = 1
    CAST_FLOOR = 2
    CAST_CEIL = 3
    CAST_ROUND = 4
    CAST_TRUNC = 5
    CAST_ODD = 6


def to_integral(x: Array, mode: int) -> Array:
    """Float values rounded to whole numbers; NaN and infinities stay."""
    if mode in (Round.CAST_NONE, Round.CAST_RINT):
        return np.rint(x)  # type: ignore[no-any-return]
    if mode == Round.CAST_FLOOR:
        return np.floor(x)  # type: ignore[no-any-return]
    if mode == Round.CAST_CEIL:
        return np.ceil(x)  # type: ignore[no-any-return]
    whole = np.trunc(x)
    if mode == Round.CAST_TRUNC:
        return whole  # type: ignore[no-any-return]
    with np.errstate(invalid="ignore"):
        rest = np.abs(x - whole)
        if mode == Round.CAST_ROUND:  # halves away from zero
            return np.where(rest >= 0.5, whole + np.copysign(1.0, x), whole).astype(x.dtype)
        odd = np.mod(np.abs(whole), 2) == 1  # CAST_ODD
        return np.where((rest > 0) & ~odd, whole + np.copysign(1.0, x), whole).astype(x.dtype)


def _saturate(values: Array, dtype: np.dtype[Any]) -> Array:
    """Whole float values or integers as an integer dtype: out of range to the nearest end, NaN by `choices`."""
    info = np.iinfo(dtype)
    if values.dtype.kind in "iu":
        return np.clip(values, info.min, info.max).astype(dtype)
    limit = 2.0 ** (info.bits - (info.min < 0))  # one beyond the largest, exact in float64
    low, high = values < float(info.min), values >= limit
    bad = np.isnan(values)
    with np.errstate(invalid="ignore"):
        found = np.where(low | high | bad, 0, values).astype(dtype)
    found[low], found[high], found[bad] = info.min, info.max, choices.NAN_TO_INTEGER
    return found  # type: ignore[no-any-return]


def _toward_zero(x: Array, dtype: np.dtype[Any]) -> Array:
    """Exact values `x` (float64 or extended) rounded toward zero to a float dtype."""
    with np.errstate(over="ignore"):
        found = x.astype(np.float64).astype(np.float32).astype(dtype) if dtype == BFLOAT16 else x.astype(dtype)
    bits = found.view(f"u{dtype.itemsize}")
    back = found.astype(np.float32).astype(x.dtype) if dtype == BFLOAT16 else found.astype(x.dtype)
    over = np.abs(back) > np.abs(x)
    nearer: Array = (bits - over.astype(bits.dtype)).view(dtype)
    return nearer


def to_float(x: Array, dtype: np.dtype[Any], mode: int) -> Array:
    """Exact values `x` (float64 or extended) rounded to a float dtype by `mode`."""
    if mode in (Round.CAST_NONE, Round.CAST_RINT):
        found = np.empty(len(x), dtype)
        store(found, x)
        return found
    low = _toward_zero(x, dtype)
    wide = low.astype(np.float32).astype(x.dtype)
    with np.errstate(invalid="ignore"):
        inexact = (wide != x) & ~np.isnan(x)
    if mode == Round.CAST_TRUNC:
        return low
    bits = low.view(f"u{dtype.itemsize}")
    high = (bits + 1).view(dtype)
    if mode == Round.CAST_FLOOR:
        away = inexact & (x < 0)
    elif mode == Round.CAST_CEIL:
        away = inexact & (x > 0)
    elif mode == Round.CAST_ODD:
        away = inexact & (bits & 1 == 0)
    else:
        with np.errstate(all="ignore"):
            upper = high.astype(np.float32).astype(x.dtype)
            # beyond the largest number the next step would be as wide as the last one
            lower = (bits - 1).view(dtype).astype(np.float32).astype(x.dtype)
            upper = np.where(np.isinf(upper), 2 * wide - lower, upper)
            away = inexact & (np.abs(x - wide) >= np.abs(upper - x))
    return np.where(away, high.view(bits.dtype), bits).view(dtype)


def convert(src: Array, dtype: np.dtype[Any], mode: int) -> Array:
    """Elements of any dtype as another by a round mode."""
    from_float = src.dtype.kind == "f" or src.dtype == BFLOAT16
    to_is_float = dtype.kind == "f" or dtype == BFLOAT16
    if from_float and to_is_float:
        if src.dtype == dtype:
            return to_integral(src, mode)
        if dtype.itemsize > src.dtype.itemsize:
            return widen(src)
        return to_float(double(src), dtype, mode)
    if from_float:
        return _saturate(to_integral(double(src), mode), dtype)
    if to_is_float:
        exact = src.astype(np.longdouble) if src.dtype.itemsize == 8 else src.astype(np.float64)
        return to_float(exact, dtype, mode)
    return _saturate(src, dtype)


def cast(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """`Cast`. From int32 to half the scale of `SetDeqScale` (`scalar`) counts and the mode doesn't."""
    src = srcs[0]
    if scalar is not None:
        cast_deq(out, srcs, scalar, mode)
        return
    if out.dtype.char == "f" and src.dtype.char == "e":  # the two most common, without detours
        store(out, widen(src))
    elif out.dtype.char == "e" and src.dtype.char == "f" and mode in (Round.CAST_NONE, Round.CAST_RINT):
        store(out, src)
    else:
        out[...] = convert(src, out.dtype, mode)


# -- with SetDeqScale --------------------------------------------------------------------------------------------
def cast_deq(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """int32 to half times the scale of `SetDeqScale` (`scalar`)."""
    store(out, srcs[0].astype(np.float64) * float(scalar))


def add_deq_relu(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """relu((src0 + src1) * scale) from int32 to half; the sum wraps."""
    total = (srcs[0] + srcs[1]).astype(np.float64) * float(scalar)
    store(out, arith.extreme(total, np.zeros_like(total), True))


def quant(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """src * scale + offset to int8, rounded per instruction; `scalar` is (scale, offset) in the source's dtype.

    From float the way leads through half: A2 has no cast from float to int8.
    """
    held = np.empty(len(srcs[0]), srcs[0].dtype)
    arith.muls(held, srcs, scalar[0], 0)
    arith.adds(held, (held,), scalar[1], 0)
    half = held.astype(np.float16) if held.dtype.char == "f" else held
    out[...] = convert(half, out.dtype, Round.CAST_RINT)


def _narrow(out: Array, values: Array) -> None:
    """The result of a combined operation in its destination's dtype, to nearest even, saturated."""
    if out.dtype.kind == "f":
        store(out, values)
    else:
        out[...] = convert(np.ascontiguousarray(values), out.dtype, Round.CAST_RINT)


def _held(ufunc: np.ufunc, srcs: Srcs) -> Array:
    held = np.empty(len(srcs[0]), srcs[0].dtype)
    (arith.add if ufunc is np.add else arith.sub if ufunc is np.subtract else arith.mul)(held, srcs, None, 0)
    return held


def mul_cast(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """src0 * src1 in half, then to int8 or uint8."""
    _narrow(out, _held(np.multiply, srcs))


def add_relu_cast(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """relu(src0 + src1), then to the narrower dtype."""
    held = _held(np.add, srcs)
    arith.relu(held, (held,), None, 0)
    _narrow(out, held)


def sub_relu_cast(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """relu(src0 - src1), then to the narrower dtype."""
    held = _held(np.subtract, srcs)
    arith.relu(held, (held,), None, 0)
    _narrow(out, held)
