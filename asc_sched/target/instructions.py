"""The instruction table of the vector core: which pyasc call computes what, on which element types, under which rules.

Source of the type columns: Ascend C API documentation for Atlas A2 (asc-devkit); of the call forms: pyasc 1.1.1's own
front end. Element types here are carriers: what lies in UB. ``bfloat16`` is 16-bit storage that only Cast
understands; ``mask`` is one bit per element.
"""

from __future__ import annotations

from functools import lru_cache

import attrs

CARRIER_BITS = {
    "float32": 32, "float16": 16, "bfloat16": 16, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32,
    "uint32": 32, "int64": 64, "mask": 1,
}  # fmt: skip

# pyasc's type for each carrier in alloc_tensor, deque and TBuf.get.
ASC_TYPE = {c: f"asc.{c}" for c in CARRIER_BITS} | {"bfloat16": "asc.int16", "mask": "asc.uint8"}


@attrs.frozen
class Instruction:
    """One row: `signature` is (dst, src...) in carriers; `call` is the pyasc statement with named holes.

    Holes: ``{dst}``, ``{0}``, ``{1}``... sources, ``{imm}`` the immediate, ``{mode}`` a round or compare mode,
    ``{count}`` elements. `in_place`: dst may be exactly a source. `count_bytes`: count x size of a source must be a
    multiple of it. `commutes`: the sources may be swapped.
    """

    name: str
    signature: tuple[str, ...]
    call: str
    has_imm: bool = False
    in_place: bool = True
    count_bytes: int = 0
    commutes: bool = False

    @property
    def dst(self) -> str:
        return self.signature[0]

    @property
    def srcs(self) -> tuple[str, ...]:
        return self.signature[1:]


def _same(name: str, call: str, arity: int, carriers: str, **rules: bool) -> list[Instruction]:
    return [Instruction(name, (c,) * (arity + 1), call, **rules) for c in carriers.split()]  # type: ignore[arg-type]


def _unary(name: str, carriers: str, fn: str | None = None) -> list[Instruction]:
    return _same(name, f"asc.{fn or name}({{dst}}, {{0}}, {{count}})", 1, carriers)


def _binary(name: str, carriers: str, fn: str | None = None, commutes: bool = False) -> list[Instruction]:
    return _same(name, f"asc.{fn or name}({{dst}}, {{0}}, {{1}}, {{count}})", 2, carriers, commutes=commutes)


def _scalar(name: str, carriers: str, fn: str | None = None) -> list[Instruction]:
    return _same(name, f"asc.{fn or name}({{dst}}, {{0}}, {{imm}}, {{count}})", 1, carriers, has_imm=True)


def _casts() -> list[Instruction]:
    call = "asc.cast({dst}, {0}, asc.RoundMode.{mode}, {count})"
    return [Instruction("cast", (dst, src), call, in_place=False) for src, dsts in CASTS.items() for dst in dsts]


# Native casts of A2: source -> destinations.
CASTS: dict[str, tuple[str, ...]] = {
    "int16": ("float16", "float32"),
    "int32": ("float32", "int16"),
    "float16": ("float32", "int16", "int32"),
    "float32": ("float16", "int16", "int32"),
}

_FLOAT = "float32 float16"
_NUMBER = "float32 float16 int32 int16"

INSTRUCTIONS: tuple[Instruction, ...] = tuple(
    _unary("abs", _FLOAT)
    + _unary("exp", _FLOAT)
    + _unary("ln", _FLOAT)
    + _unary("sqrt", _FLOAT)
    + _unary("rsqrt", _FLOAT)
    + _unary("reciprocal", _FLOAT)
    + _unary("relu", _FLOAT + " int32")
    + _binary("add", _NUMBER, commutes=True)
    + _binary("sub", _NUMBER)
    + _binary("mul", _NUMBER, commutes=True)
    + _binary("max", _NUMBER, commutes=True)
    + _binary("min", _NUMBER, commutes=True)
    + _binary("div", _FLOAT)
    + _scalar("adds", _NUMBER)
    + _scalar("muls", _NUMBER)
    + _scalar("maxs", _NUMBER)
    + _scalar("mins", _NUMBER)
    + _same("duplicate", "asc.duplicate({dst}, {imm}, {count})", 0, _NUMBER, has_imm=True)
    + _casts()
)


@lru_cache(maxsize=1)
def _index() -> dict[tuple[str, ...], Instruction]:
    return {(i.name, *i.signature): i for i in INSTRUCTIONS}


def find_instruction(name: str, *signature: str) -> Instruction | None:
    """The row for an operation on these carriers (dst, then sources), or None where the chip has none."""
    return _index().get((name, *signature))
