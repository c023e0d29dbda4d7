"""Builders of DataCopy and DataCopyPad in all the forms that a vector kernel can use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asc_sched.sim import dtypes, errors
from asc_sched.sim.core import Core
from asc_sched.sim.dtypes import DType
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step, unknown
from asc_sched.sim.patterns import BLOCK_BYTES, CopyPlan, Padding
from asc_sched.sim.stream import Loc
from asc_sched.sim.values import Params

#: Limits of the parameter structs (Ascend C documentation of DataCopy and DataCopyPad).
MAX_BLOCK_COUNT = 4095
MAX_EXT_BLOCK_BYTES = 2097151

Planner = Callable[[Env, Core], CopyPlan]


def _copy(op: Op, plan_of: Planner, name: str) -> Step:
    """The step of a copy: which way it goes follows from its tensors' types."""
    dst, src, loc = op.operands[0], op.operands[1], op.loc
    to_ub, from_ub = (t.startswith("!ascendc.local_tensor") for t in op.types[:2])
    plan = _typed(op, plan_of, name)
    if to_ub and from_ub:
        return lambda env, core: core.copy_local(env[dst], env[src], name, plan(env, core), loc)
    if to_ub:
        return lambda env, core: core.copy_in(env[dst], env[src], name, plan(env, core), loc)
    if from_ub:
        return lambda env, core: core.copy_out(env[dst], env[src], name, plan(env, core), loc)
    raise errors.UnsupportedError(f"{op.loc}: {name} from GM to GM doesn't exist", op.loc)


def _typed(op: Op, plan_of: Planner, name: str) -> Planner:
    """The plan of a copy, with a report where C++ has no such call: its element types must be one."""
    found = [dtypes.of(t) for t in (*op.types[:2], *(t for t in op.types[3:] if "pad_ext_params" in t))]
    if all(d.c == found[0].c for d in found):
        return plan_of
    loc, shown = op.loc, ", ".join(d.c for d in found)
    text = f"{name} with element types {shown}: they must be equal (reinterpret_cast a tensor)"

    def plan(env: Env, core: Core) -> CopyPlan:
        core.fail(errors.UnsupportedError, loc, text)
        return plan_of(env, core)

    return plan


def _count(op: Op) -> Step:
    """`DataCopy(dst, src, count)`: whole 32-byte blocks; what is left over isn't copied."""
    dtype, count, loc = dtypes.of(op.types[0]), op.operands[2], op.loc

    def plan(env: Env, core: Core) -> CopyPlan:
        elements = env[count]
        return CopyPlan(1, whole_blocks(core, elements, dtype, loc))

    return _copy(op, plan, "DataCopy")


def whole_blocks(core: Core, elements: int, dtype: DType, loc: Loc) -> int:
    """The bytes that a plain DataCopy of `elements` moves: floored to 32, and reported when something is left over."""
    nbytes = elements * dtype.size
    if elements < 0:
        core.fail(errors.CountError, loc, f"DataCopy of {elements} elements")
        return 0
    floored = nbytes // BLOCK_BYTES * BLOCK_BYTES
    if floored != nbytes:
        kept = floored // dtype.size
        core.fail(
            errors.CountError,
            loc,
            f"DataCopy of {elements} {dtype} = {nbytes} bytes moves whole 32-byte blocks only: {floored} bytes "
            f"({kept} elements); the last {elements - kept} are dropped (use data_copy_pad)",
        )
    return floored


def _blocks(op: Op) -> Step:
    """`DataCopy(dst, src, DataCopyParams)`: lengths and gaps in 32-byte blocks."""
    params, loc = op.operands[2], op.loc
    gm_is_src = op.types[1].startswith("!ascendc.global")

    def plan(env: Env, core: Core) -> CopyPlan:
        count, length, src_gap, dst_gap = env[params].fields
        _check_blocks(core, count, length * BLOCK_BYTES, loc)
        gm_gap, ub_gap = (src_gap, dst_gap) if gm_is_src else (dst_gap, src_gap)
        return CopyPlan(count, length * BLOCK_BYTES, gm_gap * BLOCK_BYTES, ub_gap * BLOCK_BYTES)

    return _copy(op, plan, "DataCopy")


def _check_blocks(core: Core, count: int, nbytes: int, loc: Loc) -> None:
    if not 0 <= count <= MAX_BLOCK_COUNT:
        core.fail(errors.CountError, loc, f"{count} blocks; a copy has at most {MAX_BLOCK_COUNT}")
    if nbytes > MAX_EXT_BLOCK_BYTES:
        text = f"a block of {nbytes} bytes; a copy's block has at most {MAX_EXT_BLOCK_BYTES}"
        core.fail(errors.CountError, loc, text)


def _pad(op: Op) -> Step:
    """`DataCopyPad`: block length in bytes, any GM address; gaps in bytes in GM and in 32-byte blocks in UB."""
    params, loc = op.operands[2], op.loc
    pad = op.operands[3] if len(op.operands) > 3 else -1
    dtype = dtypes.of(op.types[0])
    gm_is_src = op.types[1].startswith("!ascendc.global")
    if pad >= 0 and "nd2nz" in op.types[3]:
        raise unknown(op)

    def plan(env: Env, core: Core) -> CopyPlan:
        count, nbytes, src_gap, dst_gap = env[params].fields[:4]
        _check_blocks(core, count, nbytes, loc)
        gm_gap, ub_gap = (src_gap, dst_gap) if gm_is_src else (dst_gap, src_gap)
        padding = _padding(env[pad], dtype, core, loc) if pad >= 0 else None
        return CopyPlan(count, nbytes, gm_gap, ub_gap * BLOCK_BYTES, padding)

    return _copy(op, plan, "DataCopyPad")


def _padding(params: Params, dtype: DType, core: Core, loc: Loc) -> Padding | None:
    is_pad, left, right, value = params.fields
    if not is_pad:
        return None
    for side, elements in (("left", left), ("right", right)):
        if elements * dtype.size > BLOCK_BYTES:
            core.fail(errors.CountError, loc, f"{side} padding of {elements} {dtype}: at most {BLOCK_BYTES} bytes")
    return Padding(int(left * dtype.size), int(right * dtype.size), element_bytes(value, dtype))


def element_bytes(value: Any, dtype: DType) -> bytes:
    """One element's bytes. Legacy DataCopyPadParams give the value as a 64-bit integer, of which the low bits count."""
    if dtype.is_float:
        return np.array(value, dtype.np).tobytes()
    return int(value).to_bytes(8, "little", signed=value < 0)[: dtype.size]


BUILDERS: Mapping[str, Builder] = {
    "ascendc.data_copy_l2": _count,
    "ascendc.data_copy_l0": _blocks,
    "ascendc.data_copy_pad_l0_ext": _pad,
    "ascendc.data_copy_pad_l2_ext": _pad,
    "ascendc.data_copy_pad_l0": _pad,
    "ascendc.data_copy_pad_l2": _pad,
}
