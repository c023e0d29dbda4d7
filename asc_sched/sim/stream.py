"""What the interpreter tells the clock: the instruction stream of one core, as plain records.

The interpreter (`sim/machine.py`) walks a kernel's scalar code once per core and yields these in program order; the
functional half executes them on numpy arrays, the timing half (`sim/timing.py`) only reads them. Records hold
addresses and counts, never data: a kernel's time doesn't depend on its tensors' values.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs


class Pipe(enum.Enum):
    """The hardware queues of one vector core: scalar, vector, GM to UB, UB to GM."""

    S = "S"
    V = "V"
    MTE2 = "MTE2"
    MTE3 = "MTE3"


@attrs.frozen(order=True)
class Loc:
    """A place in the kernel's Python source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@attrs.frozen
class UbSpan:
    """A contiguous piece of the Unified Buffer: byte address, length in bytes, Ascend C element type name."""

    addr: int
    nbytes: int
    dtype: str


@attrs.frozen
class GmSpan:
    """A piece of one GM argument: its index among the kernel's pointer arguments, byte offset, bytes touched.

    `bypass` is the effect of `set_l2_cache_hint` as the emitted C++ has it (CACHE_MODE_DISABLE).
    """

    arg: int
    offset: int
    nbytes: int
    bypass: bool = False


@attrs.frozen
class Compute:
    """One vector instruction. `name` is the Ascend C call (``Add``, ``Muls``, ``Cast``...); dst first, then srcs.

    `count` is the number of elements in count form. In mask/repeat form `repeats` is given and `count` is the number
    of elements touched. A destination that is a source as well (``Axpy``, ``MulAddDst``) stands only in `dst`; the
    bits of compare and select are one per element. `detail`: round mode (``CAST_RINT``), compare mode (``LT``), select
    mode, or ``adv`` for a function of the adv library. DataCopy from UB to UB is a vector instruction too.
    """

    name: str
    dst: UbSpan
    srcs: tuple[UbSpan, ...]
    count: int
    loc: Loc
    repeats: int | None = None
    detail: str = ""
    strides: tuple[tuple[int, int], ...] | None = None


@attrs.frozen
class Copy:
    """One MTE instruction: `block_count` bursts of `block_bytes`. Direction from `pipe` (MTE2 loads, MTE3 stores).

    `ub.nbytes` runs from the first to the end of the last block in UB, `gm.nbytes` are the bytes moved. `gm_stride` is
    the gap in bytes between the end of a burst and the start of the next in GM (0 when they are adjacent).
    """

    pipe: Pipe
    name: str
    ub: UbSpan
    gm: GmSpan
    block_count: int
    block_bytes: int
    gm_stride: int
    loc: Loc


@attrs.frozen
class QueueOp:
    """`kind`: alloc, enque, deque, free, on queue number `queue`; `buffer` is the index of the buffer involved.

    `position` is VECIN or VECOUT: enque on VECIN orders V after MTE2, on VECOUT MTE3 after V; free/alloc order the
    other way round for the reuse of the buffer.
    """

    kind: str
    queue: int
    position: str
    buffer: int
    loc: Loc


@attrs.frozen
class Flag:
    """`set_flag`/`wait_flag` between two pipes with an event id."""

    kind: str  # "set" or "wait"
    src: Pipe
    dst: Pipe
    event: int
    loc: Loc


@attrs.frozen
class Barrier:
    """`pipe_barrier` on one pipe, or on all (`pipe` is None)."""

    pipe: Pipe | None
    loc: Loc


@attrs.frozen
class Init:
    """Start-up work on the scalar pipe.

    `kind`: get_block_idx, global_buffer (SetGlobalBuffer), hint (SetL2CacheHint), tpipe, init_buffer (one InitBuffer,
    with the bytes of one buffer).
    """

    kind: str
    loc: Loc
    nbytes: int = 0


@attrs.frozen
class ScalarWork:
    """`ops` scalar operations executed in a row: arith and casts, branches, loop control (2 per iteration), tensor
    slices and parameter structs (1 each), get_value/set_value. Constants are free. `loc` is the last one's.
    """

    ops: int
    loc: Loc


@attrs.frozen
class LoopMark:
    """Start of an iteration of a loop (`loop` is a stable id of the loop op), so that steady state can be found."""

    loop: int
    iteration: int
    total: int


Record: TypeAlias = Compute | Copy | QueueOp | Flag | Barrier | Init | ScalarWork | LoopMark
