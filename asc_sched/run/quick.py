"""The short way for calls that repeat: the same kernel on NPU tensors of a form that has been checked before.

A call's form is everything about its tensors but their addresses: type, shape, strides, dtype, device. The first call
of a form goes the whole way (`launch`); if it ran in place on the NPU with no tensor copied or broadcast, later calls
of that form only read addresses, look for overlaps, and launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import attrs

from asc_sched.lang.graph import Constant
from asc_sched.run.arguments import bind_scalars
from asc_sched.run.device import launcher_choice

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs

_FORMS_MAX = 64
_forms: WeakKeyDictionary[Kernel, dict[tuple[Any, ...], Form]] = WeakKeyDictionary()


@attrs.frozen
class Form:
    """What a form of call needs besides addresses. `outputs` has shape, strides and dtype of each result, `spans` the
    bytes of each tensor, `twins` the (output, input) pairs of one form, which may be one tensor (in place)."""

    core_num: int
    sizes: tuple[int, ...]
    device: torch.device
    outputs: tuple[tuple[Any, Any, Any], ...]
    spans: tuple[int, ...]
    twins: frozenset[tuple[int, int]]


def form_of(tensors: Sequence[Any], outs: Sequence[Any]) -> tuple[Any, ...] | None:
    """The key of a call's form; None where the arguments aren't all strided tensors with memory."""
    key: list[Any] = [len(tensors)]
    try:
        for t in (*tensors, *outs):
            key += (type(t), t.shape, t.stride(), t.dtype, t.device, t.is_neg())
        hash(result := tuple(key))
    except (AttributeError, RuntimeError, TypeError):
        return None
    return result


def quick_form(kernel: Kernel, key: tuple[Any, ...] | None) -> Form | None:
    """The form that a key stands for, if calls of it may go the short way."""
    forms = _forms.get(kernel)
    return None if forms is None or key is None else forms.get(key)


def remember(
    kernel: Kernel, key: tuple[Any, ...] | None, tensors: Sequence[Any], args: LaunchArgs, results: Sequence[Any]
) -> None:
    """Keep the form of a call that has just run, if it was in place on an NPU and took every tensor as it is.

    `results`: the tensors that the caller gets, given by it or made.
    """
    device = args.outputs[0].device
    if key is None or device.type != "npu" or args.copies or len(_forms.setdefault(kernel, {})) >= _FORMS_MAX:
        return
    laid = [*args.inputs, *args.outputs]
    if any(t.data_ptr() != flat.data_ptr() for t, flat in zip((*tensors, *results), laid, strict=True)):
        return
    spec = [(t.shape, t.stride(), t.dtype) for t in tensors]
    wanted = [(t.shape, t.stride(), t.dtype) for t in results]
    twins = frozenset((o, i) for o, w in enumerate(wanted) for i, s in enumerate(spec) if w == s)
    spans = tuple(t.nbytes for t in laid)
    _forms[kernel][key] = Form(args.core_num, args.sizes, device, tuple(wanted), spans, twins)


def run_quick(
    kernel: Kernel, form: Form, tensors: Sequence[Any], outs: Sequence[Any] | None, scalars: Mapping[str, Any], npu: Any
) -> list[Any] | None:
    """Launch; the results, or None where memory overlaps or pyasc's launcher is asked for, and the whole way must do
    it."""
    import torch

    if launcher_choice() != "own":
        return None
    if outs is None:
        results = [torch.empty_strided(s, st, dtype=d, device=form.device) for s, st, d in form.outputs]
    else:
        results = list(outs)
    addresses = [t.data_ptr() for t in tensors]
    count = len(addresses)
    addresses += [t.data_ptr() for t in results]
    if outs is not None and _clash(form, addresses, count):
        return None
    numbers: tuple[Constant, ...] = ()
    if kernel.op.scalars or scalars:
        bound = bind_scalars(kernel.op, scalars)
        numbers = tuple(bound[s.name] for s in kernel.plan.scalars)
    npu.launch_in_place(kernel, form.core_num, (*addresses, *form.sizes, *numbers), form.device.index)
    return results


def _clash(form: Form, addresses: Sequence[int], count: int) -> bool:
    """Whether an output shares memory with another tensor otherwise than by being it."""
    spans = form.spans
    for o in range(count, len(addresses)):
        start = addresses[o]
        end = start + spans[o]
        for other in range(o):
            at = addresses[other]
            if at < end and start < at + spans[other] and not (at == start and (o - count, other) in form.twins):
                return True
    return False
