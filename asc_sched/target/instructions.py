"""The instruction table of the vector core: which pyasc call computes what, on which element types, under which rules.

Source of the type columns: Ascend C API documentation for Atlas A2 (asc-devkit); of the call forms: pyasc 1.1.1's own
front end. Element types here are carriers: what lies in UB. ``bfloat16`` is 16-bit storage that only Cast
understands; ``mask`` is one bit per element, as Compare writes and Select reads it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs

CARRIER_BITS = {
    "float32": 32, "float16": 16, "bfloat16": 16, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32,
    "uint32": 32, "int64": 64, "mask": 1,
}  # fmt: skip

# pyasc's type for each carrier in alloc_tensor, deque and TBuf.get.
ASC_TYPE = {c: f"asc.{c}" for c in CARRIER_BITS} | {"bfloat16": "asc.int16", "mask": "asc.uint8"}

# Holes for counts other than the tile's own: name -> formula of the tile's count, a name. Compare works on whole
# repeats of 256 bytes; And, Or and Not know 16-bit words only.
COUNTS = {
    "count_64": "({0} + 63) // 64 * 64",
    "count_128": "({0} + 127) // 128 * 128",
    "words_mask": "({0} + 15) // 16",
    "words_8": "({0} + 1) // 2",
    "words_32": "{0} * 2",
    "words_64": "{0} * 4",
}

SELECT_RESERVE = 8192  # documentation of Select: modes 1 and 2 use 8 KB of UB that must not be allocated


@attrs.frozen(cache_hash=True)  # a key of caches, looked up for every step of a program
class Instruction:
    """One row: `signature` is (dst, src...) in carriers; `call` is the pyasc statement with named holes.

    Holes: ``{dst}``, ``{0}``, ``{1}``... sources, ``{imm}`` the immediate, ``{mode}`` a round or compare mode,
    ``{count}`` elements, and the counts of `COUNTS`. `in_place`: dst may be exactly a source. `count_bytes`: it works
    on whole blocks of that many bytes of a source, so buffers must be multiples of it. `commutes`: the sources may be
    swapped. `reserve_bytes`: UB that must stay unallocated. `ascendc` is the Ascend C function, for costs.
    """

    name: str
    signature: tuple[str, ...]
    call: str
    ascendc: str
    has_imm: bool = False
    in_place: bool = True
    count_bytes: int = 0
    commutes: bool = False
    reserve_bytes: int = 0

    @property
    def dst(self) -> str:
        return self.signature[0]

    @property
    def srcs(self) -> tuple[str, ...]:
        return self.signature[1:]


_FLOAT = "float32 float16"
_NUMBER = "float32 float16 int32 int16"
_WORDS = {"int16": "count", "int32": "words_32", "float32": "words_32", "float16": "count", "int64": "words_64",
          "mask": "words_mask", "int8": "words_8", "uint8": "words_8", "bfloat16": "count"}  # fmt: skip


def _same(name: str, call: str, ascendc: str, arity: int, carriers: str, **rules: Any) -> list[Instruction]:
    return [Instruction(name, (c,) * (arity + 1), call, ascendc, **rules) for c in carriers.split()]


def _unary(name: str, ascendc: str, carriers: str) -> list[Instruction]:
    return _same(name, f"asc.{name}({{dst}}, {{0}}, {{count}})", ascendc, 1, carriers)


def _binary(name: str, ascendc: str, carriers: str, commutes: bool = False) -> list[Instruction]:
    return _same(name, f"asc.{name}({{dst}}, {{0}}, {{1}}, {{count}})", ascendc, 2, carriers, commutes=commutes)


def _scalar(name: str, ascendc: str, carriers: str) -> list[Instruction]:
    return _same(name, f"asc.{name}({{dst}}, {{0}}, {{imm}}, {{count}})", ascendc, 1, carriers, has_imm=True)


def _as(hole: str, carrier: str, asc_type: str) -> str:
    """A tensor seen as another type of the same width, where it isn't that already."""
    return f"{{{hole}}}" if ASC_TYPE[carrier] == asc_type else f"{{{hole}}}.reinterpret_cast({asc_type})"


