"""Element types as the simulator sees them: MLIR's name, Ascend C's name, numpy's dtype."""

from __future__ import annotations

import functools

import attrs
import ml_dtypes
import numpy as np

from asc_sched.sim.ir import element


@attrs.frozen
class DType:
    """One element type. `ir` is MLIR's name (``f16``), `c` Ascend C's (``half``), `size` in bytes."""

    ir: str
    c: str
    np: np.dtype[np.generic]
    is_float: bool
    signed: bool
    size: int
    bits: int

    def __str__(self) -> str:
        return self.c


def _make(ir: str, c: str, np_type: object, is_float: bool = False, signed: bool = True) -> DType:
    dtype: np.dtype[np.generic] = np.dtype(np_type)  # type: ignore[call-overload]
    return DType(ir, c, dtype, is_float, signed, dtype.itemsize, 1 if ir == "i1" else dtype.itemsize * 8)


_ALL = (
    _make("f16", "half", np.float16, True),
    _make("bf16", "bfloat16_t", ml_dtypes.bfloat16, True),
    _make("f32", "float", np.float32, True),
    _make("f64", "double", np.float64, True),
    _make("i1", "bool", np.bool_, signed=False),
    _make("i8", "int8_t", np.int8),
    _make("i16", "int16_t", np.int16),
    _make("i32", "int32_t", np.int32),
    _make("i64", "int64_t", np.int64),
    _make("index", "uint32_t", np.uint32, signed=False),  # what pyasc's C++ makes of it
    _make("ui8", "uint8_t", np.uint8, signed=False),
    _make("ui16", "uint16_t", np.uint16, signed=False),
    _make("ui32", "uint32_t", np.uint32, signed=False),
    _make("ui64", "uint64_t", np.uint64, signed=False),
)
BY_IR: dict[str, DType] = {d.ir: d for d in _ALL}
BY_C: dict[str, DType] = {d.c: d for d in _ALL if d.ir != "index"}

HALF, FLOAT = BY_IR["f16"], BY_IR["f32"]
BOOL, INT32, INT64, UINT8 = BY_IR["i1"], BY_IR["i32"], BY_IR["i64"], BY_IR["ui8"]


@functools.lru_cache(maxsize=1024)
def of(type_text: str) -> DType:
    """The dtype of an MLIR scalar type, or of the elements of a tensor or memref type. Raises `KeyError`."""
    return BY_IR[element(type_text)]
