"""The vector instructions: what each computes, for which dtypes A2 has it, and its constraints.

Dtype sets are the rows for A2 (Atlas A2/A3) of the public Ascend C API documentation; pyasc itself accepts far more.
Keys are the names in ASC-IR without ``ascendc.`` and without the form's suffix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from asc_sched.sim.numerics import arith, casts, elementary, selection
from asc_sched.sim.numerics.arith import Compute
from asc_sched.sim.numerics.casts import Round

Signature: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Literal["map", "compare", "select", "gather", "gatherb", "brcb"]

#: The calls that `asc.adv` functions have in C++: all four of (), (count), (tmp), (tmp, count), or fewer.
Forms: TypeAlias = Literal["all", "count", "no_tmp", "tmp_count"]


@attrs.frozen
class Instruction:
    """One Ascend C vector call.

    `signatures`: allowed dtypes (dst, src...). `modes`: allowed modes by signature, where not every mode is. `kind`:
    ``map`` works element by element, ``compare`` writes bits, ``select`` reads bits as first source. `count_bytes`:
    count times source size must be a multiple. `reads_dst`: the destination is the last source as well. `bitwise`: an
    undefined bit makes only its own bit undefined. `mode_names` name `mode` for messages and timing.
    """

    name: str
    compute: Compute
    signatures: frozenset[Signature]
    kind: Kind = "map"
    modes: Mapping[Signature, frozenset[int]] = attrs.field(factory=dict)
    mode_names: tuple[str, ...] = ()
    count_bytes: int = 1
    reads_dst: bool = False
    bitwise: bool = False
    needs_deq_scale: bool = False
    forms: Forms | None = None

    @property
    def is_adv(self) -> bool:
        """Whether it is a function of the `adv` library: many instructions, own rules of overlap."""
        return self.forms is not None

    def complaint(self, signature: Signature, mode: int) -> str | None:
        """Why A2 doesn't have this call for these dtypes and this mode, or None if it has."""
        if signature not in self.signatures:
            shown = sorted("(" + ", ".join(s) + ")" for s in self.signatures)
            return f"{self.name} ({', '.join(signature)}) doesn't exist on A2; it has {', '.join(shown)}"
        allowed = self.modes.get(signature)
        if allowed is not None and mode not in allowed:
            names = ", ".join(self.mode_names[m] for m in sorted(allowed))
            return f"{self.name} ({', '.join(signature)}) has no mode {self.mode_names[mode]} on A2; it has {names}"
        return None


def same(dtypes: str, operands: int) -> frozenset[Signature]:
    """Signatures of `operands` equal dtypes, from a text like ``half float``."""
    return frozenset((d,) * operands for d in dtypes.split())


def signatures(*rows: str) -> frozenset[Signature]:
    """Signatures from texts like ``half int32_t int32_t``."""
    return frozenset(tuple(row.split()) for row in rows)


FLOATS = "half float"
ARITH = "half float int16_t int32_t"
WORDS = "int16_t uint16_t half int32_t uint32_t float bfloat16_t"
CMP_NAMES = ("LT", "GT", "EQ", "LE", "GE", "NE")
SEL_NAMES = ("VSEL_CMPMASK_SPR", "VSEL_TENSOR_SCALAR_MODE", "VSEL_TENSOR_TENSOR_MODE")

# -- Cast: round modes by dtypes (R RINT, F FLOOR, C CEIL, O ROUND, T TRUNC, D ODD, N NONE) ----------------------
_LETTERS = {
    "R": Round.CAST_RINT,
    "F": Round.CAST_FLOOR,
    "C": Round.CAST_CEIL,
    "O": Round.CAST_ROUND,
    "T": Round.CAST_TRUNC,
    "D": Round.CAST_ODD,
    "N": Round.CAST_NONE,
}
_CASTS = """
half int8_t N | half uint8_t N | half int16_t RFCOTN | float int16_t N
int8_t half RFCOTN | uint8_t half RFCOTN | int16_t half RFCOT | int32_t half RFCOT | float half N
int16_t int32_t N | half int32_t RFCOTN | float int32_t RFCOTN | int64_t int32_t N
int16_t float RFCOT | int32_t float RFCOT | int64_t float RFCOT | half float RFCOTDN | float float RFCOT
int32_t int64_t N | float int64_t RFCOT
int32_t bfloat16_t RFCOT | float bfloat16_t N | bfloat16_t float RFCOT
"""
CAST_MODES: dict[Signature, frozenset[int]] = {}
for _row in _CASTS.replace("\n", "|").split("|"):
    if _row.strip():
        _dst, _src, _modes = _row.split()
        CAST_MODES[_dst, _src] = frozenset(int(_LETTERS[letter]) for letter in _modes)

