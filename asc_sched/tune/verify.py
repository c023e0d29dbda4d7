"""A schedule's kernel checked by execution on the simulator, at a size with all its kinds of tiles but few of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import attrs

from asc_sched.build import LoweringPool, lower_many
from asc_sched.errors import AscSchedError, CompileError
from asc_sched.kernel import Kernel, generate
from asc_sched.lower.geometry import Geometry, contiguous_arrangement
from asc_sched.lower.plan import KernelPlan
from asc_sched.run.check import random_inputs
from asc_sched.run.shapes import Shape
from asc_sched.schedule import Schedule
from asc_sched.tune.trial import BackendRunner, check

# Up to this many elements a kernel is run as it is.
WHOLE = 1 << 18
CORES = 2
# Outer indices, and column tiles of a row, that stand for more.
_OUTER, _PIECES = 3, 3


def verify(kernel: Kernel) -> str:
    """Empty if the results are right, else what is wrong.

    Large problems are checked at a few cores with two whole tiles and a ragged one each; the tiling's coverage is
    proved at the full size when the kernel is planned.
    """
    return verify_all([kernel])[0]


def verify_all(kernels: Sequence[Kernel], pool: LoweringPool | None = None) -> list[str]:
    """`verify` of several kernels, whose smaller forms the workers of `pool` compile while others are checked."""
    smaller = [None if _is_small(k) else reduced(k) for k in kernels]
    results = lower_many((k.request for k in smaller if k is not None), None if pool else 1, pool=pool)
    faults = []
    for kernel, small in zip(kernels, smaller, strict=True):
        if small is None:
            faults.append(_fault(kernel))
            continue
        result = next(results)
        if isinstance(result, CompileError):
            faults.append(_text(result))
        else:
            faults.append(_fault(attrs.evolve(small, lowered=result)))
    return faults


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _fault(kernel: Kernel) -> str:
    try:
        with _one_thread():
            return check(kernel, BackendRunner("sim", "hot"), random_inputs(kernel))
    except AscSchedError as error:
        return _text(error)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """torch on one thread: for tensors this small, waking others takes longer than the work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_small(kernel: Kernel) -> bool:
    assert kernel.shapes is not None
    return kernel.shapes.total_length <= WHOLE


def reduced(kernel: Kernel) -> Kernel | None:
    """The kernel of a smaller problem of the same kind, not lowered yet: its broadcasting, form, tile and buffers, with
    fewer rows and outer indices. None where there is none."""
    assert kernel.shapes is not None
    geometry = contiguous_arrangement(kernel.shapes.output, kernel.shapes.inputs, len(kernel.op.outputs)).geometry
    dtypes = list(kernel.typed.input_dtypes.values())
    for sizes, schedule in _smaller(kernel, geometry):
        shapes = [
            () if own == () else _shape(sizes, steps)
            for own, steps in zip(kernel.shapes.inputs, geometry.strides, strict=False)
        ]
        try:
            small = generate(
                kernel.op, shapes, dtypes, schedule=schedule, target=kernel.target, typed=kernel.typed,
                precision=kernel.precision,
            )  # fmt: skip
        except AscSchedError:
            continue
        if _kind(small.plan) == _kind(kernel.plan):
            return small
    return None


def _shape(sizes: Shape, steps: Shape) -> Shape:
    return tuple(n if step else 1 for n, step in zip(sizes, steps, strict=True))


def _smaller(kernel: Kernel, geometry: Geometry) -> Iterator[tuple[Shape, Schedule]]:
    """Sizes of the geometry and schedules to try, those with a ragged tile first."""
    plan, form = kernel.plan, kernel.plan.form
    cores = min(CORES, kernel.schedule.core_num or CORES)
    step = 32 // min(t.dtype.itemsize for t in (*plan.inputs, *plan.outputs))
    own = -(-plan.tile_length // step) * step
    lengths = dict.fromkeys((kernel.schedule.tile_length or own, own))
    tile = plan.tile_rows
    dim = len(form.outer)
    if form.geometry != geometry:  # tensors are copied together first: only the outermost dimension is known
        dim = 0
    ragged = cores * (2 * tile + tile // 3) + (7 if form.is_flat else 1)
    for rows in (ragged, cores * tile):
        sizes = (*(min(n, _OUTER) for n in geometry.sizes[:dim]), min(rows, geometry.sizes[dim]))
        for length in lengths:
            schedule = attrs.evolve(kernel.schedule, core_num=cores, tile_length=length, tile_num=None)
            yield (*sizes, *_inner(plan, geometry.sizes[dim + 1 :])), schedule


def _inner(plan: KernelPlan, sizes: Shape) -> Shape:
    """The sizes within a row, which stay, as the form depends on them; of a row that is cut, a few pieces and what is
    left are enough."""
    form = plan.form
    if not form.cut or len(sizes) != 1:
        return sizes
    gone = max(form.column_count - _PIECES, 0)
    return (sizes[0] - gone * form.column_tile,)


def _kind(plan: KernelPlan) -> tuple[object, ...]:
    """What two kernels share that differ in their numbers of rows, column tiles and outer indices alone."""
    form = plan.form
    row = (form.column_tile, form.pitch, form.cut, form.width % form.column_tile, form.dense, form.single)
    accesses = [(a.reach, len(a.outer), a.row_length == form.width, a.dims) for a in form.accesses]
    buffers = [(q.position, q.buffer_num, q.buffer_bytes, len(q.members), q.once) for q in plan.queues]
    temps = [t.buffer_bytes for t in plan.temps]
    return (len(form.inner), plan.tile_rows, row, accesses, buffers, temps, plan.held, plan.arrangement.copied)
