"""Vector instructions in mask/repeat form on an executing core, gathers and block broadcasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from asc_sched.sim import errors
from asc_sched.sim.hazards import INDEX
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.patterns import Addresses, Masked, Stride, address_spans, lane_addresses
from asc_sched.sim.stream import Loc, Pipe
from asc_sched.sim.values import LocalTensor
from asc_sched.sim.vector_unit import pack, unpack

if TYPE_CHECKING:
    from asc_sched.sim.execute import ExecutingCore

Array: TypeAlias = "np.ndarray[Any, Any]"
V = INDEX[Pipe.V]


# -- mask/repeat form --------------------------------------------------------------------------------------------
class Lanes:
    """An operand of a call in mask/repeat form: the address of each lane, shape (repeats, lanes)."""

    __slots__ = ("addresses", "dtype", "spans", "tensor")

    def __init__(self, tensor: LocalTensor, stride: Stride, active: Array) -> None:
        repeats, lanes = active.shape
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.addresses = lane_addresses(tensor.addr, stride, repeats, lanes, tensor.dtype.size)
        self.spans = address_spans(self.addresses[active], tensor.dtype.size)

    @property
    def nbytes(self) -> int:
        """From the tensor's start to the end of the last element touched."""
        return self.spans[-1][1] - self.tensor.addr


def run_repeat(
    core: ExecutingCore,
    instruction: Instruction,
    dst: LocalTensor,
    srcs: tuple[LocalTensor, ...],
    masked: Masked,
    loc: Loc,
    scalar: Any,
    mode: int,
) -> None:
    """An instruction in mask/repeat form. Repeats run one after the other where one reads what another writes."""
    values = srcs[1:] if instruction.kind == "select" else srcs
    wide = max(t.dtype.size for t in ((dst, *values) if instruction.kind != "compare" else values))
    active = masked.active(wide)
    if not active.any():
        return
    bits = _BitOperand(instruction, dst, srcs, active, mode)
    strides = masked.strides
    value_strides = strides[2:] if instruction.kind == "select" else strides[1:]
    lanes = [Lanes(t, s, active) for t, s in zip(values, value_strides, strict=True)]
    out = None if instruction.kind == "compare" else Lanes(dst, strides[0], active)
    number = core.clocks.tick(V)
    if not _check_lanes(core, instruction, out, lanes, bits, number, loc):
        return
    if out is None or _independent(out, lanes, active):
        _compute_lanes(core, instruction, out, lanes, bits, active, slice(None), scalar, mode, loc)
    else:
        for repeat in range(len(active)):
            _compute_lanes(core, instruction, out, lanes, bits, active, slice(repeat, repeat + 1), scalar, mode, loc)


