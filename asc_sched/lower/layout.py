"""UB by the byte: how large each buffer is for a given tile, and the largest tile that fits."""

from __future__ import annotations

import attrs

from asc_sched.errors import QueueLimitError, UbOverflowError
from asc_sched.lower.allocate import Allocation, Kind
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target

# Compare reads whole 256-byte repeats, so a buffer may be read past the tile's own elements.
_ROUND_BYTES = 256


@attrs.frozen
class Layout:
    """The buffers of an allocation under a schedule, as functions of tile_length."""

    allocation: Allocation
    buffer_num: int
    packed: bool
    reserve: int = 0

    def buffer_bytes(self, bits: int, tile_length: int) -> int:
        """Bytes of one buffer: whole 32-byte blocks."""
        return _round_up(-(-tile_length * bits // 8), 32)

    def total_bytes(self, tile_length: int) -> int:
        """UB bytes of all queues, temporaries and the reserve."""
        total = self.reserve
        for slot in self.allocation.slots:
            number = 1 if slot.kind is Kind.TEMP else self.buffer_num
            total += number * self.buffer_bytes(slot.bits, tile_length)
        return total

    @property
    def bytes_per_element(self) -> float:
        """UB bytes that one more element of tile_length costs."""
        bits = 0
        for slot in self.allocation.slots:
            bits += slot.bits * (1 if slot.kind is Kind.TEMP else self.buffer_num)
        return bits / 8

    def largest_tile(self, target: Target, step: int) -> int:
        """The largest multiple of `step` elements that fits into the UB; 0 if none does."""
        tile = int((target.ub_bytes - self.reserve) / self.bytes_per_element) // step * step
        while tile > 0 and self.total_bytes(tile) > target.ub_bytes:
            tile -= step
        return max(tile, 0)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def layout_for(allocation: Allocation, schedule: Schedule, target: Target, kernel: str) -> Layout:
    """The layout, after the queue-buffer rules. Raises `QueueLimitError` with the nearest schedule that fits."""
    layout = Layout(allocation, schedule.buffer_num, schedule.pack_inputs)
    inputs = sum(s.kind is Kind.IN for s in allocation.slots)
    outputs = sum(s.kind is Kind.OUT for s in allocation.slots)
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
    parts = ", ".join(_part(layout, slot_index, tile_length) for slot_index in range(len(layout.allocation.slots)))
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


def _part(layout: Layout, index: int, tile_length: int) -> str:
    slot = layout.allocation.slots[index]
    number = 1 if slot.kind is Kind.TEMP else layout.buffer_num
    size = layout.buffer_bytes(slot.bits, tile_length)
    return f"{slot.name}: {number} x {size} = {number * size}"
