"""What the NPU and CANN's simulator have in common: a kernel's launcher, made once, and memory that is there or copied.

ASC_SCHED_LAUNCHER=pyasc runs every call through pyasc's whole road instead (its JIT, cache and launcher).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from asc_sched.errors import ArgumentError, BackendError
from asc_sched.run.launcher import Launcher

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs
    from asc_sched.run.runtime import Runtime

ENV_LAUNCHER = "ASC_SCHED_LAUNCHER"
LAUNCHERS = ("own", "pyasc")


class DeviceBackend:
    """Base of `NpuBackend` and `CamodelBackend`: `runtime_for` binds pyasc's runtime for a kernel, or raises."""

    name = ""

    def __init__(self) -> None:
        self._launchers: WeakKeyDictionary[Kernel, dict[int, Launcher]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def runtime_for(self, kernel: Kernel) -> Runtime:
        """The runtime that this kernel can run on. Raises `BackendError`."""
        raise NotImplementedError

    def run(self, kernel: Kernel, args: LaunchArgs) -> None:
        """Launch, in place on tensors of the device; CPU tensors are copied there and the outputs back (and waited
        for)."""
        raise NotImplementedError

    def launcher(self, kernel: Kernel, runtime: Runtime) -> Launcher:
        """The kernel's launcher on the runtime's device, made at the first call."""
        by_device = self._launchers.get(kernel)
        found = None if by_device is None else by_device.get(runtime.device)
        if found is not None:
            return found
        with self._lock:
            by_device = self._launchers.setdefault(kernel, {})
            if runtime.device not in by_device:
                by_device[runtime.device] = Launcher(kernel, runtime)
            return by_device[runtime.device]

    def run_by_copy(self, kernel: Kernel, args: LaunchArgs, runtime: Runtime) -> None:
        """CPU tensors: copy the inputs, launch on pyasc's stream, wait, copy the outputs back."""
        runtime.enter()
        launcher, rt = self.launcher(kernel, runtime), runtime.rt
        stream = rt.current_stream()
        with device_memory(runtime, args) as addresses:
            launcher(args.core_num, stream.value, (*addresses, *args.sizes, *args.scalars))
            rt.synchronize(stream)
            tensors = (*args.inputs, *args.outputs) if args.guard else args.outputs
            for tensor, address in zip(tensors, addresses[-len(tensors) :], strict=True):
                host, nbytes = _guarded(tensor, args)
                rt.copy_data_from_device(ctypes.c_void_p(host), ctypes.c_void_p(address - args.guard), nbytes)


def _guarded(tensor: torch.Tensor, args: LaunchArgs) -> tuple[int, int]:
    """(address, bytes) of a tensor's memory on the host with its guards."""
    return tensor.data_ptr() - args.guard, tensor.nbytes + 2 * args.guard


@contextlib.contextmanager
def device_memory(runtime: Runtime, args: LaunchArgs) -> Iterator[list[int]]:
    """Addresses of copies of the inputs and of room for the outputs, in the kernel's order; freed at the end.

    Outputs in whose memory the kernel leaves gaps are copied there too, since all of it is copied back, and those with
    guards, as what is in them is poison.
    """
    rt = runtime.rt
    held: list[Any] = []
    copied = [True] * len(args.inputs) + [partial or args.guard > 0 for partial in args.partial]
    try:
        for tensor, with_data in zip((*args.inputs, *args.outputs), copied, strict=True):
            host, nbytes = _guarded(tensor, args)
            held.append(rt.copy_data_to_device(ctypes.c_void_p(host), nbytes) if with_data else rt.malloc(nbytes))
        yield [int(memory.value) + args.guard for memory in held]
    except RuntimeError as err:
        if isinstance(err, BackendError):
            raise
        from asc_sched.run.runtime import explain

        raise BackendError(explain(err, runtime.model, runtime.cann)) from err
    finally:
        for memory in held:
            rt.free(memory)


def launcher_choice() -> str:
    """``own`` or ``pyasc``, by ASC_SCHED_LAUNCHER."""
    choice = os.environ.get(ENV_LAUNCHER, "").strip() or "own"
    if choice not in LAUNCHERS:
        raise ArgumentError(f"{ENV_LAUNCHER}={choice!r} is unknown (supported: {', '.join(LAUNCHERS)})")
    return choice


def one_device(kernel: Kernel, args: LaunchArgs) -> torch.device:
    """The device that all tensors are on. Raises `ArgumentError` naming the first that is elsewhere."""
    first, *others = (*args.inputs, *args.outputs)
    names = [t.name for t in (*kernel.plan.inputs, *kernel.plan.outputs)]
    for name, tensor in zip(names[1:], others, strict=True):
        if tensor.device != first.device:
            raise ArgumentError(
                f"{kernel.name}: {names[0]} is on {first.device} and {name} on {tensor.device}; move them to one device"
            )
    return first.device
