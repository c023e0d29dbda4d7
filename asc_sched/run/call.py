"""`Op.__call__`: the kernel for a call's tensors, compiled at most once per kind of call, and its launch.

Kernels are kept by what they do, not by size: tensors of one layout share a kernel of any size, and so do rows that
differ in number only.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import DtypeError, ScheduleError
from asc_sched.lang.dtypes import DType, get_dtype
from asc_sched.lang.graph import Constant
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lower import Arrangement, Geometry
from asc_sched.lower.tiles import ANY_SIZE, RowCountError
from asc_sched.run.arguments import check_tensors
from asc_sched.run.layout import arrange, spec_of
from asc_sched.run.torch_strides import Spec, is_contiguous, overlaps_itself
from asc_sched.tiling.auto import balanced_core_num

if TYPE_CHECKING:
    import torch

    from asc_sched.declare import Op
    from asc_sched.kernel import Kernel
    from asc_sched.target import Target

_log = logging.getLogger(__name__)


def call_op(
    op: Op,
    tensors: Sequence[torch.Tensor],
    out: torch.Tensor | Sequence[torch.Tensor] | None,
    scalars: Mapping[str, Constant],
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Compile for these tensors (kept for the next call of the same kind) and run."""
    import torch

    from asc_sched.run.backend import machine_target
    from asc_sched.run.launch import launch

    check_tensors(op, tensors)
    tensors = _without_float64(op, tensors)
    outs: Sequence[Any] | None = None if out is None else ((out,) if isinstance(out, torch.Tensor) else tuple(out))
    written = None
    if outs is not None and all(isinstance(o, torch.Tensor) for o in outs) and len(outs) == len(op.outputs):
        written = tuple(spec_of(o) for o in outs)
    dtypes = tuple(get_dtype(t.dtype) for t in tensors)
    kernel, cores = _prepared(
        op, dtypes, tuple(spec_of(t) for t in tensors), written, machine_target(tensors[0].device.type)
    )
    result: torch.Tensor | tuple[torch.Tensor, ...] = launch(
        kernel, tensors, outs, scalars, core_num=cores, checked=True
    )
    return result


def _without_float64(op: Op, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """0-d float64 tensors, which don't decide the result's dtype in torch, rounded to the dtype that does."""
    import torch

    double = torch.float64
    if not any(t.dtype is double for t in tensors):
        return tensors
    common = tensors[0]
    for other in tensors[1:]:
        dim = max(common.dim(), other.dim())
        common = torch.empty((1,) * dim, dtype=torch.result_type(common, other))
    for name, tensor in zip(op.inputs, tensors, strict=True):
        if tensor.dtype is double and (tensor.dim() or common.dtype is double):
            raise DtypeError(
                f"{op.name}: {name} is float64, which vector cores don't have; pass {name}.float() (a 0-d float64 "
                "tensor is taken where another input is a tensor of floats)"
            )
    return [t.to(common.dtype) if t.dtype is double else t for t in tensors]


@lru_cache(maxsize=4096)
def _prepared(
    op: Op,
    dtypes: tuple[DType, ...],
    inputs: tuple[Spec, ...],
    outs: tuple[Spec, ...] | None,
    target: Target | None,
) -> tuple[Kernel, int | None]:
    """The kernel for a form of call, and the cores for its size."""
    call = arrange(op, inputs, None)
    if outs is not None and all(s == call.shape and not overlaps_itself(s, steps) for s, steps in outs):
        call = arrange(op, inputs, outs)
    zero_dim = frozenset(n for n, (shape, _) in zip(op.inputs, inputs, strict=True) if not shape)
    typed = _typed(op, dtypes, zero_dim)
    geometry = call.arrangement.geometry
    results = outs or tuple((call.shape, strides) for strides in call.results)
    if all(is_contiguous(*spec) for spec in (*inputs, *results)):
        tuned = _tuned_kernel(op, dtypes, tuple(s for s, _ in inputs), call.shape, target)
        if tuned is not None:
            return tuned, None
    kernel = _kernel(op, typed, _any_size(geometry), target) if geometry.total_length else None
    if kernel is None:
        return _fixed_kernel(op, typed, call.arrangement, target), None
    return kernel, _cores(kernel, geometry)


def _tuned_kernel(
    op: Op, dtypes: tuple[DType, ...], shapes: tuple[tuple[int, ...], ...], shape: tuple[int, ...],
    target: Target | None,
) -> Kernel | None:  # fmt: skip
    """The kernel with the schedule that was tuned for exactly these contiguous tensors, or found good nearby."""
    import torch

    from asc_sched.tune.choice import near_schedule, tuned_schedule

    total = math.prod(shape)
    if not total or torch.compiler.is_compiling():  # a trace neither reads files nor searches
        return None
    schedule = tuned_schedule(op, shapes, total, dtypes, target) or near_schedule(op, shapes, total, dtypes, target)
    if schedule is None:
        return None
    try:
        return op.compile(list(shapes), list(dtypes), schedule=schedule, target=target)
    except ScheduleError as error:  # of a table from elsewhere, or of another version
        _log.warning("%s: a tuned schedule is not used: %s", op.name, error)
        return None


def forget_calls() -> None:
    """Forget which kernels calls use: a search has found other schedules."""
    _prepared.cache_clear()


@lru_cache(maxsize=1024)
def _typed(op: Op, dtypes: tuple[DType, ...], zero_dim: frozenset[str]) -> TypedGraph:
    return infer(op.graph, dict(zip(op.inputs, dtypes, strict=True)), zero_dim)


def _any_size(geometry: Geometry) -> Geometry:
    """The geometry with a large outermost dimension: one for all that differ in it alone."""
    inner = math.prod(geometry.sizes[1:])
    return attrs.evolve(geometry, sizes=(max(ANY_SIZE // inner, 1), *geometry.sizes[1:]))


@lru_cache(maxsize=512)
def _kernel(op: Op, typed: TypedGraph, geometry: Geometry, target: Target | None) -> Kernel | None:
    """The kernel of any size for a geometry; None where its rows don't fit a tile as wholes."""
    from asc_sched.kernel import compiled, generate

    arrangement = Arrangement(geometry.sizes, geometry.strides, geometry.input_count)
    try:
        kernel = generate(op, None, None, target=target, typed=typed, arrangement=arrangement, any_size=True)
    except RowCountError:
        return None
    return compiled(kernel)


@lru_cache(maxsize=512)
def _fixed_kernel(op: Op, typed: TypedGraph, arrangement: Arrangement, target: Target | None) -> Kernel:
    """The kernel for tensors of just these sizes; for no elements one that isn't lowered, since it isn't launched."""
    from asc_sched.kernel import compiled, generate

    geometry = arrangement.geometry
    laid = Arrangement(geometry.sizes, geometry.strides, geometry.input_count)
    kernel = generate(op, None, None, target=target, typed=typed, arrangement=laid, any_size=False)
    return compiled(kernel) if geometry.total_length else kernel


def _cores(kernel: Kernel, geometry: Geometry) -> int:
    """The cores that pay for their launch at this size."""
    moved = [s for s, strides in zip(kernel.itemsizes, geometry.strides, strict=True) if all(strides)]
    cores: int = balanced_core_num(geometry.total_length, tuple(moved), kernel.target)
    return cores
