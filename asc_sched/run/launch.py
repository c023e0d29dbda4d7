"""A kernel on tensors: arguments checked, memory laid out as the kernel reads it, results as torch has them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import ArgumentError, ShapeError
from asc_sched.lang.graph import Constant
from asc_sched.run.arguments import bind_scalars, check_dtypes, check_out, check_tensors, is_dense, overlaps_itself
from asc_sched.run.backend import get_backend
from asc_sched.run.quick import form_of, quick_form, remember, run_quick
from asc_sched.run.shapes import resolve_shapes

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel

_log = logging.getLogger(__name__)


@attrs.frozen
class LaunchArgs:
    """What a backend gets: 1-d dense tensors in kernel order, sizes and scalars as plain numbers, cores to launch."""

    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]
    sizes: tuple[int, ...]
    scalars: tuple[Constant, ...]
    core_num: int


def launch(
    kernel: Kernel,
    tensors: Sequence[torch.Tensor],
    out: torch.Tensor | Sequence[torch.Tensor] | None,
    scalars: Mapping[str, Any],
    backend: str | None = None,
) -> Any:
    """Run a kernel; the result is one tensor, or a tuple for several outputs."""
    import torch

    given = None if out is None else ((out,) if isinstance(out, torch.Tensor) else tuple(out))
    key = form_of(tensors, given or ())
    form = quick_form(kernel, key)
    if form is not None:
        npu: Any = get_backend(backend, "npu")
        quick = run_quick(kernel, form, tensors, given, scalars, npu) if npu.name == "npu" else None
        if quick is not None:
            return quick[0] if len(quick) == 1 else tuple(quick)
    args, results, outs = bind_launch(kernel, tensors, given, scalars)
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
) -> tuple[LaunchArgs, list[torch.Tensor], tuple[torch.Tensor, ...] | None]:
    """A call's arguments, checked and laid out: what a backend gets, the tensors that it fills, and `out` as given."""
    import torch

    check_tensors(kernel.op, tensors)
    check_dtypes(kernel, tensors)
    tensors, device = _on_one_device(kernel, tensors)
    numbers = bind_scalars(kernel.op, scalars)
    shape = _shape(kernel, tensors)
    outs = None if out is None else ((out,) if isinstance(out, torch.Tensor) else tuple(out))
    if outs is not None:
        check_out(kernel, outs, tensors, shape)
    views = [t.expand(shape) for t in tensors]
    layout = _layout(views, shape)
    results = [_result(kernel, i, layout, outs, device) for i in range(len(kernel.plan.outputs))]
    args = LaunchArgs(
        inputs=tuple(_flat(kernel, n.name, v, layout) for n, v in zip(kernel.plan.inputs, views, strict=True)),
        outputs=tuple(_storage_order(r, layout) for r in results),
        sizes=tuple(_sizes(kernel, layout.numel())),
        scalars=tuple(numbers[s.name] for s in kernel.plan.scalars),
        core_num=kernel.tiling_for(layout.numel()).core_num,
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


def _shape(kernel: Kernel, tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    shapes = resolve_shapes(kernel.op, [tuple(t.shape) for t in tensors])
    if kernel.shapes is not None and shapes != kernel.shapes and shapes.output != kernel.shapes.output:
        raise ShapeError(
            f"{kernel.name} was compiled for shape {kernel.shapes.output}, the tensors have {shapes.output}; compile "
            "with shape=None for a kernel of any size"
        )
    return shapes.output


def _layout(views: Sequence[torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor:
    """An empty tensor (no memory) with the strides of the result: torch's own rule for elementwise functions."""
    import torch

    strides = _plain_strides(views)
    if strides is not None:
        return torch.empty_strided(shape, strides, dtype=torch.int8, device="meta")
    metas = [torch.empty_strided(v.shape, v.stride(), dtype=torch.int8, device="meta") for v in views]
    total = metas[0]
    for m in metas[1:]:
        total = torch.add(total, m)
    return torch.add(total, total) if len(metas) == 1 else total


def _plain_strides(views: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
    """The result's strides where they are plain: those of inputs that are dense and all alike.

    Not for speed alone: torch loads its compiler (2 s) to add tensors without memory. Dimensions of size 1 have strides
    without a meaning, and torch gives them new ones: those are left to it.
    """
    first = views[0]
    if not first.numel() or 1 in first.shape or any(v.stride() != first.stride() for v in views):
        return None
    return first.stride() if is_dense(first) and not overlaps_itself(first) else None


def _result(
    kernel: Kernel,
    index: int,
    layout: torch.Tensor,
    outs: Sequence[torch.Tensor] | None,
    device: torch.device,
) -> torch.Tensor:
    import torch

    if outs is not None and outs[index].stride() == layout.stride() and outs[index].device == device:
        return outs[index]
    dtype = kernel.plan.outputs[index].dtype.torch
    return torch.empty_strided(layout.shape, layout.stride(), dtype=dtype, device=device)


def _storage_order(tensor: torch.Tensor, layout: torch.Tensor) -> torch.Tensor:
    """The tensor's elements as a 1-d view in the order in which `layout` has them in memory."""
    strides = layout.stride()
    order = sorted(range(layout.dim()), key=lambda d: (-strides[d], d))
    return tensor.permute(order).reshape(-1)


def _flat(kernel: Kernel, name: str, view: torch.Tensor, layout: torch.Tensor) -> torch.Tensor:
    flat = _storage_order(view, layout)
    if view.numel() and (flat.data_ptr() != view.data_ptr() or overlaps_itself(view)):
        _log.info(
            "%s: %s (shape %s, strides %s) is copied to the result's layout before the launch",
            kernel.name, name, tuple(view.shape), view.stride(),
        )  # fmt: skip
    return flat


def _sizes(kernel: Kernel, total_length: int) -> list[int]:
    known = {"total_length": total_length, "tile_length": kernel.plan.tile_length}
    return [next(v for k, v in known.items() if name.startswith(k)) for name, _ in kernel.plan.formulas.arguments]