_COMPARE = frozenset((d, *s) for d in ("int8_t", "uint8_t") for s in same(FLOATS + " int32_t", 2))
_EQ_ONLY = {s: frozenset([2]) for s in _COMPARE if s[1] == "int32_t"}
_MASKS = ("uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t", "int32_t", "uint64_t", "int64_t")


def _compare_scalar() -> frozenset[Signature]:
    return frozenset(("uint8_t", s) for s in ("half", "float", "int32_t"))


def _basic() -> dict[str, Instruction]:
    found: dict[str, Instruction] = {}

    def add(op: str, name: str, compute: Compute, allowed: Iterable[Signature], **more: Any) -> None:
        found[op] = Instruction(name, compute, frozenset(allowed), **more)

    for op, name, unary in (
        ("abs", "Abs", arith.absolute),
        ("exp", "Exp", elementary.exp),
        ("ln", "Ln", elementary.ln),
        ("sqrt", "Sqrt", arith.sqrt),
        ("rsqrt", "Rsqrt", elementary.rsqrt),
        ("reciprocal", "Reciprocal", elementary.reciprocal),
    ):
        add(op, name, unary, same(FLOATS, 2))
    add("relu", "Relu", arith.relu, same(FLOATS + " int32_t", 2))
    add("not", "Not", arith.bit_not, same("int16_t uint16_t", 2), bitwise=True)
    for op, name, binary in (
        ("add", "Add", arith.add),
        ("sub", "Sub", arith.sub),
        ("mul", "Mul", arith.mul),
        ("max", "Max", arith.maximum),
        ("min", "Min", arith.minimum),
    ):
        add(op, name, binary, same(ARITH, 3))
    add("div", "Div", arith.div, same(FLOATS, 3))
    add("and", "And", arith.bit_and, same("int16_t uint16_t", 3), bitwise=True)
    add("or", "Or", arith.bit_or, same("int16_t uint16_t", 3), bitwise=True)
    add("add_relu", "AddRelu", arith.add_relu, same("half float int16_t", 3))
    add("sub_relu", "SubRelu", arith.sub_relu, same("half float int16_t", 3))
    mixed = same(FLOATS, 4) | signatures("float half half float")
    add("mul_add_dst", "MulAddDst", arith.mul_add_dst, mixed, reads_dst=True)
    add("fused_mul_add", "FusedMulAdd", arith.fused_mul_add, same(FLOATS, 4), reads_dst=True)
    add("fused_mul_add_relu", "FusedMulAddRelu", arith.fused_mul_add_relu, same(FLOATS, 4), reads_dst=True)
    deq = signatures("half int32_t int32_t")
    add("add_deq_relu", "AddDeqRelu", casts.add_deq_relu, deq, needs_deq_scale=True)
    add("mul_cast", "MulCast", casts.mul_cast, signatures("int8_t half half", "uint8_t half half"))
    narrow = signatures("int8_t half half", "int8_t int16_t int16_t", "half float float")
    add("add_relu_cast", "AddReluCast", casts.add_relu_cast, narrow)
    add("sub_relu_cast", "SubReluCast", casts.sub_relu_cast, narrow)
    for op, name, scalar in (
        ("adds", "Adds", arith.adds),
        ("muls", "Muls", arith.muls),
        ("maxs", "Maxs", arith.maxs),
        ("mins", "Mins", arith.mins),
    ):
        add(op, name, scalar, same(ARITH, 2))
    add("leaky_relu", "LeakyRelu", arith.leaky_relu, same(FLOATS, 2))
    add("shift_left", "ShiftLeft", arith.shift_left, same("int16_t uint16_t int32_t uint32_t", 2))
    add("shift_right", "ShiftRight", arith.shift_right, same("int16_t uint16_t int32_t uint32_t", 2))
    axpy = same(FLOATS, 3) | signatures("float half float")
    add("axpy", "Axpy", arith.axpy, axpy, reads_dst=True)
    cast = {"modes": CAST_MODES, "mode_names": tuple(r.name for r in Round)}
    add("cast", "Cast", casts.cast, CAST_MODES, **cast)
    add("cast_deq", "CastDeq", casts.cast_deq, signatures("half int32_t"), needs_deq_scale=True)
    add("duplicate", "Duplicate", arith.duplicate, same(WORDS, 1))
    add("copy", "Copy", arith.copy, same(WORDS, 2))
    compare = {"kind": "compare", "mode_names": CMP_NAMES, "count_bytes": 256}
    add("compare", "Compare", selection.compare, _COMPARE, modes=_EQ_ONLY, **compare)
    eq_only = {s: frozenset([2]) for s in _compare_scalar() if s[1] == "int32_t"}
    add("compare_scalar", "CompareScalar", selection.compare_scalar, _compare_scalar(), modes=eq_only, **compare)
    select = {"kind": "select", "mode_names": SEL_NAMES}
    tensors = frozenset((d, m, d, d) for d in FLOATS.split() for m in _MASKS)
    add("select", "Select", selection.select, tensors, **select)
    add("select_scalar", "Select", selection.select_scalar, frozenset(s[:3] for s in tensors), **select)
    gathered = frozenset((d, d, "uint32_t") for d in WORDS.split())
    add("gather", "Gather", arith.copy, gathered, kind="gather")
    blocks = frozenset((d, d, "uint32_t") for d in ("uint16_t", "uint32_t"))
    add("gatherb", "Gatherb", arith.copy, blocks, kind="gatherb")
    add("brcb", "Brcb", arith.copy, same(WORDS, 2), kind="brcb")
    return found


