"""UB by the byte: how large each buffer is for a given tile, and the largest tile that fits."""

from __future__ import annotations

import attrs

from asc_sched.errors import QueueLimitError, UbOverflowError
from asc_sched.lower.allocate import Allocation, Kind, bank_colours
from asc_sched.lower.program import Program
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target

BANK_PAD = 256  # half of the 512 bytes after which bank groups repeat


@attrs.frozen
class Layout:
    """The buffers of an allocation under a schedule, as functions of tile_length.

    With `colours` (see `bank_colours`), every buffer is a multiple of 512 bytes and those of colour 1 hold their data
    256 bytes in, so that partners never share bank groups.
    """

    allocation: Allocation
    buffer_num: int
    packed: bool
    colours: tuple[int, ...] | None = None
    reserve: int = 0
    granule: int = 32

    def offset_bytes(self, slot: int) -> int:
        """Where the data starts in a slot's buffer."""
        return BANK_PAD * self.colours[slot] if self.colours else 0

    def buffer_bytes(self, slot: int, tile_length: int) -> int:
        """Bytes of one of a slot's buffers."""
        data = -(-tile_length * self.allocation.slots[slot].bits // 8)
        return _round_up(data + self.offset_bytes(slot), 2 * BANK_PAD if self.colours else self.granule)

    def buffers(self, slot: int) -> int:
        """How many buffers a slot has."""
        return 1 if self.allocation.slots[slot].kind is Kind.TEMP else self.buffer_num

    def total_bytes(self, tile_length: int) -> int:
        """UB bytes of all queues, temporaries and the reserve."""
        slots = range(len(self.allocation.slots))
        return self.reserve + sum(self.buffers(s) * self.buffer_bytes(s, tile_length) for s in slots)

    @property
    def bytes_per_element(self) -> float:
        """UB bytes that one more element of tile_length costs."""
        return sum(self.buffers(i) * s.bits for i, s in enumerate(self.allocation.slots)) / 8

    def largest_tile(self, target: Target, step: int) -> int:
        """The largest multiple of `step` elements that fits into the UB; 0 if none does."""
        tile = int((target.ub_bytes - self.reserve) / self.bytes_per_element) // step * step
        while tile > 0 and self.total_bytes(tile) > target.ub_bytes:
            tile -= step
        return max(tile, 0)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def layout_for(program: Program, allocation: Allocation, schedule: Schedule, target: Target, kernel: str) -> Layout:
    """The layout, after the queue-buffer rules. Raises `QueueLimitError` with the nearest schedule that fits."""
    colours = bank_colours(program, allocation) if schedule.bank_pad else None
    layout = Layout(
        allocation, schedule.buffer_num, schedule.pack_inputs, colours, program.reserve_bytes, program.granule_bytes
    )
    inputs, outputs = len(allocation.of_kind(Kind.IN)), len(allocation.of_kind(Kind.OUT))
    queues = 1 if schedule.pack_inputs and inputs else inputs
    _check_queues(kernel, "input", "VECIN", queues, schedule, target, packable=inputs > 1)
    _check_queues(kernel, "output", "VECOUT", outputs, schedule, target, packable=False)
    return layout


def _check_queues(
    kernel: str, what: str, position: str, queues: int, schedule: Schedule, target: Target, packable: bool
) -> None:
    needed, limit = queues * schedule.buffer_num, target.max_queue_buffers
    if needed <= limit:
        return
    fits = limit // queues
    nearest = [f"buffer_num={fits}"] if fits else []
    if packable and not schedule.pack_inputs:
        nearest.append("pack_inputs=True")
    hint = f"; nearest valid: {' or '.join(nearest)}" if nearest else ""
    raise QueueLimitError(
        f"{kernel}: {queues} {what} queues x buffer_num={schedule.buffer_num} need {needed} {position} queue buffers; "
        f"{target.name} has {limit} per position{hint}"
    )


def check_ub(layout: Layout, tile_length: int, block_length: int, target: Target, step: int, kernel: str) -> int:
    """The UB bytes of the layout. Raises `UbOverflowError` with the numbers and the largest tile that fits."""
    used = layout.total_bytes(tile_length)
    if used <= target.ub_bytes:
        return used
    largest = layout.largest_tile(target, step)
    parts = ", ".join(_part(layout, slot, tile_length) for slot in range(len(layout.allocation.slots)))
    if largest == 0:
        raise UbOverflowError(
            f"{kernel}: {len(layout.allocation.slots)} buffers need {layout.bytes_per_element:g} bytes of UB per "
            f"element, so not even a tile of {step} elements fits into the {target.ub_bytes} bytes of {target.name}; "
            "split the computation into several ops"
        )
    tile_num = -(-block_length // (largest * layout.buffer_num))
    raise UbOverflowError(
        f"{kernel}: tile_length={tile_length} needs {used} bytes of UB ({parts}), and {target.name} has "
        f"{target.ub_bytes}; the largest tile_length that fits at buffer_num={layout.buffer_num} is {largest}; "
        f"nearest valid: tile_length={largest} or tile_num={max(tile_num, 1)}"
    )


def _part(layout: Layout, slot: int, tile_length: int) -> str:
    number, size = layout.buffers(slot), layout.buffer_bytes(slot, tile_length)
    return f"{layout.allocation.slots[slot].name}: {number} x {size} = {number * size}"
