"""Our own launcher: everything that is the same at each call of a kernel is done once, a call packs arguments.

It calls the runtime functions that pyasc's launcher calls, through the same wrapper library, in the same order; it
doesn't bind signatures, hash options, register binaries, copy the control address or wait at each call.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asc_sched.errors import ArgumentError, CompileError
from asc_sched.run.binaries import device_binary

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel
    from asc_sched.run.runtime import Runtime

#: struct format of a scalar argument and its bytes in the block; what is smaller than 4 bytes is padded to 4.
_FORMATS = {
    "int64": ("q", 8), "uint64": ("Q", 8), "float64": ("d", 8),
    "int32": ("i", 4), "uint32": ("I", 4), "float32": ("f", 4),
    "int16": ("h2x", 4), "uint16": ("H2x", 4), "float16": ("e2x", 4),
    "int8": ("b3x", 4), "uint8": ("B3x", 4), "int1": ("B3x", 4),
}  # fmt: skip
_POINTER = ("Q", 8)
_KERNEL_ARG = re.compile(r"emitasc\.kernel_arg = #emitasc<kernel_arg (\w+)>")
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p
)


def block_format(kinds: Sequence[str]) -> tuple[str, int]:
    """The argument block of a kernel as a `struct` format, and its bytes: ``pointer`` or a scalar's dtype per argument.

    Every argument lies at a multiple of its own size, as a device function's parameters do, and the block ends at a
    multiple of 8 bytes. (pyasc's launcher puts an 8-byte scalar right after a 4-byte one; kernels that pass 8-byte
    arguments first are packed alike by both.)
    """
    text, at = "<", 0
    for kind in kinds:
        code, size = _POINTER if kind == "pointer" else _FORMATS[kind]
        gap = -at % size
        text += (f"{gap}x" if gap else "") + code
        at += gap + size
    gap = -at % 8
    return text + (f"{gap}x" if gap else ""), at + gap


def argument_kinds(kernel: Kernel) -> tuple[list[str], list[bool]]:
    """What the block holds in order, and for each argument whether pyasc added it (the cross-core control address)."""
    line = next((line for line in kernel.asc_ir.splitlines() if "func.func" in line and "ascendc.global" in line), "")
    kinds = _KERNEL_ARG.findall(line)
    own = iter("pointer" if a.kind == "pointer" else a.dtype for a in kernel.request.arg_types)
    unknown = sorted({k for k in kinds if k not in ("explicit", "ffts_addr")})
    if unknown or kinds.count("explicit") != len(kernel.request.arg_types):
        raise CompileError(
            f"{kernel.name}: its ASC-IR has the arguments {', '.join(kinds) or 'none'}, and "
            f"{len(kernel.request.arg_types)} explicit ones (and ffts_addr) are known"
        )
    return [next(own) if kind == "explicit" else "pointer" for kind in kinds], [k != "explicit" for k in kinds]


class Launcher:
    """One kernel on one device, registered and ready: call it with the cores, a stream and the arguments.

    Usable from several threads; the kernel stays registered as long as the process lives, whatever pyasc's own
    launcher frees meanwhile.
    """

    def __init__(self, kernel: Kernel, runtime: Runtime) -> None:
        self.kernel, self.runtime = kernel, runtime
        kinds, added = argument_kinds(kernel)
        self._format, self._nbytes = block_format(kinds)
        self._names = [t.name for t in (*kernel.plan.inputs, *kernel.plan.outputs)]
        self._names += [name for name, _ in kernel.plan.formulas.arguments] + [s.name for s in kernel.plan.scalars]
        self._kinds = kinds
        self._pack = struct.Struct(self._format).pack
        self._added_last = (control_block(runtime),) * sum(added)
        if any(added[: len(added) - sum(added)]):
            raise CompileError(f"{kernel.name}: an argument that pyasc added stands before one of the kernel's own")
        self._binary = device_binary(kernel, runtime)
        self._stub = _register(kernel.name, self._binary, runtime)
        self._launch = _LAUNCH(("KernelLaunchWrapper", runtime.library))
        self._cycles, self._report = _profiling(kernel.name, runtime)

    def __call__(self, core_num: int, stream: int, values: Sequence[Any]) -> None:
        """Launch on `core_num` cores: `stream` is the stream's handle, `values` addresses, then sizes and scalars.

        Returns at once; the arguments have been taken over, the memory must live until the stream is done. Raises
        `ArgumentError` for a value that its type doesn't hold, `BackendError` where the runtime refuses.
        """
        try:
            block = self._pack(*values, *self._added_last)
        except (struct.error, OverflowError, TypeError) as err:
            raise self._unfit(values, err) from None
        start = self._cycles() if self._cycles is not None else 0
        code = self._launch(self._stub, core_num, block, self._nbytes, None, stream)
        if code:
            self.runtime.check(code, "KernelLaunchWrapper")
        if start:
            self._report(start, core_num)

    def _unfit(self, values: Sequence[Any], err: Exception) -> ArgumentError:
        name = self.kernel.name
        if len(values) != len(self._names):
            names = ", ".join(self._names)
            return ArgumentError(f"{name} takes {len(self._names)} values ({names}), got {len(values)}")
        for label, kind, value in zip(self._names, self._kinds, values, strict=False):
            code = _POINTER[0] if kind == "pointer" else _FORMATS[kind][0]
            try:
                struct.pack(f"<{code}", value)
            except (struct.error, OverflowError, TypeError):
                wide = "; compile with sizes as int64" if kind == "int32" else ""
                return ArgumentError(f"{name}: {label}={value!r} doesn't fit the kernel's {kind}{wide}")
        return ArgumentError(f"{name}: the arguments can't be packed: {err}")


def _register(name: str, binary: bytes, runtime: Runtime) -> Any:
    """Register a binary and its function. pyasc's launcher unregisters all that pyasc knows of at each of its calls,
    so pyasc doesn't get to know this one."""
    from asc.lib.runtime import state

    rt = runtime.rt
    handle = rt.register_device_binary_kernel(binary, rt.magic_elf_value(rt.CoreType.VectorCore))
    state.kernels.pop(handle.value, None)
    return rt.register_function(handle, name, mode=0)


_control: dict[tuple[bool, int], int] = {}


def control_block(runtime: Runtime) -> int:
    """Address of 8 bytes of device memory that hold the cross-core control address; made once per device."""
    from asc.lib.runtime import state

    key = (runtime.model, runtime.device)
    if key not in _control:
        rt = runtime.rt
        value = ctypes.c_uint64(rt.c2c_ctrl_addr())
        memory = rt.copy_data_to_device(ctypes.c_void_p(ctypes.addressof(value)), 8)
        state.allocs.pop(memory.value, None)  # as in _register: not for pyasc's launcher to free
        _control[key] = int(memory.value)
    return _control[key]


def _profiling(name: str, runtime: Runtime) -> tuple[Any, Any]:
    """(function that tells the time while msprof collects, else 0; function that reports a launch to msprof)."""
    if runtime.model:
        return None, None
    rt, utils = runtime.rt, runtime.rt.npu_utils()
    task_type = rt.msprof_task_type(rt.CoreType.VectorCore)

    def report(start: int, core_num: int) -> None:
        utils.msprof_report_compact_info(utils.msprof_sys_cycle_time(), name, core_num, task_type)
        utils.msprof_report_api(start, utils.msprof_sys_cycle_time(), name)

    return utils.msprof_sys_cycle_time, report
