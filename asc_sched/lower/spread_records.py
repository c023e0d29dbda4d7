"""Which vector instructions a spread consists of: its own statements, executed by Python against a recorder."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import attrs

from asc_sched.lower.spaces import Spread
from asc_sched.lower.spread_text import REPEAT_BYTES, Operands, spread_statements

# Scalar operations: an element read or written by scalar code, what a loop and its index's products take per turn.
_GET_OPS, _SET_OPS, _TURN_OPS = 9, 8, 4


@attrs.frozen
class Part:
    """One instruction of a spread, or scalar operations after the last one.

    `name`: Ascend C's (empty for scalar operations alone). `operands`: (0 for the destination or number of the source
    from 1 on, first element) each. `ops`: scalar operations before it. `repeats` and `strides` are as in
    `stream.Compute`.
    """

    name: str
    operands: tuple[tuple[int, int], ...]
    count: int
    ops: int
    repeats: int | None = None
    strides: tuple[tuple[int, int], ...] | None = None


@lru_cache(maxsize=4096)
def spread_parts(
    kind: str, numbers: tuple[int, ...], bits: int, rows: int, whole: int, length: int
) -> tuple[Part, ...]:
    """The instructions of a `Spread` of that kind on elements of `bits`, for tiles of `rows` rows. `whole`: elements
    that it makes in all; `length`: elements of this tile."""
    names = ("s1", "s2")
    step = Spread(kind, 0, (1, 2), numbers)
    text = "\n".join(spread_statements(step, Operands("d", names, bits, rows, whole, "length")))
    recorder = _Recorder(bits)
    tensors = {name: _Tensor(recorder, i, 0) for i, name in enumerate(("d", *names))}
    exec(text, {"__builtins__": {"range": recorder.turns}, "asc": recorder, "length": length, **tensors})
    if recorder.ops:
        recorder.parts.append(Part("", (), 0, recorder.ops))
    return tuple(recorder.parts)


class _Tensor:
    """A local tensor from an element on."""

    def __init__(self, recorder: _Recorder, number: int, start: int) -> None:
        self.recorder = recorder
        self.number = number
        self.start = start

    def __getitem__(self, part: slice) -> _Tensor:
        self.recorder.ops += 1
        return _Tensor(self.recorder, self.number, self.start + int(part.start))

    def reinterpret_cast(self, _: object) -> _Tensor:
        self.recorder.ops += 1
        return self

    def get_value(self, _: int) -> float:
        self.recorder.ops += _GET_OPS
        return 0.0

    def set_value(self, _: int, __: int) -> None:
        self.recorder.ops += _SET_OPS

    @property
    def place(self) -> tuple[int, int]:
        return self.number, self.start


class _Recorder:
    """Stands where statements have pyasc's module; knows the calls that spreads are written with."""

    uint32 = "uint32"

    def __init__(self, bits: int) -> None:
        self.lanes = REPEAT_BYTES * 8 // bits
        self.parts: list[Part] = []
        self.ops = 0

    def turns(self, count: int) -> Iterator[int]:
        """A loop of the kernel."""
        for turn in builtins.range(count):
            self.ops += _TURN_OPS
            yield turn

    def _add(self, name: str, count: int, *operands: _Tensor, repeats: int | None = None, strides: Any = None) -> None:
        self.parts.append(Part(name, tuple(t.place for t in operands), count, self.ops, repeats, strides))
        self.ops = 0

    def data_copy(self, dst: _Tensor, src: _Tensor, count: int) -> None:
        self._add("DataCopy", count, dst, src)

    def duplicate(self, dst: _Tensor, _: float, count: int) -> None:
        self._add("Duplicate", count, dst)

    def adds(self, dst: _Tensor, src: _Tensor, _: int, count: int) -> None:
        self._add("Adds", count, dst, src)

    def muls(self, dst: _Tensor, src: _Tensor, _: int, count: int) -> None:
        self._add("Muls", count, dst, src)

    def gather(self, dst: _Tensor, src: _Tensor, offsets: _Tensor, _: int, count: int) -> None:
        self._add("Gather", count, dst, src, offsets)

    def brcb(self, dst: _Tensor, src: _Tensor, repeats: int, _: object) -> None:
        self._add("Brcb", repeats * self.lanes, dst, src, repeats=repeats)

    def copy(self, dst: _Tensor, src: _Tensor, mask: int, repeats: int, params: tuple[int, ...]) -> None:
        block, src_block, step, src_step = params
        self._add("Copy", mask * repeats, dst, src, repeats=repeats, strides=((block, step), (src_block, src_step)))

    @staticmethod
    def CopyRepeatParams(*fields: int) -> tuple[int, ...]:
        return fields

    BrcbRepeatParams = CopyRepeatParams
