"""Kernel source to ASC-IR and Ascend C: the functions that other rooms call."""

from __future__ import annotations

import functools
from importlib import metadata

from asc_sched.build.request import Lowered, LowerRequest
from asc_sched.build.service import shared
from asc_sched.errors import BackendError


@functools.cache
def pyasc_version() -> str:
    """The installed pyasc's version. Raises `BackendError` when there is none."""
    try:
        return metadata.version("pyasc")
    except metadata.PackageNotFoundError:
        raise BackendError("pyasc is not installed; try: pip install pyasc==1.1.1") from None


def lower(request: LowerRequest, *, time_limit_s: float | None = None) -> Lowered:
    """Lower one kernel with the real pyasc, in a worker process that is kept for the next one."""
    return shared.lower(request, time_limit_s)
