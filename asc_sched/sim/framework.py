"""Builders of TPipe, TQue, TBuf, tensors, flags and barriers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asc_sched.sim import dtypes, errors, scalar
from asc_sched.sim.core import Core, log
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step, unknown
from asc_sched.sim.numerics.casts import convert
from asc_sched.sim.patterns import FULL_MASK
from asc_sched.sim.queues import Queue, State, TBuf
from asc_sched.sim.stream import Pipe
from asc_sched.sim.values import GlobalTensor, LocalTensor, Params

_PIPES = {p.value: p for p in Pipe}
#: CACHE_MODE_DISABLE in AscendC::CacheMode is 0; pyasc's attribute holds its own enum, emitted the other way round.
_BYPASS_MODE = 0
_READ, _WRITE = 1, 2
#: `AscendC::HardEvent` between the pipes of a vector core, by pyasc's number.
HARD_EVENTS: dict[int, str] = {
    4: "mte2_v",
    5: "v_mte2",
    6: "mte3_v",
    7: "v_mte3",
    10: "v_v",
    19: "mte3_mte2",
    20: "mte2_mte3",
    21: "s_v",
    22: "v_s",
    23: "s_mte2",
    24: "mte2_s",
    25: "s_mte3",
    26: "mte3_s",
}


# -- start ------------------------------------------------------------------------------------------------------
def _block_idx(op: Op) -> Step:
    out, loc = op.results[0], op.loc

    def step(env: Env, core: Core) -> None:
        env[out] = core.number
        core.init("get_block_idx", loc)

    return step


def _block_num(op: Op) -> Step:
    out = op.results[0]

    def step(env: Env, core: Core) -> None:
        env[out] = core.core_num

    return step


def _pipe(op: Op) -> Step:
    loc = op.loc
    return lambda env, core: core.init("tpipe", loc)


def _queue(op: Op) -> Step:
    words = op.types[0].strip("<>").split(", ")  # position and depth; a TQueBind has two positions
    position, depth = words[0].upper(), int(words[-1])
    out, loc = op.results[0], op.loc
    dead = op.name == "ascendc.que_bind"  # pyasc leaves one behind for every TBuf

    def step(env: Env, core: Core) -> None:
        queues = core.pipe.queues
        env[out] = Queue(len(queues), position, depth, loc)
        if not dead:
            queues.append(env[out])

    return step


def _tbuf(op: Op) -> Step:
    position = op.types[0].strip("<>").upper()
    out, loc = op.results[0], op.loc

    def step(env: Env, core: Core) -> None:
        env[out] = TBuf(position, loc)

    return step


def _init_queue(op: Op) -> Step:
    _, queue, num, nbytes = op.operands
    loc = op.loc

    def step(env: Env, core: Core) -> None:
        core.init_queue(env[queue], env[num], env[nbytes], loc)
        core.init("init_buffer", loc)

    return step


def _init_buffer(op: Op) -> Step:
    _, tbuf, nbytes = op.operands
    loc = op.loc

    def step(env: Env, core: Core) -> None:
        core.init_tbuf(env[tbuf], env[nbytes], loc)
        core.init("init_buffer", loc)

    return step


# -- queues -----------------------------------------------------------------------------------------------------
def _alloc(op: Op) -> Step:
    queue, out, dtype, loc = op.operands[0], op.results[0], dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        buffer = core.alloc(env[queue], loc)
        env[out] = LocalTensor(buffer.addr, buffer.nbytes, dtype, buffer)

    return step


def _alloc_in_place(op: Op) -> Step:
    queue, out = op.operands
    dtype, loc = dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        buffer = core.alloc(env[queue], loc)
        env[out] = LocalTensor(buffer.addr, buffer.nbytes, dtype, buffer)

    return step


def _deque(op: Op) -> Step:
    queue, out, dtype, loc = op.operands[0], op.results[0], dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        buffer = core.deque(env[queue], loc)
        env[out] = LocalTensor(buffer.addr, buffer.nbytes, dtype, buffer)

    return step


def _deque_in_place(op: Op) -> Step:
    queue, out = op.operands
    dtype, loc = dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        buffer = core.deque(env[queue], loc)
        env[out] = LocalTensor(buffer.addr, buffer.nbytes, dtype, buffer)

    return step


def _enque(op: Op) -> Step:
    queue, tensor = op.operands
    loc = op.loc
    return lambda env, core: core.enque(env[queue], env[tensor], loc)


def _free(op: Op) -> Step:
    queue, tensor = op.operands
    loc = op.loc
    return lambda env, core: core.free(env[queue], env[tensor], loc)


def _queue_question(op: Op) -> Step:
    question = op.name.rpartition(".")[2]
    queue, out = op.operands[0], op.results[0]

    def ask(q: Queue) -> int:
        if question == "has_idle_buffer":
            return int(any(b.state is State.FREE for b in q.buffers))
        if question == "has_tensor_in_que":
            return int(bool(q.fifo))
        if question == "vacant_in_que":
            return int(len(q.fifo) < q.capacity)
        return len(q.fifo)

    def step(env: Env, core: Core) -> None:
        env[out] = ask(env[queue])

    return step


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


def _local_get(op: Op) -> Step:
    tensor, index = op.operands
    out, loc = op.results[0], op.loc

    def step(env: Env, core: Core) -> None:
        env[out] = core.local_get(env[tensor], env[index], loc)

    return step


def _local_set(op: Op) -> Step:
    tensor, index, value = op.operands
    loc = op.loc
    return lambda env, core: core.local_set(env[tensor], env[index], env[value], loc)


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
        env[out] = core.global_get(env[tensor], env[index], loc)

    return step


def _global_set(op: Op) -> Step:
    tensor, index, value = op.operands
    loc = op.loc
    return lambda env, core: core.global_set(env[tensor], env[index], env[value], loc)


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


# -- synchronisation --------------------------------------------------------------------------------------------
def _event_pipes(word: str, op: Op) -> tuple[Pipe, Pipe]:
    src, _, dst = word.upper().partition("_")
    try:
        return _PIPES[src], _PIPES[dst]
    except KeyError:
        text = f"{op.loc}: {op.name} {word}: a vector core has no such pipes"
        raise errors.UnknownOperationError(text, op.loc) from None


def _flag(op: Op) -> Step:
    src, dst = _event_pipes(op.words[0], op)
    event, loc = op.operands[0], op.loc
    if op.name == "ascendc.set_flag":
        return lambda env, core: core.set_flag(src, dst, env[event], loc)
    return lambda env, core: core.wait_flag(src, dst, env[event], loc)


def _event_id(op: Op) -> Step:
    """AllocEventID takes a number until it is released, FetchEventID only looks for a free one."""
    src, dst = _event_pipes(op.words[-1], op)
    out, loc = op.results[0], op.loc
    keep = op.name == "ascendc.pipe.alloc_event_id"

    def step(env: Env, core: Core) -> None:
        number = env[out] = core.alloc_event(src, dst, loc)
        if not keep:
            core.free_event(src, dst, number)

    return step


def _release_event(op: Op) -> Step:
    event = op.attrs["event"]
    assert isinstance(event, int)
    src, dst = _event_pipes(HARD_EVENTS[event], op)
    number = op.operands[1]
    return lambda env, core: core.free_event(src, dst, env[number])


def _barrier(op: Op) -> Step | None:
    name, loc = op.words[0].upper().removeprefix("PIPE_"), op.loc
    if name == "ALL":
        return lambda env, core: core.barrier(None, loc)
    if name not in _PIPES:
        return None  # a pipe that a vector core doesn't have
    pipe = _PIPES[name]
    return lambda env, core: core.barrier(pipe, loc)


# -- the vector unit's registers --------------------------------------------------------------------------------
def _mask_mode(op: Op) -> Step:
    counter = op.name == "ascendc.set_mask_count"

    def step(env: Env, core: Core) -> None:
        core.mask = core.mask._replace(counter=counter)

    return step


def _reset_mask(op: Op) -> Step:
    def step(env: Env, core: Core) -> None:
        core.mask = core.mask._replace(bits=FULL_MASK.bits)

    return step


def _set_vector_mask(op: Op) -> Step:
    """SetVectorMask(length), or (high, low): lane bits in normal mode, the number of elements in counter mode."""
    counter = op.attrs.get("mode", 0) == 1
    operands = op.operands

    def step(env: Env, core: Core) -> None:
        values = [env[i] & (1 << 64) - 1 for i in operands]
        if counter:
            core.mask = core.mask._replace(total=values[-1])
        elif len(values) == 1:
            core.mask = core.mask._replace(bits=(1 << values[0]) - 1)
        else:
            core.mask = core.mask._replace(bits=values[0] << 64 | values[1])

    return step


def _deq_scale(op: Op) -> Step:
    if len(op.operands) != 1:
        raise unknown(op)  # the form with offset and sign is for int8 results of CastDeq, which pyasc can't express
    number = op.operands[0]

    def step(env: Env, core: Core) -> None:
        core.deq_scale = env[number]

    return step


# -- other ------------------------------------------------------------------------------------------------------
def _scalar_cast(op: Op) -> Step:
    mode = op.attrs["roundMode"]
    src, dst, out, number = dtypes.of(op.types[0]), dtypes.of(op.types[-1]), op.results[0], op.operands[0]

    def step(env: Env, core: Core) -> None:
        value = np.array([env[number]], src.np)
        env[out] = convert(value, dst.np, int(mode)).item()  # type: ignore[arg-type]

    return step


def _printf(op: Op) -> Step:
    """printf writes to the log; it changes nothing else."""
    text, operands, loc = str(op.attrs.get("desc", "")), op.operands, op.loc

    def step(env: Env, core: Core) -> None:
        values = tuple(env[i] for i in operands)
        log.info("core %d, %s: %s %s", core.number, loc, text, values)

    return step


def _dump_tensor(op: Op) -> Step:
    tensor, description, loc = op.operands[0], op.operands[1], op.loc

    def step(env: Env, core: Core) -> None:
        log.info("core %d, %s: dump_tensor %s of %s", core.number, loc, env[description], env[tensor].dtype)

    return step


def _pipe_reset(op: Op) -> Step:
    loc = op.loc
    return lambda env, core: core.reset_pipe(loc)


BUILDERS: Mapping[str, Builder] = {
    "ascendc.get_block_idx": _block_idx,
    "ascendc.get_block_num": _block_num,
    "ascendc.pipe": _pipe,
    "ascendc.queue": _queue,
    "ascendc.que_bind": _queue,
    "ascendc.tbuf": _tbuf,
    "ascendc.pipe.init_queue": _init_queue,
    "ascendc.pipe.init_buffer": _init_buffer,
    "ascendc.que_bind.alloc_tensor": _alloc,
    "ascendc.que_bind.alloc_tensor_in_place": _alloc_in_place,
    "ascendc.que_bind.deque_tensor": _deque,
    "ascendc.que_bind.deque_tensor_in_place": _deque_in_place,
    "ascendc.que_bind.enque_tensor": _enque,
    "ascendc.que_bind.free_tensor": _free,
    "ascendc.que_bind.has_idle_buffer": _queue_question,
    "ascendc.que_bind.has_tensor_in_que": _queue_question,
    "ascendc.que_bind.vacant_in_que": _queue_question,
    "ascendc.que_bind.get_tensor_count_in_que": _queue_question,
    "ascendc.tbuf.get_tensor": _tbuf_get,
    "ascendc.tbuf.get_with_offset": _tbuf_get_with_offset,
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
    "ascendc.set_flag": _flag,
    "ascendc.wait_flag": _flag,
    "ascendc.pipe_barrier": _barrier,
    "ascendc.pipe.alloc_event_id": _event_id,
    "ascendc.pipe.fetch_event_id": _event_id,
    "ascendc.pipe.release_event_id": _release_event,
    "ascendc.pipe.reset": _pipe_reset,
    "ascendc.pipe.destroy": _pipe_reset,
    "ascendc.set_mask_count": _mask_mode,
    "ascendc.set_mask_norm": _mask_mode,
    "ascendc.reset_mask": _reset_mask,
    "ascendc.set_vector_mask_l0": _set_vector_mask,
    "ascendc.set_vector_mask_l1": _set_vector_mask,
    "ascendc.set_deq_scale": _deq_scale,
    "ascendc.scalar_cast": _scalar_cast,
    "ascendc.printf": _printf,
    "ascendc.dump_tensor": _dump_tensor,
}
