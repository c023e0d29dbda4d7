"""Compare and Select: comparisons as bits, choices by bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from asc_sched.sim.numerics.widths import Array, store, widen

Srcs = tuple[Array, ...]

#: By `AscendC::CMPMODE`. IEEE 754: every comparison with NaN is false, except NE.
_COMPARE = (np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal)


def compare(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """`out` is boolean here; the caller packs it into bits."""
    with np.errstate(invalid="ignore"):
        _COMPARE[mode](widen(srcs[0]), widen(srcs[1]), out=out)


def compare_scalar(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    src = widen(srcs[0])
    with np.errstate(invalid="ignore"):
        _COMPARE[mode](src, src.dtype.type(scalar), out=out)


def select(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    """The first source is boolean here, one per element."""
    out[...] = np.where(srcs[0], srcs[1], srcs[2])


def select_scalar(out: Array, srcs: Srcs, scalar: Any, mode: int) -> None:
    store(out, np.where(srcs[0], srcs[1], srcs[1].dtype.type(scalar)))
