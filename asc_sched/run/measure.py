"""Measuring a kernel's time on the device, one interface for every clock there is.

- `ModelClock`: the simulator's time model. Deterministic, needs no tensors.
- `EventClock`: torch_npu events on the NPU, around batches of launches.
- `TickClock`: the cycle counter of CANN's simulator.
- `asc_sched.run.msprof`: what msprof collected.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from asc_sched.errors import ArgumentError
from asc_sched.run.backend import get_backend
from asc_sched.run.launch import LaunchArgs, bind_launch
from asc_sched.run.layout import CallLayout, fit

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel
    from asc_sched.sim import Argument

L2_STATES = ("hot", "cold")
#: Least device time of a batch between two events: far above their resolution.
BATCH_US = 200.0
MAX_BATCH = 200


@attrs.frozen
class Measurement:
    """Times of one kernel in microseconds, one per sample, and what told them (``model``, ``npu events``...)."""

    times_us: tuple[float, ...]
    source: str

    @property
    def median_us(self) -> float:
        return statistics.median(self.times_us)

    @property
    def min_us(self) -> float:
        return min(self.times_us)


class Clock(Protocol):
    """Tells how long a kernel takes on given arguments; `repeats` samples (fewer where they can't differ)."""

    source: str

    def measure(self, kernel: Kernel, args: LaunchArgs | None, repeats: int) -> Measurement: ...


def measure(
    kernel: Kernel,
    args: LaunchArgs | Sequence[torch.Tensor] | None = None,
    repeats: int = 10,
    *,
    backend: str | None = None,
    l2: str = "hot",
    warmup: int = 3,
) -> Measurement:
    """The time of a kernel on the backend (see `asc_sched.run.backend.decide`).

    `args`: what a launch gets, or the input tensors, or None for random ones of the compiled shape. `l2`: "hot" is the
    state that the launch before left, "cold" an L2 without the inputs (flushed before each sample; CANN's simulator
    has no such thing and refuses). `warmup` launches go before and don't count. Raises `ArgumentError`, and what the
    backend raises.
    """
    if repeats < 1 or warmup < 0:
        raise ArgumentError(f"repeats={repeats}, warmup={warmup}: at least 1 sample and 0 warm-up launches are needed")
    clock = clock_for(backend, l2=l2, warmup=warmup)
    return clock.measure(kernel, _bound(kernel, args, clock.source), repeats)


def clock_for(backend: str | None = None, *, l2: str = "hot", warmup: int = 3) -> Clock:
    """The clock of a backend. Raises `BackendNameError` or `ArgumentError`."""
    if l2 not in L2_STATES:
        raise ArgumentError(f"l2={l2!r} is unknown (supported: {', '.join(L2_STATES)})")
    name = get_backend(backend).name
    if name == "npu":
        return EventClock(l2, warmup)
    if name == "camodel":
        if l2 == "cold":
            raise ArgumentError("CANN's simulator can't be told the state of L2; use l2='hot'")
        return TickClock(warmup)
    return ModelClock(l2)


def _bound(kernel: Kernel, args: LaunchArgs | Sequence[torch.Tensor] | None, source: str) -> LaunchArgs | None:
    if isinstance(args, LaunchArgs):
        return args
    if args is None:
        if source == ModelClock.source:
            return None
        args = _random(kernel, "npu" if source == EventClock.source else "cpu")
    missing = {s.name: 1.0 for s in kernel.op.scalars if s.default is None}
    return bind_launch(kernel, args, None, missing)[0]


def _random(kernel: Kernel, device: str) -> list[torch.Tensor]:
    from asc_sched.run.check import random_inputs

    if kernel.shapes is None:
        raise ArgumentError(f"{kernel.name} takes any size: pass the tensors to measure it on")
    return [t.to(device) for t in random_inputs(kernel)]


@attrs.frozen
class ModelClock:
    """The simulator's time model: one sample, always the same."""

    l2: str = "hot"
    source = "model"

    def measure(self, kernel: Kernel, args: LaunchArgs | None, repeats: int) -> Measurement:
        from asc_sched.sim.timing import time_kernel

        if args is None:
            layout = contiguous_layout(kernel)
            sizes, core_num = layout.sizes, layout.core_num
        else:
            sizes, core_num = args.sizes, args.core_num
        timing = time_kernel(
            kernel.asc_ir, model_arguments(kernel, args, sizes), core_num=core_num, target=kernel.target, l2=self.l2
        )
        return Measurement((timing.task_us,), self.source)


def contiguous_layout(kernel: Kernel) -> CallLayout:
    """How a kernel compiled for a shape is launched on contiguous tensors. Raises `ArgumentError` for any size."""
    from asc_sched.lower.geometry import dense_strides

    if kernel.shapes is None:
        raise ArgumentError(f"{kernel.name} takes any size: pass the tensors to measure it on")
    specs = tuple((shape, dense_strides(shape)) for shape in kernel.shapes.inputs)
    return fit(kernel, specs, None, None)


def model_arguments(kernel: Kernel, args: LaunchArgs | None, sizes: Sequence[int]) -> list[Argument]:
    """A launch's arguments without data: sizes of the arrays, numbers for the rest."""
    import numpy as np

    from asc_sched.sim import ArraySpec

    planned = (*kernel.plan.inputs, *kernel.plan.outputs)
    if args is None:
        arrangement = contiguous_layout(kernel).arrangement
        lengths = [
            math.prod(n for n, step in zip(arrangement.sizes, steps, strict=True) if step)
            for steps in arrangement.strides
        ]
        scalars: Sequence[Any] = [1 for _ in kernel.plan.scalars]
    else:
        lengths = [t.numel() for t in (*args.inputs, *args.outputs)]
        scalars = args.scalars
    arrays = [ArraySpec(p.dtype.asc, n * p.dtype.itemsize) for p, n in zip(planned, lengths, strict=True)]
    numbers = [np.dtype(d).type(v) for (_, d), v in zip(kernel.plan.formulas.arguments, sizes, strict=True)]
    numbers += [np.dtype(s.carrier).type(v) for s, v in zip(kernel.plan.scalars, scalars, strict=True)]
    return [*arrays, *numbers]


@attrs.frozen
class EventClock:
    """torch_npu events on the current stream. Hot: batches of launches, so that the host keeps ahead of the device.
    Cold: one launch per sample, after twice the bytes of L2 were overwritten."""

    l2: str = "hot"
    warmup: int = 3
    source = "npu events"

    def measure(self, kernel: Kernel, args: LaunchArgs | None, repeats: int) -> Measurement:
        from asc_sched.run.npu import torch_npu

        npu, backend = torch_npu().npu, get_backend("npu")
        if args is None or args.outputs[0].device.type != "npu":
            raise ArgumentError(f"{kernel.name}: events time work on the NPU; pass npu tensors (.npu())")
        for _ in range(self.warmup):
            backend.run(kernel, args)
        npu.synchronize()
        if self.l2 == "cold":
            return Measurement(self._cold(kernel, args, repeats, npu), self.source)
        batch = self._batch(kernel, args, npu)
        times = tuple(_events(npu, lambda: _launches(backend, kernel, args, batch)) / batch for _ in range(repeats))
        return Measurement(times, self.source)

    def _batch(self, kernel: Kernel, args: LaunchArgs, npu: Any) -> int:
        once = _events(npu, lambda: get_backend("npu").run(kernel, args))
        return min(MAX_BATCH, max(1, math.ceil(BATCH_US / max(once, 1e-3))))

    def _cold(self, kernel: Kernel, args: LaunchArgs, repeats: int, npu: Any) -> tuple[float, ...]:
        import torch

        backend, device = get_backend("npu"), args.outputs[0].device
        flush = torch.empty(2 * kernel.target.l2_bytes, dtype=torch.int8, device=device)
        times = []
        for _ in range(repeats):
            flush.zero_()
            times.append(_events(npu, lambda: backend.run(kernel, args)))
        return tuple(times)


def _launches(backend: Any, kernel: Kernel, args: LaunchArgs, count: int) -> None:
    for _ in range(count):
        backend.run(kernel, args)


def _events(npu: Any, work: Any) -> float:
    """Microseconds of the device between an event before and one after `work`."""
    start, end = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000.0


@attrs.frozen
class TickClock:
    """The cycle counter of CANN's simulator around each launch, at the core's clock as `Target` has it."""

    warmup: int = 0
    source = "camodel ticks"

    def measure(self, kernel: Kernel, args: LaunchArgs | None, repeats: int) -> Measurement:
        from asc_sched.run.device import device_memory

        backend: Any = get_backend("camodel")
        assert args is not None
        runtime = backend.runtime_for(kernel)
        launcher, rt = backend.launcher(kernel, runtime), runtime.rt
        stream, ticks = rt.current_stream(), []
        with device_memory(runtime, args) as addresses:
            for _ in range(self.warmup + repeats):
                before = rt.current_tick()
                launcher(args.core_num, stream.value, (*addresses, *args.sizes, *args.scalars))
                rt.synchronize(stream)
                ticks.append(rt.current_tick() - before)
        return Measurement(tuple(t / kernel.target.clock_mhz for t in ticks[self.warmup :]), self.source)
