"""pyasc's runtime (`asc.lib.runtime`), bound once per process to CANN's simulator or the NPU, its failures explained.

pyasc keeps one runtime library per process: whichever of Model and NPU comes first stays.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import attrs

from asc_sched.errors import BackendError, BackendNameError
from asc_sched.run.cann import (
    SET_ENV,
    Cann,
    blocked_nodes,
    no_device_advice,
    permission_advice,
    require_cann,
)

_CODE = re.compile(r"Function (\w+) returned (\d+)")
_bound: Runtime | None = None
_thread = threading.local()


@attrs.frozen
class Runtime:
    """The loaded runtime: `model` for CANN's simulator, `soc` the platform's name, `device` pyasc's own device."""

    model: bool
    soc: str
    device: int
    cann: Cann

    @property
    def rt(self) -> Any:
        """`asc.lib.runtime`."""
        import asc.lib.runtime as rt

        return rt

    @property
    def library(self) -> Any:
        """pyasc's wrapper library, as ctypes loaded it."""
        return _state().lib.lib

    def enter(self) -> None:
        """Make `device` the current one of this thread: a new thread has none, and nothing can be allocated there.

        Done once per thread: torch_npu, where it is in use, has the same device current when it matters.
        """
        if getattr(_thread, "device", None) != self.device:
            self.check(self.library.SetDeviceWrapper(self.device), "SetDeviceWrapper")
            _thread.device = self.device

    def check(self, code: int, call: str) -> None:
        """Raise `BackendError` for a runtime function's return code other than 0."""
        if code:
            raise BackendError(explain(f"Function {call} returned {code}", self.model, self.cann))


def bind_model(soc: str) -> Runtime:
    """The runtime on CANN's simulator of that SoC. Raises `BackendError`."""
    return _bind(True, soc)


def bind_npu() -> Runtime:
    """The runtime on this machine's NPU, the device that torch_npu has current (else 0). Raises `BackendError`."""
    return _bind(False, None)


def _bind(model: bool, soc: str | None) -> Runtime:
    global _bound
    backend = "camodel" if model else "npu"
    if _bound is not None:
        return _again(_bound, model, soc)
    cann = require_cann(backend)
    if cann.twin and not model:
        raise BackendError(
            f"backend 'npu' needs CANN, and ASCEND_HOME_PATH={cann.home} is asc_sched's twin, which has no NPU behind "
            f"it: use backend 'camodel' or 'sim', or a shell with CANN (`{SET_ENV}`)"
        )
    _check_free(model, backend)
    with _explained(model, cann):
        platform, device = _start_model(soc) if model else _start_npu(cann)
    _bound = Runtime(model, platform, device, cann)
    return _bound


def _again(bound: Runtime, model: bool, soc: str | None) -> Runtime:
    """The runtime that the process has, if it is the one wanted."""
    has = f"CANN's simulator of {bound.soc}" if bound.model else f"the NPU ({bound.soc})"
    if bound.model is not model:
        raise BackendError(
            f"this process runs kernels on {has} already, and pyasc loads one runtime per process: use the other "
            "backend in a process of its own"
        )
    if model and soc != bound.soc and not bound.cann.twin:
        raise BackendError(f"this process runs {has} already; run kernels for {soc} in a process of its own")
    if model and soc != bound.soc:
        bound.rt.set_soc_version(platform(str(soc)))
        return attrs.evolve(bound, soc=str(soc))
    return bound


def platform(soc: str) -> Any:
    """pyasc's `Platform` of that name. Raises `BackendNameError` listing the supported ones."""
    from asc.runtime.config import Platform

    try:
        return Platform(soc)
    except ValueError:
        names = ", ".join(p.value for p in Platform)
        raise BackendNameError(f"pyasc has no platform {soc!r} (supported: {names})") from None


def _state() -> Any:
    from asc.lib.runtime import state

    return state


def _check_free(model: bool, backend: str) -> None:
    """pyasc may have been set up by the user's own code before."""
    state = _state()
    if state.lib is not None and bool(state.model) is not model:
        other = "Model" if state.model else "NPU"
        raise BackendError(
            f"pyasc has loaded its {other} runtime in this process already (config.set_platform), and backend "
            f"{backend!r} needs the other one: use it in a process of its own"
        )


def _start_model(soc: str | None) -> tuple[str, int]:
    import asc.lib.runtime as rt
    from asc.runtime import config

    chosen = platform(str(soc))
    config.set_platform(config.Backend.Model, chosen, check=False)
    _load()
    rt.current_stream()
    return str(chosen.value), 0


