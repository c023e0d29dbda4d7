"""Builders of LocalTensor and GlobalTensor, and of the parameter structs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asc_sched.sim import dtypes, errors, scalar
from asc_sched.sim.core import Core
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step
from asc_sched.sim.queues import TBuf, round_up
from asc_sched.sim.values import GlobalTensor, LocalTensor, Params

#: CACHE_MODE_DISABLE in AscendC::CacheMode is 0; pyasc's attribute holds its own enum, emitted the other way round.
_BYPASS_MODE = 0
_READ, _WRITE = 1, 2
_UB = 1  # pyasc's number of Hardware.UB


# -- local tensors ----------------------------------------------------------------------------------------------
def _tbuf_get(op: Op) -> Step:
    tbuf, out, loc = op.operands[0], op.results[0], op.loc
    dtype = dtypes.of(op.types[1])  # the result's type comes second, the length's last
    length = op.operands[1] if len(op.operands) > 1 else -1

    def step(env: Env, core: Core) -> None:
        buf: TBuf = env[tbuf]
        if buf.addr < 0:
            core.fail(errors.QueueSetupError, loc, f"get on the TBuf of {buf.loc} before init_buffer")
        nbytes = buf.nbytes
        wanted = env[length] * dtype.size if length >= 0 else 0
        if wanted > nbytes:
            core.fail(errors.UbBoundsError, loc, f"get of {wanted} bytes from the TBuf of {nbytes} bytes ({buf.loc})")
        env[out] = LocalTensor(buf.addr, wanted or nbytes, dtype)

    return step


def _tbuf_get_with_offset(op: Op) -> Step:
    tbuf, size, offset = op.operands
    out, dtype, loc = op.results[0], dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        buf: TBuf = env[tbuf]
        if buf.addr < 0:
            core.fail(errors.QueueSetupError, loc, f"get_with_offset on the TBuf of {buf.loc} before init_buffer")
        start, nbytes = env[offset], env[size] * dtype.size
        if start + nbytes > buf.nbytes:
            core.fail(
                errors.UbBoundsError,
                loc,
                f"get_with_offset of bytes {start} to {start + nbytes} from the TBuf of {buf.nbytes} bytes ({buf.loc})",
            )
        env[out] = LocalTensor(buf.addr + start, nbytes, dtype)

    return step


def _static_tensor(op: Op) -> Step:
    addr, size = op.operands
    out, dtype, loc = op.results[0], dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        start, elements = env[addr], env[size]
        nbytes = elements * dtype.size if elements else max(0, core.target.ub_bytes - start)
        core.static_tensor(start, nbytes, loc)
        env[out] = LocalTensor(start, nbytes, dtype)

    return step


class Allocator:
    """A LocalMemAllocator: static tensors one after the other from UB's start, each on 32 bytes."""

    __slots__ = ("top",)

    def __init__(self) -> None:
        self.top = 0


def _allocator(op: Op) -> Step:
    out, kind, loc = op.results[0], op.types[-1], op.loc
    if not kind.endswith(f"<{_UB}>"):
        raise errors.UnsupportedError(f"{loc}: LocalMemAllocator of something else than UB in a vector kernel", loc)

    def step(env: Env, core: Core) -> None:
        env[out] = Allocator()

    return step


def _allocate(op: Op) -> Step:
    allocator, size = op.operands
    out, dtype, loc = op.results[0], dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        place: Allocator = env[allocator]
        start, nbytes = place.top, env[size] * dtype.size
        if nbytes <= 0:
            core.fail(errors.QueueSetupError, loc, f"LocalMemAllocator.alloc of {nbytes} bytes")
        place.top += round_up(nbytes)
        if place.top > core.target.ub_bytes:
            text = f"LocalMemAllocator.alloc of UB bytes {start} to {start + nbytes}; UB has {core.target.ub_bytes}"
            core.fail(errors.UbOverflowError, loc, text)
        core.static_tensor(start, nbytes, loc)
        env[out] = LocalTensor(start, nbytes, dtype)

    return step


