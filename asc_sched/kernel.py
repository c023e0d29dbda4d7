"""`Kernel`: a compiled op, every stage of it open to reading; and the road from an `Op` to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.build.request import ArgType, LowerRequest
from asc_sched.build.request import Lowered as LoweredText
from asc_sched.declare import Op
from asc_sched.emit import kernel_source
from asc_sched.errors import DeclarationError, ScheduleError, ShapeError
from asc_sched.lang.graph import Constant
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lower import Arrangement, Geometry, KernelPlan, Order, arrangement_for, kernel_name, plan_kernel
from asc_sched.lower.naming import MAX_NAME, Namer
from asc_sched.run.shapes import Shapes, resolve_shapes
from asc_sched.schedule import Schedule
from asc_sched.target import Target, get_target
from asc_sched.tiling import Tiling, resolve
from asc_sched.tiling.rows import RowTiling, resolve_rows

if TYPE_CHECKING:
    import torch

    from asc_sched.sim import Timing

__all__ = ["Kernel", "arg_types", "compile_kernel", "compiled", "generate"]


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
    precision: str = "exact"

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
    def tiling(self) -> Tiling | RowTiling | None:
        """Which elements each core and tile has; None for a flat kernel of any size (see `tiling_for`)."""
        return self.plan.tiling

    @property
    def asc_ir(self) -> str:
        """MLIR after pyasc's passes: what the simulator runs."""
        return self.lowered.asc_ir

    @property
    def ascendc(self) -> str:
        """The Ascend C (C++) that pyasc emitted: what CANN's compiler takes."""
        return self.lowered.ascendc

    def tiling_for(self, total_length: int, core_num: int | None = None) -> Tiling | RowTiling:
        """The tiling of this kernel on `total_length` elements (`core_num` replaces the schedule's).

        Raises `ShapeError` for a length that isn't whole rows of a kernel of rows.
        """
        if self.tiling is not None and not self.plan.dynamic:
            return self.tiling
        schedule = self.schedule.evolve(tile_length=self.plan.tile_length)
        if core_num is not None:
            schedule = schedule.evolve(core_num=core_num)
        if isinstance(self.tiling, RowTiling):
            return self._row_tiling_for(total_length, schedule)
        return resolve(schedule, total_length=total_length, itemsizes=self.itemsizes, target=self.target)

    def _row_tiling_for(self, total_length: int, schedule: Schedule) -> RowTiling:
        own, form = self.tiling, self.plan.form
        assert isinstance(own, RowTiling)
        step = form.width * (form.row_count if form.outer else 1)
        if total_length % step:
            raise ShapeError(f"{self.name} takes whole groups of {step} elements; {total_length} aren't")
        outer, rows = (total_length // step, own.row_count) if form.outer else (1, total_length // form.width)
        return resolve_rows(
            schedule, outer_count=outer, row_count=rows, width=own.width, column_tile=own.column_tile,
            tile_rows=own.tile_rows, unit_rows=self.plan.unit_rows, target=self.target,
        )  # fmt: skip

    def launch_numbers(self, geometry: Geometry, core_num: int | None = None) -> tuple[tuple[int, ...], int]:
        """The size arguments of a launch on a geometry that this kernel serves, and the cores."""
        tiling = self.tiling_for(geometry.total_length, core_num)
        total = tiling.rows.total_length if isinstance(tiling, RowTiling) else tiling.total_length
        names = [name for name, _ in self.plan.formulas.arguments]
        return tuple(self.plan.tile_length if n.startswith("tile_length") else total for n in names), tiling.core_num

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

    def profile(self, l2: str = "hot") -> Timing:
        """Where the time of one launch goes, by the time model: simulated, not measured. Needs no tensors.

        `l2`: "hot" is the state that an earlier launch left, "cold" an L2 without the inputs. ``print`` the result's
        `to_json()`, or use ``asc-sched profile`` for a table and a trace.
        """
        from asc_sched.run.profile import profile

        return profile(self, l2=l2)

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
    precision: str = "exact",
) -> Kernel:
    """`Op.compile`."""
    return compiled(generate(op, shape, dtype, schedule=schedule, target=target, name=name, precision=precision))


def compiled(kernel: Kernel) -> Kernel:
    """A generated kernel, lowered with pyasc."""
    from asc_sched.build import lower

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
    arrangement: Arrangement | None = None,
    any_size: bool | None = None,
    precision: str = "exact",
) -> Kernel:
    """A kernel up to its source, not lowered yet (`asc_ir` and `ascendc` are empty).

    `typed` is the op's graph with the types that `infer` gave it for these dtypes, where that is known already: then
    torch isn't needed. `tile_argument`: a kernel of any size takes its tile_length at the call. `arrangement` says how
    the tensors lie where they aren't contiguous, and with `any_size` its outermost dimension is an example.
    """
    chip = get_target(target) if target is not None else get_target()
    _check(schedule, name)
    shapes = None if shape is None else resolve_shapes(op, shape)
    contiguous, zero_dim, unknown = arrangement_for(op, shape)
    if typed is None:
        typed = infer(op.graph, op.input_dtypes(dtype), zero_dim)
    order = Order(
        name=kernel_name(op.name, typed) if name is None else name,
        typed=typed,
        arrangement=arrangement or contiguous,
        target=chip,
        any_size=unknown if any_size is None else any_size,
        tile_argument=tile_argument,
        precision=precision,
    )
    plan = plan_kernel(order, schedule)
    source = kernel_source(plan)
    request = LowerRequest(source=source, entry=plan.name, arg_types=arg_types(plan), target=chip.name)
    return Kernel(op, typed, shapes, plan, source, request, LoweredText("", ""), precision)


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


def arg_types(plan: KernelPlan) -> tuple[ArgType, ...]:
    """The kernel's arguments as pyasc types them, in order: pointers, sizes, runtime scalars."""
    pointers = [ArgType("pointer", t.dtype.asc) for t in (*plan.inputs, *plan.outputs)]
    sizes = [ArgType("scalar", dtype) for _, dtype in plan.formulas.arguments]
    return (*pointers, *sizes, *(ArgType("scalar", s.carrier) for s in plan.scalars))
