"""Exact widening and correctly rounded narrowing of arrays; float16 goes through torch where that is loaded.

numpy converts float16 one element at a time (20 times slower than the vector conversions of torch, but that is nothing
beside loading torch); both round to nearest, ties to even.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)


def _torch() -> ModuleType | None:
    return sys.modules.get("torch")


def is_half(array: Array) -> bool:
    """Whether the elements are float16."""
    return bool(array.dtype.char == "e")


def widen(array: Array) -> Array:
    """float16 or bfloat16 as float32 (exact); other arrays as they are."""
    if array.dtype.char == "e":
        torch = _torch()
        found: Array = torch.from_numpy(array).float().numpy() if torch else array.astype(np.float32)
        return found
    if array.dtype == BFLOAT16:
        return array.astype(np.float32)
    return array


def double(array: Array) -> Array:
    """The elements as float64 (exact for all but 64-bit integers)."""
    return widen(array).astype(np.float64)


def store(out: Array, values: Array) -> None:
    """Writes float values into `out`, rounded once to its dtype (nearest, ties to even; overflow gives infinity)."""
    torch = _torch()
    if torch and out.dtype.char == "e" and values.dtype.char == "f":
        torch.from_numpy(out).copy_(torch.from_numpy(np.ascontiguousarray(values)))
        return
    with np.errstate(all="ignore"):
        if out.dtype == BFLOAT16 and values.dtype.char == "d":  # through float32 would round twice
            out[...] = _double_to_bfloat16(values)
        else:
            out[...] = values


def _double_to_bfloat16(values: Array) -> Array:
    """Round to odd into float32 first: then the second rounding is right."""
    single = values.astype(np.float32)
    inexact = (single.astype(np.float64) != values) & np.isfinite(single)
    bits = single.view(np.uint32)
    away = np.abs(single.astype(np.float64)) > np.abs(values)
    bits = np.where(inexact, (bits - away.astype(np.uint32)) | 1, bits)
    return bits.view(np.float32).astype(BFLOAT16)
