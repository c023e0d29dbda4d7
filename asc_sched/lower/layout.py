"""UB by the byte: how large each buffer is for a tile of so many rows, and the largest tile that fits."""

from __future__ import annotations

import attrs

from asc_sched.errors import QueueLimitError, UbOverflowError
from asc_sched.lower.allocate import Allocation, Kind, bank_colours
from asc_sched.lower.spaces import TileProgram
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target

BANK_PAD = 256  # half of the 512 bytes after which bank groups repeat


@attrs.frozen
class Layout:
    """The buffers of an allocation under a schedule, as functions of the rows of a tile (elements, in the flat form).

    With `colours` (see `bank_colours`), every buffer is a multiple of 512 bytes and those of colour 1 hold their data
    256 bytes in, so that partners never share bank groups. `pack_inputs`, `pack_outputs`: one queue for all.
    """

    allocation: Allocation
    buffer_num: int
    pack_inputs: bool
    pack_outputs: bool = False
    colours: tuple[int, ...] | None = None
    reserve: int = 0
    granule: int = 32

    def offset_bytes(self, slot: int) -> int:
        """Where the data starts in a slot's buffer."""
        return BANK_PAD * self.colours[slot] if self.colours else 0

    def buffer_bytes(self, slot: int, rows: int) -> int:
        """Bytes of one of a slot's buffers."""
        taken = self.allocation.slots[slot]
        data = -(-taken.extent.length(rows) * taken.bits // 8)
        return _round_up(data + self.offset_bytes(slot), 2 * BANK_PAD if self.colours else self.granule)

    def buffers(self, slot: int) -> int:
        """How many buffers a slot has."""
        return self.buffer_num if self.allocation.slots[slot].kind in (Kind.IN, Kind.OUT) else 1

    def total_bytes(self, rows: int) -> int:
        """UB bytes of all queues, temporaries and the reserve."""
        slots = range(len(self.allocation.slots))
        return self.reserve + sum(self.buffers(s) * self.buffer_bytes(s, rows) for s in slots)

    def single_bytes(self, rows: int) -> int:
        """UB bytes of one buffer of each."""
        return sum(self.buffer_bytes(slot, rows) for slot in range(len(self.allocation.slots)))

    @property
    def packed(self) -> bool:
        """Whether the inputs share a queue."""
        return self.pack_inputs

    @property
    def bytes_per_row(self) -> float:
        """UB bytes that one more row of a tile costs (one more element, in the flat form)."""
        grown = [
            self.buffers(i) * s.bits * s.extent.width
            for i, s in enumerate(self.allocation.slots)
            if s.extent.per_row and not s.extent.max_rows
        ]
        return sum(grown) / 8

    def largest_tile(self, target: Target, step: int = 1) -> int:
        """The most rows, a multiple of `step`, that fit into the UB; 0 if not even `step` do."""
        most = int((target.ub_bytes - self.reserve) / max(self.bytes_per_row, 1 / 8)) // step
        least = 0
        while least < most:  # bytes grow with the rows
            middle = (least + most + 1) // 2
            if self.total_bytes(middle * step) <= target.ub_bytes:
                least = middle
            else:
                most = middle - 1
        return least * step


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def layout_for(
    program: TileProgram, allocation: Allocation, schedule: Schedule, target: Target, kernel: str
) -> Layout:
    """The layout, after the queue-buffer rules. Raises `QueueLimitError` with the nearest schedule that fits."""
    colours = bank_colours(program, allocation) if schedule.bank_pad else None
    inputs, outputs = len(allocation.of_kind(Kind.IN)), len(allocation.of_kind(Kind.OUT))
    once = 1 if allocation.of_kind(Kind.ONCE) else 0
    packed = schedule.pack_inputs
    pack_outputs = packed and outputs * schedule.buffer_num > target.max_queue_buffers
    queues = min(inputs, 1) if packed else inputs
    _check_queues(kernel, "input", queues, once, schedule, target, packable=inputs > 1)
    _check_queues(kernel, "output", 1 if pack_outputs else outputs, 0, schedule, target, packable=outputs > 1)
    return Layout(
        allocation, schedule.buffer_num, packed, pack_outputs, colours, program.reserve_bytes, program.granule_bytes
    )


def _check_queues(
    kernel: str, what: str, queues: int, once: int, schedule: Schedule, target: Target, packable: bool
) -> None:
    needed, limit = queues * schedule.buffer_num + once, target.max_queue_buffers
    if needed <= limit:
        return
    position = "VECIN" if what == "input" else "VECOUT"
    fits = (limit - once) // queues
    nearest = [f"buffer_num={fits}"] if fits else []
    if packable and not schedule.pack_inputs:
        nearest.append("pack_inputs=True")
    hint = f"; nearest valid: {' or '.join(nearest)}" if nearest else ""
    more = " and one queue that is filled before the loop" if once else ""
    raise QueueLimitError(
        f"{kernel}: {queues} {what} queues x buffer_num={schedule.buffer_num}{more} need {needed} {position} queue "
        f"buffers; {target.name} has {limit} per position{hint}"
    )


def check_buffers(layout: Layout, target: Target, kernel: str) -> None:
    """The limit of all buffers of one TPipe. Raises `QueueLimitError`."""
    slots = layout.allocation.slots
    packed = {Kind.IN: layout.pack_inputs, Kind.OUT: layout.pack_outputs, Kind.ONCE: True, Kind.TEMP: False}
    number = 0
    for kind, together in packed.items():
        own = [i for i, s in enumerate(slots) if s.kind is kind]
        if own:
            number += layout.buffers(own[0]) * (1 if together else len(own))
    if number > target.max_pipe_buffers:
        raise QueueLimitError(
            f"{kernel}: {number} buffers are needed and a TPipe has {target.max_pipe_buffers}; split the computation "
            "into several ops"
        )


def check_ub(
    layout: Layout, rows: int, block_length: int, target: Target, step: int, kernel: str, pitch: int = 1
) -> int:
    """The UB bytes of the layout for tiles of so many rows, `pitch` elements each.

    Raises `UbOverflowError` with the numbers and the largest tile that fits.
    """
    used = layout.total_bytes(rows)
    if used <= target.ub_bytes:
        return used
    largest = layout.largest_tile(target, step)
    tile_length = rows * pitch
    parts = _parts(layout, rows)
    if largest == 0:
        raise UbOverflowError(
            f"{kernel}: {len(layout.allocation.slots)} buffers need {layout.bytes_per_row / pitch:g} bytes of UB per "
            f"element, so not even a tile of {step * pitch} elements ({layout.total_bytes(step)} bytes) fits into the "
            f"{target.ub_bytes} bytes of {target.name}; {_smaller(layout)}split the computation into several ops"
        )
    tile_num = -(-block_length // (largest * pitch * layout.buffer_num))
    raise UbOverflowError(
        f"{kernel}: tile_length={tile_length} needs {used} bytes of UB ({parts}), and {target.name} has "
        f"{target.ub_bytes}; the largest tile_length that fits at buffer_num={layout.buffer_num} is {largest * pitch}; "
        f"nearest valid: tile_length={largest * pitch} or tile_num={max(tile_num, 1)}"
    )


def _smaller(layout: Layout) -> str:
    return "use buffer_num=1 or " if layout.buffer_num > 1 else ""


def _parts(layout: Layout, rows: int) -> str:
    """Every buffer with its bytes; of many, the first ones."""
    slots = range(len(layout.allocation.slots))
    shown = [_part(layout, slot, rows) for slot in slots[:12]]
    more = f", and {len(slots) - 12} more" if len(slots) > 12 else ""
    return ", ".join(shown) + more


def _part(layout: Layout, slot: int, rows: int) -> str:
    number, size = layout.buffers(slot), layout.buffer_bytes(slot, rows)
    return f"{layout.allocation.slots[slot].name}: {number} x {size} = {number * size}"
