"""Builders of flags, events, barriers, the vector unit's registers, and debug output."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asc_sched.sim import dtypes, errors
from asc_sched.sim.core import Core
from asc_sched.sim.findings import log
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step, unknown
from asc_sched.sim.numerics.casts import convert
from asc_sched.sim.patterns import BLOCK_BYTES, FULL_MASK
from asc_sched.sim.stream import Pipe

_PIPES = {p.value: p for p in Pipe}
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


# -- what a core asks or says about itself -----------------------------------------------------------------------
def _constant_answer(op: Op) -> Step:
    """Questions that have one answer on a vector core."""
    out, answer = op.results[0], _ANSWERS[op.name]

    def step(env: Env, core: Core) -> None:
        env[out] = answer

    return step


_ANSWERS = {"ascendc.ascend_is_aiv": 1, "ascendc.ascend_is_aic": 0, "ascendc.get_data_block_size_in_bytes": BLOCK_BYTES}


def _trap(op: Op) -> Step:
    loc = op.loc
    return lambda env, core: core.fail(errors.ScalarError, loc, "trap: the kernel stops here")


def _clean_cache(op: Op) -> Step:
    """`DataCacheCleanAndInvalid`. Scalar accesses to GM are taken as coherent, so it takes time only."""
    loc = op.loc
    return lambda env, core: core.scalar(1, loc)


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


BUILDERS: Mapping[str, Builder] = {
    "ascendc.set_flag": _flag,
    "ascendc.wait_flag": _flag,
    "ascendc.pipe_barrier": _barrier,
    "ascendc.pipe.alloc_event_id": _event_id,
    "ascendc.pipe.fetch_event_id": _event_id,
    "ascendc.pipe.release_event_id": _release_event,
    "ascendc.set_mask_count": _mask_mode,
    "ascendc.set_mask_norm": _mask_mode,
    "ascendc.reset_mask": _reset_mask,
    "ascendc.set_vector_mask_l0": _set_vector_mask,
    "ascendc.set_vector_mask_l1": _set_vector_mask,
    "ascendc.set_deq_scale": _deq_scale,
    "ascendc.scalar_cast": _scalar_cast,
    **dict.fromkeys(_ANSWERS, _constant_answer),
    "ascendc.trap": _trap,
    "ascendc.data_cache_clean_invalid_global": _clean_cache,
    "ascendc.data_cache_clean_invalid_global_nodccidst": _clean_cache,
    "ascendc.printf": _printf,
    "ascendc.dump_tensor": _dump_tensor,
}
