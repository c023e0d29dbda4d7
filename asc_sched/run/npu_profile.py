"""A kernel's profile on the NPU: launched a few times by a process of its own under msprof, whose table is then read.

    python -m asc_sched.run.npu_profile '{"op": "z = x + y", "shape": [8, 2048], ...}'

is that process.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import ArgumentError
from asc_sched.run.msprof import OpTime, read_op_summary, run_msprof

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel


@attrs.frozen(kw_only=True)
class LaunchSpec:
    """What to launch, as data: an op (a catalogue name or a declaration), one shape for all inputs or a list of one per
    input, dtypes alike, the schedule's fields (none: chosen automatically)."""

    op: str
    shape: Any
    dtype: Any = "float32"
    scalars: Mapping[str, float] = attrs.field(factory=dict)
    schedule: Mapping[str, Any] | None = None
    target: str = "Ascend910B1"
    repeats: int = 10
    backend: str = "npu"

    def compile(self) -> Kernel:
        """The kernel. Raises what compiling raises."""
        from asc_sched.cli.common import load_op
        from asc_sched.schedule import Schedule

        declared = load_op(self.op, ",".join(self.scalars) or None)
        schedule = None if self.schedule is None else Schedule.from_dict(dict(self.schedule))
        return declared.compile(self.shape, self.dtype, schedule=schedule, target=self.target)


def profile_npu(spec: LaunchSpec, csv: str | Path | None = None) -> dict[str, Any]:
    """Task and pipe times by msprof: it is run on this spec, or with `csv` its table (or folder) is only read.

    JSON-ready, with the names that the simulator's profile has: `task_us`, `core_mean_us`, `core_num`, `pipes` (S, V,
    MTE2, MTE3, each `busy_us` and `ratio`, None where msprof didn't collect it), `target`, `source`, `launches`.
    Medians over the launches but the first, whose instruction cache is cold. Raises `BackendError` without msprof.
    """
    name = spec.compile().name
    if csv is not None:
        return summarise(read_op_summary(csv, name), spec.target)
    with tempfile.TemporaryDirectory(prefix="asc_sched_msprof_") as folder:
        command = [sys.executable, "-m", "asc_sched.run.npu_profile", json.dumps(attrs.asdict(spec))]
        return summarise(run_msprof(command, folder, name), spec.target)


def summarise(tasks: Sequence[OpTime], target: str) -> dict[str, Any]:
    """The profile of a kernel's tasks in order of time."""
    if not tasks:
        raise ArgumentError("msprof's table has no task of this kernel")
    warm = tasks[1:] or tasks
    return {
        "source": "msprof",
        "target": target,
        "launches": len(warm),
        "task_us": statistics.median(t.duration_us for t in warm),
        "core_mean_us": _median([t.core_us for t in warm]),
        "core_num": warm[-1].core_num,
        "pipes": {
            pipe: {
                "busy_us": _median([t.pipes[pipe].busy_us for t in warm]),
                "ratio": _median([t.pipes[pipe].ratio for t in warm]),
            }
            for pipe in warm[0].pipes
        },
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None


def main(text: str) -> None:
    """Compile, then launch `repeats` + 1 times on random tensors and wait."""
    from asc_sched.run.backend import get_backend
    from asc_sched.run.check import random_inputs
    from asc_sched.run.launch import bind_launch

    spec = LaunchSpec(**json.loads(text))
    kernel, backend = spec.compile(), get_backend(spec.backend)
    inputs = random_inputs(kernel)
    if spec.backend == "npu":
        from asc_sched.run.npu import torch_npu

        torch_npu()
        inputs = [t.to("npu") for t in inputs]
    scalars = {s.name: spec.scalars.get(s.name, 1.0) for s in kernel.op.scalars}
    args = bind_launch(kernel, inputs, None, scalars)[0]
    for _ in range(spec.repeats + 1):
        backend.run(kernel, args)
    if spec.backend == "npu":
        torch_npu().npu.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
