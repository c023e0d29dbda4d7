"""A launch as a Chrome trace: one process per core, one thread per pipe, one slice per instruction.

The JSON is what Perfetto, chrome://tracing and MindStudio Insight open (Trace Event Format, complete events).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asc_sched.sim.api import Argument
from asc_sched.sim.compiled import Loop, Step
from asc_sched.sim.ir import Module
from asc_sched.sim.launch import Launch, Run
from asc_sched.sim.stream import Loc, Pipe
from asc_sched.sim.timing import kernel_outlines
from asc_sched.target import Target
from asc_sched.target.timing import TIMING, TimingConstants

_THREADS = {Pipe.S: 0, Pipe.V: 1, Pipe.MTE2: 2, Pipe.MTE3: 3}
#: Iterations of a kernel's outer loop that a trace shows unless told otherwise.
DEFAULT_TILES = 8


def trace(
    asc_ir: str | Module,
    args: Sequence[Argument],
    *,
    core_num: int,
    target: Target,
    l2: str = "hot",
    tiles: int | None = DEFAULT_TILES,
    entry: str | None = None,
    constants: TimingConstants = TIMING,
) -> dict[str, Any]:
    """The trace as JSON-ready data; times in microseconds from the start of the cores.

    `tiles` cuts each core after that many iterations of its first long loop (`otherData.cut` says so); None shows
    everything. The other arguments and errors are those of `timing.time_kernel`.
    """
    groups, arg_bytes = kernel_outlines(asc_ir, args, core_num=core_num, target=target, entry=entry)
    launch = Launch(groups, arg_bytes, target, l2, constants)
    events: list[dict[str, Any]] = []
    is_cut = False
    cores: dict[int, list[dict[str, Any]]] = {}
    for run in launch.run():
        steps = _cut(run.steps, tiles)
        is_cut |= len(steps) < len(run.steps) or steps[-1:] != run.steps[-1:]
        slices = _slices(launch, run, steps)
        cores.update({core: slices for start, count in run.members for core in range(start, start + count)})
    for core, slices in sorted(cores.items()):
        events += _names(core)
        events += [{**s, "pid": core} for s in slices]
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "target": target.name,
            "clock_mhz": target.clock_mhz,
            "l2": l2,
            "cut": f"each core's first {tiles} tiles; the task goes on after them" if is_cut else "",
        },
        "traceEvents": events,
    }


def _cut(steps: Sequence[Step], tiles: int | None) -> tuple[Step, ...]:
    """The steps up to `tiles` iterations of the first loop that has more."""
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Loop) and tiles is not None and step.count * step.stride > tiles:
            out.append(Loop(max(1, tiles // step.stride), step.body, step.first, step.stride))
            break
        out.append(step)
    return tuple(out)


def _slices(launch: Launch, run: Run, steps: Sequence[Step]) -> list[dict[str, Any]]:
    us = 1 / launch.target.clock_mhz
    slices: list[dict[str, Any]] = []

    def sink(pipe: Pipe, name: str, loc: Loc, start: float, end: float) -> None:
        slices.append(
            {
                "name": name,
                "cat": pipe.value,
                "ph": "X",
                "ts": round(start * us, 6),
                "dur": round((end - start) * us, 6),
                "tid": _THREADS[pipe],
                "args": {"source": str(loc), "cycles": round(end - start, 3)},
            }
        )

    launch.clock(run.shares, sink).run(steps, skip=False)
    return slices


def _names(core: int) -> list[dict[str, Any]]:
    """The metadata events that name a core's process and its pipes' threads."""
    names = [{"name": "process_name", "ph": "M", "pid": core, "tid": 0, "args": {"name": f"core {core}"}}]
    for pipe, thread in _THREADS.items():
        names.append({"name": "thread_name", "ph": "M", "pid": core, "tid": thread, "args": {"name": pipe.value}})
        order = {"sort_index": thread}
        names.append({"name": "thread_sort_index", "ph": "M", "pid": core, "tid": thread, "args": order})
    return names
