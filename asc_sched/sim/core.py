"""One AI core while it runs a kernel: what functional execution and the instruction stream have in common.

`Core` keeps the state that decides which instructions are issued: queues, UB layout, events, mask registers, and the
position in the kernel for messages. What an instruction does is left to the subclasses: `execute.ExecutingCore`
computes and checks, `record.RecordingCore` writes `stream` records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asc_sched.sim import errors
from asc_sched.sim.dtypes import UINT8
from asc_sched.sim.errors import HardwareError
from asc_sched.sim.findings import Findings as Findings
from asc_sched.sim.instructions import Instruction
from asc_sched.sim.patterns import CMP_MASK_BYTES, FULL_MASK, CopyPlan, Masked, Stride
from asc_sched.sim.queues import Buffer, Clock, PipeState, Queue, State, TBuf, round_up
from asc_sched.sim.stream import Loc, Pipe
from asc_sched.sim.values import GlobalTensor, LocalTensor
from asc_sched.target import Target

#: Hardware events of one kind (MTE2_V, V_MTE3...): ids 0 to 7 on A2/A3 (documentation of SetFlag/WaitFlag).
MAX_EVENTS = 8
_NO_CLOCK: Clock = (0, 0, 0, 0)


class Core:
    """The part of an AI core's state that steers it. `tile` are the iterations of the loops it is in."""

    #: Runs loops in place of `machine.Loop` where many iterations are interpreted at once (`symbolic`).
    loop_driver: Any = None

    def __init__(
        self, number: int, core_num: int, target: Target, findings: Findings, arg_names: Sequence[str]
    ) -> None:
        self.number = number
        self.core_num = core_num
        self.target = target
        self.findings = findings
        self.arg_names = arg_names
        self.pipe = PipeState()
        self.tile: list[int] = []
        self.loop_names: list[int] = []
        self.mask = FULL_MASK
        self.deq_scale: float | None = None
        self.flags: dict[tuple[Pipe, Pipe, int], tuple[Clock, Loc]] = {}
        self.reserve_bytes = 0

    # -- findings ----------------------------------------------------------------------------------------------
    def fail(self, kind: type[HardwareError], loc: Loc, text: str) -> None:
        """Reports a finding of this core at `loc`: raises it, or keeps it as a warning when its check isn't strict."""
        where = f"core {self.number}" + "".join(f", iteration {i}" for i in self.tile[:1])
        if len(self.tile) > 1:
            where += "".join(f".{i}" for i in self.tile[1:])
        line = self.findings.source_line(loc)
        source = f"\n    {line}" if line else ""
        self.findings.add(kind(f"{loc}: {text} ({where}){source}", loc, self.number, tuple(self.tile)))

    # -- TPipe -------------------------------------------------------------------------------------------------
    def init_queue(self, queue: Queue, num: int, nbytes: int, loc: Loc) -> None:
        """`InitBuffer(queue, num, nbytes)`: lays out the queue's buffers and checks the chip's limits."""
        if queue.buffers:
            self.fail(errors.QueueSetupError, loc, f"init_buffer sets up the queue of {queue.loc} a second time")
        if num <= 0 or nbytes <= 0:
            text = f"init_buffer with {num} buffers of {nbytes} bytes: both must be positive"
            self.fail(errors.QueueSetupError, loc, text)
        pipe = self.pipe
        for index in range(num):
            queue.buffers.append(Buffer(queue, index, pipe.allocate(nbytes), round_up(nbytes)))
        in_position = pipe.buffers_by_position.get(queue.position, 0) + num
        pipe.buffers_by_position[queue.position] = in_position
        if in_position > self.target.max_queue_buffers:
            self.fail(
                errors.QueueBufferLimitError,
                loc,
                f"{in_position} {queue.position} queue buffers; {self.target.name} has {self.target.max_queue_buffers} "
                f"per position (fewer queues, or a smaller num)",
            )
        self._count_buffers(num, loc)

    def init_tbuf(self, tbuf: TBuf, nbytes: int, loc: Loc) -> None:
        """`InitBuffer(tbuf, nbytes)`."""
        if tbuf.addr >= 0:
            self.fail(errors.QueueSetupError, loc, f"init_buffer sets up the TBuf of {tbuf.loc} a second time")
        if nbytes <= 0:
            self.fail(errors.QueueSetupError, loc, f"init_buffer of a TBuf with {nbytes} bytes")
        tbuf.addr = self.pipe.allocate(nbytes)
        tbuf.nbytes = round_up(nbytes)
        self._count_buffers(1, loc)

    def _count_buffers(self, num: int, loc: Loc) -> None:
        pipe = self.pipe
        pipe.buffer_count += num
        if pipe.buffer_count > self.target.max_pipe_buffers:
            self.fail(
                errors.QueueBufferLimitError,
                loc,
                f"{pipe.buffer_count} buffers in all; a TPipe has {self.target.max_pipe_buffers}",
            )
        self.check_ub(loc)

    def check_ub(self, loc: Loc) -> None:
        """Reports buffers that, with the reserve of some instructions, don't fit into UB."""
        need, have = self.pipe.top + self.reserve_bytes, self.target.ub_bytes
        if need > have:
            reserve = f" and {self.reserve_bytes} bytes of reserve for select" if self.reserve_bytes else ""
            self.fail(
                errors.UbOverflowError,
                loc,
                f"buffers take {self.pipe.top} bytes{reserve}, {need - have} more than the {have} bytes of UB",
            )

    # -- queues ------------------------------------------------------------------------------------------------
    def alloc(self, queue: Queue, loc: Loc) -> Buffer:
        """`AllocTensor`: the next free buffer, ordered after what drained it last."""
        if not queue.buffers:
            self.fail(errors.QueueSetupError, loc, f"alloc_tensor on the queue of {queue.loc} before init_buffer")
        buffer = queue.take()
        if buffer is None:
            count = len(queue.buffers)
            self.fail(
                errors.AllocError,
                loc,
                f"alloc_tensor waits for ever: none of the queue's {count} buffers is free ({queue.states()})",
            )
            raise AssertionError  # AllocError is fatal
        buffer.state, buffer.loc, buffer.tile = State.HELD, loc, tuple(self.tile)
        if buffer.drained is not None:
            self.free_event(queue.drain, queue.fill, buffer.event)
            self.wait_clock(queue.fill, buffer.drained)
            buffer.drained = None
        self.queue_op("alloc", queue, buffer, loc)
        return buffer

    def enque(self, queue: Queue, tensor: LocalTensor, loc: Loc) -> None:
        """`EnQue`: hands the tensor on to the pipe that drains the queue."""
        buffer = tensor.buffer
        if buffer is None or buffer.queue is not queue:
            self.fail(errors.EnqueError, loc, f"enque into {queue}, but the tensor belongs to {_owner(buffer)}")
            if buffer is None:
                return
        if buffer.state is not State.HELD:
            text = f"enque of a tensor that is already {buffer.state.value} (since {buffer.loc})"
            self.fail(errors.EnqueError, loc, text)
            return
        if len(queue.fifo) >= queue.capacity:
            number = _ordinal(len(queue.fifo) + 1)
            text = f"enque of a {number} tensor without a deque; the queue's depth is {queue.depth}"
            self.fail(errors.EnqueError, loc, text)
        buffer.state, buffer.loc = State.QUEUED, loc
        buffer.filled = self.take_clock(queue.fill)
        buffer.event = self._queue_event(queue.fill, queue.drain, loc)
        queue.fifo.append(buffer)
        self.queue_op("enque", queue, buffer, loc)

    def deque(self, queue: Queue, loc: Loc) -> Buffer:
        """`DeQue`: the oldest enqueued buffer, ordered after what filled it."""
        if not queue.fifo:
            self.fail(errors.DequeError, loc, f"deque waits for ever: nothing is enqueued in {queue}")
        buffer = queue.fifo.popleft()
        buffer.state, buffer.loc = State.HELD, loc
        if buffer.filled is not None:
            self.free_event(queue.fill, queue.drain, buffer.event)
            self.wait_clock(queue.drain, buffer.filled)
            buffer.filled = None
        self.queue_op("deque", queue, buffer, loc)
        return buffer

    def free(self, queue: Queue, tensor: LocalTensor, loc: Loc) -> None:
        """`FreeTensor`: gives the buffer back, for the filling pipe to reuse after what drained it."""
        buffer = tensor.buffer
        if buffer is None or buffer.queue is not queue:
            self.fail(errors.FreeError, loc, f"free_tensor on {queue}, but the tensor belongs to {_owner(buffer)}")
            if buffer is None:
                return
        if buffer.state is not State.HELD:
            what = "enqueued, not held" if buffer.state is State.QUEUED else "free already"
            self.fail(errors.FreeError, loc, f"free_tensor of a tensor that is {what} (since {buffer.loc})")
            return
        buffer.state, buffer.loc = State.FREE, loc
        buffer.drained = self.take_clock(queue.drain)
        buffer.event = self._queue_event(queue.drain, queue.fill, loc)
        self.queue_op("free", queue, buffer, loc)

    # -- events ------------------------------------------------------------------------------------------------
    def _queue_event(self, src: Pipe, dst: Pipe, loc: Loc) -> int:
        """Takes one of the hardware's events of that kind for a queue (a pipe needs none to wait for itself)."""
        return -1 if src is dst else self.alloc_event(src, dst, loc)

    def free_event(self, src: Pipe, dst: Pipe, number: int) -> None:
        """`ReleaseEventID`."""
        self.pipe.events.get((src, dst), set()).discard(number)

    def reset_pipe(self, loc: Loc) -> None:
        """`TPipe.Reset` or `Destroy`: all buffers are given back, so their tensors must be by now."""
        self._check_leaks()
        peak = self.pipe.peak
        self.pipe = PipeState(peak=peak)
        self.barrier(None, loc)

    def alloc_event(self, src: Pipe, dst: Pipe, loc: Loc) -> int:
        """`AllocEventID`: the lowest free event number of that kind."""
        taken = self.pipe.events.setdefault((src, dst), set())
        number = 0
        while number in taken:
            number += 1
        taken.add(number)
        if number >= MAX_EVENTS:
            self.fail(
                errors.EventLimitError,
                loc,
                f"event number {number} of {src.value}_{dst.value}; the chip has {MAX_EVENTS} (0 to {MAX_EVENTS - 1})",
            )
        return number

    def set_flag(self, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        """`SetFlag`: when `src` has done everything before, the event is set."""
        self._check_event(src, dst, event, loc)
        key = (src, dst, event)
        if key in self.flags:
            since = self.flags[key][1]
            text = f"set_flag {src.value}_{dst.value} event {event} is still set since {since}: no wait_flag between"
            self.fail(errors.FlagError, loc, text)
        self.flags[key] = (self.take_clock(src), loc)
        self.flag_op("set", src, dst, event, loc)

    def wait_flag(self, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        """`WaitFlag`: `dst` goes on only after the event is set."""
        self._check_event(src, dst, event, loc)
        found = self.flags.pop((src, dst, event), None)
        if found is None:
            self.fail(
                errors.DeadlockError,
                loc,
                f"wait_flag {src.value}_{dst.value} event {event} waits for ever: no set_flag of it comes before",
            )
            raise AssertionError  # DeadlockError is fatal
        self.wait_clock(dst, found[0])
        self.flag_op("wait", src, dst, event, loc)

    def _check_event(self, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        if not 0 <= event < MAX_EVENTS:
            self.fail(
                errors.EventLimitError,
                loc,
                f"event number {event} of {src.value}_{dst.value}; the chip has {MAX_EVENTS} (0 to {MAX_EVENTS - 1})",
            )

    def cmp_mask(self) -> LocalTensor:
        """The register of comparison bits, as a tensor."""
        return LocalTensor(self.target.ub_bytes, CMP_MASK_BYTES, UINT8)

    # -- the end -----------------------------------------------------------------------------------------------
    def finish(self) -> None:
        """Checks that nothing is left behind: tensors of queues, flags."""
        self._check_leaks()
        self.tile = []
        for (src, dst, event), (_, loc) in self.flags.items():
            self.fail(errors.FlagError, loc, f"set_flag {src.value}_{dst.value} event {event} has no wait_flag")

    def _check_leaks(self) -> None:
        for queue in self.pipe.queues:
            for buffer in queue.buffers:
                if buffer.state is not State.FREE and buffer.loc is not None:
                    self.tile = list(buffer.tile)
                    last = "enqueued and never dequeued" if buffer.state is State.QUEUED else "never freed"
                    self.fail(errors.LeakError, buffer.loc, f"a tensor of {queue} is {last}")

    # -- what subclasses do ------------------------------------------------------------------------------------
    def take_clock(self, pipe: Pipe) -> Clock:
        """What `pipe` has seen so far, to be handed to `wait_clock` by whoever is ordered after it."""
        return _NO_CLOCK

    def wait_clock(self, pipe: Pipe, clock: Clock) -> None:
        """Orders everything that `pipe` does from now on after `clock`."""

    def queue_op(self, kind: str, queue: Queue, buffer: Buffer, loc: Loc) -> None:
        """A queue operation happened."""

    def flag_op(self, kind: str, src: Pipe, dst: Pipe, event: int, loc: Loc) -> None:
        """A flag was set or waited for."""

    def barrier(self, pipe: Pipe | None, loc: Loc) -> None:
        """`PipeBarrier` of one pipe, or of all."""

    def init(self, kind: str, loc: Loc, nbytes: int = 0) -> None:
        """Start-up work; `nbytes` are those of one buffer."""

    def scalar(self, ops: int, loc: Loc) -> None:
        """`ops` scalar operations in a row."""

    def loop_mark(self, loop: int, iteration: int, total: int) -> None:
        """A loop iteration starts."""

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
        """A vector instruction in count form."""
        raise NotImplementedError

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
        """A vector instruction in mask/repeat form."""
        raise NotImplementedError

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
        """`Gather` of elements by byte offsets."""
        raise NotImplementedError

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
        """`Gatherb` of 32-byte blocks by byte offsets."""
        raise NotImplementedError

    def broadcast_blocks(
        self, instruction: Instruction, dst: LocalTensor, src: LocalTensor, repeats: int, stride: Stride, loc: Loc
    ) -> None:
        """`Brcb`: each element to a whole block."""
        raise NotImplementedError

    def copy_in(self, ub: LocalTensor, gm: GlobalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        """A copy from GM to UB."""
        raise NotImplementedError

    def copy_out(self, gm: GlobalTensor, ub: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        """A copy from UB to GM."""
        raise NotImplementedError

    def copy_local(self, dst: LocalTensor, src: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
        """A copy within UB (by the vector pipe)."""
        raise NotImplementedError

    def static_tensor(self, addr: int, nbytes: int, loc: Loc) -> None:
        """A LocalTensor at a fixed UB address."""
        self.pipe.peak = max(self.pipe.peak, addr + nbytes)
        limit = self.target.ub_bytes - self.reserve_bytes
        if self.reserve_bytes and addr + nbytes > limit:
            text = f"UB bytes {addr} to {addr + nbytes}: Select keeps the {self.reserve_bytes} bytes from {limit} on"
            self.fail(errors.UbOverflowError, loc, text)

    def local_get(self, tensor: LocalTensor, index: int, loc: Loc) -> Any:
        """`LocalTensor.GetValue`."""
        raise NotImplementedError

    def local_set(self, tensor: LocalTensor, index: int, value: Any, loc: Loc) -> None:
        """`LocalTensor.SetValue`."""
        raise NotImplementedError

    def global_get(self, tensor: GlobalTensor, index: int, loc: Loc) -> Any:
        """`GlobalTensor.GetValue`."""
        raise NotImplementedError

    def global_set(self, tensor: GlobalTensor, index: int, value: Any, loc: Loc) -> None:
        """`GlobalTensor.SetValue`."""
        raise NotImplementedError


def _owner(buffer: Buffer | None) -> str:
    return "no queue" if buffer is None else str(buffer.queue)


def _ordinal(n: int) -> str:
    return {2: "second", 3: "third"}.get(n, f"{n}th")
