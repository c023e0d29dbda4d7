"""Which builder compiles which operation: one table of all families."""

from __future__ import annotations

from collections.abc import Mapping

from asc_sched.sim import control, framework, inline, moves, tensors, vector
from asc_sched.sim.ir import Op
from asc_sched.sim.machine import Builder

BUILDERS: Mapping[str, Builder] = {
    **framework.BUILDERS,
    **tensors.BUILDERS,
    **control.BUILDERS,
    **moves.BUILDERS,
    **inline.BUILDERS,
}


def find(op: Op) -> Builder | None:
    """The builder of an operation that isn't in the table by its full name."""
    return vector.find(op)
