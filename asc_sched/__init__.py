"""asc_sched: declare an elementwise computation and a schedule, get a pyasc kernel for Ascend NPUs.

The names below are loaded on first use, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asc_sched.declare import Op, op
    from asc_sched.errors import AscSchedError
    from asc_sched.kernel import Kernel
    from asc_sched.lang import fn
    from asc_sched.schedule import Schedule
    from asc_sched.target import TARGETS, Target, get_target

__version__ = "0.1.0"
__all__ = ["TARGETS", "AscSchedError", "Kernel", "Op", "Schedule", "Target", "fn", "get_target", "op"]

_HOMES = {
    "AscSchedError": "asc_sched.errors",
    "Kernel": "asc_sched.kernel",
    "Op": "asc_sched.declare",
    "op": "asc_sched.declare",
    "Schedule": "asc_sched.schedule",
    "TARGETS": "asc_sched.target",
    "Target": "asc_sched.target",
    "get_target": "asc_sched.target",
}


def __getattr__(name: str) -> Any:
    if name == "fn":
        return import_module("asc_sched.lang.fn")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'asc_sched' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
