"""Backends that a search can time on: checked before a search, not found out by each of its trials."""

from __future__ import annotations

from asc_sched.errors import BackendError, BackendNameError, nearest
from asc_sched.run.backend import BACKENDS, decide
from asc_sched.run.cann import device_nodes, no_device_advice, require_cann

TIMERS = ("model", *(b for b in BACKENDS if b != "sim"))


def timer(name: str | None) -> str:
    """Who times a search: the one named, else what the machine has; the simulator's times are the model's.

    Raises `BackendNameError` for a name that isn't one of `TIMERS` (or "sim").
    """
    if name is None:
        found = decide().name
    elif name in TIMERS or name == "sim":
        found = name
    else:
        hint = nearest(name.lower(), TIMERS)
        raise BackendNameError(f"unknown backend {name!r}{hint} (supported: {', '.join(TIMERS)})")
    return "model" if found == "sim" else found


def require(backend: str) -> None:
    """Raises `BackendError` where this machine lacks what a backend needs."""
    if backend == "model":
        return
    cann = require_cann(backend)
    if backend == "npu" and cann.twin:
        raise BackendError(f"backend 'npu' needs CANN, and ASCEND_HOME_PATH={cann.home} is a twin: use 'camodel'")
    if backend == "npu" and not device_nodes():
        raise BackendError(f"backend 'npu' found no device: {no_device_advice()}")
