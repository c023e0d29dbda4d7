"""Vector instructions that follow each other, executed as one step where the vector pipe is the one that is waited for.

That is most of what a search executes: the same times as one by one, several times faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from asc_sched.sim.compiled import Op
from asc_sched.sim.engine import Clock


@attrs.frozen
class Part:
    """A step of a burst: what it takes of S, then, if it is a vector instruction, of V, in cycles."""

    op: Op
    scalar: float
    vector: float | None = None


def burst(parts: Sequence[Part]) -> Op:
    """All parts as one step.

    As long as S is never behind V, V takes the sum of its cycles and S runs ahead; else they go one by one.
    """
    scalar = vector = 0.0
    least = float("inf")  # by how much V is ahead of S where it is least, from what it is at the start
    for part in parts:
        scalar += part.scalar
        if part.vector is not None:
            least = min(least, vector - scalar)
            vector += part.vector

    def op(c: Clock) -> None:
        v = c.v
        ahead = v.free - c.s + least
        if ahead < 0 or c.sink is not None:
            for part in parts:
                part.op(c)
            return
        c.s += scalar
        c.s_busy += scalar
        if ahead < c.s_slack:
            c.s_slack = ahead
        v.free += vector
        v.busy += vector
        v.done = v.free

    return op
