"""The simulator: reads ASC-IR as pyasc compiled it, executes it with checks, times it."""

from asc_sched.sim.api import Argument, ArraySpec, SimReport, simulate, stream
from asc_sched.sim.chrome import trace
from asc_sched.sim.errors import CHECKS, HardwareError
from asc_sched.sim.ir import Module
from asc_sched.sim.parse import ParseError, parse
from asc_sched.sim.profile import PipeTime, Timing
from asc_sched.sim.timing import kernel_outlines, time_kernel, time_outlines

__all__ = [
    "CHECKS",
    "Argument",
    "ArraySpec",
    "HardwareError",
    "Module",
    "ParseError",
    "PipeTime",
    "SimReport",
    "Timing",
    "kernel_outlines",
    "parse",
    "simulate",
    "stream",
    "time_kernel",
    "time_outlines",
    "trace",
]
