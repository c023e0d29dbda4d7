"""The model as the search's judge: times of schedules without running, and mostly without compiling, them.

Schedules are ranked by their sketches (see `asc_sched.tune.sketch` and `row_sketch`). Finalists are compiled as they
will be used, with every size baked in, and timed as what the compiler made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import attrs

from asc_sched.build import LoweringPool, lower_many
from asc_sched.declare import Op
from asc_sched.errors import AscSchedError, ScheduleError, UbOverflowError
from asc_sched.kernel import Kernel, generate
from asc_sched.lang.dtypes import DType
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower import default_schedule, lower_op
from asc_sched.lower.plan import Tensor
from asc_sched.lower.planner import Order, _settle, arrangement_for, kernel_name
from asc_sched.lower.row_estimate import RowEstimate
from asc_sched.lower.rows import Rows
from asc_sched.lower.tiles import tiles_for
from asc_sched.lower.work import is_pair, work_of
from asc_sched.run.shapes import Shapes
from asc_sched.schedule import Schedule
from asc_sched.sim import ArraySpec, Timing, time_kernel
from asc_sched.sim.timing import outlines_task_us, time_outlines
from asc_sched.target import Target
from asc_sched.tiling import Alignment, resolve
from asc_sched.tiling.estimate import Estimate
from asc_sched.tune.lengths import Lengths, RowLengths, RunLengths
from asc_sched.tune.row_sketch import RowSketch
from asc_sched.tune.sketch import Sketch

_JOBS = 2
# Kinds of cores that are told apart at first, and for what is within this factor of the best so far: where each core
# has rows of groups of its own, and where all rows are one group, whose cores hardly differ.
_FEW, _MORE, _NEAR = 2, 6, 1.03
_ONE, _ALL, _CLOSE = 1, 3, 1.01


@lru_cache(maxsize=1)
def _pool() -> LoweringPool:
    """Workers that stay for the next search: starting them costs more than a search."""
    return LoweringPool(_JOBS)


@attrs.frozen
class Task:
    """What is tuned: an op on given shapes and dtypes, for a target, with L2 hot or cold."""

    op: Op
    shapes: Shapes
    dtypes: tuple[DType, ...]
    typed: TypedGraph
    target: Target
    l2: str

    @property
    def flat(self) -> bool:
        """Whether every input has the result's shape: then the kernel sees one run of elements."""
        return all(s == self.shapes.output for s in self.shapes.inputs)

    @property
    def total_length(self) -> int:
        return self.shapes.total_length


class Model:
    """Times schedules of one task; everything is computed once. `compiled` counts the kernels that pyasc saw."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.compiled = 0
        self.itemsizes = tuple(d.itemsize for d in (*task.dtypes, *task.typed.output_dtypes.values()))
        self.align = Alignment.of(self.itemsizes, task.target)
        self._judge: _Run | _Rows = _Run(task) if task.flat else _Rows(task)
        self._times: dict[Schedule, float] = {}
        self._kernels: dict[Schedule, Kernel] = {}

    @property
    def estimate(self) -> Estimate | RowEstimate:
        """The closed form, for a first idea."""
        return self._judge.estimate

    @property
    def lengths(self) -> Lengths:
        """The tile lengths that the task's schedules can have."""
        return self._judge.lengths

    @property
    def rule(self) -> Schedule:
        """`Schedule.auto` for the task. Raises `UbOverflowError`."""
        return self._judge.rule

    def time(self, schedule: Schedule) -> float:
        """The modelled time in microseconds, without compiling. Raises `AscSchedError`."""
        if schedule not in self._times:
            self._times[schedule] = self._judge.time(schedule)
        return self._times[schedule]

    # -- compiled kernels -----------------------------------------------------------------------------------------
    @property
    def pool(self) -> LoweringPool:
        """The processes that compile."""
        return _pool()

    def exact(self, schedule: Schedule) -> Timing:
        """The modelled time of the kernel as it will be used. Raises what made it impossible.

        Where hardly two cores do the same, following each of them through the compiled kernel takes seconds: then it is
        the sketch's.
        """
        kernel = self.kernel(schedule)
        assert kernel.tiling is not None
        sketched = self._judge.exact(schedule) if isinstance(self._judge, _Rows) else None
        if sketched is not None:
            return sketched
        specs = [ArraySpec(t.dtype.asc, t.dtype.itemsize * n) for t, n in self._tensors(kernel)]
        scalars = [1.0 if s.carrier == "float32" else 1 for s in kernel.plan.scalars]
        core_num = kernel.tiling.core_num
        return time_kernel(
            kernel.asc_ir, [*specs, *scalars], core_num=core_num, target=self.task.target, l2=self.task.l2
        )

    def kernel(self, schedule: Schedule) -> Kernel:
        """The kernel for this size and schedule, compiled. Raises what made it impossible."""
        failed = self.compile([schedule])
        if failed:
            raise failed[schedule]
        return self._kernels[schedule]

    def compile(self, schedules: Sequence[Schedule]) -> dict[Schedule, AscSchedError]:
        """Compile kernels for this size, side by side; the ones that fail are returned with their errors."""
        task = self.task
        failed: dict[Schedule, AscSchedError] = {}
        made: list[tuple[Schedule, Kernel]] = []
        for schedule in (s for s in dict.fromkeys(schedules) if s not in self._kernels):
            try:
                kernel = generate(
                    task.op, list(task.shapes.inputs), list(task.dtypes), schedule=schedule, target=task.target,
                    typed=task.typed,
                )  # fmt: skip
            except AscSchedError as error:
                failed[schedule] = error
            else:
                made.append((schedule, kernel))
        self.compiled += len(made)
        results = lower_many((k.request for _, k in made), pool=self.pool) if made else ()
        for (schedule, kernel), result in zip(made, results, strict=True):
            if isinstance(result, AscSchedError):
                failed[schedule] = result
            else:
                self._kernels[schedule] = attrs.evolve(kernel, lowered=result)
        return failed

    def _tensors(self, kernel: Kernel) -> list[tuple[Tensor, int]]:
        lengths = [math.prod(s) for s in self.task.shapes.inputs]
        lengths += [self.task.total_length] * len(kernel.plan.outputs)
        return list(zip((*kernel.plan.inputs, *kernel.plan.outputs), lengths, strict=True))


