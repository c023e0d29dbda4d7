"""A kernel on tensors: arguments checked, memory laid out as the kernel reads it, results as torch has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import ArgumentError
from asc_sched.lang.graph import Constant
from asc_sched.run.arguments import bind_scalars, check_dtypes, check_out, check_tensors, shares_memory
from asc_sched.run.backend import get_backend
from asc_sched.run.layout import CallLayout, fit, gathered, memory, spec_of
from asc_sched.run.quick import form_of, quick_form, remember, run_quick

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel


@attrs.frozen
class LaunchArgs:
    """What a backend gets: memory as 1-d tensors in kernel order, sizes and scalars as plain numbers, cores to launch.

    `partial` says of each output whether the kernel leaves gaps in its memory, which must stay as it is. `copies` are
    the tensors that were copied for the launch or are after it, in words. `guard` are bytes that lie before and behind
    each tensor's memory on the host, and have to around its copy on a device, there and back.
    """

    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]
    sizes: tuple[int, ...]
    scalars: tuple[Constant, ...]
    core_num: int
    partial: tuple[bool, ...] = ()
    copies: tuple[str, ...] = ()
    guard: int = 0


def launch(
    kernel: Kernel,
    tensors: Sequence[torch.Tensor],
    out: torch.Tensor | Sequence[torch.Tensor] | None,
    scalars: Mapping[str, Any],
    backend: str | None = None,
    core_num: int | None = None,
    checked: bool = False,
) -> Any:
    """Run a kernel; the result is one tensor, or a tuple for several outputs.

    `core_num` replaces the schedule's for a kernel of any size. `checked`: the tensors have been looked at.
    """
    import torch

    given = None if out is None else ((out,) if isinstance(out, torch.Tensor) else tuple(out))
    key = form_of(tensors, given or ())
    form = quick_form(kernel, key)
    if form is not None:
        npu: Any = get_backend(backend, "npu")
        quick = run_quick(kernel, form, tensors, given, scalars, npu) if npu.name == "npu" else None
        if quick is not None:
            return quick[0] if len(quick) == 1 else tuple(quick)
    args, results, outs = bind_launch(kernel, tensors, given, scalars, core_num, checked)
    if args.core_num:
        chosen = get_backend(backend, args.outputs[0].device.type)
        chosen.run(kernel, args)
        if chosen.name == "npu":
            remember(kernel, key, tensors, args, results if outs is None else outs)
    if outs is not None:
        for tensor, result in zip(outs, results, strict=True):
            if tensor is not result:
                tensor.copy_(result)
        results = list(outs)
    return results[0] if len(results) == 1 else tuple(results)


def bind_launch(
    kernel: Kernel,
    tensors: Sequence[torch.Tensor],
    out: torch.Tensor | Sequence[torch.Tensor] | None,
    scalars: Mapping[str, Any],
    core_num: int | None = None,
    checked: bool = False,
) -> tuple[LaunchArgs, list[torch.Tensor], tuple[torch.Tensor, ...] | None]:
    """A call's arguments, checked and laid out: what a backend gets, the tensors that it fills, and `out` as given."""
    import torch

    if not checked:
        check_tensors(kernel.op, tensors)
        check_dtypes(kernel, tensors)
    tensors, device = _on_one_device(kernel, tensors)
    numbers = bind_scalars(kernel.op, scalars)
    outs = None if out is None else ((out,) if isinstance(out, torch.Tensor) else tuple(out))
    if outs is not None:
        check_out(kernel, outs, tensors)
    written = outs if outs is not None and all(o.device == device for o in outs) else None
    specs = None if written is None else tuple(spec_of(o) for o in written)
    layout = fit(kernel, tuple(spec_of(t) for t in tensors), specs, core_num)
    copied = layout.arrangement.copied
    first, last = len(tensors), len(tensors) + len(kernel.plan.outputs)
    results = [_result(kernel, i - first, layout, written, i in copied, device) for i in range(first, last)]
    args = LaunchArgs(
        inputs=tuple(_input(t, layout, i, written) for i, t in enumerate(tensors)),
        outputs=tuple(memory(r, n) for r, n in zip(results, layout.spans[first:], strict=True)),
        sizes=layout.sizes,
        scalars=tuple(numbers[s.name] for s in kernel.plan.scalars),
        core_num=layout.core_num,
        partial=layout.partial,
        copies=layout.copies,
    )
    return args, results, outs


def _on_one_device(
    kernel: Kernel, tensors: Sequence[torch.Tensor]
) -> tuple[Sequence[torch.Tensor], torch.device]:
    """The tensors on the device of the first that has dimensions; 0-d CPU tensors are moved there, as torch does."""
    device = next((t.device for t in tensors if t.dim()), tensors[0].device)
    if all(t.device == device for t in tensors):
        return tensors, device
    for name, tensor in zip(kernel.op.inputs, tensors, strict=True):
        if tensor.device != device and (tensor.dim() or tensor.device.type != "cpu"):
            raise ArgumentError(
                f"{kernel.name}: {name} is on {tensor.device} and another input on {device}; move them to one device"
            )
    return [t.to(device) for t in tensors], device


def _result(
    kernel: Kernel,
    index: int,
    layout: CallLayout,
    outs: Sequence[torch.Tensor] | None,
    copied: bool,
    device: torch.device,
) -> torch.Tensor:
    """What the kernel writes: `out` itself, a new result, or memory of its own where it can't write into those."""
    import torch

    if outs is not None and not copied:
        return outs[index]
    dtype = kernel.plan.outputs[index].dtype.torch
    if not copied:
        return torch.empty_strided(layout.shape, layout.results[index], dtype=dtype, device=device)
    order = layout.order
    dense = torch.empty([layout.shape[d] for d in order], dtype=dtype, device=device)
    return dense.permute([order.index(d) for d in range(len(order))])


def _input(
    tensor: torch.Tensor, layout: CallLayout, number: int, outs: Sequence[torch.Tensor] | None
) -> torch.Tensor:
    """An input's memory as the kernel reads it: its own, or a copy."""
    if number in layout.arrangement.copied:
        return gathered(tensor, layout, number)
    own = memory(tensor, layout.spans[number])
    if outs is not None and any(shares_memory(tensor, o) and not _same(tensor, o) for o in outs):
        return own.clone()  # it would be overwritten while it is still read
    return own


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same elements in the same places, so that a kernel may work in place."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype
