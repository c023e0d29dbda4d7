"""Vector instructions in count form on an executing core: operand checks, what is defined, the arithmetic itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from asc_sched.sim import errors
from asc_sched.sim.dtypes import DType
from asc_sched.sim.hazards import INDEX
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.stream import Loc, Pipe
from asc_sched.sim.values import LocalTensor

if TYPE_CHECKING:
    from asc_sched.sim.execute import ExecutingCore

Array: TypeAlias = "np.ndarray[Any, Any]"
V = INDEX[Pipe.V]


# -- count form --------------------------------------------------------------------------------------------------
def run_count(
    core: ExecutingCore,
    instruction: Instruction,
    dst: LocalTensor,
    srcs: tuple[LocalTensor, ...],
    count: int,
    loc: Loc,
    scalar: Any,
    mode: int,
) -> None:
    """An instruction on `count` elements in a row."""
    ub = core.ub
    operands = _operands(core, instruction, dst, srcs, count, mode, loc)
    if operands is None:
        return
    number = core.clocks.tick(V)
    clean = True
    (out_start, out_end), *spans = operands
    for start, end in spans:
        core.read_ub(V, number, start, end, loc)
        if ub.shadow[start:end].any():
            clean = False
    core.write_ub(V, number, out_start, out_end, loc)
    if instruction.kind == "map":
        views = tuple(ub.view(s.addr, count, s.dtype) for s in srcs)
        if not clean:
            _taint_map(core, instruction, dst, srcs, count, loc)
        else:
            ub.shadow[out_start:out_end] = 0
        instruction.compute(ub.view(dst.addr, count, dst.dtype), views, scalar, mode)
    elif instruction.kind == "compare":
        _compare(core, instruction, dst, srcs, count, scalar, mode, clean, loc)
    else:
        _select(core, instruction, dst, srcs, count, scalar, mode, clean, loc)


def _operands(
    core: ExecutingCore,
    instruction: Instruction,
    dst: LocalTensor,
    srcs: tuple[LocalTensor, ...],
    count: int,
    mode: int,
    loc: Loc,
) -> list[tuple[int, int]] | None:
    """The byte ranges of destination and sources after checking them; None when an operand isn't in UB."""
    name, kind = instruction.name, instruction.kind
    sizes = [count * dst.dtype.size, *(count * s.dtype.size for s in srcs)]
    if kind == "compare":
        sizes[0] = -(-count // 8)
        wide = count * srcs[0].dtype.size
        if wide % instruction.count_bytes:
            step = instruction.count_bytes // srcs[0].dtype.size
            core.fail(
                errors.CountError,
                loc,
                f"{name} of {count} {srcs[0].dtype} = {wide} bytes; it needs a multiple of {instruction.count_bytes} "
                f"bytes (next: {-(-count // step) * step} elements)",
            )
    elif kind == "select":
        sizes[1] = _mask_bytes(count, mode, dst.dtype)
    found = []
    for position, (tensor, nbytes) in enumerate(zip((dst, *srcs), sizes, strict=True)):
        what = "destination" if position == 0 else f"source {position - 1}" if len(srcs) > 1 else "source"
        if not core.check_operand(tensor, nbytes, f"{name}'s {what}", loc):
            return None
        found.append((tensor.addr, tensor.addr + nbytes))
    _check_overlap(core, instruction, found, loc)
    return found


def _check_overlap(core: ExecutingCore, instruction: Instruction, spans: list[tuple[int, int]], loc: Loc) -> None:
    """A basic call may work in place (the same bytes); any other overlap, and any at all for `adv`, is forbidden."""
    start, end = spans[0]
    for other, last in spans[1:-1] if instruction.reads_dst else spans[1:]:
        if other >= end or start >= last or ((other, last) == (start, end) and not instruction.is_adv):
            continue
        rule = "must not overlap" if instruction.is_adv else "may be the same but not overlap in part"
        core.fail(
            errors.OverlapError,
            loc,
            f"{instruction.name}: destination (UB bytes {start} to {end}) and source ({other} to {last}) {rule}",
        )


def _mask_bytes(count: int, mode: int, dtype: DType) -> int:
    """Bytes of Select's mask: a bit per element; in mode 0 one repeat's bits, used again for every repeat."""
    bits = min(count, 256 // dtype.size) if mode == 0 else count
    return -(-bits // 8)


def _element_taint(core: ExecutingCore, tensor: LocalTensor, count: int) -> Array:
    size = tensor.dtype.size
    shadow = core.ub.shadow[tensor.addr : tensor.addr + count * size]
    return shadow.astype(bool) if size == 1 else shadow.reshape(count, size).any(axis=1)


def _any_taint(core: ExecutingCore, tensors: tuple[LocalTensor, ...], count: int) -> Array:
    """Of each element, whether it is undefined in any of the tensors."""
    bad = _element_taint(core, tensors[0], count)
    for tensor in tensors[1:]:
        bad = bad | _element_taint(core, tensor, count)
    return bad


def _taint_map(
    core: ExecutingCore, instruction: Instruction, dst: LocalTensor, srcs: tuple[LocalTensor, ...], count: int, loc: Loc
) -> None:
    core.note_origin(dst, srcs, instruction.name, loc)
    nbytes = count * dst.dtype.size
    shadow = core.ub.shadow
    if instruction.bitwise:
        bits = shadow[srcs[0].addr : srcs[0].addr + nbytes].copy()
        for src in srcs[1:]:
            bits |= shadow[src.addr : src.addr + nbytes]
        shadow[dst.addr : dst.addr + nbytes] = bits
        return
    bad = _any_taint(core, srcs, count)
    shadow[dst.addr : dst.addr + nbytes] = np.repeat(np.where(bad, np.uint8(0xFF), np.uint8(0)), dst.dtype.size)


def pack(bits: Array) -> Array:
    """Booleans as bits, the first in the lowest bit."""
    return np.packbits(bits, bitorder="little")


def unpack(packed: Array, count: int) -> Array:
    """The first `count` bits as booleans."""
    return np.unpackbits(packed, bitorder="little", count=count).astype(bool)


def _compare(
    core: ExecutingCore,
    instruction: Instruction,
    dst: LocalTensor,
    srcs: tuple[LocalTensor, ...],
    count: int,
    scalar: Any,
    mode: int,
    clean: bool,
    loc: Loc,
) -> None:
    ub = core.ub
    result = np.empty(count, bool)
    instruction.compute(result, tuple(ub.view(s.addr, count, s.dtype) for s in srcs), scalar, mode)
    end = dst.addr + -(-count // 8)
    if clean:
        taint: Any = 0
    else:
        core.note_origin(dst, srcs, instruction.name, loc)
        taint = pack(_any_taint(core, srcs, count))
    ub.data[dst.addr : end] = pack(result)
    ub.shadow[dst.addr : end] = taint


def _mask_bits(core: ExecutingCore, mask: LocalTensor, count: int, mode: int, dtype: DType) -> tuple[Array, Array]:
    """Select's mask and its undefined bits, one per element."""
    nbytes = _mask_bytes(count, mode, dtype)
    bits = min(count, nbytes * 8)
    packed = core.ub.data[mask.addr : mask.addr + nbytes]
    shadow = core.ub.shadow[mask.addr : mask.addr + nbytes]
    chosen, bad = unpack(packed, bits), unpack(shadow, bits)
    if bits < count:
        repeats = -(-count // bits)
        chosen, bad = np.tile(chosen, repeats)[:count], np.tile(bad, repeats)[:count]
    return chosen, bad


def _select(
    core: ExecutingCore,
    instruction: Instruction,
    dst: LocalTensor,
    srcs: tuple[LocalTensor, ...],
    count: int,
    scalar: Any,
    mode: int,
    clean: bool,
    loc: Loc,
) -> None:
    mask, *values = srcs
    chosen, bad = _mask_bits(core, mask, count, mode, dst.dtype)
    views = tuple(core.ub.view(v.addr, count, v.dtype) for v in values)
    taint: Any = 0
    if not clean:
        core.note_origin(dst, srcs, instruction.name, loc)
        first = _element_taint(core, values[0], count)
        second = _element_taint(core, values[1], count) if len(values) > 1 else np.zeros(count, bool)
        bad = bad | np.where(chosen, first, second)
        taint = np.repeat(np.where(bad, np.uint8(0xFF), np.uint8(0)), dst.dtype.size)
    instruction.compute(core.ub.view(dst.addr, count, dst.dtype), (chosen, *views), scalar, mode)
    core.ub.shadow[dst.addr : dst.addr + count * dst.dtype.size] = taint
