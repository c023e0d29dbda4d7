"""Where kernels run: NPU tensors on the NPU through pyasc, CPU tensors on asc_sched's simulator."""

from __future__ import annotations

import ctypes
import hashlib
import linecache
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from .errors import BackendError
from .manifest import read_file

Kernel = Mapping[str, Any]


class Launch:
    """One launch: 1-d dense tensors in the kernel's order, sizes and scalars as plain numbers, cores to launch."""

    __slots__ = ("core_num", "kernel", "numbers", "root", "tensors")

    def __init__(
        self, root: Path, kernel: Kernel, tensors: Sequence[torch.Tensor], numbers: Sequence[Any], core_num: int
    ) -> None:
        self.root, self.kernel, self.tensors, self.numbers, self.core_num = root, kernel, tensors, numbers, core_num

    def carriers(self) -> list[torch.Tensor]:
        """The tensors' memory as the types that the kernel's pointers have (bfloat16 is carried as int16)."""
        types = [a["carrier"] for a in self.kernel["arguments"] if a["kind"] == "pointer"]
        return [t.view(getattr(torch, c)) for t, c in zip(self.tensors, types, strict=True)]

    def scalars(self) -> list[Any]:
        """The other arguments, in the types that the kernel takes."""
        import numpy as np

        types = [a["carrier"] for a in self.kernel["arguments"] if a["kind"] != "pointer"]
        return [np.dtype(c).type(v) for c, v in zip(types, self.numbers, strict=True)]


def run(launch: Launch, device: torch.device) -> None:
    """Launch on `device`. Raises `BackendError` where there is nothing to run on."""
    if device.type == "cpu":
        _simulate(launch)
    elif device.type in ("npu", "privateuseone"):
        _launch_npu(launch, device)
    else:
        raise BackendError(f"kernels for Ascend run on npu and cpu tensors, not on {device}")


# -- simulator ---------------------------------------------------------------------------------------------------
def _simulate(launch: Launch) -> None:
    try:
        from asc_sched.sim import simulate
        from asc_sched.target import get_target
    except ImportError as error:
        raise BackendError(
            f"CPU tensors run on asc_sched's simulator, which can't be imported ({error}): pip install asc_sched, or "
            "move the tensors to an NPU"
        ) from None
    pointers = [a for a in launch.kernel["arguments"] if a["kind"] == "pointer"]
    arrays = [t.detach().numpy() for t in launch.carriers()]
    simulate(
        _asc_ir(launch.root, launch.kernel["files"]["asc_ir"]["path"], launch.kernel["files"]["asc_ir"]["sha256"]),
        [*arrays, *launch.scalars()],
        core_num=launch.core_num,
        target=get_target(launch.kernel["target"]),
        outputs=[i for i, a in enumerate(pointers) if a["role"] == "output"],
    )


@lru_cache(maxsize=512)
def _asc_ir(root: Path, path: str, sha256: str) -> Any:
    from asc_sched.sim import parse

    return parse(read_file(root, {"path": path, "sha256": sha256}).decode("utf-8"))


# -- NPU ---------------------------------------------------------------------------------------------------------
def _launch_npu(launch: Launch, device: torch.device) -> None:
    npu = _torch_npu().npu
    current = int(npu.current_device())
    index = current if device.index is None else device.index
    with npu.device(index), _lock:
        soc, own = npu_chip()
        _check(launch.kernel["target"], soc, index, own)
        entry = launch.kernel["files"]["pyasc"]
        function = _jit_function(launch.root, entry["path"], entry["sha256"], launch.kernel["symbol"])
        # pyasc's launcher waits for its own stream, whichever it launches on, and then frees what the kernel reads: it
        # must be its own stream, and what torch has queued must be done before.
        npu.current_stream(index).synchronize()
        try:
            _enter(own)
            function[launch.core_num, _own_stream()](*launch.carriers(), *launch.scalars())
        except RuntimeError as error:
            raise BackendError(f"{launch.kernel['symbol']}: {error}; npu-smi info and dmesg tell more") from error


def _check(target: str, soc: str, index: int, own: int) -> None:
    if soc != target:
        raise BackendError(f"this NPU is an {soc}, and the kernels are for {target}; build the library for {soc}")
    if index != own:
        raise BackendError(
            f"the tensors are on npu:{index}, and pyasc has npu:{own} in this process, of which it takes one: move "
            f"them there, or call torch.npu.set_device({index}) before the first kernel"
        )


#: pyasc has one runtime per process, which it doesn't guard against several threads.
_lock = threading.RLock()
_thread = threading.local()


def _enter(device: int) -> None:
    """Make the device the current one of this thread: a new thread has none."""
    if getattr(_thread, "device", None) != device:
        from asc.lib.runtime import state

        state.lib.call("SetDeviceWrapper", ctypes.c_int32(device))
        _thread.device = device


def _own_stream() -> Any:
    from asc.lib import runtime as rt

    return rt.current_stream()


def _torch_npu() -> Any:
    loaded = sys.modules.get("torch_npu")
    if loaded is not None:
        return loaded
    try:
        import torch_npu
    except ImportError as error:
        raise BackendError(
            f"NPU tensors need torch_npu, which can't be imported ({error}): install the release that fits torch"
        ) from None
    return torch_npu


@lru_cache(maxsize=1)
def npu_chip() -> tuple[str, int]:
    """The chip of this machine's NPU and the device that pyasc uses, bound once per process: torch's current one,
    unless the user's own code has set up pyasc before. Raises `BackendError`."""
    try:
        from asc.lib import runtime as rt
        from asc.lib.runtime import state
        from asc.runtime import config
    except ImportError as error:
        raise BackendError(f"the NPU needs pyasc, which can't be imported ({error}): pip install pyasc") from None
    if state.lib is not None and state.model:
        raise BackendError(
            "pyasc runs on CANN's simulator in this process, and it loads one runtime per process: use NPU tensors in "
            "another process"
        )
    try:
        rt.use_npu()  # before anything is asked: pyasc would load the simulator's library
        soc = _platform(rt)
        given: int | None = state.device_id
        device = int(_torch_npu().npu.current_device()) if given is None else given
        to_set = device if given is None else None  # setting it again would destroy pyasc's streams
        config.set_platform(config.Backend.NPU, config.Platform(soc), device_id=to_set, check=False)
        return soc, device
    except (RuntimeError, ValueError, OSError, subprocess.CalledProcessError) as error:
        raise BackendError(f"pyasc can't use the NPU: {error}; source CANN's set_env.sh, see npu-smi info") from error


def _platform(rt: Any) -> str:
    """The chip's name. Asking loads pyasc's library, which takes over ^C, and fails at that outside of the main thread,
    when it is loaded all the same."""
    before = signal.getsignal(signal.SIGINT)
    try:
        soc = rt.current_platform()
    except ValueError:
        return str(rt.current_platform())
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    return str(soc)


@lru_cache(maxsize=1024)
def _jit_function(root: Path, path: str, sha256: str, name: str) -> Any:
    """The `@asc.jit` function of a kernel's source: what is executed is what was checked, not what the file is now."""
    source = read_file(root, {"path": path, "sha256": sha256}).decode("utf-8")
    filename = f"<{name} {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return namespace[name]
