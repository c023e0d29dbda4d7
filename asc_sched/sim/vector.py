"""Builders of vector instructions: count (``_l2``), mask/repeat (``_l0``) and mask-list (``_l1``) forms, and `adv`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asc_sched.sim import dtypes, errors, scalar
from asc_sched.sim.core import Core
from asc_sched.sim.dtypes import DType
from asc_sched.sim.instructions import ADV, BASIC, Instruction
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step
from asc_sched.sim.patterns import REPEAT_BYTES, CopyPlan, Masked, Stride
from asc_sched.sim.values import LocalTensor, Unknown

#: Blocks of a repeat, and the strides of an operand that is read without gaps.
_DENSE = Stride(1, 8)
_MODES = ("roundMode", "cmpMode", "selMode")
_TENSOR = "!ascendc.local_tensor"


def find(op: Op) -> Builder | None:
    """The builder for ``ascendc.<instruction>`` in any of its forms, or None."""
    name = op.name.removeprefix("ascendc.")
    if name in ADV:
        return _adv
    if name in ("select_reg", "select_scalar_reg"):
        return _select_by_register
    if name in ("compare_r_l0", "compare_r_l1"):
        return _compare_to_register
    if name in ("set_cmp_mask", "get_cmp_mask"):
        return _move_register
    base, _, form = name.rpartition("_")
    if base in BASIC:
        # copy's two forms have their names the other way round
        forms = {"l2": _count_form, "l0": _mask_form, "l1": _mask_list_form}
        if base == "copy":
            forms["l0"], forms["l1"] = _mask_list_form, _mask_form
        return forms.get(form)
    return None


class Shape:
    """An operation's operands sorted by what they are: leading tensors, scalar operand, the rest."""

    def __init__(self, op: Op, instruction: Instruction, has_scalar: bool) -> None:
        count = 0
        while count < len(op.operands) and op.types[count].startswith(_TENSOR):
            count += 1
        self.tensors = op.operands[:count]
        self.dtypes = tuple(dtypes.of(t) for t in op.types[:count])
        self.scalar = op.operands[count] if has_scalar else -1
        self.scalar_dtype = dtypes.of(op.types[count]) if has_scalar else None
        self.rest = op.operands[count + has_scalar :]
        self.rest_types = op.types[count + has_scalar :]
        self.mode = next((int(op.attrs[m]) for m in _MODES if m in op.attrs), 0)  # type: ignore[arg-type]
        self.loc = op.loc
        self.signature = tuple(d.c for d in self.dtypes) + ((self.dtypes[0].c,) if instruction.reads_dst else ())

    def convert_scalar(self) -> Callable[[Any], Any]:
        """The scalar operand's conversion to the source's dtype, as C++ does it at the call."""
        src = self.scalar_dtype
        # Select's scalar has the destination's dtype: its first source is the mask
        dst = self.dtypes[min(1, len(self.dtypes) - 1)] if len(self.dtypes) < 3 else self.dtypes[0]
        assert src is not None
        return converter(src, dst)


def converter(src: DType, dst: DType) -> Callable[[Any], Any]:
    """The implicit conversion of a scalar argument from `src` to `dst`."""
    if src.ir == dst.ir:
        return lambda value: value
    return lambda value: value if isinstance(value, Unknown) else scalar.convert(value, src, dst)


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


def signature_check(instruction: Instruction, signature: tuple[str, ...], mode: int, op: Op) -> Callable[[Core], None]:
    """Reports at run time that A2 doesn't have this call (nothing when it has)."""
    text = instruction.complaint(signature, mode)
    if text is None:
        return lambda core: None
    loc = op.loc
    return lambda core: core.fail(errors.UnsupportedError, loc, text)


# -- count form -------------------------------------------------------------------------------------------------
def _count_form(op: Op) -> Step:
    instruction, shape, get_scalar, check = _parts(op)
    loc, mode = shape.loc, shape.mode
    if instruction.kind == "gather":
        return _gather_count(op, instruction, shape, check)
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
    strides = (_DENSE,) * (len(srcs) + 1)

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
        return _brcb(instruction, shape, check)
    if instruction.kind == "gatherb":
        return _gatherb(instruction, shape, check)
    if instruction.kind == "gather":
        return _gather_masked(instruction, shape, check, 1)
    return _masked(op, instruction, shape, get_scalar, check, 1)


def _mask_list_form(op: Op) -> Step:
    instruction, shape, get_scalar, check = _parts(op)
    if instruction.kind == "gather":
        return _gather_masked(instruction, shape, check, 2)
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


