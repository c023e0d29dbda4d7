"""Builders of vector instructions with shapes of their own: the register of comparisons, gathers, block broadcasts."""

from __future__ import annotations

from collections.abc import Callable

from asc_sched.sim import dtypes
from asc_sched.sim.core import Core
from asc_sched.sim.instructions import BASIC, Instruction
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Env, Step
from asc_sched.sim.operands import DENSE, TENSOR, Shape, converter, mask_of, signature_check
from asc_sched.sim.patterns import REPEAT_BYTES, CopyPlan, Masked, Stride
from asc_sched.sim.values import LocalTensor


# -- comparisons in the register --------------------------------------------------------------------------------
def compare_to_register(op: Op) -> Step:
    """`Compare` of one repeat into the CMPMASK register."""
    instruction = BASIC["compare"]
    a, b, *masks, params = op.operands
    found = [dtypes.of(t) for t in op.types[:2]]
    mode, loc = int(op.attrs["cmpMode"]), op.loc  # type: ignore[arg-type]
    check = signature_check(instruction, ("uint8_t", *(d.c for d in found)), mode, op)
    lanes = REPEAT_BYTES // found[0].size
    set_mask = bool(op.attrs.get("isSetMask"))

    def step(env: Env, core: Core) -> None:
        check(core)
        fields = env[params].fields
        strides = (DENSE, Stride(fields[1], fields[4]), Stride(fields[2], fields[5]))
        masked = mask_of(core, "Compare", [env[m] for m in masks], 1, lanes, strides, set_mask, loc)
        core.vector_repeat(instruction, core.cmp_mask(), (env[a], env[b]), masked, loc, None, mode)

    return step


def select_by_register(op: Op) -> Step:
    """`Select` by the CMPMASK register, used again for every repeat."""
    is_tensor = op.types[2].startswith(TENSOR)
    instruction = BASIC["select" if is_tensor else "select_scalar"]
    dst, a, b, repeat, params = op.operands
    dtype, loc = dtypes.of(op.types[0]), op.loc
    signature = (dtype.c, "uint8_t", *([dtype.c] * (2 if is_tensor else 1)))
    check = signature_check(instruction, signature, 0, op)
    fit = converter(dtypes.of(op.types[2]), dtype) if not is_tensor else None
    lanes = REPEAT_BYTES // dtype.size

    def step(env: Env, core: Core) -> None:
        check(core)
        fields = env[params].fields
        found = [Stride(fields[i], fields[i + 3]) for i in range(3)]
        strides = (found[0], DENSE, *found[1 : 3 if is_tensor else 2])
        masked = Masked(env[repeat] & 0xFF, (1 << lanes) - 1, None, strides)
        srcs = (core.cmp_mask(), env[a], env[b]) if is_tensor else (core.cmp_mask(), env[a])
        core.vector_repeat(instruction, env[dst], srcs, masked, loc, fit(env[b]) if fit else None, 0)

    return step


def move_register(op: Op) -> Step:
    """`SetCmpMask(src)` and `GetCmpMask(dst)`: 128 bits between the register and UB."""
    (tensor,) = op.operands
    to_register, loc = op.name.endswith("set_cmp_mask"), op.loc
    plan = CopyPlan(1, 16)

    def step(env: Env, core: Core) -> None:
        base: LocalTensor = env[tensor]
        register = core.cmp_mask()
        dst, src = (register, base) if to_register else (base, register)
        core.copy_local(dst, src, "SetCmpMask" if to_register else "GetCmpMask", plan, loc)

    return step


# -- gathers and broadcasts -------------------------------------------------------------------------------------
def gather_count(op: Op, instruction: Instruction, shape: Shape, check: Callable[[Core], None]) -> Step:
    dst, src, offset = shape.tensors
    base, count = shape.rest
    loc = shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        masked = Masked(1, 0, env[count], (DENSE,) * 3)
        core.gather(instruction, env[dst], env[src], env[offset], env[base], masked, loc)

    return step


def gather_masked(instruction: Instruction, shape: Shape, check: Callable[[Core], None], mask_words: int) -> Step:
    dst, src, offset = shape.tensors
    base, *more = shape.rest
    masks, repeat, dst_repeat = more[:mask_words], more[mask_words], more[mask_words + 1]
    lanes, loc = REPEAT_BYTES // max(d.size for d in shape.dtypes[:2]), shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        strides = (Stride(1, env[dst_repeat]), DENSE, DENSE)
        words = [env[m] for m in masks]
        masked = mask_of(core, instruction.name, words, env[repeat] & 0xFF, lanes, strides, True, loc)
        core.gather(instruction, env[dst], env[src], env[offset], env[base], masked, loc)

    return step


def gather_blocks(instruction: Instruction, shape: Shape, check: Callable[[Core], None]) -> Step:
    """Whole 32-byte blocks: each of a repeat's 8 offsets (in bytes) names one."""
    dst, src, offset = shape.tensors
    repeat, params = shape.rest
    loc = shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        stride = Stride(*env[params].fields)
        core.gather_blocks(instruction, env[dst], env[src], env[offset], env[repeat], stride, loc)

    return step


def broadcast_blocks(instruction: Instruction, shape: Shape, check: Callable[[Core], None]) -> Step:
    """Each repeat takes 8 elements and fills a block with each."""
    dst, src = shape.tensors
    repeat, params = shape.rest
    loc = shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        core.broadcast_blocks(instruction, env[dst], env[src], env[repeat], Stride(*env[params].fields), loc)

    return step