class _BitOperand:
    """The operand of Compare or Select that holds bits.

    The bits of repeats follow each other without gaps; Select in mode 0 uses those of one repeat for all.
    """

    def __init__(
        self, instruction: Instruction, dst: LocalTensor, srcs: tuple[LocalTensor, ...], active: Array, mode: int
    ) -> None:
        self.kind = instruction.kind
        self.tensor = dst if self.kind == "compare" else srcs[0] if self.kind == "select" else None
        self.count = active.shape[1] if self.kind == "select" and mode == 0 else active.size
        self.nbytes = -(-self.count // 8) if self.tensor is not None else 0


def _check_lanes(
    core: ExecutingCore,
    instruction: Instruction,
    out: Lanes | None,
    lanes: list[Lanes],
    bits: _BitOperand,
    number: int,
    loc: Loc,
) -> bool:
    name = instruction.name
    reads = [(x.tensor, x.nbytes, x.spans) for x in lanes]
    writes = [(out.tensor, out.nbytes, out.spans)] if out is not None else []
    if bits.tensor is not None:
        span = (bits.tensor, bits.nbytes, [(bits.tensor.addr, bits.tensor.addr + bits.nbytes)])
        (writes if bits.kind == "compare" else reads).append(span)
    for what, found in (("source", reads), ("destination", writes)):
        for tensor, nbytes, _ in found:
            if not core.check_operand(tensor, nbytes, f"{name}'s {what}", loc):
                return False
    for _, _, spans in reads:
        for start, end in spans:
            core.read_ub(V, number, start, end, loc)
    for _, _, spans in writes:
        for start, end in spans:
            core.write_ub(V, number, start, end, loc)
    return True


def _independent(out: Lanes, lanes: list[Lanes], active: Array) -> bool:
    """Whether all repeats can be computed at once: no element is written twice, or read after being written."""
    written = out.addresses[active]
    if len(np.unique(written)) != len(written):
        return False
    for x in lanes:
        same = x.dtype.size == out.dtype.size and np.array_equal(x.addresses[active], written)
        if not same and _touch(x.spans, out.spans):
            return False
    return True


def _touch(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    return any(s < e2 and s2 < e for s, e in a for s2, e2 in b)


def _load(core: ExecutingCore, x: Lanes, chosen: Addresses) -> tuple[Array, Array]:
    """Values and taint of elements at the given addresses."""
    size = x.dtype.size
    index = chosen // size
    view = core.ub.data.view(x.dtype.np)
    shadow = core.ub.shadow
    taint = shadow[chosen].astype(bool) if size == 1 else shadow.reshape(-1, size)[index].any(axis=1)
    return view[index], taint


def _compute_lanes(
    core: ExecutingCore,
    instruction: Instruction,
    out: Lanes | None,
    lanes: list[Lanes],
    bits: _BitOperand,
    active: Array,
    rows: slice,
    scalar: Any,
    mode: int,
    loc: Loc,
) -> None:
    on = active[rows]
    loaded = [_load(core, x, x.addresses[rows][on]) for x in lanes]
    values = tuple(v for v, _ in loaded)
    bad = np.zeros(int(on.sum()), bool)
    for _, taint in loaded:
        bad = bad | taint
    positions = np.flatnonzero(active.reshape(-1)) if rows == slice(None) else _row_positions(active, rows)
    if bits.kind == "select" and bits.tensor is not None:
        at = positions % bits.count
        mask = bits.tensor
        chosen = unpack(core.ub.data[mask.addr : mask.addr + bits.nbytes], bits.count)[at]
        bad = bad | unpack(core.ub.shadow[mask.addr : mask.addr + bits.nbytes], bits.count)[at]
        values = (chosen, *values)
    if bad.any():
        core.note_origin(out.tensor if out else bits.tensor, tuple(x.tensor for x in lanes), instruction.name, loc)
    if out is None:
        _store_bits(core, instruction, bits, values, positions, bad, scalar, mode)
        return
    result = np.empty(len(bad), out.dtype.np)
    instruction.compute(result, values, scalar, mode)
    where = out.addresses[rows][on]
    core.ub.data.view(out.dtype.np)[where // out.dtype.size] = result
    size = out.dtype.size
    taint = np.where(bad, np.uint8(0xFF), np.uint8(0))
    core.ub.shadow.reshape(-1, size)[where // size] = taint[:, None]


def _row_positions(active: Array, rows: slice) -> Array:
    flat = np.zeros(active.shape, bool)
    flat[rows] = active[rows]
    return np.flatnonzero(flat.reshape(-1))


def _store_bits(
    core: ExecutingCore,
    instruction: Instruction,
    bits: _BitOperand,
    values: tuple[Array, ...],
    positions: Array,
    bad: Array,
    scalar: Any,
    mode: int,
) -> None:
    assert bits.tensor is not None
    result = np.empty(len(bad), bool)
    instruction.compute(result, values, scalar, mode)
    start, end = bits.tensor.addr, bits.tensor.addr + bits.nbytes
    for memory, new in ((core.ub.data, result), (core.ub.shadow, bad)):
        held = unpack(memory[start:end], bits.count)
        held[positions] = new
        memory[start:end] = pack(held)


# -- gathers and broadcasts --------------------------------------------------------------------------------------
def run_gather(
    core: ExecutingCore,
    instruction: Instruction,
    dst: LocalTensor,
    src: LocalTensor,
    offset: LocalTensor,
    base: int,
    masked: Masked,
    loc: Loc,
) -> None:
    """Gather: element i of the destination is the one at byte `base` + offset[i] of the source."""
    active = masked.active(dst.dtype.size)
    if not active.any():
        return
    positions = np.flatnonzero(active.reshape(-1))
    out = Lanes(dst, masked.strides[0], active)
    count = int(positions[-1]) + 1
    if not core.check_operand(dst, out.nbytes, "Gather's destination", loc):
        return
    if not core.check_operand(offset, count * 4, "Gather's offsets", loc):
        return
    offsets = core.ub.view(offset.addr, count, offset.dtype)[positions].astype(np.int64) + base
    number = core.clocks.tick(V)
    core.require_defined(offset, count * 4, "Gather's offsets", loc)
    size = src.dtype.size
    for bad, why in ((offsets % size != 0, f"isn't a multiple of {size}"), (offsets + size > src.nbytes, "is outside")):
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            core.fail(
                errors.UbBoundsError,
                loc,
                f"Gather: offset {int(offsets[first])} (element {first}) {why} (source of {src.nbytes} bytes)",
            )
            return
    source = src.addr + offsets
    for start, end in (*address_spans(source, size), (offset.addr, offset.addr + count * 4)):
        core.read_ub(V, number, start, end, loc)
    for start, end in out.spans:
        core.write_ub(V, number, start, end, loc)
    where = out.addresses[active] // size
    shadow = core.ub.shadow.reshape(-1, size)
    core.ub.data.view(dst.dtype.np)[where] = core.ub.data.view(src.dtype.np)[source // size]
    shadow[where] = shadow[source // size]


def run_blocks(
    core: ExecutingCore,
    instruction: Instruction,
    dst: LocalTensor,
    src: LocalTensor,
    source: Addresses,
    read_bytes: int,
    repeats: int,
    stride: Stride,
    loc: Loc,
) -> None:
    """Brcb and Gatherb: every lane of the destination takes the element at a computed address."""
    lanes = 256 // dst.dtype.size
    active = np.ones((repeats, lanes), bool)
    out = Lanes(dst, stride, active)
    name = instruction.name
    if not core.check_operand(dst, out.nbytes, f"{name}'s destination", loc):
        return
    if not core.check_operand(src, read_bytes, f"{name}'s source", loc):
        return
    spans = [(out.tensor.addr, out.spans[-1][1]), (src.addr, src.addr + read_bytes)]
    if spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]:
        core.fail(errors.OverlapError, loc, f"{name}: destination and source must not overlap")
    number = core.clocks.tick(V)
    core.read_ub(V, number, *spans[1], loc)
    for start, end in out.spans:
        core.write_ub(V, number, start, end, loc)
    size = dst.dtype.size
    where = out.addresses // size
    shadow = core.ub.shadow.reshape(-1, size)
    core.ub.data.view(dst.dtype.np)[where] = core.ub.data.view(src.dtype.np)[source // size]
    shadow[where] = shadow[source // size]
