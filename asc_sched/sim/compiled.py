"""What the clock executes: records compiled for a target, with everything looked up that doesn't change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from asc_sched.sim.share import Rate
from asc_sched.sim.stream import Loc, Pipe

if TYPE_CHECKING:
    from asc_sched.sim.engine import Clock

Op: TypeAlias = "Callable[[Clock], None]"
Sink: TypeAlias = Callable[[Pipe, str, Loc, float, float], None]


@attrs.frozen
class Loop:
    """A compiled `Repeat`; one round stands for `stride` iterations of the kernel's loop."""

    count: int
    body: tuple[Step, ...]
    first: bool
    stride: int


Step: TypeAlias = "Op | Loop"


@attrs.frozen(kw_only=True)
class Rates:
    """The model's constants for one target, in cycles and bytes per cycle."""

    load_hit: float
    load_queued: float
    load_port: float
    load_miss: float
    load_miss_burst: float
    load_miss_rate: float
    store: float
    store_burst: float
    store_port: float
    copy_gap: float
    sync: float
    turnaround: float
    bank_stall: float


@attrs.frozen(kw_only=True)
class Shares:
    """One core's part of the chip's bandwidths over time, in bytes per cycle.

    HBM serves loads at `hbm_read` and write-backs at `hbm_write`, in turn.
    """

    l2_read: Rate
    l2_write: Rate
    hbm_read: Rate
    hbm_write: Rate


@attrs.frozen(kw_only=True)
class Load:
    """A copy from GM, compiled: `nbytes` as the core's port sees them, `wire` as L2 does, `hbm` as HBM does."""

    nbytes: float
    port: float
    wire: float
    hbm: float
    bank: int
    arg: int
    misses: bool
    reuse: tuple[int, ...]
    name: str
    loc: Loc


@attrs.frozen(kw_only=True)
class Store:
    """A copy to GM, compiled like `Load`; `hbm` is what is written back for it, `hbm_part` that part of its bytes."""

    nbytes: float
    port: float
    wire: float
    hbm: float
    hbm_part: float
    bank: int
    name: str
    loc: Loc


@attrs.frozen
class Span:
    """A store under way: its UB bank, when it begins and ends, and when L2 has taken what it writes back."""

    bank: int
    begin: float
    end: float
    taken: float
    stall: float
