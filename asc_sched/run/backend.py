"""Where kernels run: the simulator on any machine; on machines with CANN, its own simulator or the NPU."""

from __future__ import annotations

import difflib
import importlib.util
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import attrs

from asc_sched.errors import BackendNameError

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs
    from asc_sched.target import Target

BACKENDS = ("sim", "camodel", "npu")
ENVIRONMENT = "ASC_SCHED_BACKEND"


class Backend(Protocol):
    """Runs a kernel on the arguments, writing its outputs in place."""

    name: str

    def run(self, kernel: Kernel, args: LaunchArgs) -> None: ...


@attrs.frozen
class Decision:
    """Which backend is used, and why (a sentence)."""

    name: str
    reason: str


def decide(name: str | None = None, device: str = "cpu") -> Decision:
    """The backend to use: the one named, or that of ASC_SCHED_BACKEND, or what the tensors' device and machine give.

    `device` is the tensors' device type. Nothing is loaded: whether the backend works shows when it runs. Raises
    `BackendNameError` (a ValueError) for a name that isn't one of `BACKENDS`.
    """
    if name is not None:
        return Decision(_checked(name), "it was asked for")
    given = os.environ.get(ENVIRONMENT, "").strip()
    if given:
        return Decision(_checked(given, f"{ENVIRONMENT}="), f"{ENVIRONMENT}={given} is set")
    if device == "npu":
        return Decision("npu", "the tensors are on an NPU")
    return _found(os.environ.get("ASCEND_HOME_PATH", ""))


def _checked(name: str, where: str = "") -> str:
    if name in BACKENDS:
        return name
    near = difflib.get_close_matches(name.lower(), [*BACKENDS, "model"], n=1)
    meant = {"model": "camodel"}.get(near[0], near[0]) if near else ""
    hint = f"; did you mean {meant!r}?" if meant else ""
    raise BackendNameError(f"unknown backend {where}{name!r}{hint} (supported: {', '.join(BACKENDS)})")


@lru_cache(maxsize=4)
def _found(_: str) -> Decision:
    """What the machine gives; looked at once per ASCEND_HOME_PATH."""
    from asc_sched.run.cann import device_nodes, find_cann

    cann, nodes = find_cann(), device_nodes()
    lacks = [
        text
        for text, there in (
            ("no CANN (ASCEND_HOME_PATH)", cann is not None and not cann.twin),
            ("no NPU (/dev/davinci*)", bool(nodes)),
            ("no torch_npu", _has_torch_npu()),
        )
        if not there
    ]
    if lacks:
        return Decision("sim", f"the machine has {', '.join(lacks)}")
    return Decision("npu", f"the machine has CANN, {nodes[0]} and torch_npu")


@lru_cache(maxsize=1)
def _has_torch_npu() -> bool:
    return importlib.util.find_spec("torch_npu") is not None


def get_backend(name: str | None = None, device: str = "cpu") -> Backend:
    """The backend that `decide` chooses, one object per process. Raises `BackendNameError`."""
    return _backend(decide(name, device).name)


@lru_cache(maxsize=len(BACKENDS))
def _backend(name: str) -> Backend:
    if name == "npu":
        from asc_sched.run.npu import NpuBackend

        return NpuBackend()
    if name == "camodel":
        from asc_sched.run.camodel import CamodelBackend

        return CamodelBackend()
    from asc_sched.run.sim import SimBackend

    return SimBackend()


def machine_target(device: str = "cpu") -> Target | None:
    """The SoC of this machine's NPU where kernels would run on it, None where they are simulated for any."""
    if decide(None, device).name != "npu":
        return None
    from asc_sched.run.npu import machine_soc

    return machine_soc()