def _adv() -> dict[str, Instruction]:
    found: dict[str, Instruction] = {}
    count_only = ("ceil", "floor", "round", "digamma", "lgamma", "exp")
    for op, compute in elementary.ADV_UNARY.items():
        forms: Forms = "count" if op in count_only else "no_tmp" if op == "log" else "all"
        found[op] = Instruction(op.capitalize(), compute, same(FLOATS, 2), forms=forms)
    found["power"] = Instruction("Power", elementary.power, same(FLOATS + " int32_t", 3), forms="all")
    found["xor"] = Instruction("Xor", arith.bit_xor, same("int16_t uint16_t", 3), forms="all", bitwise=True)
    axpy = same(FLOATS, 3) | signatures("float half float")
    found["axpy"] = Instruction("Axpy", arith.axpy, axpy, reads_dst=True, forms="tmp_count")
    found["quant"] = Instruction("Quant", casts.quant, signatures("int8_t half", "int8_t float"), forms="count")
    return found


def _inline_only() -> dict[str, Instruction]:
    """Calls of the C++ library that pyasc doesn't wrap, for `asc.inline`; keys are C++ names."""
    floats = same(FLOATS, 2)
    return {
        "Sigmoid": Instruction("Sigmoid", elementary.sigmoid, floats, forms="all"),
        "Silu": Instruction("Silu", elementary.silu, floats, forms="count"),
        "ClampMax": Instruction("ClampMax", arith.mins, floats, forms="count"),
        "ClampMin": Instruction("ClampMin", arith.maxs, floats, forms="count"),
        "Fmod": Instruction("Fmod", elementary.fmod, same(FLOATS, 3), forms="all"),
        "Compares": Instruction(
            "Compares",
            selection.compare_scalar,
            _compare_scalar(),
            kind="compare",
            modes={("uint8_t", "int32_t"): frozenset([2])},
            mode_names=CMP_NAMES,
            count_bytes=256,
        ),
    }


BASIC: Mapping[str, Instruction] = _basic()
ADV: Mapping[str, Instruction] = _adv()
INLINE: Mapping[str, Instruction] = {
    **{i.name: i for op, i in ADV.items() if op not in ("exp", "axpy", "quant")},
    **{i.name: i for op, i in BASIC.items() if op != "select_scalar"},
    **_inline_only(),
}