def _bitwise() -> list[Instruction]:
    """And, Or and Not on the 16-bit words of any carrier."""
    rows = []
    for carrier, words in _WORDS.items():
        dst, a, b = (_as(h, carrier, "asc.int16") for h in ("dst", "0", "1"))
        for name, ascendc in (("bitwise_and", "And"), ("bitwise_or", "Or")):
            if carrier == "bfloat16" and ascendc == "And":
                continue  # storage: copied, never computed with
            call = f"asc.{name}({dst}, {a}, {b}, {{{words}}})"
            rows.append(Instruction(name, (carrier,) * 3, call, ascendc, commutes=True))
        if "float" not in carrier:
            rows.append(Instruction("bitwise_not", (carrier,) * 2, f"asc.bitwise_not({dst}, {a}, {{{words}}})", "Not"))
    return rows


def _shifts() -> list[Instruction]:
    """Shifts by an immediate: left, arithmetic right, and logical right (on the unsigned type)."""
    rows = []
    for carrier in ("int16", "int32"):
        unsigned = f"asc.u{carrier}"
        for name, ascendc in (("shift_left", "ShiftLeft"), ("shift_right", "ShiftRight")):
            rows += _scalar(name, ascendc, carrier)
        dst, src = (_as(h, carrier, unsigned) for h in ("dst", "0"))
        call = f"asc.shift_right({dst}, {src}, {{imm}}, {{count}})"
        rows.append(Instruction("shift_right_logical", (carrier,) * 2, call, "ShiftRight", has_imm=True))
    return rows


def _on_bits() -> list[Instruction]:
    """int32 instructions on the bits of floats: the operand in float32 is seen as int32."""
    seen = "reinterpret_cast(asc.int32)"
    shift = f"asc.shift_left({{dst}}.{seen}, {{0}}.{seen}, {{imm}}, {{count}})"
    return [
        Instruction("bits_adds", ("int32", "float32"), f"asc.adds({{dst}}, {{0}}.{seen}, {{imm}}, {{count}})", "Adds",
                    has_imm=True),
        Instruction("bits_shift_left", ("float32", "float32"), shift, "ShiftLeft", has_imm=True),
        Instruction("bits_sub", ("float32", "float32", "int32"),
                    f"asc.sub({{dst}}.{seen}, {{0}}.{seen}, {{1}}, {{count}})", "Sub"),
    ]  # fmt: skip


def _casts() -> list[Instruction]:
    call = "asc.cast({dst}, {0}, asc.RoundMode.{mode}, {count})"
    pairs = [(dst, src) for src, dsts in CASTS.items() for dst in dsts]
    rows = [Instruction("cast", pair, call, "Cast", in_place=False) for pair in pairs]
    rows.append(Instruction("round", ("float32", "float32"), call, "Cast"))
    return rows


# pyasc has no bfloat16 type, so its casts are calls written out.
_BFLOAT16_CASTS = [
    Instruction(
        "cast",
        ("float32", "bfloat16"),
        'asc.inline("AscendC::Cast<float, bfloat16_t>($0, $1.ReinterpretCast<bfloat16_t>(), '
        'AscendC::RoundMode::{mode}, $2)", [{dst}, {0}, {count}])',
        "Cast",
        in_place=False,
    ),
    Instruction(
        "cast",
        ("bfloat16", "float32"),
        'asc.inline("AscendC::Cast<bfloat16_t, float>($0.ReinterpretCast<bfloat16_t>(), $1, '
        'AscendC::RoundMode::{mode}, $2)", [{dst}, {0}, {count}])',
        "Cast",
        in_place=False,
    ),
]


def _bits() -> list[Instruction]:
    """A float given by its bits: pyasc writes a NaN constant as 0.f / 0.f, which C++ refuses in a constexpr."""
    call = "asc.duplicate({dst}.reinterpret_cast(asc.{bits}), {imm}, {count})"
    sizes = {"float32": "int32", "float16": "int16"}
    return [
        Instruction("duplicate_bits", (c,), call.replace("{bits}", b), "Duplicate", has_imm=True)
        for c, b in sizes.items()
    ]


