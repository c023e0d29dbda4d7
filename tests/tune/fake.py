"""A backend whose clock and faults a test controls, by the schedule's core_num."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence

import torch

from asc_sched.kernel import Kernel

#: JSON in this variable: core_num -> {"us": [...], "fault": ..., "later": {"us": [...], "fault": ...}}; "later" is for
#: every trial of a candidate but its first in this process.
SCRIPT = "ASC_SCHED_TEST_FAKE"
_SEEN: set[int] = set()


class FakeRunner:
    """Computes with torch, so results are right unless told otherwise."""

    def __init__(self) -> None:  # one for each trial
        self._again = frozenset(_SEEN)

    def _plan(self, kernel: Kernel) -> dict[str, object]:
        plan: dict[str, object] = json.loads(os.environ[SCRIPT])[str(kernel.schedule.core_num)]
        later = plan.get("later", plan) if kernel.schedule.core_num in self._again else plan
        assert isinstance(later, dict)
        return later

    def run(self, kernel: Kernel, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        fault = self._plan(kernel).get("fault")
        _SEEN.add(kernel.schedule.core_num or 0)
        if fault == "abort":
            os.kill(os.getpid(), signal.SIGABRT)
        if fault == "hang":
            time.sleep(60)
        if fault == "raise":
            raise RuntimeError("the driver said no")
        for out, result in zip(outputs, kernel.op.reference(*inputs), strict=True):
            out.copy_(result)
        if fault == "wrong":
            outputs[0].view(-1)[-1] += 1
        if fault == "partial":
            outputs[0].view(-1)[0] = float("nan")
        if fault == "input":
            inputs[0].view(-1)[0] += 1

    def measure(self, kernel: Kernel, inputs: Sequence[torch.Tensor], repeats: int) -> Sequence[float]:
        times = self._plan(kernel).get("us", [1.0])
        assert isinstance(times, list)
        return [float(t) for t in times]
