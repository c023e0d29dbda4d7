"""What a timed launch amounts to: totals per pipe, bytes, bandwidth, the bound, and which pipe holds it up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.sim.bound import bound, roofline
from asc_sched.sim.outline import walk
from asc_sched.sim.stream import Compute, Copy, Init, Pipe
from asc_sched.target.costs import ideal_cycles

if TYPE_CHECKING:
    from asc_sched.sim.launch import Launch, Run

PIPES = ("S", "V", "MTE2", "MTE3")


@attrs.frozen
class PipeTime:
    """One pipe's time, averaged over the cores: busy microseconds, and their part of the cores' time."""

    busy_us: float
    ratio: float


@attrs.frozen(kw_only=True)
class Timing:
    """The predicted time of one launch.

    `task_us` is what msprof calls task duration: launch and the slowest core. `core_us` is the slowest core's time,
    `core_mean_us` the mean (msprof's aiv_time). `init_us` is the part of it before the first tile. `bytes_read` and
    `bytes_written` are GM traffic; `hbm_bytes` is what HBM moves for it, `l2_bytes` what L2 serves alone.

    `roofline_us` is the larger of the bytes, each touched byte read once and written once, at the bandwidth that HBM or
    L2 can reach, and of the vector instructions' cycles spread over all vector cores. `bound_us`, what no schedule can
    beat on this chip, adds what tiles of UB's size cost at least (see `asc_sched.sim.bound`). `share_of_bound` is
    `bound_us / task_us`. `bounding_pipe` is the pipe that holds this schedule up most, and `why` says how.
    """

    task_us: float
    launch_us: float
    init_us: float
    core_us: float
    core_mean_us: float
    pipes: dict[str, PipeTime]
    bytes_read: int
    bytes_written: int
    hbm_bytes: int
    l2_bytes: int
    achieved_bytes_per_s: float
    roofline_us: float
    roofline_by: str
    bound_us: float
    bound_by: str
    share_of_bound: float
    bounding_pipe: str
    why: str
    target: str
    clock_mhz: float
    core_num: int
    l2: str

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and dicts."""
        return attrs.asdict(self)


def summarise(launch: Launch, runs: Sequence[Run], core_num: int, l2: str) -> Timing:
    """The figures of a launch whose groups have been run."""
    target = launch.target
    if not runs:
        return _nothing(launch, core_num, l2)
    us = 1 / target.clock_mhz
    cores = launch.cores
    launch_us, core_us = spans(launch, runs)
    mean = sum(r.end * r.group.cores for r in runs) / cores
    busy = [sum(value * r.group.cores for r in runs for value in (_busy(r, pipe),)) / cores for pipe in PIPES]
    pipes = {p: PipeTime(b * us, b / mean if mean else 0.0) for p, b in zip(PIPES, busy, strict=True)}
    task_us = launch_us + core_us
    moved = launch.traffic.bytes_read + launch.traffic.bytes_written
    hbm = round(sum(r.clock.hbm_bytes * r.group.cores for r in runs))
    init = launch.start_cycles + sum(_init_cycles(launch, r) * r.group.cores for r in runs) / cores
    roofline_us, roofline_by = roofline(launch)
    bound_us, bound_by = bound(launch)
    pipe, why = _explain(launch, runs, pipes, task_us, launch_us, init * us, hbm / core_us if core_us else 0.0)
    return Timing(
        task_us=task_us,
        launch_us=launch_us,
        init_us=init * us,
        core_us=core_us,
        core_mean_us=mean * us,
        pipes=pipes,
        bytes_read=launch.traffic.bytes_read,
        bytes_written=launch.traffic.bytes_written,
        hbm_bytes=hbm,
        l2_bytes=max(0, moved - hbm),
        achieved_bytes_per_s=moved / (task_us * 1e-6),
        roofline_us=roofline_us,
        roofline_by=roofline_by,
        bound_us=bound_us,
        bound_by=bound_by,
        share_of_bound=bound_us / task_us,
        bounding_pipe=pipe,
        why=why,
        target=target.name,
        clock_mhz=target.clock_mhz,
        core_num=core_num,
        l2=l2,
    )


def spans(launch: Launch, runs: Sequence[Run]) -> tuple[float, float]:
    """(us of the launch itself, us of its slowest core), which together are the task's time."""
    target, constants = launch.target, launch.constants
    if not runs:
        return 0.0, 0.0
    waves = -(-launch.cores // target.vector_cores)
    core_us = max(r.end * (1 + launch.spread(r)) for r in runs) / target.clock_mhz * waves
    return constants.launch_us + constants.launch_per_core_us * min(launch.cores, target.vector_cores), core_us


def _busy(run: Run, pipe: str) -> float:
    return run.clock.s_busy if pipe == "S" else run.clock.lane(Pipe(pipe)).busy


def _nothing(launch: Launch, core_num: int, l2: str) -> Timing:
    """A launch of no cores takes no time."""
    zero = PipeTime(0.0, 0.0)
    return Timing(
        task_us=0.0, launch_us=0.0, init_us=0.0, core_us=0.0, core_mean_us=0.0, pipes=dict.fromkeys(PIPES, zero),
        bytes_read=0, bytes_written=0, hbm_bytes=0, l2_bytes=0, achieved_bytes_per_s=0.0, roofline_us=0.0,
        roofline_by="", bound_us=0.0, bound_by="", share_of_bound=1.0, bounding_pipe="", why="nothing is launched",
        target=launch.target.name, clock_mhz=launch.target.clock_mhz, core_num=core_num, l2=l2,
    )  # fmt: skip


def _init_cycles(launch: Launch, run: Run) -> float:
    constants = launch.constants
    costs = {"tpipe": constants.tpipe_cycles, "init_buffer": constants.init_buffer_cycles}
    return sum(
        times * costs.get(record.kind, constants.scalar_op_cycles)
        for record, times in walk(run.group.nodes)
        if isinstance(record, Init)
    )


# -- why -------------------------------------------------------------------------------------------------------
def _explain(
    launch: Launch,
    runs: Sequence[Run],
    pipes: dict[str, PipeTime],
    task_us: float,
    launch_us: float,
    init_us: float,
    hbm_bytes_per_us: float,
) -> tuple[str, str]:
    """The pipe that is busy most once the core has started, and what keeps it busy."""
    core_us = max(1e-9, task_us - launch_us - init_us)
    ratios = {p: t.busy_us / core_us for p, t in pipes.items()}
    ratios["S"] = max(0.0, pipes["S"].busy_us - init_us) / core_us
    pipe = max(PIPES, key=lambda p: ratios[p])
    share = min(1.0, ratios[pipe])
    fixed = launch_us + init_us
    text = {
        "S": "scalar code and queue operations: fewer, larger tiles would help",
        "V": _vector_text(launch),
        "MTE2": _copy_text(launch, hbm_bytes_per_us, "loads", Pipe.MTE2),
        "MTE3": _copy_text(launch, hbm_bytes_per_us, "stores", Pipe.MTE3),
    }[pipe]
    why = f"{pipe} is busy {share:.0%} of the time after start-up: {text}"
    if share < 0.75:
        why += "; no pipe is busy throughout, so they wait for each other"
    if fixed > task_us / 2:
        why += f"; launch and start-up are {fixed:.2f} of {task_us:.2f} us"
    return pipe, why


def _vector_text(launch: Launch) -> str:
    cycles: dict[str, float] = {}
    for group in launch.groups:
        for r, times in walk(group.nodes):
            if isinstance(r, Compute):
                part = ideal_cycles(r.name, r.dst.dtype, tuple(s.dtype for s in r.srcs), r.count) * times * group.cores
                cycles[r.name] = cycles.get(r.name, 0.0) + part
    if not cycles:
        return "vector instructions"
    name = max(cycles, key=lambda n: (cycles[n], n))
    return f"vector instructions, most of all {name}"


def _copy_text(launch: Launch, hbm_bytes_per_us: float, what: str, pipe: Pipe) -> str:
    target, constants = launch.target, launch.constants
    limit = target.hbm_bytes_per_s * 1e-6 * constants.hbm_read_efficiency
    if hbm_bytes_per_us > 0.85 * limit:
        return f"{what} at HBM's limit ({hbm_bytes_per_us * 1e-6:.2f} TB/s through HBM)"
    sizes = {r.gm.nbytes for g in launch.groups for r, _ in walk(g.nodes) if isinstance(r, Copy) and r.pipe is pipe}
    largest = max(sizes, default=0)
    if largest and largest < 16 * 1024:
        return f"{what} of at most {largest} bytes, each with its latency: 16 KiB and more would use the bandwidth"
    return f"{what} at the core's own rate or its share of L2"
