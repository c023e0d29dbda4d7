"""Builders of vector instructions: count (``_l2``), mask/repeat (``_l0``) and mask-list (``_l1``) forms, and `adv`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asc_sched.sim import dtypes, errors
from asc_sched.sim.core import Core
from asc_sched.sim.instructions import ADV, BASIC, Instruction
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step
from asc_sched.sim.operands import DENSE, TENSOR, Shape, mask_of, signature_check
from asc_sched.sim.patterns import REPEAT_BYTES, Masked, Stride
from asc_sched.sim.values import LocalTensor
from asc_sched.sim.vector_special import (
    broadcast_blocks,
    compare_to_register,
    gather_blocks,
    gather_count,
    gather_masked,
    move_register,
    select_by_register,
)


def find(op: Op) -> Builder | None:
    """The builder for ``ascendc.<instruction>`` in any of its forms, or None."""
    name = op.name.removeprefix("ascendc.")
    if name in ADV:
        return _adv
    if name in ("select_reg", "select_scalar_reg"):
        return select_by_register
    if name in ("compare_r_l0", "compare_r_l1"):
        return compare_to_register
    if name in ("set_cmp_mask", "get_cmp_mask"):
        return move_register
    base, _, form = name.rpartition("_")
    if base in BASIC:
        # copy's two forms have their names the other way round
        forms = {"l2": _count_form, "l0": _mask_form, "l1": _mask_list_form}
        if base == "copy":
            forms["l0"], forms["l1"] = _mask_list_form, _mask_form
        return forms.get(form)
    return None


_SCALAR_OPS = frozenset(
    {"adds", "muls", "maxs", "mins", "leaky_relu", "shift_left", "shift_right", "axpy", "compare_scalar", "duplicate"}
    | {"select_scalar"}
)


def _parts(op: Op) -> tuple[Instruction, Shape, Callable[[Env], Any], Callable[[Core], None]]:
    """What all forms share: instruction, operands, how to get the scalar, and the check of dtypes and mode."""
    base = op.name.removeprefix("ascendc.").rpartition("_")[0]
    instruction = BASIC[base]
    shape = Shape(op, instruction, base in _SCALAR_OPS)
    return instruction, shape, _scalar_getter(shape), signature_check(instruction, shape.signature, shape.mode, op)


def _scalar_getter(shape: Shape) -> Callable[[Env], Any]:
    if shape.scalar < 0:
        return lambda env: None
    number, fit = shape.scalar, shape.convert_scalar()
    if shape.scalar_dtype is not None and fit is not None and shape.scalar_dtype.ir == shape.dtypes[0].ir:
        return lambda env: env[number]
    return lambda env: fit(env[number])


# -- count form -------------------------------------------------------------------------------------------------
def _count_form(op: Op) -> Step:
    instruction, shape, get_scalar, check = _parts(op)
    loc, mode = shape.loc, shape.mode
    if instruction.kind == "gather":
        return gather_count(op, instruction, shape, check)
    if "isSetMask" not in op.attrs and op.name in _L2_WITH_MASK_SWITCH:
        return _register_form(instruction, shape, get_scalar, check)
    dst, *srcs = shape.tensors
    count = shape.rest[0]
    plain = instruction.complaint(shape.signature, mode) is None
    if plain and shape.scalar < 0 and not instruction.reads_dst and len(srcs) == 2:
        a, b = srcs
        return lambda env, core: core.vector(instruction, env[dst], (env[a], env[b]), env[count], loc, None, mode)
    if plain and shape.scalar < 0 and not instruction.reads_dst and len(srcs) == 1:
        (a,) = srcs
        return lambda env, core: core.vector(instruction, env[dst], (env[a],), env[count], loc, None, mode)
    sources = tuple(srcs) + ((dst,) if instruction.reads_dst else ())

    def step(env: Env, core: Core) -> None:
        check(core)
        core.vector(instruction, env[dst], tuple(env[s] for s in sources), env[count], loc, get_scalar(env), mode)

    return step


_L2_WITH_MASK_SWITCH = frozenset(
    f"ascendc.{op}_l2" for op in ("adds", "muls", "maxs", "mins", "leaky_relu", "shift_left", "shift_right")
)


def _register_form(
    instruction: Instruction, shape: Shape, get_scalar: Callable[[Env], Any], check: Callable[[Core], None]
) -> Step:
    """`isSetMask` false: the mask register decides what takes part, the count is ignored."""
    dst, *srcs = shape.tensors
    loc, mode = shape.loc, shape.mode
    strides = (DENSE,) * (len(srcs) + 1)

    def step(env: Env, core: Core) -> None:
        check(core)
        register = core.mask
        masked = Masked(1, register.bits, register.total if register.counter else None, strides)
        tensors = tuple(env[s] for s in srcs)
        core.vector_repeat(instruction, env[dst], tensors, masked, loc, get_scalar(env), mode)

    return step


# -- mask and repeat forms --------------------------------------------------------------------------------------
def _mask_form(op: Op) -> Step:
    instruction, shape, get_scalar, check = _parts(op)
    if instruction.kind == "brcb":
        return broadcast_blocks(instruction, shape, check)
    if instruction.kind == "gatherb":
        return gather_blocks(instruction, shape, check)
    if instruction.kind == "gather":
        return gather_masked(instruction, shape, check, 1)
    return _masked(op, instruction, shape, get_scalar, check, 1)


def _mask_list_form(op: Op) -> Step:
    instruction, shape, get_scalar, check = _parts(op)
    if instruction.kind == "gather":
        return gather_masked(instruction, shape, check, 2)
    return _masked(op, instruction, shape, get_scalar, check, 2)


def _masked(
    op: Op,
    instruction: Instruction,
    shape: Shape,
    get_scalar: Callable[[Env], Any],
    check: Callable[[Core], None],
    mask_words: int,
) -> Step:
    dst, *srcs = shape.tensors
    sources = tuple(srcs) + ((dst,) if instruction.reads_dst else ())
    masks, repeat, params = shape.rest[:mask_words], shape.rest[mask_words], shape.rest[mask_words + 1 :]
    set_mask = bool(op.attrs.get("isSetMask", instruction.name == "Copy"))
    lanes = REPEAT_BYTES // max(d.size for d in shape.dtypes)
    loc, mode, name = shape.loc, shape.mode, instruction.name
    strides_of = _strides(instruction, params, len(shape.tensors), shape)

    def step(env: Env, core: Core) -> None:
        check(core)
        masked = mask_of(core, name, [env[m] for m in masks], env[repeat] & 0xFF, lanes, strides_of(env), set_mask, loc)
        tensors = tuple(env[s] for s in sources)
        core.vector_repeat(instruction, env[dst], tensors, masked, loc, get_scalar(env), mode)

    return step


def _strides(
    instruction: Instruction, params: tuple[int, ...], tensors: int, shape: Shape
) -> Callable[[Env], tuple[Stride, ...]]:
    """How to read the operands' strides out of a call's parameters, one per tensor (and the destination again)."""
    again = instruction.reads_dst
    if instruction.name == "Duplicate":
        block, repeat = params
        return lambda env: (Stride(env[block] & 0xFF, env[repeat] & 0xFF),)
    number = params[0]
    bits_operand = {"compare": 0, "select": 1}.get(instruction.kind, -1)

    def read(env: Env) -> tuple[Stride, ...]:
        fields = env[number].fields
        half = len(fields) // 2
        found = [Stride(b, r) for b, r in zip(fields[:half], fields[half:], strict=True)]
        if bits_operand == 1:  # the mask of Select has no strides of its own
            found.insert(1, DENSE)
        found = found[:tensors]
        return tuple(found) + ((found[0],) if again else ())

    return read


# -- adv --------------------------------------------------------------------------------------------------------
def _adv(op: Op) -> Step:
    instruction = ADV[op.name.removeprefix("ascendc.")]
    sources = 2 if instruction.name in ("Power", "Xor") else 1
    dst, *srcs = op.operands[: 1 + sources]
    found = [dtypes.of(t) for t in op.types[: 1 + sources]]
    signature = tuple(d.c for d in found) + ((found[0].c,) if instruction.reads_dst else ())
    check = signature_check(instruction, signature, 0, op)
    tmp = count = -1
    numbers: list[int] = []
    for operand, kind in zip(op.operands[1 + sources :], op.types[1 + sources :], strict=True):
        if kind.startswith(TENSOR):
            tmp = operand
        elif kind in ("i32", "ui32"):
            count = operand
        elif kind in ("f16", "f32") and instruction.name in ("Axpy", "Quant"):
            numbers.append(operand)
    complaint = form_complaint(instruction, count >= 0, tmp >= 0)
    tmp_dtype = next((dtypes.of(t) for t in op.types[1 + sources :] if t.startswith(TENSOR)), None)
    loc = op.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        if complaint:
            core.fail(errors.UnsupportedError, loc, complaint)
        if tmp_dtype is not None and tmp_dtype.c != "uint8_t":
            core.fail(errors.UnsupportedError, loc, f"{instruction.name}: temporary buffer of {tmp_dtype}, not uint8_t")
        tensors: tuple[LocalTensor, ...] = tuple(env[s] for s in srcs)
        elements = env[count] if count >= 0 else tensors[0].nbytes // tensors[0].dtype.size
        values = tuple(env[n] for n in numbers)
        value = values if len(values) > 1 else values[0] if values else None
        sources = (*tensors, env[dst]) if instruction.reads_dst else tensors
        buffer = env[tmp] if tmp >= 0 else None
        core.vector(instruction, env[dst], sources, elements, loc, value, 0, buffer)

    return step


def form_complaint(instruction: Instruction, has_count: bool, has_tmp: bool) -> str | None:
    """Why C++ has no such form of an `adv` call, or None if it has."""
    name = instruction.name
    if instruction.forms == "count" and not has_count:
        return f"{name} exists in C++ only with a count"
    if instruction.forms == "no_tmp" and has_tmp:
        return f"{name} exists in C++ only without a temporary buffer"
    if instruction.forms == "tmp_count" and not (has_tmp and has_count):
        return f"{name} exists in C++ only with a temporary buffer and a count"
    return None
