"""Builders of TPipe, TQue and TBuf."""

from __future__ import annotations

from collections.abc import Mapping

from asc_sched.sim import dtypes, errors
from asc_sched.sim.core import Core
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step
from asc_sched.sim.queues import Queue, State, TBuf
from asc_sched.sim.stream import Loc
from asc_sched.sim.values import LocalTensor


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
        core.init("init_buffer", loc, env[nbytes])

    return step


def _init_buffer(op: Op) -> Step:
    _, tbuf, nbytes = op.operands
    loc = op.loc

    def step(env: Env, core: Core) -> None:
        core.init_tbuf(env[tbuf], env[nbytes], loc)
        core.init("init_buffer", loc, env[nbytes])

    return step


# -- queues -----------------------------------------------------------------------------------------------------
def _take(op: Op) -> Step:
    """A buffer of a queue, free or filled, as a new local tensor or (in place) as the caller's."""
    allocates, in_place = "alloc_tensor" in op.name, op.name.endswith("_in_place")
    queue, out = op.operands[0], op.operands[1] if in_place else op.results[0]
    dtype, loc = dtypes.of(op.types[-1]), op.loc

    def step(env: Env, core: Core) -> None:
        if in_place:
            _check_in_place(env[queue], "alloc_tensor" if allocates else "deque", core, loc)
        buffer = core.alloc(env[queue], loc) if allocates else core.deque(env[queue], loc)
        env[out] = LocalTensor(buffer.addr, buffer.nbytes, dtype, buffer)

    return step


def _check_in_place(queue: Queue, call: str, core: Core, loc: Loc) -> None:
    """C++ asserts that a queue whose tensors are handed in has depth 0."""
    if queue.depth:
        text = f"{call} with a tensor of the caller's needs a queue of depth 0; {queue} has depth {queue.depth}"
        core.fail(errors.UnsupportedError, loc, text)


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
    "ascendc.que_bind.alloc_tensor": _take,
    "ascendc.que_bind.alloc_tensor_in_place": _take,
    "ascendc.que_bind.deque_tensor": _take,
    "ascendc.que_bind.deque_tensor_in_place": _take,
    "ascendc.que_bind.enque_tensor": _enque,
    "ascendc.que_bind.free_tensor": _free,
    "ascendc.que_bind.has_idle_buffer": _queue_question,
    "ascendc.que_bind.has_tensor_in_que": _queue_question,
    "ascendc.que_bind.vacant_in_que": _queue_question,
    "ascendc.que_bind.get_tensor_count_in_que": _queue_question,
    "ascendc.pipe.reset": _pipe_reset,
    "ascendc.pipe.destroy": _pipe_reset,
}
