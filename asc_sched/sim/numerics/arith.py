"""Arithmetic instructions. float16 results are rounded per instruction, integers wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asc_sched.sim.numerics import choices
from asc_sched.sim.numerics.widths import Array, double, is_half, store, widen

Srcs = tuple[Array, ...]
Compute = Callable[[Array, Srcs, Any, int], None]


def _exact(ufunc: np.ufunc) -> Compute:
    """An operation whose float32 result, rounded to float16, is the correctly rounded float16 result (+ - * / sqrt)."""

    def compute(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
        with np.errstate(all="ignore"):
            if is_half(out):
                store(out, ufunc(*(widen(s) for s in srcs)))
            else:
                ufunc(*srcs, out=out)

    return compute


def _exact_scalar(ufunc: np.ufunc) -> Compute:
    """The same with a scalar as second operand; the scalar has the source's dtype."""

    def compute(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
        src = srcs[0]
        with np.errstate(all="ignore"):
            if is_half(src):
                store(out, ufunc(widen(src), np.float32(scalar)))
            else:
                ufunc(src, src.dtype.type(scalar), out=out)

    return compute


add, sub, mul, div = _exact(np.add), _exact(np.subtract), _exact(np.multiply), _exact(np.divide)
adds, muls = _exact_scalar(np.add), _exact_scalar(np.multiply)
sqrt = _exact(np.sqrt)


# -- maximum and minimum -----------------------------------------------------------------------------------------
def extreme(a: Array, b: Array, largest: bool, out: Array | None = None) -> Array:
    """Max or Min of two arrays by the rules in `choices`. `out` may be `a` or `b`."""
    if choices.MAX_MIN_PROPAGATE_NAN:
        pick: np.ufunc = np.maximum if largest else np.minimum
    else:
        pick = np.fmax if largest else np.fmin
    if a.dtype.kind not in "fV" or not choices.MAX_MIN_ORDER_ZEROS:
        return pick(a, b, out=out)  # type: ignore[no-any-return]
    found = pick(a, b)
    if not found.all():  # a zero's sign depends on numpy's operand order
        zero = (a == 0) & (b == 0)
        negative = np.signbit(a) & np.signbit(b) if largest else np.signbit(a) | np.signbit(b)
        found = np.where(zero, np.where(negative, found.dtype.type(-0.0), found.dtype.type(0.0)), found)
    if out is None:
        return found  # type: ignore[no-any-return]
    out[...] = found
    return out


def _extreme(largest: bool) -> Compute:
    def compute(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
        if is_half(out):
            store(out, extreme(widen(srcs[0]), widen(srcs[1]), largest))
        else:
            extreme(srcs[0], srcs[1], largest, out)

    return compute


def _extreme_scalar(largest: bool) -> Compute:
    def compute(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
        src = widen(srcs[0])
        found = extreme(src, np.full_like(src, scalar), largest)
        store(out, found)

    return compute


maximum, minimum = _extreme(True), _extreme(False)
maxs, mins = _extreme_scalar(True), _extreme_scalar(False)


def _relu(values: Array) -> Array:
    return extreme(values, np.zeros_like(values), True)


def relu(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    store(out, _relu(widen(srcs[0])))


def leaky_relu(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    x = widen(srcs[0])
    with np.errstate(all="ignore"):
        store(out, np.where(x < 0, x * x.dtype.type(scalar), x))


def absolute(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    np.abs(srcs[0], out=out)


# -- combined operations -----------------------------------------------------------------------------------------
def _rounded(ufunc: np.ufunc, srcs: Srcs) -> Array:
    """a op b rounded to the sources' dtype, widened again; 16-bit integers stay integers and wrap."""
    with np.errstate(all="ignore"):
        if is_half(srcs[0]):
            held = np.empty(len(srcs[0]), np.float16)
            store(held, ufunc(widen(srcs[0]), widen(srcs[1])))
            return widen(held)
        return ufunc(srcs[0], srcs[1])  # type: ignore[no-any-return]


def add_relu(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    store(out, _relu(_rounded(np.add, srcs)))


def sub_relu(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    store(out, _relu(_rounded(np.subtract, srcs)))


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in double precision: the product of two float32 is exact there."""
    with np.errstate(all="ignore"):
        if not choices.MULTIPLY_ADD_ROUNDS_ONCE:
            return (a * b).astype(a.dtype) + c  # type: ignore[no-any-return]
        return double(a) * double(b) + double(c)  # type: ignore[no-any-return]


def mul_add_dst(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """dst = src0 * src1 + dst. The destination comes last among the sources."""
    store(out, _multiply_add(srcs[0], srcs[1], srcs[2]))


def fused_mul_add(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """dst = src0 * dst + src1."""
    store(out, _multiply_add(srcs[0], srcs[2], srcs[1]))


def fused_mul_add_relu(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """dst = relu(src0 * dst + src1)."""
    store(out, _relu(_multiply_add(srcs[0], srcs[2], srcs[1])))


def axpy(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """dst = src * scalar + dst."""
    src = srcs[0]
    store(out, _multiply_add(src, np.full(len(src), scalar, src.dtype), srcs[1]))


# -- bits --------------------------------------------------------------------------------------------------------
def bit_and(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    np.bitwise_and(srcs[0], srcs[1], out=out)


def bit_or(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    np.bitwise_or(srcs[0], srcs[1], out=out)


def bit_xor(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    np.bitwise_xor(srcs[0], srcs[1], out=out)


def bit_not(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    np.invert(srcs[0], out=out)


def _shift(left: bool) -> Compute:
    def compute(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
        src, count, bits = srcs[0], int(scalar), srcs[0].dtype.itemsize * 8
        if count >= bits:  # a shift by the width: nothing left but the sign of a right shift
            out[...] = (src >> (bits - 1)) if not left and src.dtype.kind == "i" else 0
        else:
            out[...] = np.left_shift(src, count) if left else np.right_shift(src, count)

    return compute


shift_left, shift_right = _shift(True), _shift(False)


# -- copies ------------------------------------------------------------------------------------------------------
def copy(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    out[...] = srcs[0]


def duplicate(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    out[...] = scalar
