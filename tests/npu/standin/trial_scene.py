"""Prints, as JSON, what a candidate's check says of launches that go wrong on the device. Runs with the twin."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from typing import Any

from asc_sched import Schedule, op
from asc_sched.kernel import Kernel
from asc_sched.run.check import random_inputs
from asc_sched.run.device import DeviceBackend
from asc_sched.run.runtime import Runtime
from asc_sched.tune.trial import CANARY_BYTES, BackendRunner, check

LENGTH = 4096
KERNEL = op("z = x + y").compile((LENGTH,), "float32", schedule=Schedule(core_num=2, tile_length=256))
LAUNCHER = DeviceBackend.launcher
After = Callable[[Sequence[int]], None]


def fault(after: After | None, launches: bool = True) -> str:
    """The check's answer where `after` does something to the device's memory when a launch has ended."""

    def launcher(self: DeviceBackend, kernel: Kernel, runtime: Runtime) -> Any:
        real = LAUNCHER(self, kernel, runtime)

        def launch(cores: int, stream: Any, values: Sequence[int]) -> None:
            if launches:
                real(cores, stream, values)
                runtime.rt.synchronize(runtime.rt.current_stream())
            if after is not None:
                after(values)

        return launch

    DeviceBackend.launcher = launcher  # type: ignore[method-assign,assignment]
    return check(KERNEL, BackendRunner("camodel", "hot"), random_inputs(KERNEL))


def zeros(argument: int, offset: int) -> After:
    """Four bytes of zeros so far from the start of an argument's memory."""
    return lambda values: ctypes.memset(values[argument] + offset, 0, 4) and None


if __name__ == "__main__":
    poison: list[str] = []
    found = {
        "right": fault(None),
        "nothing is written": fault(lambda values: poison.append(ctypes.string_at(values[2], 8).hex()), launches=False),
        "poison": poison[0],
        "before x": fault(zeros(0, -4)),
        "behind y": fault(zeros(1, 4 * LENGTH + CANARY_BYTES - 4)),
        "before z": fault(zeros(2, -CANARY_BYTES)),
        "behind z": fault(zeros(2, 4 * LENGTH)),
        "in y": fault(zeros(1, 400)),
    }
    print(json.dumps(found))
