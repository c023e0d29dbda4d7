"""What each vector instruction costs on a 910B-class core: ``startup + per_repeat * repeats`` cycles.

A repeat is 256 bytes of the widest operand. Sources by short name (see also `asc_sched.target.timing`):
- ADK: `add_high_performance` and `bank_conflict_ub` READMEs (22.0 startup, 1 or 2 per repeat).
- msKPP: steady throughput on 910B1, per 256 bytes.
- PTO: pto-isa's "910B3 calibration", fp32 single instructions.
- ATT: graph-autofusion's fitted per-API model (startups, and the maths APIs that are several instructions).
- estimate: nothing published; composed from the instructions that such an API consists of.

Two-source instructions read both sources in one cycle unless these lie in the same UB bank groups; their row has the
conflict-free figure and `sources_conflict`, and `bank_cycles` adds the conflict from the real addresses.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import TypeAlias

import attrs

log = logging.getLogger("asc_sched.target")

Strides: TypeAlias = "tuple[tuple[int, int], ...]"

HALF, FLOAT = "half", "float"
_SIZES = {
    "half": 2, "bfloat16_t": 2, "float": 4, "double": 8, "bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2,
    "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8, "int4b_t": 1,
}  # fmt: skip


@attrs.frozen
class Cost:
    """Cycles of one instruction: `startup + per_repeat * repeats`; maths APIs: `startup + per_element * count`."""

    startup: float
    per_repeat: float
    source: str
    sources_conflict: bool = False
    per_element: float = 0.0


def _pair(startup: float, half: float, single: float, source: str) -> dict[str, Cost]:
    return {HALF: Cost(startup, half, source), FLOAT: Cost(startup, single, source)}


def _same(startup: float, per_repeat: float, source: str, conflict: bool = False) -> dict[str, Cost]:
    return {"": Cost(startup, per_repeat, source, conflict)}


def _api(half: tuple[float, float], single: tuple[float, float], source: str) -> dict[str, Cost]:
    """A maths API of several instructions: (cycles per element, startup) in half and in float."""
    return {
        HALF: Cost(half[1], 0.0, source, per_element=half[0]),
        FLOAT: Cost(single[1], 0.0, source, per_element=single[0]),
    }


def _estimate(instructions: float) -> dict[str, Cost]:
    """`instructions` basic ones of 1.5 cycles per repeat (half is computed in float, with two casts)."""
    single = (instructions * 1.5 / 64, instructions * 22)
    half = ((instructions + 2) * 1.5 / 64, (instructions + 2) * 22)
    return _api(half, single, "estimate")


_ATT_BINARY = "ADK, ATT startup; per repeat ADK bank README"

#: Ascend C call -> element type of the first source (or "" for any) -> cost.
COSTS: Mapping[str, Mapping[str, Cost]] = {
    # two sources
    "Add": _same(22, 1, _ATT_BINARY, True),
    "Sub": _same(22, 1, _ATT_BINARY, True),
    "Mul": _same(23, 1, _ATT_BINARY, True),
    "Max": _same(20, 1, _ATT_BINARY, True),
    "Min": _same(20, 1, _ATT_BINARY, True),
    "And": _same(20, 1, "PTO (startup); msKPP vand", True),
    "Or": _same(20, 1, "PTO (startup); msKPP vor", True),
    "AddRelu": _same(22, 1, "msKPP vaddrelu; startup as Add", True),
    "SubRelu": _same(22, 1, "msKPP vsubrelu; startup as Sub", True),
    "AddReluCast": _same(22, 1, "as AddRelu", True),
    "SubReluCast": _same(22, 1, "as SubRelu", True),
    "AddDeqRelu": _same(22, 1, "as AddRelu", True),
    "MulCast": _same(23, 1, "msKPP vmulconv; startup as Mul", True),
    "Div": _same(29, 4, "msKPP and PTO 4 per repeat; ATT startup"),
    "MulAddDst": {"": Cost(22, 6, "msKPP vmla"), "float<-half": Cost(22, 2.5, "msKPP vmla: 5 per 256 bytes of half")},
    "FusedMulAdd": _same(22, 6, "msKPP vmadd"),
    "FusedMulAddRelu": _same(22, 6, "msKPP vmaddrelu"),
    "Select": _same(45, 1, "ATT startup; per repeat msKPP vsel (2 with conflict)", True),
    "Compare": _same(21, 2, "ATT, msKPP vcmpv"),
    # one source and a scalar
    "Adds": _same(22, 1, "ATT, msKPP, PTO"),
    "Muls": _same(23, 1, "ATT, msKPP, PTO"),
    "Maxs": _same(20, 1, "ATT, msKPP, PTO"),
    "Mins": _same(20, 1, "ATT, msKPP, PTO"),
    "LeakyRelu": _same(26, 1, "PTO"),
    "ShiftLeft": _same(20, 1, "msKPP vshl; startup as And"),
    "ShiftRight": _same(20, 1, "msKPP vshr; startup as And"),
    "Axpy": _same(22, 2, "msKPP vaxpy; startup as Adds"),
    "CompareScalar": _same(22, 1, "ATT, msKPP vcmpvs"),
    "Compares": _same(22, 1, "ATT, msKPP vcmpvs"),
    # one source
    "Abs": _same(20, 1, "ATT, msKPP"),
    "Relu": _same(20, 1, "ATT, msKPP"),
    "Not": _same(20, 1, "msKPP vnot; startup as Abs"),
    "Exp": _pair(28, 4, 2, "ATT, msKPP, PTO"),
    "Ln": _pair(33, 4, 2, "PTO startup; msKPP vln"),
    "Sqrt": _pair(29, 4, 2, "ATT, msKPP"),
    "Rsqrt": _same(21, 1, "ATT, msKPP, PTO"),
    "Reciprocal": _same(21, 1, "ATT, msKPP vrec"),
    "Cast": {
        "": Cost(20, 1, "ATT, msKPP vconv"),
        "half<-float": Cost(20, 0.56, "ATT"),
        "half<-uint8_t": Cost(46, 1.3, "ATT"),
    },
    "CastDeq": _same(20, 1, "as Cast"),
    "Copy": _same(13, 1, "ATT"),
    "DataCopy": _same(13, 1, "within UB: as Copy"),
    "Brcb": _same(20, 1, "msKPP vbrcb"),
    "Gather": {
        "": Cost(22, 12, "msKPP vgather u32"),
        HALF: Cost(22, 24, "msKPP vgather u16"),
        "int16_t": Cost(22, 24, "msKPP vgather u16"),
        "uint16_t": Cost(22, 24, "msKPP vgather u16"),
    },
    "Gatherb": _same(22, 2, "msKPP vgatherb"),
    # none
    "Duplicate": _same(17, 1, "ATT, msKPP vector_dup"),
    # maths APIs
    "Sigmoid": _api((0.1011, 116), (0.1256, 116), "ATT"),
    "Silu": _api((0.1011 + 0.0156, 139), (0.1256 + 0.0312, 139), "ATT Sigmoid, and Mul"),
    "Swish": _api((0.1011 + 0.0234, 162), (0.1256 + 0.0469, 162), "ATT Sigmoid, Mul and Muls"),
    "Tanh": _api((0.1976, 182), (0.1570, 154), "ATT"),
    "Erf": _api((0.6996, 478), (0.6038, 458), "ATT"),
    "Erfc": _api((0.6996, 478), (0.6038, 458), "estimate: as ATT Erf"),
    "Sign": _api((0.0855, 119), (0.1701, 119), "ATT"),
    "Power": _api((0.6647, 2517), (0.6199, 730), "ATT"),
    "Log": _pair(33, 4, 2, "as Ln"),
    "Gelu": _estimate(14),
    "FasterGelu": _estimate(6),
    "FasterGeluV2": _estimate(16),
    "Sin": _estimate(24),
    "Cos": _estimate(25),
    "Tan": _estimate(40),
    "Asin": _estimate(34),
    "Acos": _estimate(36),
    "Atan": _estimate(40),
    "Sinh": _estimate(9),
    "Cosh": _estimate(9),
    "Asinh": _estimate(14),
    "Acosh": _estimate(10),
    "Atanh": _estimate(9),
    "Ceil": _estimate(1),
    "Floor": _estimate(1),
    "Round": _estimate(1),
    "Trunc": _estimate(1),
    "Frac": _estimate(2),
    "Fmod": _estimate(7),
    "Xor": _same(66, 4, "estimate: And, Or, Not, And"),
    "ClampMax": _same(42, 2, "estimate: Mins and a compare"),
    "ClampMin": _same(42, 2, "estimate: Maxs and a compare"),
    "Lgamma": _estimate(90),
    "Digamma": _estimate(90),
    "Quant": _estimate(4),
    "CreateVecIndex": _same(40, 2, "estimate"),
    "Arange": _same(40, 2, "estimate"),
}

#: Count forms whose bytes aren't a multiple of 256 take this much longer (PTO: 15 to 19, "count mode dispatch").
PARTIAL_REPEAT_CYCLES = 16.0
#: Share of repeats that wait when dst and a source collide in a bank (ADK bank README, scenario 5: 49 of 64).
READ_WRITE_STALL = 0.77
#: Bank groups of UB, and the strides of an operand without gaps.
_GROUPS = 16
_DENSE = (1, 8)
#: What an instruction without a row is taken to cost.
UNKNOWN = Cost(22, 2, "estimate: no row")


def size_of(dtype: str) -> int:
    """Bytes of an element of that Ascend C type."""
    return _SIZES[dtype]


@functools.cache
def _warn_unknown(name: str) -> None:
    log.warning("no cost of %s is known; it is timed as %g + %g per repeat", name, UNKNOWN.startup, UNKNOWN.per_repeat)


def cost_of(name: str, dst: str, src: str) -> Cost:
    """The row for an instruction with that destination and first source type (Ascend C names)."""
    rows = COSTS.get(name)
    if rows is None:
        _warn_unknown(name)
        return UNKNOWN
    for key in (f"{dst}<-{src}", src, ""):
        if key in rows:
            return rows[key]
    return rows[HALF if size_of(src) <= 2 else FLOAT]


def bank_cycles(cost: Cost, dst: int, srcs: tuple[int, ...]) -> float:
    """Cycles per repeat that UB bank conflicts add, from the operands' byte addresses (contiguous operands).

    UB address bits: 32-byte row in bits 0-4, bank group in 5-8, row number in 9-15, bank of the group in 16-17. A
    repeat covers 8 of the 16 groups. Two sources collide unless their groups are the complementary halves, that is
    256 bytes apart modulo 512. A destination is written one repeat later, so it collides with a source of the same
    bank unless both start in the same group (bank README, scenarios 1 to 6).
    """
    if cost.sources_conflict and len(srcs) > 1:
        apart = (srcs[-1] - srcs[-2]) >> 5 & 15
        if apart != 8:
            return 1.0
    if cost.per_repeat > 1:
        return 0.0
    for src in srcs:
        if src != dst and dst >> 16 == src >> 16 and (dst - src) >> 5 & 15:
            return READ_WRITE_STALL
    return 0.0


def strided_cycles(base: float, addresses: tuple[int, ...], strides: Strides, repeats: int) -> float:
    """Cycles per repeat of an instruction whose operands have those strides, without startup.

    Each of the 16 bank groups gives or takes one 32-byte block a cycle, so a repeat takes as long as its busiest group
    needs for the reads, or for the writes (bank_conflict_ub and bank_conflict_nd2nz READMEs: 8 writes into one group
    take 8 cycles). The same block read several times by one operand counts once.
    """
    rounds = max(1, min(repeats, _GROUPS))
    total = 0.0
    for repeat in range(rounds):
        read = [0] * _GROUPS
        write = [0] * _GROUPS
        for i, (address, (block, step)) in enumerate(zip(addresses, strides, strict=False)):
            for at in {(address >> 5) + repeat * step + k * block for k in range(8)}:
                (read if i else write)[at % _GROUPS] += 1
        total += max(base, *read, *write)
    return total / rounds


@functools.lru_cache(maxsize=4096)
def vector_cycles(
    name: str,
    dst: str,
    srcs: tuple[str, ...],
    count: int,
    addresses: tuple[int, ...],
    repeats: int | None = None,
    strides: Strides | None = None,
) -> float:
    """Cycles that the vector pipe is busy with one instruction.

    `dst`, `srcs`: Ascend C element types; `addresses`: UB byte addresses, dst first. `repeats` is None for count
    forms, whose repeats follow from `count` and the widest operand; otherwise `strides` are each operand's (between
    blocks, between repeats), in 32-byte blocks, dst first.
    """
    cost = cost_of(name, dst, srcs[0] if srcs else dst)
    if cost.per_element:
        return cost.startup + cost.per_element * count
    extra = 0.0
    if name == "Select":  # its first source are the mask bits
        srcs, addresses, strides = srcs[1:], (addresses[0], *addresses[2:]), None
    elif name == "Gather":  # its second source are offsets; msKPP's figure is per 256 bytes of data
        srcs, addresses = srcs[:1], addresses[:2]
    if repeats is None:
        nbytes = count * max(size_of(d) for d in (dst, *srcs))
        repeats = -(-nbytes // 256)
        if nbytes % 256:
            extra = PARTIAL_REPEAT_CYCLES
    if strides is not None and any(s != _DENSE for s in strides):
        return cost.startup + strided_cycles(cost.per_repeat, addresses, strides, repeats) * repeats
    return cost.startup + extra + (cost.per_repeat + bank_cycles(cost, addresses[0], addresses[1:])) * repeats


def ideal_cycles(name: str, dst: str, srcs: tuple[str, ...], count: int) -> float:
    """Throughput cycles alone: no startup, no conflicts. For bounds."""
    cost = cost_of(name, dst, srcs[0] if srcs else dst)
    if cost.per_element:
        return cost.per_element * count
    return cost.per_repeat * count * max(size_of(d) for d in (dst, *srcs)) / 256
