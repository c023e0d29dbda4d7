"""Arguments of a call: checked, with messages that say which one is wrong and what would do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asc_sched.errors import ArgumentError, OverlapError
from asc_sched.lang.dtypes import get_dtype
from asc_sched.lang.graph import Constant, Scalar
from asc_sched.run.torch_strides import overlaps_itself

if TYPE_CHECKING:
    import torch

    from asc_sched.declare import Op
    from asc_sched.kernel import Kernel


def check_tensors(op: Op, tensors: Sequence[Any]) -> None:
    """Number and kind: torch tensors with memory of their own."""
    import torch

    if len(tensors) != len(op.inputs):
        raise ArgumentError(
            f"{op.name} takes {len(op.inputs)} tensors ({', '.join(op.inputs)}), {len(tensors)} given"
        )
    for name, tensor in zip(op.inputs, tensors, strict=True):
        if not isinstance(tensor, torch.Tensor):
            raise ArgumentError(
                f"{op.name}: {name} must be a torch tensor, not {type(tensor).__name__}; "
                "use torch.as_tensor(...) or declare it as a runtime scalar"
            )
        _check_memory(op.name, name, tensor)


def _check_memory(op: str, name: str, tensor: torch.Tensor) -> None:
    from torch._subclasses.fake_tensor import FakeTensor

    if tensor.device.type == "meta" or isinstance(tensor, FakeTensor):
        raise ArgumentError(
            f"{op}: {name} is a {type(tensor).__name__} on {tensor.device} without data, so a kernel can't run on it; "
            "use the op as registered with torch.library where code is traced"
        )
    if tensor.layout is not torch_strided():
        raise ArgumentError(f"{op}: {name} has the layout {tensor.layout}; only strided tensors are taken")
    if tensor.is_complex() or tensor.is_quantized:
        raise ArgumentError(f"{op}: {name} has the dtype {tensor.dtype}, which vector kernels don't have")
    if tensor.is_neg():  # its memory holds the opposite numbers
        raise ArgumentError(f"{op}: {name} is a view that torch negates when it reads it; pass {name}.resolve_neg()")


def torch_strided() -> Any:
    import torch

    return torch.strided


def check_dtypes(kernel: Kernel, tensors: Sequence[torch.Tensor]) -> None:
    """The compiled dtypes, exactly: a kernel's binary reads memory as what it was compiled for."""
    for planned, tensor in zip(kernel.plan.inputs, tensors, strict=True):
        if get_dtype(tensor.dtype) is not planned.dtype:
            raise ArgumentError(
                f"{kernel.name}: {planned.name} is {str(tensor.dtype).removeprefix('torch.')}, and the kernel was "
                f"compiled for {planned.dtype}; convert with .to(torch.{planned.dtype}) or compile for it"
            )


def bind_scalars(op: Op, given: Mapping[str, Any]) -> dict[str, Constant]:
    """Values of all runtime scalars, defaults filled in."""
    names = [s.name for s in op.scalars]
    for name in given:
        if name not in names:
            has = f"its scalars are {', '.join(names)}" if names else "it has none"
            raise ArgumentError(f"{op.name} has no runtime scalar {name!r}; {has}")
    return {s.name: _scalar(op, s, given.get(s.name, s.default)) for s in op.scalars}


def _scalar(op: Op, scalar: Scalar, value: Any) -> Constant:
    if value is None:
        raise ArgumentError(f"{op.name}: the runtime scalar {scalar.name!r} has no default; pass {scalar.name}=...")
    if hasattr(value, "item") and getattr(value, "shape", None) in ((), (1,)):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise ArgumentError(f"{op.name}: {scalar.name} must be a number, not {type(value).__name__}")
    if scalar.dtype.is_float:
        return _float_scalar(op, scalar, float(value))
    if isinstance(value, float) and not value.is_integer():
        raise ArgumentError(f"{op.name}: {scalar.name}={value} is not a whole number, and it is {scalar.dtype}")
    return _int_scalar(op, scalar, int(value))


