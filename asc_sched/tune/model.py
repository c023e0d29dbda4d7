"""The model as the search's judge: times of schedules without running, and mostly without compiling, them.

A schedule of a flat task is ranked by its sketch (see `asc_sched.tune.sketch`). Finalists are compiled as they will be
used, with every size baked in, and timed as what the compiler made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import attrs

from asc_sched.build import LoweringPool, lower_many
from asc_sched.declare import Op
from asc_sched.errors import AscSchedError
from asc_sched.kernel import Kernel, generate
from asc_sched.lang.dtypes import DType
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower import default_schedule, lower_op, schedule_for
from asc_sched.lower.plan import Tensor
from asc_sched.lower.work import work_of
from asc_sched.run.shapes import Shapes
from asc_sched.schedule import Schedule
from asc_sched.sim import ArraySpec, Timing, time_kernel
from asc_sched.sim.timing import outlines_task_us
from asc_sched.target import Target
from asc_sched.tiling import Alignment, resolve
from asc_sched.tiling.estimate import Estimate
from asc_sched.tune.sketch import Sketch

_JOBS = 2


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
        self.lowered = lower_op(task.typed)
        self.work = work_of(task.typed, self.lowered.program, self.lowered.allocation, task.target)
        self.align = Alignment.of(self.lowered.itemsizes, task.target)
        self.sketch = Sketch(self.lowered, task.target)
        self._times: dict[Schedule, float] = {}
        self._kernels: dict[Schedule, Kernel] = {}

    @cached_property
    def estimate(self) -> Estimate:
        """The closed form, for a first idea."""
        return Estimate(self.work, self.task.total_length, self.task.target, self.task.l2)

    @cached_property
    def rule(self) -> Schedule:
        """`Schedule.auto` for the task. Raises `UbOverflowError`."""
        if self.task.flat:
            return default_schedule(self.lowered, self.task.total_length, self.task.target)
        shapes, dtypes = list(self.task.shapes.inputs), list(self.task.dtypes)
        return schedule_for(self.task.op, shape=shapes, dtype=dtypes, target=self.task.target)

    @property
    def widest(self) -> int:
        """Bytes per element of the widest tensor in GM."""
        return max(self.lowered.itemsizes)

    def longest_tile(self, variant: Schedule) -> int:
        """The longest tile that the UB takes under a schedule's memory knobs; 0 where none fits. Raises `ScheduleError`
        where its queues are too many."""
        return self.work.longest_tile(variant, self.align.datablock_length)

    def time(self, schedule: Schedule) -> float:
        """The modelled time in microseconds, without compiling where the task is flat. Raises `AscSchedError`."""
        if schedule not in self._times:
            flat = self.task.flat
            self._times[schedule] = self._sketched(schedule) if flat else self.exact(schedule).task_us
        return self._times[schedule]

    def _sketched(self, schedule: Schedule) -> float:
        task = self.task
        tiling = resolve(
            schedule, total_length=task.total_length, itemsizes=self.lowered.itemsizes, target=task.target
        )
        sizes = [task.total_length * size for size in self.lowered.itemsizes]
        groups = [self.sketch.longest(tiling)]
        return outlines_task_us(groups, sizes, target=task.target, l2=task.l2)

    # -- compiled kernels -----------------------------------------------------------------------------------------
    def exact(self, schedule: Schedule) -> Timing:
        """The modelled time of the kernel as it will be used. Raises what made it impossible."""
        kernel = self.kernel(schedule)
        assert kernel.tiling is not None
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
        results = lower_many((k.request for _, k in made), pool=_pool()) if made else ()
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
