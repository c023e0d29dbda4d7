"""Real pyasc behind a wall: kernel source to ASC-IR and Ascend C in worker processes, with a cache on disk.

Names are loaded on first use, so that a worker (which imports this package too) starts with nothing it doesn't need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.lazy import loader

if TYPE_CHECKING:
    from asc_sched.build.api import lower, lower_file, lower_many, pyasc_version
    from asc_sched.build.cache import Cache, default_cache
    from asc_sched.build.pool import LoweringPool
    from asc_sched.build.request import ArgType, Lowered, LowerRequest

_HOMES = {
    "ArgType": "request",
    "Cache": "cache",
    "LowerRequest": "request",
    "Lowered": "request",
    "LoweringPool": "pool",
    "default_cache": "cache",
    "lower": "api",
    "lower_file": "api",
    "lower_many": "api",
    "pyasc_version": "api",
}

__all__ = [
    "ArgType",
    "Cache",
    "LowerRequest",
    "Lowered",
    "LoweringPool",
    "default_cache",
    "lower",
    "lower_file",
    "lower_many",
    "pyasc_version",
]

__getattr__ = loader(__name__, _HOMES)
