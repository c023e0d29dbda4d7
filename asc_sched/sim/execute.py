"""A core that executes its instructions on numpy arrays and checks what hardware would silently get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from asc_sched.errors import ArgumentError
from asc_sched.sim import errors
from asc_sched.sim.copy_unit import run_load, run_local, run_store
from asc_sched.sim.core import Core
from asc_sched.sim.hazards import INDEX, AccessMap, Clocks, GmOrder, Race
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.memory import Gm, GmBuffer, UbMemory
from asc_sched.sim.patterns import BLOCK_BYTES, CMP_MASK_BYTES, FULL_MASK, CopyPlan, Masked, Stride
from asc_sched.sim.queues import Buffer, Clock, Queue, State, round_up
from asc_sched.sim.stream import Loc, Pipe
from asc_sched.sim.values import GlobalTensor, LocalTensor
from asc_sched.sim.vector_lanes import run_blocks, run_gather, run_repeat
from asc_sched.sim.vector_unit import run_count

BLOCKS_PER_REPEAT = 8
_V = INDEX[Pipe.V]


class ExecutingCore(Core):
    """Runs instructions at once, in program order, while the clocks tell what hardware could run otherwise."""

    def __init__(self, *args: Any, gm: Gm) -> None:
        super().__init__(*args)
        self.ub = UbMemory(self.target.ub_bytes)
        self.gm = gm
        self.touch = gm.start_core(self.number)
        self.clocks = Clocks()
        self.access = AccessMap(self.target.ub_bytes + CMP_MASK_BYTES)
        self.gm_order = GmOrder()
        self.instructions = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.origins: dict[int, tuple[str, Loc]] = {}

    # -- order -------------------------------------------------------------------------------------------------
    def take_clock(self, pipe: Pipe) -> Clock:
        return self.clocks.take(INDEX[pipe])

    def wait_clock(self, pipe: Pipe, clock: Clock) -> None:
        self.clocks.wait(INDEX[pipe], clock)

    def barrier(self, pipe: Pipe | None, loc: Loc) -> None:
        if pipe is None:
            self.clocks.join_all()
        else:
            self.clocks.join(INDEX[pipe])

    def queue_op(self, kind: str, queue: Queue, buffer: Buffer, loc: Loc) -> None:
        if kind in ("alloc", "free"):
            self.ub.forget(buffer.addr, buffer.nbytes)

    def report_race(self, race: Race, what: str, start: int, end: int, pipe: Pipe, loc: Loc) -> None:
        """Reports an access to UB that nothing orders after an earlier one."""
        earlier = "written" if race.wrote else "read"
        self.fail(
            errors.DataRaceError,
            loc,
            f"{pipe.value} {what} UB bytes {start} to {end} that {race.pipe.value} has {earlier} at {race.loc}; "
            f"nothing orders {pipe.value} after {race.pipe.value} (enque/deque, a flag or a barrier)",
        )

    def read_ub(self, pipe: int, number: int, start: int, end: int, loc: Loc) -> None:
        """A pipe's instruction reads UB bytes; reports a write that it isn't ordered after."""
        race = self.access.read(pipe, number, self.clocks.known(pipe), start, end, loc)
        if race is not None:
            self.report_race(race, "reads", start, end, tuple(INDEX)[pipe], loc)

    def write_ub(self, pipe: int, number: int, start: int, end: int, loc: Loc) -> None:
        """A pipe's instruction writes UB bytes; reports an access that it isn't ordered after."""
        race = self.access.write(pipe, number, self.clocks.known(pipe), start, end, loc)
        if race is not None:
            self.report_race(race, "writes", start, end, tuple(INDEX)[pipe], loc)

    # -- definedness -------------------------------------------------------------------------------------------
    def note_origin(self, dst: LocalTensor | None, srcs: tuple[LocalTensor, ...], name: str, loc: Loc) -> None:
        """Remembers which instruction read undefined UB first on the way to `dst`."""
        if dst is None:
            return
        known = next((self.origins[s.addr] for s in srcs if s.addr in self.origins), None)
        self.origins[dst.addr] = known or (name, loc)

    def require_defined(self, tensor: LocalTensor, nbytes: int, what: str, loc: Loc) -> None:
        """Reports undefined bytes where they decide what happens (offsets, scalars)."""
        if self.ub.shadow[tensor.addr : tensor.addr + nbytes].any():
            found = self.origins.get(tensor.addr)
            origin = f", first read by {found[0]} at {found[1]}" if found else ""
            text = f"{what} (UB byte {tensor.addr}) hold data that nobody wrote{origin}"
            self.fail(errors.UninitialisedReadError, loc, text)

    # -- operands ----------------------------------------------------------------------------------------------
    def check_operand(self, tensor: LocalTensor, nbytes: int, what: str, loc: Loc) -> bool:
        """Checks owner, alignment and bounds of `nbytes` of a tensor. False: it can't be accessed at all."""
        buffer = tensor.buffer
        if buffer is not None and buffer.state is not State.HELD:
            text = f"{what} is a tensor of {buffer.queue} that is {buffer.state.value} since {buffer.loc}"
            self.fail(errors.UseAfterFreeError, loc, text)
        if tensor.addr % BLOCK_BYTES:
            self.fail(
                errors.AlignmentError,
                loc,
                f"{what} is at UB byte {tensor.addr}, {tensor.addr % BLOCK_BYTES} past a multiple of {BLOCK_BYTES}",
            )
        if nbytes > tensor.nbytes and nbytes > round_up(tensor.nbytes):  # UB is given out in whole blocks
            elements = f"{nbytes // tensor.dtype.size} {tensor.dtype}"
            text = f"{what}: {nbytes} bytes ({elements}) of a tensor of {max(0, tensor.nbytes)} bytes"
            self.fail(errors.UbBoundsError, loc, text)
        if tensor.addr < 0 or (tensor.addr + nbytes > self.ub.nbytes and not self._is_cmp_mask(tensor, nbytes)):
            self.fail(
                errors.UbBoundsError,
                loc,
                f"{what}: UB bytes {tensor.addr} to {tensor.addr + nbytes}; UB has {self.ub.nbytes}",
            )
            return False
        return True

    def _is_cmp_mask(self, tensor: LocalTensor, nbytes: int) -> bool:
        return tensor.addr == self.ub.nbytes and nbytes <= CMP_MASK_BYTES

    def check_gm(self, gm: GlobalTensor, nbytes: int, what: str, loc: Loc) -> GmBuffer | None:
        """Checks that `nbytes` of a GM tensor are within its argument; None when they aren't."""
        if gm.arg < 0:
            self.fail(errors.GmBoundsError, loc, f"{what} a GlobalTensor without set_global_buffer")
            return None
        buffer = self.gm.buffers[gm.arg]
        start, end = gm.offset, gm.offset + nbytes
        if start < 0 or end > buffer.nbytes:
            size = gm.dtype.size
            self.fail(
                errors.GmBoundsError,
                loc,
                f"{what} elements {start // size} to {end // size} of {buffer.name}, which has "
                f"{buffer.nbytes // size} (bytes {start} to {end} of {buffer.nbytes})",
            )
            return None
        return buffer

    # -- copies ------------------------------------------------------------------------------------------------
    def copy_in(self, ub: LocalTensor, gm: GlobalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        run_load(self, ub, gm, name, plan, loc)

    def copy_out(self, gm: GlobalTensor, ub: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        run_store(self, gm, ub, name, plan, loc)

    def copy_local(self, dst: LocalTensor, src: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        run_local(self, dst, src, name, plan, loc)

    # -- between cores -----------------------------------------------------------------------------------------
    def mark_read(self, buffer: GmBuffer, offset: int, nbytes: int, loc: Loc) -> None:
        """Notes a read of GM; reports what another core wrote, and what nobody wrote."""
        start = buffer.address + offset
        end = start + nbytes
        hit = self.gm.written_by_others(start, end)
        if hit is not None:
            self._core_overlap("reads", "writes", True, buffer, hit, loc)
        self.touch.reads.add(start, end)
        undefined = self.gm.undefined.overlap(start, end) if self.gm.undefined.starts else None
        if undefined is not None:
            gap = next(self.touch.writes.gaps(*undefined), None)
            if gap is not None:
                first = (gap[0] - buffer.address) // buffer.dtype.size
                text = f"reads {buffer.name}[{first}], an output that nobody has written there"
                self.fail(errors.UninitialisedReadError, loc, text)

    def mark_written(self, buffer: GmBuffer, offset: int, nbytes: int, loc: Loc) -> None:
        """Notes a write of GM; reports what another core wrote or read. `ArgumentError` for a read-only array."""
        if not buffer.is_writable:
            raise ArgumentError(f"{loc}: the kernel writes {buffer.name}, but the array given for it is read-only")
        start = buffer.address + offset
        end = start + nbytes
        hit = self.gm.written_by_others(start, end)
        if hit is not None:
            self._core_overlap("writes", "writes", True, buffer, hit, loc)
        hit = self.gm.read_by_others(start, end)
        if hit is not None:
            self._core_overlap("writes", "reads", False, buffer, hit, loc)
        self.touch.writes.add(start, end)

    def _core_overlap(
        self, what: str, other_what: str, wrote: bool, buffer: GmBuffer, hit: tuple[int, int], loc: Loc
    ) -> None:
        size = buffer.dtype.size
        first, last = (hit[0] - buffer.address) // size, -(-(hit[1] - buffer.address) // size)
        self.fail(
            errors.CoreOverlapError,
            loc,
            f"{what} {buffer.name}[{first}:{last}], which core {self.gm.owner(hit[0], wrote)} {other_what} too",
        )

    # -- scalar access -----------------------------------------------------------------------------------------
    def _scalar_place(self, tensor: LocalTensor, index: int, what: str, loc: Loc) -> int | None:
        size = tensor.dtype.size
        addr = tensor.addr + index * size
        buffer = tensor.buffer
        if buffer is not None and buffer.state is not State.HELD:
            text = f"{what} of a tensor of {buffer.queue} that is {buffer.state.value} since {buffer.loc}"
            self.fail(errors.UseAfterFreeError, loc, text)
        if not 0 <= index * size <= tensor.nbytes - size or not 0 <= addr <= self.ub.nbytes - size:
            text = f"{what} at index {index} of a tensor of {tensor.nbytes // size} {tensor.dtype}"
            self.fail(errors.UbBoundsError, loc, text)
            return None
        return addr

    def local_get(self, tensor: LocalTensor, index: int, loc: Loc) -> Any:
        addr = self._scalar_place(tensor, index, "get_value", loc)
        if addr is None:
            return 0
        dtype = tensor.dtype
        if self.ub.shadow[addr : addr + dtype.size].any():
            self.fail(errors.UninitialisedReadError, loc, f"get_value of UB byte {addr} that nobody wrote")
        return self.ub.view(addr, 1, dtype)[0].item()

    def local_set(self, tensor: LocalTensor, index: int, value: Any, loc: Loc) -> None:
        addr = self._scalar_place(tensor, index, "set_value", loc)
        if addr is not None:
            self.ub.view(addr, 1, tensor.dtype)[0] = value
            self.ub.shadow[addr : addr + tensor.dtype.size] = 0

    def global_get(self, tensor: GlobalTensor, index: int, loc: Loc) -> Any:
        place = tensor.at(index)
        buffer = self.check_gm(place, tensor.dtype.size, "get_value reads", loc)
        if buffer is None:
            return 0
        self.mark_read(buffer, place.offset, tensor.dtype.size, loc)
        return buffer.data[place.offset : place.offset + tensor.dtype.size].view(tensor.dtype.np)[0].item()

    def global_set(self, tensor: GlobalTensor, index: int, value: Any, loc: Loc) -> None:
        place = tensor.at(index)
        buffer = self.check_gm(place, tensor.dtype.size, "set_value writes", loc)
        if buffer is not None:
            self.mark_written(buffer, place.offset, tensor.dtype.size, loc)
            buffer.data[place.offset : place.offset + tensor.dtype.size].view(tensor.dtype.np)[0] = value

    # -- vector instructions -----------------------------------------------------------------------------------
    def vector(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        srcs: tuple[LocalTensor, ...],
        count: int,
        loc: Loc,
        scalar: Any = None,
        mode: int = 0,
        tmp: LocalTensor | None = None,
    ) -> None:
        if count <= 0:
            if count < 0:
                self.fail(errors.CountError, loc, f"{instruction.name} of {count} elements")
            return
        self.instructions += 1
        if instruction.needs_deq_scale:
            scalar = self._scale(instruction, loc)
        elif instruction.is_adv:
            self._check_tmp(instruction, dst, srcs, count, tmp, loc)
        elif instruction.name == "Cast" and dst.dtype.c == "half" and srcs[0].dtype.c == "int32_t":
            scalar = self._scale(instruction, loc)
        run_count(self, instruction, dst, srcs, count, loc, scalar, mode)
        self.mask = FULL_MASK

    def vector_repeat(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        srcs: tuple[LocalTensor, ...],
        masked: Masked,
        loc: Loc,
        scalar: Any = None,
        mode: int = 0,
    ) -> None:
        self.instructions += 1
        if instruction.needs_deq_scale:
            scalar = self._scale(instruction, loc)
        run_repeat(self, instruction, dst, srcs, masked, loc, scalar, mode)

    def _scale(self, instruction: Instruction, loc: Loc) -> float:
        if self.deq_scale is None:
            text = f"{instruction.name} from int32_t to half needs set_deq_scale before"
            self.fail(errors.UnsupportedError, loc, text)
        return 1.0 if self.deq_scale is None else self.deq_scale

    def _check_tmp(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        srcs: tuple[LocalTensor, ...],
        count: int,
        tmp: LocalTensor | None,
        loc: Loc,
    ) -> None:
        """An `adv` function's temporary buffer: apart from its operands, and clobbered."""
        name = instruction.name
        if tmp is None:
            if self.pipe.top >= self.ub.nbytes:
                self.fail(
                    errors.UbOverflowError, loc, f"{name} without a temporary buffer takes free UB, and none is left"
                )
            return
        if not self.check_operand(tmp, tmp.nbytes, f"{name}'s temporary buffer", loc):
            return
        start, end = tmp.addr, tmp.addr + tmp.nbytes
        for tensor in (dst, *srcs):
            if tensor.addr < end and start < tensor.addr + count * tensor.dtype.size:
                self.fail(
                    errors.OverlapError,
                    loc,
                    f"{name}: the temporary buffer (UB bytes {start} to {end}) overlaps an operand at {tensor.addr}",
                )
        self.write_ub(_V, self.clocks.tick(_V), start, end, loc)
        self.ub.forget(start, tmp.nbytes)

    def gather(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        src: LocalTensor,
        offset: LocalTensor,
        base: int,
        masked: Masked,
        loc: Loc,
    ) -> None:
        self.instructions += 1
        run_gather(self, instruction, dst, src, offset, base, masked, loc)

    def gather_blocks(
        self,
        instruction: Instruction,
        dst: LocalTensor,
        src: LocalTensor,
        offset: LocalTensor,
        repeats: int,
        stride: Stride,
        loc: Loc,
    ) -> None:
        if repeats <= 0:
            return
        self.instructions += 1
        count = repeats * BLOCKS_PER_REPEAT
        if not self.check_operand(offset, count * 4, "Gatherb's offsets", loc):
            return
        self.require_defined(offset, count * 4, "Gatherb's offsets", loc)
        self.read_ub(_V, self.clocks.tick(_V), offset.addr, offset.addr + count * 4, loc)
        offsets = self.ub.view(offset.addr, count, offset.dtype).astype(np.int64).reshape(repeats, -1)
        if (offsets % BLOCK_BYTES).any() or int(offsets.max()) + BLOCK_BYTES > src.nbytes:
            self.fail(
                errors.UbBoundsError,
                loc,
                f"Gatherb: offsets must be multiples of {BLOCK_BYTES} within the source's {src.nbytes} bytes; "
                f"the largest is {int(offsets.max())}",
            )
            return
        within = np.arange(0, BLOCK_BYTES, src.dtype.size)
        source = (src.addr + offsets[:, :, None] + within).reshape(repeats, -1)
        run_blocks(self, instruction, dst, src, source, int(offsets.max()) + BLOCK_BYTES, repeats, stride, loc)

    def broadcast_blocks(
        self, instruction: Instruction, dst: LocalTensor, src: LocalTensor, repeats: int, stride: Stride, loc: Loc
    ) -> None:
        if repeats <= 0:
            return
        self.instructions += 1
        size = src.dtype.size
        elements = np.arange(repeats * BLOCKS_PER_REPEAT).reshape(repeats, -1)
        source = np.repeat(src.addr + elements * size, BLOCK_BYTES // size, axis=1)
        run_blocks(self, instruction, dst, src, source, elements.size * size, repeats, stride, loc)
