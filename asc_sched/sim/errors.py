"""What the simulator reports: one class per check, all under `SimulationError`.

Every class has a `check` name. `simulate(strict=...)` takes those names: a check that isn't strict becomes a warning
and execution goes on. Classes with `fatal = True` always raise, since there is nothing sensible to go on with.
"""

from __future__ import annotations

from typing import ClassVar

from asc_sched.errors import SimulationError
from asc_sched.sim.ir import UNKNOWN_LOC
from asc_sched.sim.stream import Loc


class HardwareError(SimulationError):
    """Base of every finding. `loc` is the kernel's source line, `core` the core, `tile` the loop iterations."""

    check: ClassVar[str] = "hardware"
    fatal: ClassVar[bool] = False

    def __init__(self, text: str, loc: Loc = UNKNOWN_LOC, core: int | None = None, tile: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.loc = loc
        self.core = core
        self.tile = tile


# -- the program itself ----------------------------------------------------------------------------------------
class UnknownOperationError(HardwareError):
    """An operation (or inline call) that the simulator doesn't model."""

    check = "unknown_operation"
    fatal = True


class UnsupportedError(HardwareError):
    """The chip's documentation doesn't have this call for these dtypes, modes or counts."""

    check = "unsupported"


class StreamDataError(HardwareError):
    """The instruction stream was asked for without tensors, but the kernel's control flow reads tensor data."""

    check = "stream_data"
    fatal = True


class ScalarError(HardwareError):
    """Scalar code that has no defined result: division by zero, an endless loop."""

    check = "scalar"
    fatal = True


# -- addresses and counts --------------------------------------------------------------------------------------
class AlignmentError(HardwareError):
    """A UB address that isn't a multiple of 32 bytes."""

    check = "alignment"


class CountError(HardwareError):
    """A count that the instruction doesn't do as written: negative, not whole blocks, too large for its field."""

    check = "count"


class GmBoundsError(HardwareError):
    """A copy or scalar access outside its GM argument."""

    check = "gm_bounds"


class UbBoundsError(HardwareError):
    """An access beyond the end of its tensor, or of the Unified Buffer."""

    check = "ub_bounds"


class OverlapError(HardwareError):
    """Destination and source overlap where the instruction forbids it."""

    check = "overlap"


# -- resources -------------------------------------------------------------------------------------------------
class UbOverflowError(HardwareError):
    """Buffers (with the reserve of some instructions) need more than the Unified Buffer has."""

    check = "ub_overflow"


class QueueBufferLimitError(HardwareError):
    """More queue buffers than the chip has, per position or in all."""

    check = "queue_limit"


class EventLimitError(HardwareError):
    """More hardware events than the chip has, or an event number out of range."""

    check = "event_limit"


# -- queues ----------------------------------------------------------------------------------------------------
class QueueError(HardwareError):
    """Base of queue misuse."""

    check = "queue"
    fatal = True


class AllocError(QueueError):
    """alloc_tensor when every buffer of the queue is taken: the core waits for ever."""

    check = "queue_alloc"


class EnqueError(QueueError):
    """enque of a tensor that isn't held (twice, after free, another queue's), or beyond the queue's depth."""

    check = "queue_enque"
    fatal = False


class DequeError(QueueError):
    """deque from an empty queue: the core waits for ever."""

    check = "queue_deque"


class FreeError(QueueError):
    """free_tensor of a tensor that this queue doesn't own or that isn't allocated."""

    check = "queue_free"
    fatal = False


class LeakError(QueueError):
    """A tensor that was allocated or enqueued and never freed."""

    check = "queue_leak"
    fatal = False


class UseAfterFreeError(QueueError):
    """A tensor used while its buffer belongs to nobody: after free_tensor, or after enque and before deque."""

    check = "queue_use"
    fatal = False


class QueueSetupError(QueueError):
    """A queue or buffer used before init_buffer, or set up twice."""

    check = "queue_setup"


# -- data and order --------------------------------------------------------------------------------------------
class UninitialisedReadError(HardwareError):
    """Data that nobody wrote reaches GM or a scalar."""

    check = "uninitialised"


class NotWrittenError(HardwareError):
    """Elements of a declared output that no core wrote."""

    check = "not_written"


class DataRaceError(HardwareError):
    """Two pipes of a core touch the same bytes with no queue, flag or barrier that orders them."""

    check = "race"


class CoreOverlapError(HardwareError):
    """Two cores write the same GM bytes, or one writes what another reads."""

    check = "core_overlap"


class DeadlockError(HardwareError):
    """wait_flag for an event that nobody sets."""

    check = "deadlock"
    fatal = True


class FlagError(HardwareError):
    """set_flag of an event that is still set, or an event that is set and never waited for."""

    check = "flag"


CHECKS: dict[str, type[HardwareError]] = {}


def _collect(cls: type[HardwareError]) -> None:
    for sub in cls.__subclasses__():
        CHECKS.setdefault(sub.check, sub)
        _collect(sub)


_collect(HardwareError)
