"""Op + Tiling + Target to KernelPlan: instruction selection, buffers by live range, queues, names.

Names are loaded on first use: a build with nothing to do needs those of kernels only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lazy import loader

if TYPE_CHECKING:
    from asc_sched.lower.geometry import Arrangement, Geometry
    from asc_sched.lower.plan import KernelPlan
    from asc_sched.lower.planner import (
        Lowered,
        Order,
        arrangement_for,
        default_schedule,
        kernel_name,
        lower_op,
        plan_kernel,
        schedule_for,
    )

_HOMES = {
    "Arrangement": "geometry",
    "Geometry": "geometry",
    "KernelPlan": "plan",
    "Lowered": "planner",
    "Order": "planner",
    "arrangement_for": "planner",
    "default_schedule": "planner",
    "kernel_name": "planner",
    "lower_op": "planner",
    "plan_kernel": "planner",
    "schedule_for": "planner",
}

__all__ = [
    "Arrangement",
    "Geometry",
    "KernelPlan",
    "Lowered",
    "Order",
    "arrangement_for",
    "default_schedule",
    "kernel_name",
    "lower_op",
    "plan_kernel",
    "schedule_for",
]

__getattr__ = loader(__name__, _HOMES)
