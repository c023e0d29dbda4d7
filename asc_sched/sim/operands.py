"""What the forms of vector instructions share: operands sorted by kind, conversions, masks, checks of types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asc_sched.sim import dtypes, errors, scalar
from asc_sched.sim.core import Core
from asc_sched.sim.dtypes import DType
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.ir import Op
from asc_sched.sim.patterns import Masked, Stride
from asc_sched.sim.values import Unknown

#: Blocks of a repeat, and the strides of an operand that is read without gaps.
DENSE = Stride(1, 8)
TENSOR = "!ascendc.local_tensor"
_MODES = ("roundMode", "cmpMode", "selMode")


class Shape:
    """An operation's operands sorted by what they are: leading tensors, scalar operand, the rest."""

    def __init__(self, op: Op, instruction: Instruction, has_scalar: bool) -> None:
        count = 0
        while count < len(op.operands) and op.types[count].startswith(TENSOR):
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


def signature_check(instruction: Instruction, signature: tuple[str, ...], mode: int, op: Op) -> Callable[[Core], None]:
    """Reports at run time that A2 doesn't have this call (nothing when it has)."""
    text = instruction.complaint(signature, mode)
    if text is None:
        return lambda core: None
    loc = op.loc
    return lambda core: core.fail(errors.UnsupportedError, loc, text)


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
