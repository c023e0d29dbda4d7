"""Conversions between what lies in UB (carriers), and between dtypes by torch's rules."""

from __future__ import annotations

import math

import numpy as np

from asc_sched.lang.dtypes import BOOL, DType
from asc_sched.lower.program import ProgramBuilder
from asc_sched.lower.registers import Reg, fill, select, wrap
from asc_sched.lower.wide import fill64, low_word

_INT_BITS = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32, "int64": 64}

# The carrier in which a dtype is computed.
_HOME = {
    "float32": "float32", "float16": "float16", "bfloat16": "float32", "int8": "int16", "uint8": "int16",
    "int16": "int16", "int32": "int32", "int64": "int64", "bool": "mask",
}  # fmt: skip


def home_carrier(dtype: DType) -> str:
    """The carrier that computes a dtype: int16 for 8-bit integers, a mask for bools, float32 for bfloat16."""
    return _HOME[dtype.name]


def constant(value: bool | int | float, carrier: str) -> int | float:
    """A Python number as an element of a carrier: rounded to nearest for floats, wrapped for integers."""
    if carrier in ("float32", "float16"):
        with np.errstate(over="ignore"):
            return float(np.asarray(value, dtype=np.float64).astype(carrier))
    if carrier == "bfloat16":
        import ml_dtypes

        with np.errstate(over="ignore"):
            return float(np.asarray(value, dtype=np.float64).astype(ml_dtypes.bfloat16))
    if carrier in ("mask", "bool"):
        return int(bool(value))
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    return int(value) % 256 if carrier == "uint8" else wrap(int(value), _INT_BITS[carrier])


# Carriers that Duplicate fills, and those that the others are made from.
FILLED = frozenset({"float32", "float16", "int32", "int16", "mask"})
_FILL_AS = {"int8": "float16", "uint8": "float16", "bfloat16": "float32"}


def filled(build: ProgramBuilder, carrier: str, value: bool | int | float) -> Reg:
    """A register of any carrier filled with one number."""
    number = constant(value, carrier)
    if carrier in FILLED:
        return fill(build, carrier, number)
    if carrier == "int64":
        return _filled64(build, int(number))
    source = _FILL_AS[carrier]
    return convert(fill(build, source, constant(number, source)), carrier)


def _filled64(build: ProgramBuilder, value: int) -> Reg:
    """An int64 constant: one fill where float32 or int32 holds it, else its upper and lower bits joined."""
    if -(2**31) <= value < 2**31 or constant(value, "float32") == value:
        return fill64(build, value)
    low = value & 0xFF_FFFF
    return _filled64(build, value - low) | fill64(build, low)


# Value-preserving ways from one carrier to another (to nearest where a float can't hold the number): the next stop.
# Longer ways than one step are for what the chip has no cast for.
_NEXT: dict[tuple[str, str], str] = {
    ("int8", "int16"): "float16", ("int8", "int32"): "float16", ("int8", "float32"): "float16",
    ("int8", "int64"): "int32", ("int8", "mask"): "float16", ("int8", "bfloat16"): "float32",
    ("uint8", "int16"): "float16", ("uint8", "int32"): "float16", ("uint8", "float32"): "float16",
    ("uint8", "int64"): "int32", ("uint8", "mask"): "float16", ("uint8", "bfloat16"): "float32",
    ("int16", "int32"): "float32", ("int16", "int64"): "int32", ("int16", "mask"): "float16",
    ("int16", "int8"): "float16", ("int16", "uint8"): "float16", ("int16", "bfloat16"): "float32",
    ("int32", "float16"): "float32", ("int32", "bfloat16"): "float32", ("int32", "int8"): "int16",
    ("int32", "uint8"): "int16",
    ("int64", "float16"): "float32", ("int64", "bfloat16"): "float32", ("int64", "mask"): "float32",
    ("float16", "bfloat16"): "float32", ("bfloat16", "float16"): "float32", ("bfloat16", "mask"): "float32",
    ("mask", "uint8"): "float16", ("mask", "int8"): "float16", ("mask", "bfloat16"): "float32",
    ("mask", "int64"): "int32", ("bfloat16", "int32"): "float32",
}  # fmt: skip


def convert(x: Reg, carrier: str) -> Reg:
    """The same numbers as another carrier. Integers must fit; floats round to nearest."""
    if x.carrier == carrier:
        return x
    middle = _NEXT.get((x.carrier, carrier))
    if middle is not None:
        return convert(convert(x, middle), carrier)
    if carrier == "mask":
        return _nonzero(x)
    if x.carrier == "mask":
        return select(x, 1.0, 0.0, carrier) if carrier.startswith("float") else select(x, 1, 0, carrier)
    return x.cast(carrier, _round_mode(x.carrier, carrier))


