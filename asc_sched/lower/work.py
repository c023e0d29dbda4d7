"""Where a lowered op's tiles lie in the UB and what its instructions cost there: the input of time estimates."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import attrs

from asc_sched.lower.allocate import Kind
from asc_sched.lower.layout import Layout, layout_for
from asc_sched.lower.planner import Lowered
from asc_sched.schedule import Schedule
from asc_sched.target.costs import vector_cycles
from asc_sched.target.instructions import ASC_TYPE, COUNTS, Instruction
from asc_sched.target.soc import Target
from asc_sched.tiling.estimate import Work

_ASCENDC = {
    "float32": "float", "float16": "half", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
}  # fmt: skip


@attrs.frozen
class Form:
    """An instruction as its call has it: what count it is given for a tile's length, and its operands' types, dst first.

    Types are Ascend C's, as a tensor is seen by the call: reinterpreted where the call does that.
    """

    count: Callable[[int], int]
    types: tuple[str, ...]


@lru_cache(maxsize=1024)
def form_of(instruction: Instruction) -> Form:
    """The form of an instruction's call."""
    call = instruction.call
    hole = next((h for h in COUNTS if "{" + h + "}" in call), None)
    holes = ("dst", *(str(i) for i in range(len(instruction.srcs))))
    types = []
    for name, carrier in zip(holes, instruction.signature, strict=True):
        seen = re.search(r"\{" + name + r"\}\.reinterpret_cast\(asc\.(\w+)\)", call)
        types.append(_ASCENDC[seen.group(1) if seen else ASC_TYPE[carrier].removeprefix("asc.")])
    return Form(_counter(hole), tuple(types))


@lru_cache(maxsize=16)
def _counter(hole: str | None) -> Callable[[int], int]:
    """The table's formula of a count as a function; the formulas are ours, on one integer."""
    if hole is None:
        return int
    code = compile(COUNTS[hole].format("n"), f"<count {hole}>", "eval")
    return lambda n: int(eval(code, {"__builtins__": {}}, {"n": n}))


@lru_cache(maxsize=256)
def view_ops(lowered: Lowered) -> int:
    """Scalar operations per tile for derived counts (about six each) and for buffers seen as another type."""
    calls = [s.instruction.call for s in lowered.program.steps]
    counts = {h for h in COUNTS for call in calls if "{" + h + "}" in call}
    views = {(lowered.allocation.home[r], t) for s in lowered.program.steps
             for r, t in zip((s.dst, *s.srcs), form_of(s.instruction).types, strict=True)}  # fmt: skip
    slots = {slot for slot, _ in views}
    return 6 * len(counts) + len(views) - len(slots) + len(lowered.allocation.temps)


@attrs.frozen
class Addresses:
    """Per slot of an allocation: the UB address of its first buffer's data, and how far its next buffer is."""

    base: tuple[int, ...]
    stride: tuple[int, ...]

    def of(self, slot: int, turn: int) -> int:
        """The address in the buffers of that turn."""
        return self.base[slot] + turn * self.stride[slot]


def addresses(layout: Layout, tile_length: int) -> Addresses:
    """UB addresses as a TPipe gives them out: input queues, output queues, temporaries, in the order of their set-up."""
    slots = layout.allocation.slots
    base, stride = [0] * len(slots), [0] * len(slots)
    ins = layout.allocation.of_kind(Kind.IN)
    at = 0
    if packed(layout):
        whole = sum(layout.buffer_bytes(s, tile_length) for s in ins)
        for slot in ins:
            base[slot], stride[slot] = at + layout.offset_bytes(slot), whole
            at += layout.buffer_bytes(slot, tile_length)
        at, ins = whole * layout.buffer_num, ()
    for slot in (*ins, *layout.allocation.of_kind(Kind.OUT), *layout.allocation.of_kind(Kind.TEMP)):
        size, count = layout.buffer_bytes(slot, tile_length), layout.buffers(slot)
        base[slot], stride[slot] = at + layout.offset_bytes(slot), size if count > 1 else 0
        at += size * count
    return Addresses(tuple(base), tuple(stride))


def packed(layout: Layout) -> bool:
    """Whether the inputs share a queue."""
    return layout.packed and len(layout.allocation.of_kind(Kind.IN)) > 1


def work_of(lowered: Lowered, target: Target) -> Work:
    """The work of an op on given dtypes."""

    def layout(schedule: Schedule) -> Layout:
        return layout_for(lowered.program, lowered.allocation, schedule, target, "kernel")

    @lru_cache(maxsize=4096)
    def cycles(layout: Layout, tile_length: int, length: int) -> float:
        return _cycles(lowered, addresses(layout, tile_length), length)

    dtypes = lowered.typed.input_dtypes
    return Work(
        in_sizes=tuple(dtypes[name].itemsize for name, _ in lowered.program.loads),
        out_sizes=tuple(d.itemsize for d in lowered.typed.output_dtypes.values()),
        instructions=len(lowered.program.steps),
        view_ops=view_ops(lowered),
        temps=len(lowered.allocation.temps),
        has_pairs=any(len(set(s.srcs)) > 1 for s in lowered.program.steps),
        vector_cycles=lambda schedule, tile, length: cycles(layout(schedule), tile, length),
        longest_tile=lambda schedule, step: layout(schedule).largest_tile(target, step),
    )


def _cycles(lowered: Lowered, where: Addresses, length: int) -> float:
    """Cycles of all instructions on a tile of that length, in its first buffers."""
    homes = lowered.allocation.home
    total = 0.0
    for step in lowered.program.steps:
        form = form_of(step.instruction)
        spots = tuple(where.base[homes[r] or 0] for r in (step.dst, *step.srcs))
        total += vector_cycles(step.instruction.ascendc, form.types[0], form.types[1:], form.count(length), spots)
    return total