def _allocated(op: Op) -> Step:
    (allocator,), out = op.operands, op.results[0]

    def step(env: Env, core: Core) -> None:
        env[out] = env[allocator].top

    return step


def _local_subindex(op: Op) -> Step:
    tensor, index = op.operands
    out = op.results[0]

    def step(env: Env, core: Core) -> None:
        base: LocalTensor = env[tensor]
        skip = env[index] * base.dtype.size
        env[out] = LocalTensor(base.addr + skip, base.nbytes - skip, base.dtype, base.buffer)

    return step


def _local_tensor(op: Op) -> Step:
    """A tensor without memory, until an in-place alloc_tensor or deque gives it some."""
    out, dtype = op.results[0], dtypes.of(op.types[-1])

    def step(env: Env, core: Core) -> None:
        env[out] = LocalTensor(0, 0, dtype)

    return step


def _reinterpret(op: Op) -> Step:
    tensor, out, dtype = op.operands[0], op.results[0], dtypes.of(op.types[-1])

    def step(env: Env, core: Core) -> None:
        base: LocalTensor = env[tensor]
        env[out] = LocalTensor(base.addr, base.nbytes, dtype, base.buffer)

    return step


def _local_size(op: Op) -> Step:
    tensor, out = op.operands[0], op.results[0]

    def step(env: Env, core: Core) -> None:
        base: LocalTensor = env[tensor]
        env[out] = base.nbytes // base.dtype.size

    return step


def _set_size(op: Op) -> Step:
    tensor, size = op.operands

    def step(env: Env, core: Core) -> None:
        base: LocalTensor = env[tensor]
        env[tensor] = LocalTensor(base.addr, env[size] * base.dtype.size, base.dtype, base.buffer)

    return step


def _phy_addr(op: Op) -> Step:
    tensor, offset = op.operands
    out = op.results[0]

    def step(env: Env, core: Core) -> None:
        base: LocalTensor = env[tensor]
        env[out] = base.addr + env[offset] * base.dtype.size

    return step


def _signed(index: Any) -> Any:
    """An element's number: C++ passes it unsigned, so that a negative one is huge."""
    return index - (1 << 64) if isinstance(index, int) and index >> 63 else index


def _local_get(op: Op) -> Step:
    tensor, index = op.operands
    out, loc = op.results[0], op.loc

    def step(env: Env, core: Core) -> None:
        env[out] = core.local_get(env[tensor], _signed(env[index]), loc)

    return step


def _local_set(op: Op) -> Step:
    tensor, index, value = op.operands
    loc = op.loc
    return lambda env, core: core.local_set(env[tensor], _signed(env[index]), env[value], loc)


# -- global tensors ---------------------------------------------------------------------------------------------
def _global_tensor(op: Op) -> Step:
    out, dtype = op.results[0], dtypes.of(op.types[-1])

    def step(env: Env, core: Core) -> None:
        env[out] = GlobalTensor(dtype)

    return step


def _set_global_buffer(op: Op) -> Step:
    tensor, address, *size = op.operands
    loc = op.loc

    def step(env: Env, core: Core) -> None:
        gm: GlobalTensor = env[tensor]
        gm.arg, gm.offset = env[address]
        gm.size = env[size[0]] if size else None
        core.init("global_buffer", loc)

    return step


def _pointer_offset(op: Op) -> Step:
    """A GM address and elements to skip: 32 bits unsigned, as the C++ has them."""
    pointer, index = op.operands
    out, size = op.results[0], dtypes.of(op.types[0]).size

    def step(env: Env, core: Core) -> None:
        arg, offset = env[pointer]
        env[out] = (arg, offset + env[index] * size)

    return step


def _global_size(op: Op) -> Step:
    tensor, out = op.operands[0], op.results[0]

    def step(env: Env, core: Core) -> None:
        env[out] = env[tensor].size or 0

    return step


