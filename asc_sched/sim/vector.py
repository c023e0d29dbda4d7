"""Builders of vector instructions in their count, mask/repeat and mask-list forms."""

from __future__ import annotations

from asc_sched.sim import dtypes
from asc_sched.sim.core import Core
from asc_sched.sim.instructions import BASIC
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder, Env, Step


def find(op: Op) -> Builder | None:
    """The builder for ``ascendc.<instruction>_l2`` and its other forms, or None."""
    name = op.name.removeprefix("ascendc.")
    base, _, form = name.rpartition("_")
    if base in BASIC and form == "l2":
        return _count_form
    return None


def _count_form(op: Op) -> Step:
    base = op.name.removeprefix("ascendc.")[:-3]
    instruction = BASIC[base]
    dst, *srcs, count = op.operands
    loc = op.loc
    if len(srcs) == 1:
        (a,) = srcs
        return lambda env, core: core.vector(instruction, env[dst], (env[a],), env[count], loc)
    a, b = srcs
    return lambda env, core: core.vector(instruction, env[dst], (env[a], env[b]), env[count], loc)