class _Run:
    """Schedules of tensors of one shape: one run of elements."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.lowered = lower_op(task.typed)
        self.itemsizes = self.lowered.itemsizes
        self.work = work_of(task.typed, self.lowered.program, self.lowered.allocation, task.target)
        self.sketch = Sketch(self.lowered, task.target)
        align = Alignment.of(self.itemsizes, task.target)
        self.lengths = RunLengths(self.work, align, task.total_length, max(self.itemsizes))

    @cached_property
    def estimate(self) -> Estimate:
        return Estimate(self.work, self.task.total_length, self.task.target, self.task.l2)

    @cached_property
    def rule(self) -> Schedule:
        return default_schedule(self.lowered, self.task.total_length, self.task.target)

    def time(self, schedule: Schedule) -> float:
        task = self.task
        tiling = resolve(schedule, total_length=task.total_length, itemsizes=self.itemsizes, target=task.target)
        sizes = [task.total_length * size for size in self.itemsizes]
        return outlines_task_us([self.sketch.longest(tiling)], sizes, target=task.target, l2=task.l2)


class _Rows:
    """Schedules of tensors of several shapes: rows, and what is broadcast over them."""

    def __init__(self, task: Task) -> None:
        self.task = task
        arrangement, _, _ = arrangement_for(task.op, list(task.shapes.inputs))
        name = kernel_name(task.op.name, task.typed)
        order = Order(name=name, typed=task.typed, arrangement=arrangement, target=task.target)
        self.rule_error: UbOverflowError | None = None
        try:
            order, self._rule = _settle(order, None)  # tensors that the rule copies first are copied for all schedules
        except UbOverflowError as error:
            self.rule_error = error
        self.subject = order.subject()
        self.rows = Rows(self.subject)
        has_pairs = any(is_pair(s) for b in self.rows.programs() for s in b.program.steps)
        self.lengths = RowLengths(self.rows, max(self.subject.itemsizes), has_pairs)
        shapes = [*task.shapes.inputs, *[task.shapes.output] * len(task.typed.output_dtypes)]
        self.sizes = [math.prod(s) * n for s, n in zip(shapes, self.subject.itemsizes, strict=True)]
        self.best = math.inf
        self._exact: dict[Schedule, Timing | None] = {}

    @cached_property
    def estimate(self) -> RowEstimate:
        return RowEstimate(self.rows, self.task.l2)

    @property
    def rule(self) -> Schedule:
        if self.rule_error is not None:
            raise self.rule_error
        return self._rule

    def time(self, schedule: Schedule) -> float:
        """The time with few kinds of cores told apart; of a schedule that is near the best so far, with more."""
        tiles = tiles_for(self.subject, schedule)
        if isinstance(tiles, tuple):
            names = ", ".join(self.subject.tensors[m.tensor] for m in tiles)
            raise ScheduleError(f"{schedule!r} needs {names} copied before the launch, and other tile lengths don't")
        sketch = RowSketch(self.subject, tiles)
        few, more, near = (_FEW, _MORE, _NEAR) if sketch.form.group_count > 1 else (_ONE, _ALL, _CLOSE)
        found = self._task_us(sketch, few)
        if found <= self.best * near and sketch.blocks.kind_count > few:
            found = self._task_us(sketch, more)
        self.best = min(self.best, found)
        return found

    def exact(self, schedule: Schedule) -> Timing | None:
        """The time by the sketch if its cores are of too many kinds to follow each."""
        if schedule not in self._exact:
            self._exact[schedule] = self._by_sketch(schedule)
        return self._exact[schedule]

    def _by_sketch(self, schedule: Schedule) -> Timing | None:
        tiles = tiles_for(self.subject, schedule)
        if isinstance(tiles, tuple):
            return None
        sketch = RowSketch(self.subject, tiles)
        if sketch.blocks.kind_count <= _FEW or sketch.form.group_count == 1:
            return None
        task = self.task
        return time_outlines(
            sketch.kinds(_MORE), self.sizes, core_num=sketch.split.core_num, target=task.target, l2=task.l2
        )

    def _task_us(self, sketch: RowSketch, kinds: int) -> float:
        return outlines_task_us(sketch.kinds(kinds), self.sizes, target=self.task.target, l2=self.task.l2)
