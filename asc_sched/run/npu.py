"""The NPU as a backend: torch_npu tensors in place on their current stream, CPU tensors by copy."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import ArgumentError, BackendError
from asc_sched.run.device import DeviceBackend, launcher_choice, one_device
from asc_sched.run.runtime import Runtime, bind_npu

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs
    from asc_sched.target import Target


class NpuBackend(DeviceBackend):
    """Runs on an NPU through pyasc's runtime; what isn't there is told by `BackendError`s, one per cause."""

    name = "npu"

    def runtime_for(self, kernel: Kernel) -> Runtime:
        """The NPU's runtime, if the kernel was compiled for this SoC."""
        runtime = bind_npu()
        if runtime.soc != kernel.target.name:
            raise BackendError(
                f"{kernel.name} was compiled for {kernel.target.name}, and this NPU is an {runtime.soc}: compile with "
                f"target={runtime.soc!r} (--target {runtime.soc}); `npu-smi info` lists the chips"
            )
        return runtime

    def run(self, kernel: Kernel, args: LaunchArgs) -> None:
        device = one_device(kernel, args)
        runtime = self.runtime_for(kernel)
        if device.type == "cpu":
            runtime.enter()
            if launcher_choice() == "pyasc":
                _jit(kernel, args, runtime, runtime.rt.current_stream())
            else:
                self.run_by_copy(kernel, args, runtime)
        elif device.type == "npu":
            addresses = [t.data_ptr() for t in (*args.inputs, *args.outputs)]
            self.launch_in_place(kernel, args.core_num, (*addresses, *args.sizes, *args.scalars), device.index, args)
        else:
            raise ArgumentError(f"{kernel.name}: the tensors are on {device}; the NPU takes npu and CPU tensors")

    def launch_in_place(
        self, kernel: Kernel, core_num: int, values: Sequence[Any], index: int | None, args: LaunchArgs | None = None
    ) -> None:
        """On the tensors' device and its current stream, without waiting, as torch's own functions run.

        `values`: addresses, sizes, scalars. `args` (tensors) let pyasc's launcher be used where it is asked for.
        """
        npu, runtime = torch_npu().npu, self.runtime_for(kernel)
        current = int(npu.current_device())
        device = current if index is None else index
        guard: Any = contextlib.nullcontext() if device == current else npu.device(device)
        with guard:
            if device != runtime.device:
                runtime = attrs.evolve(runtime, device=device)
            runtime.enter()
            if args is not None and launcher_choice() == "pyasc":
                # pyasc's launcher waits for its own stream, whichever it launches on, and then frees what the kernel
                # reads: it must be its own stream.
                npu.current_stream(device).synchronize()
                _jit(kernel, args, runtime, runtime.rt.current_stream())
                return
            # Reading npu_stream waits until torch_npu's own queue of launches is empty, so it is read at each call.
            stream = int(npu.current_stream(device).npu_stream)
            self.launcher(kernel, runtime)(core_num, stream, values)


def _jit(kernel: Kernel, args: LaunchArgs, runtime: Runtime, stream: Any) -> None:
    from asc_sched.run.jit import run_jit

    run_jit(kernel, args, runtime, stream)


def torch_npu() -> Any:
    """The module torch_npu. Raises `BackendError` where it isn't installed or can't be loaded."""
    loaded = sys.modules.get("torch_npu")
    if loaded is not None:
        return loaded
    try:
        import torch_npu as module
    except ImportError as err:
        raise BackendError(
            f"NPU tensors need torch_npu, which can't be imported ({err}): install the release that fits torch and CANN"
        ) from None
    return module


def machine_soc() -> Target:
    """The target of this machine's NPU. Raises `BackendError`, or `TargetError` for an SoC that pyasc doesn't have."""
    from asc_sched.target import get_target

    return get_target(bind_npu().soc)
