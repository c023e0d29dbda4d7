"""Op + Tiling + Target to KernelPlan: instruction selection, buffers by live range, queues, names."""

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