def _global_subindex(op: Op) -> Step:
    tensor, index = op.operands
    out = op.results[0]

    def step(env: Env, core: Core) -> None:
        env[out] = env[tensor].at(env[index])

    return step


def _cache_hint(op: Op) -> Step:
    tensor, loc = op.operands[0], op.loc
    mode, rw = op.attrs["mode"], op.attrs.get("rwMode", 3)
    assert isinstance(rw, int)

    def step(env: Env, core: Core) -> None:
        gm: GlobalTensor = env[tensor]
        if rw & _READ:
            gm.bypass_read = mode == _BYPASS_MODE
        if rw & _WRITE:
            gm.bypass_write = mode == _BYPASS_MODE
        core.init("hint", loc)

    return step


def _global_get(op: Op) -> Step:
    tensor, index = op.operands
    out, loc = op.results[0], op.loc

    def step(env: Env, core: Core) -> None:
        env[out] = core.global_get(env[tensor], _signed(env[index]), loc)

    return step


def _global_set(op: Op) -> Step:
    tensor, index, value = op.operands
    loc = op.loc
    return lambda env, core: core.global_set(env[tensor], _signed(env[index]), env[value], loc)


# -- parameters -------------------------------------------------------------------------------------------------
def _construct(op: Op) -> Step:
    """A parameter struct; its fields are cast as the emitted C++ casts them, which is what hardware sees."""
    struct, fields = str(op.attrs["struct"]), op.attrs["fields"]
    assert isinstance(fields, tuple)
    out, operands, loc = op.results[0], op.operands, op.loc
    casts: list[Any] = []
    for operand_type, field in zip(op.types, fields, strict=True):
        src, dst = dtypes.of(operand_type), dtypes.BY_IR[str(field)]
        casts.append(scalar.cast("cast", src, dst))

    def step(env: Env, core: Core) -> None:
        values = tuple(fn(env[i]) for fn, i in zip(casts, operands, strict=True))
        for i, value in zip(operands, values, strict=True):
            if value != env[i] and value == value:
                core.fail(errors.CountError, loc, f"{struct}: {env[i]} doesn't fit its field and becomes {value}")
        env[out] = Params(struct, values)

    return step


BUILDERS: Mapping[str, Builder] = {
    "ascendc.tbuf.get_tensor": _tbuf_get,
    "ascendc.tbuf.get_with_offset": _tbuf_get_with_offset,
    "ascendc.local_mem_allocator": _allocator,
    "ascendc.local_mem_allocator.alloc_dynamic": _allocate,
    "ascendc.local_mem_allocator.get_cur_addr": _allocated,
    "ascendc.local_tensor": _local_tensor,
    "ascendc.local_tensor_v2": _static_tensor,
    "ascendc.local_tensor.subindex": _local_subindex,
    "ascendc.local_tensor.bracket": _local_subindex,
    "ascendc.local_tensor.get_size": _local_size,
    "ascendc.local_tensor.get_length": _local_size,
    "ascendc.local_tensor.set_size": _set_size,
    "ascendc.local_tensor.get_phy_addr": _phy_addr,
    "ascendc.local_tensor.get_value": _local_get,
    "ascendc.local_tensor.set_value": _local_set,
    "ascendc.reinterpret_cast": _reinterpret,
    "ascendc.global_tensor": _global_tensor,
    "ascendc.global_tensor.set_global_buffer": _set_global_buffer,
    "emitasc.ptr_offset": _pointer_offset,
    "ascendc.global_tensor.get_size": _global_size,
    "ascendc.global_tensor.subindex": _global_subindex,
    "ascendc.global_tensor.bracket": _global_subindex,
    "ascendc.global_tensor.set_l2_cache_hint": _cache_hint,
    "ascendc.global_tensor.get_value": _global_get,
    "ascendc.global_tensor.set_value": _global_set,
    "ascendc.construct": _construct,
}