def mask_of(
    core: Core,
    name: str,
    words: list[int],
    repeats: int,
    lanes: int,
    strides: tuple[Stride, ...],
    set_mask: bool,
    loc: Any,
) -> Masked:
    """The mask of a call in mask/repeat form: its own, or the register's when the call doesn't set it.

    In counter mode (`SetMaskCount`) a mask number is the count of elements in all, and `repeats` is ignored.
    """
    register = core.mask
    if not set_mask:
        return Masked(repeats, register.bits, register.total if register.counter else None, strides)
    if len(words) == 2:
        low, high = (w & (1 << 64) - 1 for w in words)
        bits = low | high << 64
        if bits >> lanes:
            core.fail(errors.CountError, loc, f"{name}: mask bits beyond the {lanes} elements of a repeat")
        core.mask = register._replace(bits=bits)
        return Masked(repeats, bits, None, strides)
    (count,) = words
    if register.counter:
        core.mask = register._replace(total=count)
        return Masked(repeats, 0, count, strides)
    if not 0 < count <= lanes:
        core.fail(errors.CountError, loc, f"{name}: mask {count}; a repeat has 1 to {lanes} elements")
    bits = (1 << min(max(count, 0), lanes)) - 1
    core.mask = register._replace(bits=bits)
    return Masked(repeats, bits, None, strides)


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
            found.insert(1, _DENSE)
        found = found[:tensors]
        return tuple(found) + ((found[0],) if again else ())

    return read


# -- comparisons in the register --------------------------------------------------------------------------------
def _compare_to_register(op: Op) -> Step:
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
        strides = (_DENSE, Stride(fields[1], fields[4]), Stride(fields[2], fields[5]))
        masked = mask_of(core, "Compare", [env[m] for m in masks], 1, lanes, strides, set_mask, loc)
        core.vector_repeat(instruction, core.cmp_mask(), (env[a], env[b]), masked, loc, None, mode)

    return step


def _select_by_register(op: Op) -> Step:
    """`Select` by the CMPMASK register, used again for every repeat."""
    is_tensor = op.types[2].startswith(_TENSOR)
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
        strides = (found[0], _DENSE, *found[1 : 3 if is_tensor else 2])
        masked = Masked(env[repeat] & 0xFF, (1 << lanes) - 1, None, strides)
        srcs = (core.cmp_mask(), env[a], env[b]) if is_tensor else (core.cmp_mask(), env[a])
        core.vector_repeat(instruction, env[dst], srcs, masked, loc, fit(env[b]) if fit else None, 0)

    return step


def _move_register(op: Op) -> Step:
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
def _gather_count(op: Op, instruction: Instruction, shape: Shape, check: Callable[[Core], None]) -> Step:
    dst, src, offset = shape.tensors
    base, count = shape.rest
    loc = shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        masked = Masked(1, 0, env[count], (_DENSE,) * 3)
        core.gather(instruction, env[dst], env[src], env[offset], env[base], masked, loc)

    return step


def _gather_masked(instruction: Instruction, shape: Shape, check: Callable[[Core], None], mask_words: int) -> Step:
    dst, src, offset = shape.tensors
    base, *more = shape.rest
    masks, repeat, dst_repeat = more[:mask_words], more[mask_words], more[mask_words + 1]
    lanes, loc = REPEAT_BYTES // max(d.size for d in shape.dtypes[:2]), shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        strides = (Stride(1, env[dst_repeat]), _DENSE, _DENSE)
        words = [env[m] for m in masks]
        masked = mask_of(core, instruction.name, words, env[repeat] & 0xFF, lanes, strides, True, loc)
        core.gather(instruction, env[dst], env[src], env[offset], env[base], masked, loc)

    return step


def _gatherb(instruction: Instruction, shape: Shape, check: Callable[[Core], None]) -> Step:
    """Whole 32-byte blocks: each of a repeat's 8 offsets (in bytes) names one."""
    dst, src, offset = shape.tensors
    repeat, params = shape.rest
    loc = shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        stride = Stride(*env[params].fields)
        core.gather_blocks(instruction, env[dst], env[src], env[offset], env[repeat], stride, loc)

    return step


def _brcb(instruction: Instruction, shape: Shape, check: Callable[[Core], None]) -> Step:
    """Each repeat takes 8 elements and fills a block with each."""
    dst, src = shape.tensors
    repeat, params = shape.rest
    loc = shape.loc

    def step(env: Env, core: Core) -> None:
        check(core)
        core.broadcast_blocks(instruction, env[dst], env[src], env[repeat], Stride(*env[params].fields), loc)

    return step


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
        if kind.startswith(_TENSOR):
            tmp = operand
        elif kind in ("i32", "ui32"):
            count = operand
        elif kind in ("f16", "f32") and instruction.name in ("Axpy", "Quant"):
            numbers.append(operand)
    complaint = form_complaint(instruction, count >= 0, tmp >= 0)
    tmp_dtype = next((dtypes.of(t) for t in op.types[1 + sources :] if t.startswith(_TENSOR)), None)
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
