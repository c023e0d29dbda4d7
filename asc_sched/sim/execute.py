"""A core that executes its instructions on numpy arrays and checks what hardware would silently get wrong."""

from __future__ import annotations

from typing import Any

from asc_sched.sim import errors
from asc_sched.sim.core import Core
from asc_sched.sim.hazards import INDEX, AccessMap, Clocks, GmOrder, Race
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.memory import Gm, GmBuffer, UbMemory
from asc_sched.sim.patterns import BLOCK_BYTES, CopyPlan
from asc_sched.sim.queues import Buffer, Clock, Queue, State
from asc_sched.sim.stream import Loc, Pipe
from asc_sched.sim.values import GlobalTensor, LocalTensor

_V, _MTE2, _MTE3 = INDEX[Pipe.V], INDEX[Pipe.MTE2], INDEX[Pipe.MTE3]


class ExecutingCore(Core):
    """Runs instructions at once, in program order, while the clocks tell what hardware could run otherwise."""

    def __init__(self, *args: Any, gm: Gm) -> None:
        super().__init__(*args)
        self.ub = UbMemory(self.target.ub_bytes)
        self.gm = gm
        self.touch = gm.start_core(self.number)
        self.clocks = Clocks()
        self.access = AccessMap(self.target.ub_bytes)
        self.gm_order = GmOrder()
        self.instructions = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self._origin: tuple[Loc, str] | None = None

    # -- order -------------------------------------------------------------------------------------------------
    def take_clock(self, pipe: Pipe) -> Clock:
        return self.clocks.take(INDEX[pipe])

    def wait_clock(self, pipe: Pipe, clock: Clock) -> None:
        self.clocks.wait(INDEX[pipe], clock)

    def barrier(self, pipe: Pipe | None, loc: Loc) -> None:
        if pipe is None:
            self.clocks.join_all()

    def queue_op(self, kind: str, queue: Queue, buffer: Buffer, loc: Loc) -> None:
        if kind in ("alloc", "free"):
            self.ub.forget(buffer.addr, buffer.nbytes)

    def _race(self, race: Race, what: str, start: int, end: int, pipe: Pipe, loc: Loc) -> None:
        earlier = "written" if race.wrote else "read"
        self.fail(
            errors.DataRaceError,
            loc,
            f"{pipe.value} {what} UB bytes {start} to {end} that {race.pipe.value} has {earlier} at {race.loc}; "
            f"nothing orders {pipe.value} after {race.pipe.value} (enque/deque, a flag or a barrier)",
        )

    def _read(self, pipe: int, number: int, start: int, end: int, loc: Loc) -> None:
        race = self.access.read(pipe, number, self.clocks.known(pipe), start, end, loc)
        if race is not None:
            self._race(race, "reads", start, end, tuple(INDEX)[pipe], loc)

    def _write(self, pipe: int, number: int, start: int, end: int, loc: Loc) -> None:
        race = self.access.write(pipe, number, self.clocks.known(pipe), start, end, loc)
        if race is not None:
            self._race(race, "writes", start, end, tuple(INDEX)[pipe], loc)

    # -- operands ----------------------------------------------------------------------------------------------
    def check_operand(self, tensor: LocalTensor, nbytes: int, what: str, loc: Loc) -> bool:
        """Checks owner, alignment and bounds of `nbytes` of a tensor. False: it can't be accessed at all."""
        buffer = tensor.buffer
        if buffer is not None and buffer.state is not State.HELD:
            self.fail(
                errors.UseAfterFreeError,
                loc,
                f"{what} is a tensor of the {buffer.queue.position} queue of {buffer.queue.loc} that is "
                f"{buffer.state.value} since {buffer.loc}",
            )
        if tensor.addr % BLOCK_BYTES:
            self.fail(
                errors.AlignmentError,
                loc,
                f"{what} is at UB byte {tensor.addr}, {tensor.addr % BLOCK_BYTES} past a multiple of {BLOCK_BYTES}",
            )
        if nbytes > tensor.nbytes:
            self.fail(
                errors.UbBoundsError,
                loc,
                f"{what}: {nbytes} bytes ({nbytes // tensor.dtype.size} {tensor.dtype}) of a tensor of {max(0, tensor.nbytes)} bytes",
            )
        if tensor.addr < 0 or tensor.addr + nbytes > self.ub.nbytes:
            self.fail(
                errors.UbBoundsError,
                loc,
                f"{what}: UB bytes {tensor.addr} to {tensor.addr + nbytes}; UB has {self.ub.nbytes}",
            )
            return False
        return True

    def check_gm(self, gm: GlobalTensor, nbytes: int, what: str, loc: Loc) -> GmBuffer | None:
        """Checks that `nbytes` of a GM tensor are within its argument; None when they aren't."""
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
        if plan.block_count <= 0 or plan.block_bytes <= 0:
            return
        self.instructions += 1
        source = self.check_gm(gm, plan.gm_bytes, f"{name} reads", loc)
        if not self.check_operand(ub, plan.ub_bytes, f"{name}'s destination", loc) or source is None:
            return
        number = self.clocks.tick(_MTE2)
        address = source.address + gm.offset
        known = self.clocks.known(_MTE2)[_MTE3]
        self._write(_MTE2, number, ub.addr, ub.addr + plan.ub_bytes, loc)
        race = self.gm_order.load(number, known, address, address + plan.gm_bytes, loc)
        if race is not None:
            self._gm_race(race, "reads", source, gm, plan, loc)
        self._check_cores_read(source, address, plan, loc)
        self.bytes_read += plan.block_count * plan.block_bytes
        self._load(source, gm.offset, ub.addr, plan)

    def _load(self, source: GmBuffer, offset: int, addr: int, plan: CopyPlan) -> None:
        data, shadow, nbytes = self.ub.data, self.ub.shadow, plan.block_bytes
        for _ in range(plan.block_count):
            at = addr
            if plan.padding:
                at = self._pad(at, plan.padding.left_bytes, plan.padding.value)
            data[at : at + nbytes] = source.data[offset : offset + nbytes]
            shadow[at : at + nbytes] = 0
            at += nbytes
            if plan.padding:
                at = self._pad(at, plan.padding.right_bytes, plan.padding.value)
            end = addr + plan.ub_block_bytes
            if at < end:
                shadow[at:end] = 0xFF
            addr = end + plan.ub_gap
            offset += nbytes + plan.gm_gap

    def _pad(self, at: int, nbytes: int, value: bytes) -> int:
        for i in range(at, at + nbytes, len(value)):
            self.ub.data[i : i + len(value)] = memoryview(value)
        self.ub.shadow[at : at + nbytes] = 0
        return at + nbytes

    def copy_out(self, gm: GlobalTensor, ub: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        if plan.block_count <= 0 or plan.block_bytes <= 0:
            return
        self.instructions += 1
        target = self.check_gm(gm, plan.gm_bytes, f"{name} writes", loc)
        if not self.check_operand(ub, plan.ub_bytes, f"{name}'s source", loc) or target is None:
            return
        number = self.clocks.tick(_MTE3)
        address = target.address + gm.offset
        known = self.clocks.known(_MTE3)[_MTE2]
        self._read(_MTE3, number, ub.addr, ub.addr + plan.ub_bytes, loc)
        race = self.gm_order.store(number, known, address, address + plan.gm_bytes, loc)
        if race is not None:
            self._gm_race(race, "writes", target, gm, plan, loc)
        offset, addr, nbytes = gm.offset, ub.addr, plan.block_bytes
        self.bytes_written += plan.block_count * nbytes
        for _ in range(plan.block_count):
            if self.ub.shadow[addr : addr + nbytes].any():
                self._undefined_out(target, gm, offset, addr, nbytes, loc)
            self.mark_written(target, offset, nbytes, loc)
            target.data[offset : offset + nbytes] = self.ub.data[addr : addr + nbytes]
            addr += plan.ub_block_bytes + plan.ub_gap
            offset += nbytes + plan.gm_gap

    def _gm_race(self, race: Race, what: str, buffer: GmBuffer, gm: GlobalTensor, plan: CopyPlan, loc: Loc) -> None:
        first = gm.offset // gm.dtype.size
        earlier = "written" if race.wrote else "read"
        self.fail(
            errors.DataRaceError,
            loc,
            f"{what} elements {first} to {first + plan.gm_bytes // gm.dtype.size} of {buffer.name} that {race.pipe.value} "
            f"has {earlier} at {race.loc}; nothing orders the two",
        )

    def _undefined_out(self, target: GmBuffer, gm: GlobalTensor, offset: int, addr: int, nbytes: int, loc: Loc) -> None:
        size = gm.dtype.size
        bad = (self.ub.shadow[addr : addr + nbytes // size * size].reshape(-1, size) != 0).any(axis=1).nonzero()[0]
        first, count = (int(bad[0]), len(bad)) if len(bad) else (0, 1)
        origin = f", first read undefined by {self._origin[1]} at {self._origin[0]}" if self._origin else ""
        self.fail(
            errors.UninitialisedReadError,
            loc,
            f"{count} elements that nobody wrote (from UB byte {addr + first * size}{origin}) go to "
            f"{target.name}[{offset // size + first}]",
        )

    # -- between cores -----------------------------------------------------------------------------------------
    def _check_cores_read(self, source: GmBuffer, address: int, plan: CopyPlan, loc: Loc) -> None:
        step = plan.block_bytes + plan.gm_gap
        if plan.gm_gap == 0:
            step, count, nbytes = 0, 1, plan.gm_bytes
        else:
            count, nbytes = plan.block_count, plan.block_bytes
        for i in range(count):
            start = address + i * step
            self.mark_read(source, start - source.address, nbytes, loc)

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
                size = buffer.dtype.size
                self.fail(
                    errors.UninitialisedReadError,
                    loc,
                    f"reads {buffer.name}[{(gap[0] - buffer.address) // size}], an output that nobody has written there",
                )

    def mark_written(self, buffer: GmBuffer, offset: int, nbytes: int, loc: Loc) -> None:
        """Notes a write of GM; reports what another core wrote or read."""
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
        name = instruction.name
        nbytes = count * dst.dtype.size
        if not self.check_operand(dst, nbytes, f"{name}'s destination", loc):
            return
        number = self.clocks.tick(_V)
        ub = self.ub
        views = []
        clean = True
        for src in srcs:
            end = src.addr + count * src.dtype.size
            if not self.check_operand(src, end - src.addr, f"{name}'s source", loc):
                return
            self._read(_V, number, src.addr, end, loc)
            views.append(ub.view(src.addr, count, src.dtype))
            if ub.shadow[src.addr : end].any():
                clean = False
        self._write(_V, number, dst.addr, dst.addr + nbytes, loc)
        instruction.compute(ub.view(dst.addr, count, dst.dtype), tuple(views), scalar, mode)
        ub.shadow[dst.addr : dst.addr + nbytes] = 0
