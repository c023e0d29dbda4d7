"""Op + Tiling + Target to KernelPlan: instruction selection, buffers by live range, queues, names."""

from asc_sched.lower.plan import KernelPlan
from asc_sched.lower.planner import Lowered, default_schedule, kernel_name, lower_op, plan_kernel, schedule_for

__all__ = ["KernelPlan", "Lowered", "default_schedule", "kernel_name", "lower_op", "plan_kernel", "schedule_for"]