def _compares() -> list[Instruction]:
    """Compare and CompareScalar into bits; int32 knows EQ only."""
    rows = []
    for carrier, count in (("float32", "count_64"), ("float16", "count_128"), ("int32", "count_64")):
        tail = f"asc.CMPMODE.{{mode}}, {{{count}}})"
        rows.append(
            Instruction(
                "compare", ("mask", carrier, carrier), f"asc.compare({{dst}}, {{0}}, {{1}}, {tail}",
                "Compare", in_place=False, count_bytes=256,
            )
        )  # fmt: skip
        rows.append(
            Instruction(
                "compare_scalar", ("mask", carrier), f"asc.compare_scalar({{dst}}, {{0}}, {{imm}}, {tail}",
                "CompareScalar", has_imm=True, in_place=False, count_bytes=256,
            )
        )  # fmt: skip
    return rows


def _selects() -> list[Instruction]:
    """Select by bits. It moves elements as they are, so integers go through it as floats of their width."""
    rows = []
    kinds = {"float32": "asc.float32", "float16": "asc.float16", "int32": "asc.float32", "int16": "asc.float16"}
    for carrier, seen in kinds.items():
        dst, a, b = (_as(h, carrier, seen) for h in ("dst", "1", "2"))
        rows.append(
            Instruction(
                "select", (carrier, "mask", carrier, carrier),
                f"asc.select({dst}, {{0}}, {a}, {b}, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, {{count}})",
                "Select", reserve_bytes=SELECT_RESERVE,
            )
        )  # fmt: skip
        # The scalar is a float; of integers only 0 has the same bits.
        imm, has_imm = ("{imm}", True) if carrier.startswith("float") else ("0.0", False)
        rows.append(
            Instruction(
                "select_scalar" if has_imm else "select_zero", (carrier, "mask", carrier),
                f"asc.select({dst}, {{0}}, {a}, {imm}, asc.SelMode.VSEL_TENSOR_SCALAR_MODE, {{count}})",
                "Select", has_imm=has_imm, reserve_bytes=SELECT_RESERVE,
            )
        )  # fmt: skip
    return rows


# Native casts of A2: source -> destinations.
CASTS: dict[str, tuple[str, ...]] = {
    "int8": ("float16",),
    "uint8": ("float16",),
    "int16": ("float16", "float32"),
    "int32": ("float32", "int16", "int64"),
    "int64": ("int32", "float32"),
    "float16": ("float32", "int16", "int32", "int8", "uint8"),
    "float32": ("float16", "int16", "int32", "int64"),
}

INSTRUCTIONS: tuple[Instruction, ...] = tuple(
    _unary("abs", "Abs", _FLOAT)
    + _unary("exp", "Exp", _FLOAT)
    + _unary("ln", "Ln", _FLOAT)
    + _unary("sqrt", "Sqrt", _FLOAT)
    + _unary("rsqrt", "Rsqrt", _FLOAT)
    + _unary("reciprocal", "Reciprocal", _FLOAT)
    + _unary("relu", "Relu", _FLOAT)
    + _binary("add", "Add", _NUMBER, commutes=True)
    + _binary("sub", "Sub", _NUMBER)
    + _binary("mul", "Mul", _NUMBER, commutes=True)
    + _binary("max", "Max", _NUMBER, commutes=True)
    + _binary("min", "Min", _NUMBER, commutes=True)
    + _binary("div", "Div", _FLOAT)
    + _binary("add_relu", "AddRelu", _FLOAT, commutes=True)
    + _scalar("adds", "Adds", _NUMBER)
    + _scalar("muls", "Muls", _NUMBER)
    + _scalar("maxs", "Maxs", _NUMBER)
    + _scalar("mins", "Mins", _NUMBER)
    + _scalar("leaky_relu", "LeakyRelu", _FLOAT)
    + _bitwise()
    + _shifts()
    + _on_bits()
    + _same("duplicate", "asc.duplicate({dst}, {imm}, {count})", "Duplicate", 0, _NUMBER, has_imm=True)
    + [
        Instruction(
            "duplicate",
            ("mask",),
            "asc.duplicate({dst}.reinterpret_cast(asc.int16), {imm}, {words_mask})",
            "Duplicate",
            has_imm=True,
        )
    ]
    + _bits()
    + _casts()
    + _BFLOAT16_CASTS
    + _compares()
    + _selects()
)


@lru_cache(maxsize=1)
def _index() -> dict[tuple[str, ...], Instruction]:
    return {(i.name, *i.signature): i for i in INSTRUCTIONS}


def find_instruction(name: str, *signature: str) -> Instruction | None:
    """The row for an operation on these carriers (dst, then sources), or None where the chip has none."""
    return _index().get((name, *signature))
