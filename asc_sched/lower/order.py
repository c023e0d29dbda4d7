"""The order of a program's steps: what is cheap to make again isn't kept, so that tiles can be larger.

Only where steps stand changes, and constants are made twice: results are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from asc_sched.lower.program import Step

KEEP = 16  # steps for which a constant may occupy UB without being read


def remake_constants(steps: Sequence[Step], registers: list[str], stored: frozenset[int]) -> tuple[Step, ...]:
    """Registers filled with a number are filled again before a use far from the last one.

    One Duplicate costs a cycle per 256 bytes; keeping the register costs that much UB for all steps between.
    `registers` grows by the new ones.
    """
    constant = _constants(steps)
    current: dict[int, int] = {}  # register in the old program -> the one that holds it now
    last_seen: dict[int, int] = {}
    made: list[Step] = []

    def use(register: int) -> int:
        if register not in constant or register in stored:
            return current.get(register, register)
        if len(made) - last_seen.get(register, -KEEP - 1) > KEEP:
            _make(register)
        last_seen[register] = len(made)
        return current[register]

    def _make(register: int) -> None:
        step = constant[register]
        srcs = tuple(use(s) for s in step.srcs)
        registers.append(registers[register])
        current[register] = len(registers) - 1
        made.append(attrs.evolve(step, dst=current[register], srcs=srcs))
        last_seen[register] = len(made)

    for step in steps:
        if step.dst in constant and step.dst not in stored:
            continue  # made where it is used
        srcs = tuple(use(s) for s in step.srcs)
        made.append(step if srcs == step.srcs else attrs.evolve(step, srcs=srcs))
    return tuple(made)


def _constants(steps: Sequence[Step]) -> dict[int, Step]:
    """Steps that fill a register with a number, and casts of those."""
    found: dict[int, Step] = {}
    for step in steps:
        if not step.srcs or (step.instruction.name == "cast" and step.srcs[0] in found):
            found[step.dst] = step
    return found