def _start_npu(cann: Cann) -> tuple[str, int]:
    import asc.lib.runtime as rt
    from asc.runtime import config

    rt.use_npu()
    _load()
    count = rt.device_count()
    if count < 1:
        raise BackendError(f"backend 'npu' found no device: {no_device_advice()}")
    chosen = platform(rt.current_platform())
    own = _state().device_id  # set by the user's own code; setting it again would destroy its streams
    device = current_device() if own is None else int(own)
    if device >= count:
        raise BackendError(f"device {device} was asked for, and there are {count}: npu:0 to npu:{count - 1}")
    config.set_platform(config.Backend.NPU, chosen, device_id=device if own is None else None, check=False)
    rt.current_stream()
    return str(chosen.value), device


def current_device() -> int:
    """torch_npu's current device where it is in use, else 0."""
    import sys

    torch_npu = sys.modules.get("torch_npu")
    return 0 if torch_npu is None else int(torch_npu.npu.current_device())


def _load() -> None:
    """Load pyasc's library. pyasc replaces the SIGINT handler after that, and so fails outside of the main thread."""
    from asc.lib.runtime import interface

    before = signal.getsignal(signal.SIGINT)
    try:
        interface._lazy_init(need_device=False)
    except ValueError:
        if _state().lib is None:
            raise
        return
    if before is not None:
        signal.signal(signal.SIGINT, before)


# -- what went wrong ---------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _explained(model: bool, cann: Cann) -> Iterator[None]:
    try:
        yield
    except BackendError:
        _forget()
        raise
    except (subprocess.CalledProcessError, OSError, RuntimeError) as err:
        _forget()
        raise BackendError(explain(err, model, cann)) from err


def _forget() -> None:
    """Let a later call try again, and keep pyasc from resetting a device that it never had when the process ends."""
    from asc.lib.runtime import interface

    state = _state()
    if state.device_id is None:
        state.lib = None
        atexit.unregister(interface.reset_device)


def explain(err: BaseException | str, model: bool, cann: Cann) -> str:
    """One message for a failure of pyasc's runtime: what failed, and the command that shows or mends the cause."""
    name = "camodel" if model else "npu"
    if isinstance(err, subprocess.CalledProcessError):
        return (
            f"backend {name!r}: pyasc's runtime wrapper can't be built against the CANN at {cann.home} (the C++ "
            f"compiler's messages are above); check that the toolkit is complete{_library_advice(model, cann)}"
        )
    text = str(err)
    found = _CODE.search(text)
    if found is None:
        return f"backend {name!r}: pyasc's runtime can't be loaded: {text}{_library_advice(model, cann)}"
    call, code = found.group(1).removesuffix("Wrapper"), int(found.group(2)) & 0xFFFFFFFF
    blocked = () if model else blocked_nodes()
    if blocked:
        return f"backend {name!r}: the driver refused rt{call} (code {code}): {permission_advice(blocked)}"
    return f"backend {name!r}: rt{call} failed with code {code}: {_code_advice(call, code, model)}"


def _library_advice(model: bool, cann: Cann) -> str:
    if not model:
        return (
            f"; run `{SET_ENV}`, and put the driver's libraries on the path: export LD_LIBRARY_PATH="
            "/usr/local/Ascend/driver/lib64/driver:$LD_LIBRARY_PATH"
        )
    folder = "$ASCEND_HOME_PATH/tools/simulator/<SoC>/lib"
    simulators = sorted(p.name for p in (cann.home / "tools" / "simulator").glob("Ascend*"))
    has = f"; it has simulators of {', '.join(simulators)}" if simulators else "; it has no tools/simulator/Ascend*"
    return (
        f"; export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH, and where another runtime library is loaded before, "
        f"LD_PRELOAD={folder}/libruntime_camodel.so{has}"
    )


_ADVICE = {
    107001: "there is no device of that number; `npu-smi info` lists them",
    107003: "the stream doesn't belong to this device; pass tensors of one device",
    207001: "device memory is full; `npu-smi info` shows who holds it",
    507015: "the kernel raised an exception on the core; `~/ascend/log/debug/plog` has its address and the operand",
    507033: "the device can't be opened; `npu-smi info` shows its state and who uses it",
    507046: "the kernel didn't end in time",
    507899: "the driver failed; `npu-smi info` shows its state, `dmesg` the cause",
}


def _code_advice(call: str, code: int, model: bool) -> str:
    advice = _ADVICE.get(code)
    if advice is None and call in ("GetDeviceCount", "SetDevice", "GetSocVersion"):
        advice = no_device_advice()
    if model and code == 507015:
        advice = "the simulator stopped the kernel; its message is above"
    return advice or "`~/ascend/log/debug/plog` has the runtime's own message; CANN's documentation lists the codes"
