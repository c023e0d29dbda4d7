"""Where kernels run: the simulator on any machine; on machines with CANN, its own simulator or the NPU."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING, Protocol

from asc_sched.errors import BackendError

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs

BACKENDS = ("sim",)
ENVIRONMENT = "ASC_SCHED_BACKEND"


class Backend(Protocol):
    """Runs a kernel on the arguments, writing its outputs in place."""

    name: str

    def run(self, kernel: Kernel, args: LaunchArgs) -> None: ...


def get_backend(name: str | None = None) -> Backend:
    """The backend of that name, or of ASC_SCHED_BACKEND, or the best that this machine has. Raises `BackendError`."""
    wanted = name or os.environ.get(ENVIRONMENT) or "sim"
    if wanted not in BACKENDS:
        near = difflib.get_close_matches(wanted, BACKENDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise BackendError(f"unknown backend {wanted!r}{hint} (supported: {', '.join(BACKENDS)})")
    from asc_sched.run.sim import SimBackend

    return SimBackend()
