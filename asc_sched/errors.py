"""The errors of asc_sched: one class per rule, so that callers can tell them apart without reading the text.

Every message says what was wrong, with the numbers, and the nearest thing that works.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """A hint for a misspelt name, to end a message with; empty where nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=most)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


class AscSchedError(Exception):
    """Base of every error that asc_sched raises on purpose."""


# -- declarations ----------------------------------------------------------------------------------------------
class DeclarationError(AscSchedError, ValueError):
    """An op's declaration can't be read: syntax, an unknown function, a reserved name."""


class DtypeError(AscSchedError, TypeError):
    """A dtype is unknown, or an operation isn't defined or not available for it."""


class ShapeError(AscSchedError, ValueError):
    """Shapes don't fit together."""


class PrecisionError(AscSchedError, ValueError):
    """An unknown precision."""


# -- schedules -------------------------------------------------------------------------------------------------
class ScheduleError(AscSchedError, ValueError):
    """A schedule's field is out of its range."""


class CoreNumError(ScheduleError):
    """More cores are asked for than the target has or the launcher takes."""


class TileLengthError(ScheduleError):
    """A tile_length isn't a multiple of 32 bytes for every tensor, or cuts a core's block into too many tiles."""


class UbOverflowError(ScheduleError):
    """A schedule's tiles don't fit into the Unified Buffer."""


class QueueLimitError(ScheduleError):
    """A kernel needs more queue buffers than the chip has."""


class CoverageError(AscSchedError, RuntimeError):
    """A tiling doesn't cover every element exactly once: a fault in its numbers, never in a caller's schedule."""


class TargetError(AscSchedError, ValueError):
    """An unknown target (SoC)."""


# -- compile and run -------------------------------------------------------------------------------------------
class CompileError(AscSchedError, RuntimeError):
    """pyasc refused a kernel's source."""


class WorkerCrashError(CompileError):
    """The lowering worker died (pyasc can segfault) or ran out of time."""


class ArgumentError(AscSchedError, TypeError):
    """A kernel or op was called with the wrong number or kind of arguments."""


class OverlapError(ArgumentError):
    """An output overlaps itself or partly overlaps another argument."""


class BackendError(AscSchedError, RuntimeError):
    """A backend (npu, camodel) isn't available on this machine, or failed there."""


class BackendNameError(BackendError, ValueError):
    """There is no backend or platform of that name."""


# -- tuning ----------------------------------------------------------------------------------------------------
class TuningError(AscSchedError, RuntimeError):
    """No schedule of a space works, or there is nothing to search; the message has every reason."""


# -- simulator -------------------------------------------------------------------------------------------------
class SimulationError(AscSchedError, RuntimeError):
    """Base of what the simulator reports; see `asc_sched.sim.errors` for one class per check."""


# -- files -----------------------------------------------------------------------------------------------------
class StorageError(AscSchedError, OSError):
    """A file can't be written or read: full disk, read-only or foreign folder. `errno` is the system's."""


# -- libraries -------------------------------------------------------------------------------------------------
class LibraryError(AscSchedError, ValueError):
    """A library's declaration can't be read, its names clash, or a built library isn't what was built."""
