"""Where a lowered op's tiles lie in the UB and what its instructions cost there: the input of time estimates."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import attrs

from asc_sched.lang.infer import TypedGraph
from asc_sched.lower.allocate import Allocation, Kind
from asc_sched.lower.layout import Layout, layout_for
from asc_sched.lower.program import Step
from asc_sched.lower.spaces import Extent, TileProgram
from asc_sched.schedule import Schedule
from asc_sched.target.costs import cost_of, vector_cycles
from asc_sched.target.instructions import ASC_TYPE, COUNTS, Instruction
from asc_sched.target.soc import Target
from asc_sched.tiling.estimate import Work

_ASCENDC = {
    "float32": "float", "float16": "half", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
}  # fmt: skip


def ascendc_type(carrier: str) -> str:
    """Ascend C's name for the elements of a buffer that holds a carrier."""
    return _ASCENDC[ASC_TYPE[carrier].removeprefix("asc.")]


@attrs.frozen
class Form:
    """An instruction as its call has it: the count it is given for a tile's length, its operands' types, dst first.

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
def view_ops(program: TileProgram, allocation: Allocation) -> int:
    """Scalar operations per tile for derived counts (about six each) and for buffers seen as another type."""
    counts = {h for h in COUNTS for step in program.steps if "{" + h + "}" in step.instruction.call}
    views = {
        (allocation.home[r], t)
        for step in program.steps
        for r, t in zip((step.dst, *step.srcs), form_of(step.instruction).types, strict=True)
    }
    return 6 * len(counts) + len(views) - len({slot for slot, _ in views}) + len(allocation.of_kind(Kind.TEMP))


@attrs.frozen
class Addresses:
    """Per slot of an allocation: the UB address of its first buffer's data, and how far its next buffer is."""

    base: tuple[int, ...]
    stride: tuple[int, ...]

    def of(self, slot: int, turn: int) -> int:
        """The address in the buffers of that turn."""
        return self.base[slot] + turn * self.stride[slot]


def addresses(layout: Layout, tile_length: int) -> Addresses:
    """UB addresses as a TPipe gives them out: input queues, the queue that is filled once, output queues, temporaries,
    in the order of their set-up."""
    where = _Cursor(layout, tile_length)
    where.queue(Kind.IN, layout.pack_inputs, layout.buffer_num)
    where.queue(Kind.ONCE, True, 1)
    where.queue(Kind.OUT, layout.pack_outputs, layout.buffer_num)
    where.queue(Kind.TEMP, False, 1)
    return Addresses(tuple(where.base), tuple(where.stride))


class _Cursor:
    def __init__(self, layout: Layout, tile_length: int) -> None:
        self.layout = layout
        self.tile_length = tile_length
        self.at = 0
        self.base = [0] * len(layout.allocation.slots)
        self.stride = list(self.base)

    def queue(self, kind: Kind, together: bool, buffers: int) -> None:
        """Places the slots of a kind, in one queue or one each."""
        slots = self.layout.allocation.of_kind(kind)
        for group in [slots] if together else [(slot,) for slot in slots]:
            whole = sum(self.layout.buffer_bytes(s, self.tile_length) for s in group)
            start = self.at
            for slot in group:
                self.base[slot] = start + self.layout.offset_bytes(slot)
                self.stride[slot] = whole if buffers > 1 else 0
                start += self.layout.buffer_bytes(slot, self.tile_length)
            self.at += whole * buffers


def queue_count(layout: Layout, kind: Kind) -> int:
    """How many queues the slots of a kind are in."""
    together = {Kind.IN: layout.pack_inputs, Kind.OUT: layout.pack_outputs, Kind.ONCE: True}
    number = len(layout.allocation.of_kind(kind))
    return min(number, 1) if together[kind] else number


@attrs.frozen
class Call:
    """A step as its cost needs it: Ascend C's name and types (dst first), and the slots of its operands."""

    name: str
    types: tuple[str, ...]
    slots: tuple[int, ...]
    count: Callable[[int], int]
    extent: Extent

    @classmethod
    def of(cls, step: Step, program: TileProgram, allocation: Allocation) -> Call:
        form = form_of(step.instruction)
        slots = tuple(allocation.home[r] or 0 for r in (step.dst, *step.srcs))
        return cls(step.instruction.ascendc, form.types, slots, form.count, program.extents[step.dst])

    def cycles(self, base: tuple[int, ...], length: int) -> float:
        """Cycles on a tile of that length, in its first buffers: slots' addresses are `base`."""
        count = self.count(self.extent.length(length))
        return vector_cycles(self.name, self.types[0], self.types[1:], count, tuple(base[s] for s in self.slots))


def work_of(typed: TypedGraph, program: TileProgram, allocation: Allocation, target: Target) -> Work:
    """The work of an op on given dtypes, on tensors that are one run of memory each."""

    calls = tuple(Call.of(step, program, allocation) for step in program.steps)

    @lru_cache(maxsize=64)
    def layout(buffer_num: int, bank_pad: bool, pack_inputs: bool) -> Layout:
        variant = Schedule(buffer_num=buffer_num, bank_pad=bank_pad, pack_inputs=pack_inputs)
        return layout_for(program, allocation, variant, target, "kernel")

    @lru_cache(maxsize=1024)
    def base(variant: tuple[int, bool, bool], tile_length: int) -> tuple[int, ...]:
        return addresses(layout(*variant), tile_length).base

    @lru_cache(maxsize=4096)
    def cycles(variant: tuple[int, bool, bool], tile_length: int, length: int) -> float:
        where = base(variant, tile_length)
        return sum((call.cycles(where, length) for call in calls), 0.0)

    def variant_of(schedule: Schedule) -> tuple[int, bool, bool]:
        return schedule.buffer_num, schedule.bank_pad, schedule.pack_inputs

    inputs, outputs = typed.input_dtypes, typed.output_dtypes
    return Work(
        in_sizes=tuple(inputs[name].itemsize for name, _ in program.loads),
        out_sizes=tuple(d.itemsize for d in outputs.values()),
        smallest=min(d.itemsize for d in (*inputs.values(), *outputs.values())),
        instructions=len(program.steps),
        view_ops=view_ops(program, allocation),
        temps=len(allocation.of_kind(Kind.TEMP)),
        has_pairs=any(is_pair(s) for s in program.steps),
        vector_cycles=lambda schedule, tile, length: cycles(variant_of(schedule), tile, length),
        longest_tile=lambda schedule, step: layout(*variant_of(schedule)).largest_tile(target, step),
    )


def is_pair(step: Step) -> bool:
    """Whether an instruction reads two buffers whose banks can collide; mask bits don't."""
    kinds = zip(step.srcs, step.instruction.srcs, strict=True)
    types = form_of(step.instruction).types
    cost = cost_of(step.instruction.ascendc, types[0], types[1] if len(types) > 1 else types[0])
    return cost.sources_conflict and len({s for s, carrier in kinds if carrier != "mask"}) > 1