def _nonzero(x: Reg) -> Reg:
    if x.carrier.startswith("float"):
        return x.differs(0.0)
    return ~x.equals(0)


def _round_mode(source: str, carrier: str) -> str:
    """The chip's mode for a cast: NONE where nothing is lost, RINT to floats, TRUNC from floats to integers."""
    narrow_float = carrier in ("float16", "bfloat16", "float32")
    if narrow_float:
        lossless = (source, carrier) in _LOSSLESS
        return "NONE" if lossless else "RINT"
    return "TRUNC" if source.startswith("float") else "NONE"


_LOSSLESS = frozenset({
    ("int8", "float16"), ("uint8", "float16"), ("int16", "float32"), ("float16", "float32"), ("bfloat16", "float32"),
})  # fmt: skip


def wrapped(x: Reg, dtype: DType) -> Reg:
    """An int16 register brought into the range of an 8-bit dtype; others are what they are."""
    if dtype.name == "int8":
        return (x << 8) >> 8
    if dtype.name == "uint8":
        return (x << 8).shift_right_logical(8)
    return x


def to_dtype(
    x: Reg, source: DType, dtype: DType, bounds: tuple[float, float] | None = None, fast: bool = False
) -> Reg:
    """`x`, a value of dtype `source`, converted as torch's ``to``: integers wrap, floats go toward zero.

    `bounds` are known limits of a float's values other than NaN. `fast` leaves NaN and floats beyond the integers to
    the chip's Cast.
    """
    if dtype is BOOL:
        return convert(x, "mask")
    if dtype.is_float:
        return convert(x, dtype.name)
    if source.is_float:
        if x.carrier == "float16" and dtype.itemsize < 4 and not fast:
            x = select(x < math.inf, x, 0.0)  # on half the bytes; the lower bits of the smallest int32 are 0
            return _narrow_int(x.cast("float32").cast("int32", "TRUNC"), dtype)
        return _float_to_int(convert(x, "float32"), dtype, bounds, fast)
    if source is BOOL or _fits(source, dtype):
        return convert(x, home_carrier(dtype))
    if source.name == "int64":  # held in int32 where it is known to fit
        return _narrow_int(x if x.carrier == "int32" else low_word(x), dtype)
    return _narrow_int(convert(x, home_carrier(source)), dtype)


def _float_to_int(x: Reg, dtype: DType, bounds: tuple[float, float] | None, fast: bool) -> Reg:
    """Toward zero; NaN and what is beyond int32 (int64 for int64) give its smallest number, as torch does on x86-64.

    C leaves these undefined, and the chip saturates. Narrower dtypes get the lower bits of the int32.
    """
    if fast:
        return x.cast(home_carrier(dtype), "TRUNC") if dtype.itemsize > 1 else wrapped(x.cast("int16", "TRUNC"), dtype)
    if dtype.name == "int64":
        return select(x < 2.0**63, x, -(2.0**63)).cast("int64", "TRUNC")
    low, high = _int_limits(dtype)
    if bounds is not None and low - 1 < bounds[0] and bounds[1] < high + 1 and dtype.itemsize < 4:
        return select(x.is_number(), x, 0.0).cast("int16", "TRUNC")  # the lower bits of the smallest int32 are 0
    return _narrow_int(select(x < 2.0**31, x, -(2.0**31)).cast("int32", "TRUNC"), dtype)


def _int_limits(dtype: DType) -> tuple[int, int]:
    bits = _INT_BITS[dtype.name]
    return (0, 255) if dtype.name == "uint8" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _fits(source: DType, dtype: DType) -> bool:
    if dtype.name == "uint8":
        return source.name == "uint8"
    return _INT_BITS[source.name] + (source.name == "uint8") <= _INT_BITS[dtype.name]


def _narrow_int(x: Reg, dtype: DType) -> Reg:
    """An int32 or int16 register wrapped into a narrower (or equally wide) dtype's home carrier."""
    if x.carrier == "int32":
        if dtype.name == "int32":
            return x
        bits = 32 - _INT_BITS[dtype.name]
        low = (x << bits).shift_right_logical(bits) if dtype.name == "uint8" else (x << bits) >> bits
        return convert(low, "int16")
    return wrapped(x, dtype)
