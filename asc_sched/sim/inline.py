"""Builders of `asc.inline` (``emitasc.verbatim``): a reader of single Ascend C calls, for the instructions it knows.

Understood: ``AscendC::Name<types>(arguments)`` with arguments that are operands (``$0``), views of them
(``$0.ReinterpretCast<bfloat16_t>()``, ``$0[64]``, ``$0[$2]``), enumerators (``AscendC::RoundMode::CAST_RINT``), numbers
(with or without a cast) and repeat parameters (``{1, 1, 8, 8}`` or ``AscendC::UnaryRepeatParams(1, 1, 8, 8)``); further
``PipeBarrier<PIPE_V>()`` and its like, and lines of the preprocessor. Anything else is an error naming its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from asc_sched.sim import dtypes, errors, scalar
from asc_sched.sim.core import Core
from asc_sched.sim.dtypes import DType
from asc_sched.sim.instructions import BASIC, CMP_NAMES, INLINE, SEL_NAMES, Instruction
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step
from asc_sched.sim.numerics.casts import Round
from asc_sched.sim.operands import converter, mask_of, signature_check
from asc_sched.sim.patterns import REPEAT_BYTES, Masked, Stride
from asc_sched.sim.stream import Pipe
from asc_sched.sim.values import LocalTensor
from asc_sched.sim.vector import form_complaint

_CALL = re.compile(r"^\s*(?:AscendC::)?(\w+)\s*(?:<([^()]*)>)?\s*\((.*)\)\s*;?\s*$", re.S)
_OPERAND = re.compile(r"^\$(\d)")
_REINTERPRET = re.compile(r"^\.(?:template )?ReinterpretCast<(\w+)>\(\)")
_INDEX = re.compile(r"^\[([^\]]+)\]")
_CAST_EXPR = re.compile(r"^(?:static_cast<(\w+)>|\((\w+)\)|(half|float|bfloat16_t|u?int\d+_t))\s*\(?(.*?)\)?$", re.S)
_NUMBER = re.compile(r"^[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFuUlL]*$")
_PARAMS = re.compile(r"^(?:(?:AscendC::)?\w*Params\s*[({]|\{)(.*)[)}]$", re.S)
_ENUMS: dict[str, int] = {
    **{r.name: int(r) for r in Round},
    **{name: i for i, name in enumerate(CMP_NAMES)},
    **{name: i for i, name in enumerate(SEL_NAMES)},
}
_BARRIERS = {"PIPE_S": Pipe.S, "PIPE_V": Pipe.V, "PIPE_MTE2": Pipe.MTE2, "PIPE_MTE3": Pipe.MTE3, "PIPE_ALL": None}


@attrs.frozen
class Tensor:
    """An argument that is a tensor: how to get it, and its element type."""

    get: Callable[[Env], LocalTensor]
    dtype: DType


@attrs.frozen
class Number:
    """An argument that is a number: how to get it, and its type (None for a bare literal)."""

    get: Callable[[Env], Any]
    dtype: DType | None


@attrs.frozen
class Enumerator:
    """An argument like ``AscendC::RoundMode::CAST_RINT``, as its number."""

    value: int


@attrs.frozen
class Strides:
    """Repeat parameters, in the order in which C++ has them."""

    fields: tuple[int, ...]


Argument: TypeAlias = Tensor | Number | Enumerator | Strides


def _verbatim(op: Op) -> Step | None:
    text = op.words[0].strip()
    if not text.strip("; ") or text.startswith("#") or text.startswith("//"):
        return None
    m = _CALL.match(text)
    if m is None:
        raise _unreadable(op, "it isn't a single call")
    name, template, inside = m.groups()
    if name == "PipeBarrier" and template in _BARRIERS:
        pipe, loc = _BARRIERS[template], op.loc
        return lambda env, core: core.barrier(pipe, loc)
    arguments = [_argument(part, op) for part in split_arguments(inside)]
    instruction = INLINE.get(name)
    if name == "Select" and sum(isinstance(a, Tensor) for a in arguments) == 3:
        instruction = BASIC["select_scalar"]
    if instruction is None:
        raise _unreadable(op, f"{name} isn't an instruction that it knows")
    return _Call(op, instruction, arguments, template).step()


def _unreadable(op: Op, why: str) -> errors.UnknownOperationError:
    text = f"{op.loc}: the simulator can't run the inline code `{op.words[0]}`: {why}"
    return errors.UnknownOperationError(text, op.loc)


def split_arguments(text: str) -> list[str]:
    """Splits C++ arguments at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


