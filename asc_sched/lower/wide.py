"""int64 by way of what the chip has for it: casts to and from int32 and float32, and bitwise operations.

A value is taken apart into two int32 words through 16-bit pieces: a masked piece is a float32 exactly (16 significant
bits), whatever its place. It is put together again from pieces that are scaled as floats, cast and joined.
"""

from __future__ import annotations

import attrs

from asc_sched.lower.program import ProgramBuilder
from asc_sched.lower.registers import Reg, fill, select

_SIGN = -(2**31)


@attrs.frozen
class Words:
    """An int64 as two int32: `low` holds its lower 32 bits as they are, `high` the upper ones with the sign."""

    low: Reg
    high: Reg


def fill64(build: ProgramBuilder, value: int) -> Reg:
    """An int64 register filled with a number that float32 or int32 holds exactly."""
    if -(2**31) <= value < 2**31:
        return fill(build, "int32", value).cast("int64")
    number = float(value)
    assert int(number) == value
    return fill(build, "float32", number).cast("int64", "TRUNC")


def _piece(x: Reg, mask: int, scale: float) -> Reg:
    """Some bits of an int64, moved down, as an int32."""
    bits = x & fill64(x.build, mask)
    return (bits.cast("float32", "RINT") * scale).cast("int32", "TRUNC")


def low_word(x: Reg) -> Reg:
    """The lower 32 bits as an int32."""
    bottom = (x & fill64(x.build, 0xFFFF)).cast("int32")
    return (_piece(x, 0xFFFF_0000, 2.0**-16) << 16) + bottom


def split(x: Reg) -> Words:
    """An int64 register as two words."""
    high = (_piece(x, -(2**48), 2.0**-48) << 16) + _piece(x, 0xFFFF << 32, 2.0**-32)
    return Words(low_word(x), high)


def join(words: Words) -> Reg:
    """Two words as an int64 register."""
    low, high = words.low, words.high
    parts = [
        (low & 0xFFFF).cast("int64"),
        _scaled(low.shift_right_logical(16), 2.0**16),
        _scaled(high & 0xFFFF, 2.0**32),
        _scaled(high >> 16, 2.0**48),
    ]
    return (parts[0] | parts[1]) | (parts[2] | parts[3])


def _scaled(piece: Reg, scale: float) -> Reg:
    return (piece.cast("float32", "RINT") * scale).cast("int64", "TRUNC")


def extend(x: Reg) -> Words:
    """An int32 as two words."""
    return Words(x, x >> 31)


# -- arithmetic ----------------------------------------------------------------------------------------------------
def less(a: Reg, b: Reg) -> Reg:
    """a < b for int32, as a mask."""
    return ~a.max(b).equals(a)


def less_unsigned(a: Reg, b: Reg) -> Reg:
    """a < b for int32 registers seen as unsigned."""
    return less(a + _SIGN, b + _SIGN)


def add(a: Words, b: Words) -> Words:
    low = a.low + b.low
    return Words(low, a.high + b.high + select(less_unsigned(low, a.low), 1, 0, "int32"))


def subtract(a: Words, b: Words) -> Words:
    return Words(a.low - b.low, a.high - b.high - select(less_unsigned(a.low, b.low), 1, 0, "int32"))


def multiply(a: Words, b: Words) -> Words:
    """The lower 64 bits; the upper half of the lower words' product comes from its 16-bit pieces."""
    a0, a1 = a.low & 0xFFFF, a.low.shift_right_logical(16)
    b0, b1 = b.low & 0xFFFF, b.low.shift_right_logical(16)
    middle = a1 * b0 + (a0 * b0).shift_right_logical(16)
    other = a0 * b1 + (middle & 0xFFFF)
    carried = a1 * b1 + middle.shift_right_logical(16) + other.shift_right_logical(16)
    return Words(a.low * b.low, a.high * b.low + a.low * b.high + carried)


def compare(a: Words, b: Words) -> Reg:
    """a < b as a mask."""
    return less(a.high, b.high) | (a.high.equals(b.high) & less_unsigned(a.low, b.low))


def compare_unsigned(a: Words, b: Words) -> Reg:
    """a < b for words seen as unsigned, as a mask."""
    return less_unsigned(a.high, b.high) | (a.high.equals(b.high) & less_unsigned(a.low, b.low))


def choose(mask: Reg, a: Reg, b: Reg) -> Reg:
    """`a` where the mask is set, else `b`, for int64: the mask spread over all 64 bits."""
    bits = select(mask, -1, 0, "int32").cast("int64")
    return (a & bits) | (b & ~bits)


def shift_left(words: Words, bits: int) -> Words:
    if bits >= 32:
        return Words(words.low.like(0), words.low << (bits - 32) if bits > 32 else words.low)
    return Words(words.low << bits, (words.high << bits) | words.low.shift_right_logical(32 - bits))


def shift_right(words: Words, bits: int) -> Words:
    if bits >= 32:
        return Words(words.high >> (bits - 32) if bits > 32 else words.high, words.high >> 31)
    return Words(words.low.shift_right_logical(bits) | (words.high << (32 - bits)), words.high >> bits)
