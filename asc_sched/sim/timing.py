"""How long a launch takes: the clock of every kind of core, run against its share of the chip's bandwidth."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from asc_sched.errors import ArgumentError
from asc_sched.sim import api
from asc_sched.sim.api import Argument, ArraySpec
from asc_sched.sim.ir import Func, Module
from asc_sched.sim.launch import Launch
from asc_sched.sim.outline import CoreGroup
from asc_sched.sim.profile import Timing, spans, summarise
from asc_sched.sim.symbolic import outlines
from asc_sched.target import Target
from asc_sched.target.timing import TIMING, TimingConstants


def time_kernel(
    asc_ir: str | Module,
    args: Sequence[Argument],
    *,
    core_num: int,
    target: Target,
    l2: str = "hot",
    entry: str | None = None,
    constants: TimingConstants = TIMING,
) -> Timing:
    """The time of a kernel on `core_num` cores of `target`; no tensor data is needed or read.

    `args`: the explicit arguments in order, `ArraySpec`s (or arrays) for pointers. `l2`: "hot" is the state that an
    earlier run of the same kernel left, "cold" an L2 without the inputs. Raises `ArgumentError` for arguments that
    don't fit, and what interpreting the kernel's scalar code raises (`sim.errors`).
    """
    groups, arg_bytes = kernel_outlines(asc_ir, args, core_num=core_num, target=target, entry=entry)
    return time_outlines(groups, arg_bytes, core_num=core_num, target=target, l2=l2, constants=constants)


def kernel_outlines(
    asc_ir: str | Module, args: Sequence[Argument], *, core_num: int, target: Target, entry: str | None = None
) -> tuple[tuple[CoreGroup, ...], tuple[int, ...]]:
    """What the cores execute, and the bytes of each pointer argument: the input of `time_outlines`."""
    if core_num < 0:
        raise ArgumentError(f"core_num={core_num} is negative; a launch has 0 to {target.max_block_dim} cores")
    func = api._kernel(asc_ir, entry)
    plain = tuple(ArraySpec(str(a.dtype), a.nbytes) if isinstance(a, np.ndarray) else _number(a) for a in args)
    return _outlines(func, plain, core_num, target)


def _number(value: Any) -> Any:
    """A scalar argument as a hashable that keeps 1 and 1.0 and True apart."""
    return value.item() if isinstance(value, np.generic) else value


@functools.lru_cache(maxsize=512, typed=True)
def _outlines(
    func: Func, args: tuple[Any, ...], core_num: int, target: Target
) -> tuple[tuple[CoreGroup, ...], tuple[int, ...]]:
    values, buffers = api._bind(func, args, frozenset(), need_data=False)
    groups = outlines(func, values, api._names(func), core_num, target)
    return groups, tuple(b.nbytes for b in buffers)


def forget() -> None:
    """Drops what is kept of kernels already interpreted (for measuring how long that takes)."""
    _outlines.cache_clear()


def time_outlines(
    groups: Sequence[CoreGroup],
    arg_bytes: Sequence[int],
    *,
    core_num: int,
    target: Target,
    l2: str = "hot",
    constants: TimingConstants = TIMING,
) -> Timing:
    """The time of a launch described by core groups (see `outline`); `arg_bytes` are the sizes of the GM arguments."""
    launch = Launch(groups, arg_bytes, target, l2, constants)
    runs = launch.run()
    return summarise(launch, runs, core_num, l2)


def outlines_task_us(
    groups: Sequence[CoreGroup], arg_bytes: Sequence[int], *, target: Target, l2: str = "hot"
) -> float:
    """`task_us` of `time_outlines` alone, for searches: no shares, no bound, no reasons."""
    launch = Launch(groups, arg_bytes, target, l2, TIMING)
    return sum(spans(launch, launch.run()))
