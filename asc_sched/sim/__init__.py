"""The simulator: reads ASC-IR as pyasc compiled it, executes it with checks, and lists its instruction stream."""

from asc_sched.sim.api import Argument, ArraySpec, SimReport, simulate, stream
from asc_sched.sim.errors import CHECKS, HardwareError
from asc_sched.sim.ir import Module
from asc_sched.sim.parse import ParseError, parse

__all__ = [
    "CHECKS",
    "Argument",
    "ArraySpec",
    "HardwareError",
    "Module",
    "ParseError",
    "SimReport",
    "parse",
    "simulate",
    "stream",
]
