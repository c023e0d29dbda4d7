"""The model as the search's first judge: times of schedules without running, and mostly without compiling, them.

One kernel of any size per variant (the knobs that change its text) serves every core count and tile length: they are
its arguments. Only finalists are compiled as they will be used, with every size baked in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import attrs

from asc_sched.build import LoweringPool, lower_many
from asc_sched.declare import Op
from asc_sched.errors import AscSchedError, ScheduleError
from asc_sched.kernel import Kernel, _lower_op as lower_op, generate
from asc_sched.lang.dtypes import DType
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower.plan import Tensor
from asc_sched.run.shapes import Shapes
from asc_sched.schedule import Schedule
from asc_sched.sim import ArraySpec, Timing, time_kernel
from asc_sched.target import Target
from asc_sched.tiling import Alignment, resolve

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
        """Whether every input has the result's shape: then a kernel of any size computes it."""
        return all(s == self.shapes.output for s in self.shapes.inputs)


class Model:
    """Times schedules of one task; everything is computed once. `compiled` counts the kernels that pyasc saw."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.compiled = 0
        self._variants: dict[Schedule, Kernel | AscSchedError] = {}
        self._times: dict[Schedule, float] = {}
        self._kernels: dict[Schedule, Kernel] = {}

    # -- variants -------------------------------------------------------------------------------------------------
    def prepare(self, variants: Sequence[Schedule]) -> None:
        """Compile the kernels of any size for these variants, side by side."""
        wanted = [v for v in variants if v not in self._variants]
        made: list[tuple[Schedule, Kernel]] = []
        for variant in wanted:
            try:
                made.append((variant, self._generate_any(variant)))
            except AscSchedError as error:
                self._variants[variant] = error
        self.compiled += len(made)
        results = lower_many((k.request for _, k in made), pool=_pool())
        for (variant, kernel), result in zip(made, results, strict=True):
            failed = isinstance(result, AscSchedError)
            self._variants[variant] = result if failed else attrs.evolve(kernel, lowered=result)

    def _generate_any(self, variant: Schedule) -> Kernel:
        task = self.task
        return generate(
            task.op, None, list(task.dtypes), schedule=variant, target=task.target, typed=task.typed,
            tile_argument=True,
        )  # fmt: skip

    def variant(self, variant: Schedule) -> Kernel:
        """The kernel of any size for a variant. Raises what made it impossible."""
        if variant not in self._variants:
            self.prepare([variant])
        found = self._variants[variant]
        if isinstance(found, AscSchedError):
            raise found
        return found

    def longest_tile(self, variant: Schedule) -> int:
        """The longest tile that the UB takes under a variant. Raises `ScheduleError` where none fits."""
        return self.variant(variant).plan.tile_length

    # -- times ----------------------------------------------------------------------------------------------------
    def time(self, schedule: Schedule) -> float:
        """The modelled time in microseconds of a flat task, from the variant's kernel of any size."""
        if schedule not in self._times:
            self._times[schedule] = self._time_any(schedule)
        return self._times[schedule]

    def _time_any(self, schedule: Schedule) -> float:
        variant = attrs.evolve(schedule, core_num=None, tile_length=None)
        kernel = self.variant(variant)
        assert schedule.tile_length is not None
        if schedule.tile_length > kernel.plan.tile_length:
            raise ScheduleError(f"tile_length={schedule.tile_length} is over the UB's {kernel.plan.tile_length}")
        total = self.task.shapes.total_length
        tiling = resolve(schedule, total_length=total, itemsizes=kernel.itemsizes, target=self.task.target)
        sizes = {"total_length": total, "tile_length": schedule.tile_length}
        numbers = [next(v for k, v in sizes.items() if n.startswith(k)) for n, _ in kernel.plan.formulas.arguments]
        return self._clock(kernel, numbers, tiling.core_num).task_us

    def exact(self, schedule: Schedule) -> Timing:
        """The modelled time of the kernel as it will be used, compiled for this size."""
        kernel = self.kernel(schedule)
        assert kernel.tiling is not None
        return self._clock(kernel, [], kernel.tiling.core_num)

    def kernel(self, schedule: Schedule) -> Kernel:
        """The kernel for this size and schedule, compiled."""
        if schedule not in self._kernels:
            self.compile([schedule])
        return self._kernels[schedule]

    def compile(self, schedules: Sequence[Schedule]) -> dict[Schedule, AscSchedError]:
        """Compile kernels for this size, side by side; the ones that fail are returned with their errors."""
        task = self.task
        failed: dict[Schedule, AscSchedError] = {}
        made: list[tuple[Schedule, Kernel]] = []
        for schedule in (s for s in schedules if s not in self._kernels):
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
        results = lower_many((k.request for _, k in made), pool=_pool())
        for (schedule, kernel), result in zip(made, results, strict=True):
            if isinstance(result, AscSchedError):
                failed[schedule] = result
            else:
                self._kernels[schedule] = attrs.evolve(kernel, lowered=result)
        return failed

    def _clock(self, kernel: Kernel, sizes: list[int], core_num: int) -> Timing:
        specs = [ArraySpec(t.dtype.asc, t.dtype.itemsize * n) for t, n in self._tensors(kernel)]
        scalars = [1.0 if s.carrier == "float32" else 1 for s in kernel.plan.scalars]
        return time_kernel(
            kernel.asc_ir, [*specs, *sizes, *scalars], core_num=core_num, target=self.task.target, l2=self.task.l2
        )

    def _tensors(self, kernel: Kernel) -> list[tuple[Tensor, int]]:
        lengths = [math.prod(s) for s in self.task.shapes.inputs]
        lengths += [self.task.shapes.total_length] * len(kernel.plan.outputs)
        return list(zip((*kernel.plan.inputs, *kernel.plan.outputs), lengths, strict=True))

    @property
    def align(self) -> Alignment:
        dtypes = (*self.task.typed.input_dtypes.values(), *self.task.typed.output_dtypes.values())
        return Alignment.of(tuple(d.itemsize for d in dtypes), self.task.target)

    @property
    def widest(self) -> int:
        """Bytes per element of the widest tensor in GM."""
        dtypes = (*self.task.typed.input_dtypes.values(), *self.task.typed.output_dtypes.values())
        return max(d.itemsize for d in dtypes)

    @property
    def has_pairs(self) -> bool:
        """Whether some instruction reads two different buffers, so that bank padding can matter."""
        program = lower_op(self.task.typed).program
        return any(len(set(step.srcs)) > 1 for step in program.steps)
