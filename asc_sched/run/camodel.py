"""CANN's own simulator as a backend (pyasc's `Backend.Model`): CPU tensors, copied to its memory and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.errors import ArgumentError
from asc_sched.run.device import DeviceBackend, launcher_choice, one_device
from asc_sched.run.runtime import Runtime, bind_model

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs


class CamodelBackend(DeviceBackend):
    """Runs where CANN is installed, or in a shell with `asc-sched twin env`."""

    name = "camodel"

    def runtime_for(self, kernel: Kernel) -> Runtime:
        """CANN's simulator of the kernel's SoC. Raises `BackendError`."""
        return bind_model(kernel.target.name)

    def run(self, kernel: Kernel, args: LaunchArgs) -> None:
        device = one_device(kernel, args)
        if device.type != "cpu":
            raise ArgumentError(f"{kernel.name}: the tensors are on {device}, and CANN's simulator takes CPU tensors")
        runtime = self.runtime_for(kernel)
        runtime.enter()
        if launcher_choice() == "pyasc":
            from asc_sched.run.jit import run_jit

            run_jit(kernel, args, runtime, runtime.rt.current_stream())
        else:
            self.run_by_copy(kernel, args, runtime)

    def ticks(self, kernel: Kernel) -> int:
        """The simulator's clock, in core cycles since it began."""
        return int(self.runtime_for(kernel).rt.current_tick())