# -- arguments --------------------------------------------------------------------------------------------------
def _argument(text: str, op: Op) -> Argument:
    if _OPERAND.match(text):
        return _operand(text, op)
    enumerator = text.rpartition("::")[2]
    if enumerator in _ENUMS:
        return Enumerator(_ENUMS[enumerator])
    params = _PARAMS.match(text)
    if params:
        fields = [p for p in split_arguments(params.group(1)) if p]
        if all(f.isdigit() for f in fields):
            return Strides(tuple(int(f) for f in fields))
    number = _number(text, op)
    if number is None:
        raise _unreadable(op, f"argument `{text}`")
    return number


def _operand(text: str, op: Op) -> Argument:
    number = int(text[1])
    if number >= len(op.operands):
        raise _unreadable(op, f"`${number}` with {len(op.operands)} operands")
    slot, kind, rest = op.operands[number], op.types[number], text[2:]
    dtype = dtypes.of(kind)
    if not kind.startswith("!ascendc.local_tensor"):
        if rest:
            raise _unreadable(op, f"argument `{text}`")
        return Number(lambda env: env[slot], dtype)
    get: Callable[[Env], LocalTensor] = lambda env: env[slot]  # noqa: E731
    while rest:
        view, index = _REINTERPRET.match(rest), _INDEX.match(rest)
        if view and view.group(1) in dtypes.BY_C:
            dtype = dtypes.BY_C[view.group(1)]
            get = _reinterpreted(get, dtype)
            rest = rest[view.end() :]
        elif index:
            place = _argument(index.group(1).strip(), op)
            if not isinstance(place, Number):
                raise _unreadable(op, f"argument `{text}`")
            get = _indexed(get, place)
            rest = rest[index.end() :]
        else:
            raise _unreadable(op, f"argument `{text}`")
    return Tensor(get, dtype)


def _reinterpreted(get: Callable[[Env], LocalTensor], dtype: DType) -> Callable[[Env], LocalTensor]:
    def view(env: Env) -> LocalTensor:
        base = get(env)
        return LocalTensor(base.addr, base.nbytes, dtype, base.buffer)

    return view


def _indexed(get: Callable[[Env], LocalTensor], place: Number) -> Callable[[Env], LocalTensor]:
    def view(env: Env) -> LocalTensor:
        base = get(env)
        skip = place.get(env) * base.dtype.size
        return LocalTensor(base.addr + skip, base.nbytes - skip, base.dtype, base.buffer)

    return view


def _number(text: str, op: Op) -> Number | None:
    if text in ("true", "false"):
        value: Any = int(text == "true")
        return Number(lambda env: value, dtypes.BOOL)
    if _NUMBER.match(text):
        return _literal(text)
    m = _CAST_EXPR.match(text)
    target = dtypes.BY_C.get(m.group(1) or m.group(2) or m.group(3)) if m else None
    if m is None or target is None:
        return None
    inner = _argument(m.group(4).strip(), op)
    if not isinstance(inner, Number):
        return None
    source = inner.dtype or dtypes.BY_IR["f64"]
    fit, get, into = converter(source, target), inner.get, target
    return Number(lambda env: fit(get(env)), into)


def _literal(text: str) -> Number:
    """A literal: with a point, an exponent or an `f` a float, else an integer; its type is its target's."""
    digits = text.rstrip("uUlL")
    if digits.lower().startswith(("0x", "-0x", "+0x")):
        whole = int(digits, 16)
        return Number(lambda env: whole, None)
    if re.search(r"[.eEfF]", digits):
        value = float(digits.rstrip("fF"))
        if digits[-1] in "fF":
            value = scalar.round_float(value, dtypes.FLOAT)
        return Number(lambda env: value, dtypes.BY_IR["f64"])
    number = int(digits)
    return Number(lambda env: number, None)


