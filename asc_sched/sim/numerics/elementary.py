"""Functions: Exp, Ln, Rsqrt, Reciprocal and the `adv` library, in double precision, rounded once to the dtype.

Hardware's own last-bit errors aren't documented and aren't modelled (see `choices`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asc_sched.sim.numerics.widths import Array, double, store, widen

Srcs = tuple[Array, ...]
Compute = Callable[[Array, Srcs, Any, int], None]
Real = Callable[[Array], Array]


def _unary(fn: Real) -> Compute:
    def compute(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
        with np.errstate(all="ignore"):
            store(out, fn(double(srcs[0])))

    return compute


def _special(name: str) -> Real:
    """A function of `torch.special` in double precision (numpy has none of them)."""

    def fn(x: Array) -> Array:
        import torch

        found: Array = getattr(torch.special, name)(torch.from_numpy(x)).numpy()
        return found

    return fn


def _reciprocal(x: Array) -> Array:
    return 1.0 / x  # type: ignore[no-any-return]


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)  # type: ignore[no-any-return]


def _round_half_even(x: Array) -> Array:
    return np.rint(x)  # type: ignore[no-any-return]


def _frac(x: Array) -> Array:
    return x - np.trunc(x)  # type: ignore[no-any-return]


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))  # type: ignore[no-any-return]


def _silu(x: Array) -> Array:
    return x / (1.0 + np.exp(-x))  # type: ignore[no-any-return]


exp, ln, rsqrt, reciprocal = _unary(np.exp), _unary(np.log), _unary(_rsqrt), _unary(_reciprocal)

#: The one-argument functions of `asc.adv` by their name in ASC-IR. `round` rounds halves to even, as the Ascend C
#: documentation of Round (rint) has it; `digamma`, `lgamma`, `erf`, `erfc` come from `torch.special`.
ADV_UNARY: dict[str, Compute] = {
    "acos": _unary(np.arccos),
    "acosh": _unary(np.arccosh),
    "asin": _unary(np.arcsin),
    "asinh": _unary(np.arcsinh),
    "atan": _unary(np.arctan),
    "atanh": _unary(np.arctanh),
    "ceil": _unary(np.ceil),
    "cos": _unary(np.cos),
    "cosh": _unary(np.cosh),
    "digamma": _unary(_special("digamma")),
    "erf": _unary(_special("erf")),
    "erfc": _unary(_special("erfc")),
    "floor": _unary(np.floor),
    "frac": _unary(_frac),
    "lgamma": _unary(_special("gammaln")),
    "log": _unary(np.log),
    "round": _unary(_round_half_even),
    "sign": _unary(np.sign),
    "sin": _unary(np.sin),
    "sinh": _unary(np.sinh),
    "tan": _unary(np.tan),
    "tanh": _unary(np.tanh),
    "trunc": _unary(np.trunc),
    "exp": exp,
}
sigmoid, silu = _unary(_sigmoid), _unary(_silu)


def power(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """base ** exponent; int32 with wrap-around, a negative exponent truncates toward zero."""
    base, exponent = srcs
    if base.dtype.kind in "iu":
        out[...] = _integer_power(base.astype(np.int64), exponent.astype(np.int64)).astype(out.dtype)
        return
    with np.errstate(all="ignore"):
        store(out, np.power(double(base), double(exponent)))


def _integer_power(base: Array, exponent: Array) -> Array:
    result, factor, left = np.ones_like(base), base.copy(), np.maximum(exponent, 0)
    while left.any():
        result = np.where(left & 1, (result * factor).astype(np.int32).astype(np.int64), result)
        factor = (factor * factor).astype(np.int32).astype(np.int64)
        left = left >> 1
    inverse = np.where(np.abs(base) == 1, np.where(exponent & 1, base, 1), 0)
    return np.where(exponent < 0, inverse, result)


def fmod(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """src0 - trunc(src0 / src1) * src1, exact."""
    with np.errstate(all="ignore"):
        store(out, np.fmod(widen(srcs[0]), widen(srcs[1])))


def arange(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """first + i * difference; `scalar` is the pair."""
    first, difference = scalar
    count = np.arange(len(out), dtype=np.float64 if out.dtype.kind != "i" else np.int64)
    values = first + count * difference
    if out.dtype.kind == "i":
        out[...] = values.astype(out.dtype)
    else:
        store(out, values)