def _float_scalar(op: Op, scalar: Scalar, value: float) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        rounded = float(np.asarray(value, dtype=np.float64).astype(scalar.dtype.numpy))
    if math.isinf(rounded) and not math.isinf(value):
        raise ArgumentError(f"{op.name}: {scalar.name}={value} is too large for {scalar.dtype}")
    return rounded


def _int_scalar(op: Op, scalar: Scalar, value: int) -> int:
    import numpy as np

    if scalar.dtype.name == "bool":
        return int(bool(value))
    limits = np.iinfo(scalar.dtype.numpy)
    if not limits.min <= value <= limits.max:
        raise ArgumentError(
            f"{op.name}: {scalar.name}={value} is out of range for {scalar.dtype}: {limits.min} to {limits.max}"
        )
    return value


def check_out(kernel: Kernel, outs: Sequence[Any], tensors: Sequence[torch.Tensor]) -> None:
    """`out=` tensors: right number, shape and dtype; written memory not shared in part with anything."""
    import torch

    from asc_sched.run.shapes import broadcast

    shape = broadcast(kernel.op, tuple(tuple(t.shape) for t in tensors))

    if len(outs) != len(kernel.plan.outputs):
        names = ", ".join(t.name for t in kernel.plan.outputs)
        raise ArgumentError(f"{kernel.name} has {len(kernel.plan.outputs)} outputs ({names}), out= has {len(outs)}")
    for planned, out in zip(kernel.plan.outputs, outs, strict=True):
        if not isinstance(out, torch.Tensor):
            raise ArgumentError(f"{kernel.name}: out= for {planned.name} must be a tensor, not {type(out).__name__}")
        _check_memory(kernel.name, f"out= for {planned.name}", out)
        if tuple(out.shape) != shape:
            raise ArgumentError(f"{kernel.name}: out= for {planned.name} has shape {tuple(out.shape)}, needs {shape}")
        if get_dtype(out.dtype) is not planned.dtype:
            raise ArgumentError(f"{kernel.name}: out= for {planned.name} is {out.dtype}, needs torch.{planned.dtype}")
        if overlaps_itself(tuple(out.shape), out.stride()):
            raise OverlapError(
                f"{kernel.name}: more than one element of out= for {planned.name} (shape {tuple(out.shape)}, strides "
                f"{out.stride()}) refers to a single memory location; write to out.clone() instead"
            )
    _check_overlap(kernel, outs, tensors)


def _check_overlap(kernel: Kernel, outs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    named = [(f"out= for {t.name}", o) for t, o in zip(kernel.plan.outputs, outs, strict=True)]
    others = [(t.name, x) for t, x in zip(kernel.plan.inputs, tensors, strict=True)]
    for i, (name, out) in enumerate(named):
        for other_name, other in others:
            if partly_overlap(out, other):
                raise OverlapError(
                    f"{kernel.name}: {name} overlaps input {other_name} in part; pass exactly the same tensor (in "
                    "place) or memory of its own"
                )
        for other_name, other in named[:i]:
            if shares_memory(out, other):
                raise OverlapError(f"{kernel.name}: {name} overlaps {other_name}; outputs need memory of their own")


def memory_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and one past the last byte that a tensor can touch."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the memory from first to last element of two tensors has bytes in common."""
    if not a.numel() or not b.numel() or a.device != b.device:
        return False
    (a0, a1), (b0, b1) = memory_range(a), memory_range(b)
    return a0 < b1 and b0 < a1


def partly_overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two dense tensors share some memory without being the same elements in the same order."""
    if not shares_memory(a, b):
        return False
    same = a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype
    return not same and is_dense(a) and is_dense(b)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements fill the memory that they span."""
    start, stop = memory_range(tensor)
    return stop - start == tensor.numel() * tensor.element_size()
