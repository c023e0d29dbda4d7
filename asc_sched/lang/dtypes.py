"""The element types of the language, by their torch names, and their forms in numpy, torch and Ascend C."""

from __future__ import annotations

import difflib
import enum
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from asc_sched.errors import DtypeError

if TYPE_CHECKING:
    import torch


class Kind(enum.Enum):
    """torch's promotion categories, lowest first."""

    BOOL = 0
    INT = 1
    FLOAT = 2


@attrs.frozen
class DType:
    """One element type. `itemsize` in bytes; `asc` is the pyasc type that carries it in GM and UB.

    pyasc 1.1.1 has neither bfloat16 nor bool tensors: they are carried as int16 and uint8 storage.
    """

    name: str
    itemsize: int
    kind: Kind
    asc: str
    aliases: tuple[str, ...] = ()

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_half(self) -> bool:
        """16-bit floating point: evaluated in float32 where more than one rounding would happen."""
        return self.is_float and self.itemsize == 2

    @property
    def torch(self) -> torch.dtype:
        import torch

        dtype = getattr(torch, self.name)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def numpy(self) -> np.dtype[Any]:
        if self.name == "bfloat16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.name)

    def __str__(self) -> str:
        return self.name


FLOAT32 = DType("float32", 4, Kind.FLOAT, "float32", ("float", "fp32", "f32"))
FLOAT16 = DType("float16", 2, Kind.FLOAT, "float16", ("half", "fp16", "f16"))
BFLOAT16 = DType("bfloat16", 2, Kind.FLOAT, "int16", ("bf16",))
INT8 = DType("int8", 1, Kind.INT, "int8", ("i8",))
UINT8 = DType("uint8", 1, Kind.INT, "uint8", ("u8",))
INT16 = DType("int16", 2, Kind.INT, "int16", ("short", "i16"))
INT32 = DType("int32", 4, Kind.INT, "int32", ("int", "i32"))
INT64 = DType("int64", 8, Kind.INT, "int64", ("long", "i64"))
BOOL = DType("bool", 1, Kind.BOOL, "uint8")

DTYPES: dict[str, DType] = {
    d.name: d for d in (FLOAT32, FLOAT16, BFLOAT16, INT8, UINT8, INT16, INT32, INT64, BOOL)
}
_BY_NAME = DTYPES | {alias: d for d in DTYPES.values() for alias in d.aliases}


def is_dtype_name(name: str) -> bool:
    """Whether `name` (or an alias such as ``fp32``) names an element type."""
    return name in _BY_NAME


def get_dtype(dtype: str | DType | torch.dtype | np.dtype[Any] | type) -> DType:
    """The `DType` for a name, a torch dtype or a numpy dtype. Raises `DtypeError` listing the known ones."""
    if isinstance(dtype, DType):
        return dtype
    name = _name_of(dtype)
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = ["float32"] if name in ("float64", "double") else difflib.get_close_matches(name, _BY_NAME, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DtypeError(f"unknown dtype {name!r}; {hint}known: {', '.join(DTYPES)}")


def _name_of(dtype: Any) -> str:
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    if dtype is None or isinstance(dtype, str):
        return text  # numpy takes None for float64
    try:
        return np.dtype(dtype).name
    except TypeError:
        return text
