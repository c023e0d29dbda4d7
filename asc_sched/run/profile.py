"""Where a compiled kernel's time goes, by the time model: simulated, never measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asc_sched.errors import ArgumentError
from asc_sched.run.measure import L2_STATES, contiguous_layout, model_arguments

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel
    from asc_sched.sim import Timing
    from asc_sched.target import Target


def _launch(kernel: Kernel) -> tuple[list[Any], int]:
    if kernel.shapes is None:
        raise ArgumentError(f"{kernel.name} takes any size; compile it with a shape to profile it")
    if not kernel.shapes.total_length:
        return model_arguments(kernel, None, [0] * len(kernel.plan.formulas.arguments)), 0
    layout = contiguous_layout(kernel)
    return model_arguments(kernel, None, layout.sizes), layout.core_num


def _check(l2: str) -> None:
    if l2 not in L2_STATES:
        raise ArgumentError(f"l2={l2!r} is unknown (supported: {', '.join(L2_STATES)})")


def profile(kernel: Kernel, *, l2: str = "hot", target: Target | None = None) -> Timing:
    """The modelled time of one launch on contiguous tensors; see `Kernel.profile`."""
    from asc_sched.sim import time_kernel

    _check(l2)
    arguments, core_num = _launch(kernel)
    return time_kernel(kernel.asc_ir, arguments, core_num=core_num, target=target or kernel.target, l2=l2)


def profile_trace(
    kernel: Kernel, *, l2: str = "hot", target: Target | None = None, tiles: int | None = 8
) -> dict[str, Any]:
    """The same launch as Chrome trace data: one track per core and pipe. `tiles` per core are shown; None shows all."""
    from asc_sched.sim import trace

    _check(l2)
    arguments, core_num = _launch(kernel)
    return trace(kernel.asc_ir, arguments, core_num=core_num, target=target or kernel.target, l2=l2, tiles=tiles)
