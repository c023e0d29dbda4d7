"""TPipe's bookkeeping on one core: buffers laid out in UB, queues with their buffers' states, event use.

UB is laid out as `TPipe.InitBuffer` does it: one after the other from address 0, each buffer's length rounded up to
32 bytes. A queue hands out its buffers in turn (`AllocTensor` goes round from the last one it gave).
"""

from __future__ import annotations

import enum
from collections import deque

import attrs

from asc_sched.sim.stream import Loc, Pipe

#: Pipes that fill and that drain a queue, by position: the events of enque/deque go forth, those of free/alloc back.
FILL_DRAIN: dict[str, tuple[Pipe, Pipe]] = {
    "VECIN": (Pipe.MTE2, Pipe.V),
    "VECOUT": (Pipe.V, Pipe.MTE3),
    "VECCALC": (Pipe.V, Pipe.V),
}

Clock = tuple[int, int, int, int]


class State(enum.Enum):
    """Who has a queue buffer."""

    FREE = "free"
    HELD = "held"
    QUEUED = "queued"


class Buffer:
    """One buffer of a queue. `filled`/`drained` are the clocks that enque and free left for deque and alloc."""

    __slots__ = ("addr", "drained", "event", "filled", "index", "loc", "nbytes", "queue", "state", "tile")

    def __init__(self, queue: Queue, index: int, addr: int, nbytes: int) -> None:
        self.queue = queue
        self.index = index
        self.addr = addr
        self.nbytes = nbytes
        self.state = State.FREE
        self.event = -1
        self.filled: Clock | None = None
        self.drained: Clock | None = None
        self.loc: Loc | None = None  # of the call that put it into its state
        self.tile: tuple[int, ...] = ()


class Queue:
    """A TQue: position, depth, and after init_buffer its buffers."""

    __slots__ = ("buffers", "cursor", "depth", "drain", "fifo", "fill", "loc", "number", "position")

    def __init__(self, number: int, position: str, depth: int, loc: Loc) -> None:
        self.number = number
        self.position = position
        self.depth = depth
        self.fill, self.drain = FILL_DRAIN.get(position, (Pipe.V, Pipe.V))
        self.buffers: list[Buffer] = []
        self.cursor = 0
        self.fifo: deque[Buffer] = deque()
        self.loc = loc

    def __str__(self) -> str:
        return f"the {self.position} queue of {self.loc}"

    @property
    def capacity(self) -> int:
        """How many tensors may be enqueued at once: the depth, or the number of buffers for depth 0 (in-place)."""
        return self.depth or len(self.buffers)

    def take(self) -> Buffer | None:
        """The next free buffer in turn, or None."""
        count = len(self.buffers)
        for _ in range(count):
            buffer = self.buffers[self.cursor]
            self.cursor = (self.cursor + 1) % count
            if buffer.state is State.FREE:
                return buffer
        return None

    def states(self) -> str:
        """The buffers' states for a message: ``buffer 0 held since k.py:7, ...``."""
        return ", ".join(f"buffer {b.index} {b.state.value} since {b.loc}" for b in self.buffers)


class TBuf:
    """A TBuf: position, and after init_buffer its place in UB."""

    __slots__ = ("addr", "loc", "nbytes", "position")

    def __init__(self, position: str, loc: Loc) -> None:
        self.position = position
        self.addr = -1
        self.nbytes = 0
        self.loc = loc


@attrs.define
class PipeState:
    """What TPipe hands out on one core: UB from `top` on, queue numbers, event numbers."""

    top: int = 0
    peak: int = 0
    queues: list[Queue] = attrs.field(factory=list)
    buffers_by_position: dict[str, int] = attrs.field(factory=dict)
    buffer_count: int = 0
    events: dict[tuple[Pipe, Pipe], set[int]] = attrs.field(factory=dict)

    def allocate(self, nbytes: int) -> int:
        """Takes `nbytes` (rounded up to 32) of UB and gives their address."""
        addr = self.top
        self.top += round_up(nbytes)
        self.peak = max(self.peak, self.top)
        return addr


def round_up(nbytes: int, unit: int = 32) -> int:
    """`nbytes` rounded up to whole `unit`s."""
    return -(-nbytes // unit) * unit
