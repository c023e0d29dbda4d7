"""`Kernel`: a compiled op, every stage of it open to reading; and the road from an `Op` to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.build.request import ArgType, LowerRequest
from asc_sched.build.request import Lowered as LoweredText
from asc_sched.declare import Op
from asc_sched.emit import kernel_source
from asc_sched.errors import DeclarationError, ScheduleError
from asc_sched.lang.dtypes import DType
from asc_sched.lang.graph import Constant
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lower import KernelPlan, default_schedule, kernel_name, lower_op, plan_kernel
from asc_sched.lower.naming import MAX_NAME, Namer
from asc_sched.lower.planner import Lowered
from asc_sched.run.shapes import Shapes, resolve_shapes
from asc_sched.schedule import Schedule
from asc_sched.target import Target, get_target
from asc_sched.tiling import Tiling

if TYPE_CHECKING:
    import torch


@attrs.frozen(eq=False, repr=False)
class Kernel:
    """One op, compiled for given dtypes, a size (or any), a schedule and a target.

    Call it with tensors. `tiling`, `plan`, `source`, `asc_ir` and `ascendc` are the stages, each printable.
    """

    op: Op
    typed: TypedGraph
    shapes: Shapes | None
    plan: KernelPlan
    source: str
    request: LowerRequest
    lowered: LoweredText

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def schedule(self) -> Schedule:
        return self.plan.schedule

    @property
    def target(self) -> Target:
        return self.plan.target

    @property
    def tiling(self) -> Tiling | None:
        """Which elements each core and tile has; None for a kernel of any size (see `tiling_for`)."""
        return self.plan.tiling

    @property
    def asc_ir(self) -> str:
        """MLIR after pyasc's passes: what the simulator runs."""
        return self.lowered.asc_ir

    @property
    def ascendc(self) -> str:
        """The Ascend C (C++) that pyasc emitted: what CANN's compiler takes."""
        return self.lowered.ascendc

    def tiling_for(self, total_length: int) -> Tiling:
        """The tiling of this kernel on `total_length` elements."""
        if self.tiling is not None and not self.plan.dynamic:
            return self.tiling
        from asc_sched.tiling import resolve

        schedule = self.schedule.evolve(tile_length=self.plan.tile_length)
        return resolve(schedule, total_length=total_length, itemsizes=self.itemsizes, target=self.target)

    @property
    def itemsizes(self) -> tuple[int, ...]:
        return tuple(t.dtype.itemsize for t in (*self.plan.inputs, *self.plan.outputs))

    def __call__(
        self,
        /,
        *tensors: torch.Tensor,
        out: torch.Tensor | Sequence[torch.Tensor] | None = None,
        backend: str | None = None,
        **scalars: Constant,
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Run on CPU or NPU tensors of the compiled dtypes and shape; see `Op.__call__`."""
        from asc_sched.run.launch import launch

        result: torch.Tensor | tuple[torch.Tensor, ...] = launch(self, tensors, out, scalars, backend)
        return result

    def __repr__(self) -> str:
        size = "any size" if self.shapes is None else f"shape {self.shapes.output}"
        return f"<kernel {self.name}, {size}, {self.schedule!r}, {self.target.name}>"


def compile_kernel(
    op: Op,
    shape: Any,
    dtype: Any,
    *,
    schedule: Schedule | None = None,
    target: str | Target | None = None,
    name: str | None = None,
) -> Kernel:
    """`Op.compile`."""
    from asc_sched.build import lower

    kernel = generate(op, shape, dtype, schedule=schedule, target=target, name=name)
    return attrs.evolve(kernel, lowered=lower(kernel.request))


def generate(
    op: Op,
    shape: Any,
    dtype: Any,
    *,
    schedule: Schedule | None = None,
    target: str | Target | None = None,
    name: str | None = None,
    typed: TypedGraph | None = None,
    tile_argument: bool = False,
) -> Kernel:
    """A kernel up to its source, not lowered yet (`asc_ir` and `ascendc` are empty).

    `typed` is the op's graph with the types that `infer` gave it for these dtypes, where that is known already: then
    torch isn't needed.
    """
    chip = get_target(target) if target is not None else get_target()
    _check(schedule, name)
    shapes = None if shape is None else resolve_shapes(op, shape)
    if typed is None:
        typed = infer(op.graph, op.input_dtypes(dtype), frozenset() if shapes is None else shapes.zero_dim)
    lowered = _lower_op(typed)
    total = None if shapes is None else shapes.total_length
    chosen = schedule if schedule is not None else default_schedule(lowered, total, chip)
    called = kernel_name(op.name, typed) if name is None else name
    plan = plan_kernel(
        lowered, name=called, total_length=total, schedule=chosen, target=chip, tile_argument=tile_argument
    )
    source = kernel_source(plan)
    request = LowerRequest(source=source, entry=plan.name, arg_types=arg_types(plan), target=chip.name)
    return Kernel(op, typed, shapes, plan, source, request, LoweredText("", ""))


def _check(schedule: object, name: str | None) -> None:
    if schedule is not None and not isinstance(schedule, Schedule):
        raise ScheduleError(
            f"schedule must be a Schedule, not {type(schedule).__name__}; Schedule.from_dict reads a dict"
        )
    if name is None:
        return
    usable = Namer()(name) if isinstance(name, str) and name else "my_kernel"
    if usable != name:
        raise DeclarationError(
            f"name={name!r} can't name a kernel: pyasc and C++ take ASCII letters, digits and _, at most {MAX_NAME} of "
            f"them, no digit first, and no reserved word; nearest valid: name={usable!r}"
        )


@lru_cache(maxsize=256)
def _lower_op(typed: TypedGraph) -> Lowered:
    return lower_op(typed)


def arg_types(plan: KernelPlan) -> tuple[ArgType, ...]:
    """The kernel's arguments as pyasc types them, in order: pointers, sizes, runtime scalars."""
    pointers = [ArgType("pointer", t.dtype.asc) for t in (*plan.inputs, *plan.outputs)]
    sizes = [ArgType("scalar", dtype) for _, dtype in plan.formulas.arguments]
    return (*pointers, *sizes, *(ArgType("scalar", s.carrier) for s in plan.scalars))


def call_op(
    op: Op,
    tensors: Sequence[torch.Tensor],
    out: torch.Tensor | Sequence[torch.Tensor] | None,
    scalars: Mapping[str, Constant],
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """`Op.__call__`: compile for these tensors (kept for the next call of the same kind) and run."""
    from asc_sched.lang.dtypes import get_dtype
    from asc_sched.run.arguments import check_tensors

    check_tensors(op, tensors)
    dtypes = tuple(get_dtype(t.dtype) for t in tensors)
    shapes = tuple(tuple(t.shape) for t in tensors)
    from asc_sched.run.backend import machine_target
    from asc_sched.run.launch import launch

    kernel = _compiled(op, shapes, dtypes, machine_target(tensors[0].device.type))
    result: torch.Tensor | tuple[torch.Tensor, ...] = launch(kernel, tensors, out, scalars)
    return result


@lru_cache(maxsize=512)
def _compiled(
    op: Op, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[DType, ...], target: Target | None
) -> Kernel:
    return compile_kernel(op, list(shapes), list(dtypes), target=target)