# -- calls ------------------------------------------------------------------------------------------------------
class _Call:
    """One call of an instruction: sorts its arguments, then builds the step of its count or mask/repeat form."""

    def __init__(self, op: Op, instruction: Instruction, arguments: list[Argument], template: str | None) -> None:
        self._op = op
        self._instruction = instruction
        self._tensors = [a for a in arguments if isinstance(a, Tensor)]
        self._numbers = [a for a in arguments if isinstance(a, Number)]
        self._mode = next((a.value for a in arguments if isinstance(a, Enumerator)), 0)
        self._strides = next((a for a in arguments if isinstance(a, Strides)), None)
        self._set_mask = not (template or "").replace(" ", "").endswith((",false", ",0"))
        self._tmp: Tensor | None = None
        self._check_template(template)
        if instruction.is_adv:
            self._take_tmp()

    def _check_template(self, template: str | None) -> None:
        """The template's types must be those of the tensors, or C++ wouldn't compile."""
        named = [t.strip() for t in (template or "").split(",") if t.strip() in dtypes.BY_C]
        have = [t.dtype.c for t in self._tensors]
        order = have if self._instruction.name != "Compare" else have[1:]
        if any(n not in have for n in named) or (len(named) >= 1 and order and named[0] != order[0]):
            raise _unreadable(self._op, f"template types {', '.join(named)} with tensors of {', '.join(have)}")

    def _take_tmp(self) -> None:
        wanted = min(len(s) for s in self._instruction.signatures)
        if len(self._tensors) > wanted:
            self._tmp = self._tensors.pop(wanted)

    def step(self) -> Step:
        """The call's step. Raises `UnknownOperationError` when the arguments fit no form."""
        instruction = self._instruction
        signature = tuple(t.dtype.c for t in self._tensors)
        if not signature:
            raise _unreadable(self._op, "it has no tensors")
        if instruction.reads_dst:
            signature = (*signature, signature[0])
        text = instruction.complaint(signature, self._mode)
        if text is not None and all(len(s) != len(signature) for s in instruction.signatures):
            raise _unreadable(self._op, f"{len(self._tensors)} tensors")
        check = signature_check(instruction, signature, self._mode, self._op)
        if instruction.kind not in ("map", "compare", "select"):
            raise _unreadable(self._op, f"{instruction.name} is only known as pyasc's own call")
        return self._repeat_form(check) if self._strides is not None else self._count_form(check)

    def _scalar(self, numbers: list[Number]) -> Callable[[Env], Any]:
        """The scalar operand among the numbers, converted to the source's dtype."""
        if not numbers:
            return lambda env: None
        (number,) = numbers
        dst = self._tensors[min(1, len(self._tensors) - 1)].dtype
        if self._instruction.kind == "select":
            dst = self._tensors[0].dtype
        if number.dtype is None:
            return lambda env: scalar.constant(number.get(env), dst)
        fit = converter(number.dtype, dst)
        return lambda env: fit(number.get(env))

    def _count_form(self, check: Callable[[Core], None]) -> Step:
        instruction, op = self._instruction, self._op
        before, count = self._numbers[:-1], self._numbers[-1] if self._numbers else None
        if count is None and not instruction.is_adv:
            raise _unreadable(op, "it has no count")
        complaint = None
        if instruction.is_adv:
            complaint = form_complaint(instruction, count is not None, self._tmp is not None)
        get_scalar = self._scalar(before)
        dst, *srcs = self._tensors
        sources = [*srcs, dst] if instruction.reads_dst else srcs
        tmp, mode, loc = self._tmp, self._mode, op.loc

        def step(env: Env, core: Core) -> None:
            check(core)
            if complaint:
                core.fail(errors.UnsupportedError, loc, complaint)
            tensors = tuple(s.get(env) for s in sources)
            elements = count.get(env) if count is not None else tensors[0].nbytes // tensors[0].dtype.size
            buffer = tmp.get(env) if tmp is not None else None
            core.vector(instruction, dst.get(env), tensors, elements, loc, get_scalar(env), mode, buffer)

        return step

    def _repeat_form(self, check: Callable[[Core], None]) -> Step:
        instruction, op = self._instruction, self._op
        assert self._strides is not None
        if len(self._numbers) < 2:
            raise _unreadable(op, "it has no mask and repeat times")
        *before, mask, repeat = self._numbers
        get_scalar = self._scalar(before)
        dst, *srcs = self._tensors
        sources = [*srcs, dst] if instruction.reads_dst else srcs
        fields = self._strides.fields
        half = len(fields) // 2
        strides = [Stride(b, r) for b, r in zip(fields[:half], fields[half:], strict=True)]
        if instruction.kind == "select":
            strides.insert(1, Stride(1, 8))
        found = tuple(strides[: len(self._tensors)]) + ((strides[0],) if instruction.reads_dst else ())
        lanes = REPEAT_BYTES // max(t.dtype.size for t in self._tensors)
        mode, loc, set_mask, name = self._mode, op.loc, self._set_mask, instruction.name

        def step(env: Env, core: Core) -> None:
            check(core)
            masked: Masked = mask_of(core, name, [mask.get(env)], repeat.get(env) & 0xFF, lanes, found, set_mask, loc)
            tensors = tuple(s.get(env) for s in sources)
            core.vector_repeat(instruction, dst.get(env), tensors, masked, loc, get_scalar(env), mode)

        return step


BUILDERS: Mapping[str, Builder] = {"emitasc.verbatim": _verbatim}
