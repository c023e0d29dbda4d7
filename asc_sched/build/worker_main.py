"""The worker process: reads requests from its socket, lowers them one by one, writes the answers.

Started by `asc_sched.build.worker` as ``python -c``; imports pyasc and numpy only. Standard output and error of the
process are a scratch file (pyasc's C++ half writes its diagnostics there, a user's module may print), never the socket.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from asc_sched.build.protocol import Disconnected, recv_frame, send_frame

#: Seconds between two looks at whether the parent still lives, while idle.
ORPHAN_POLL_S = 2.0
#: Seconds the worker grants itself beyond the parent's time limit before it ends itself (the parent may be gone).
GRACE_S = 2.0
SCRATCH_FD = 2


def main(fd: int, parent_pid: int) -> None:
    """Serve requests on socket `fd` until it closes or process `parent_pid` is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the parent to act on
    sock = socket.socket(fileno=fd)
    try:
        from asc_sched.build import lowering
    except Exception as err:
        send_frame(sock, {"hello": False, "reason": f"{type(err).__name__}: {err}"})
        return
    # Imported modules live for ever: taking them out of the collector's sight makes each collection short. And a kernel
    # makes some ten thousand objects that its end frees anyway: by default they'd be looked through over and over.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    send_frame(sock, {"hello": True, "rss_kib": _peak_rss_kib()})
    with contextlib.suppress(Disconnected):
        while _wait(sock, parent_pid):
            request = recv_frame(sock)
            signal.setitimer(signal.ITIMER_REAL, float(request["time_limit_s"]) + GRACE_S)
            answer = _answer(lowering, request)
            signal.setitimer(signal.ITIMER_REAL, 0)
            send_frame(sock, {**answer, "rss_kib": _peak_rss_kib()})


def _wait(sock: socket.socket, parent_pid: int) -> bool:
    while not select.select([sock], [], [], ORPHAN_POLL_S)[0]:
        if os.getppid() != parent_pid:
            return False
    return True


def _answer(lowering: Any, request: dict[str, Any]) -> dict[str, Any]:
    start = _scratch_size()
    try:
        result = _result(lowering, request)
        return {"ok": True, **result, "diagnostics": _scratch_from(start)}
    except lowering.Refusal as refusal:
        told = lowering.explain(refusal, _scratch_from(start))
        return {"ok": False, "reason": told.reason, "line": told.line, "text": told.text, "file": told.file}
    except Exception as err:
        # A fault of ours; the worker itself is sound.
        traceback.print_exc()
        return {"ok": False, "reason": f"internal error while lowering: {type(err).__name__}: {err}"}


def _result(lowering: Any, request: dict[str, Any]) -> dict[str, Any]:
    """A request is a kernel's source, a file, or a function of ours to call here with JSON data, for JSON data."""
    if "call" in request:
        module, _, name = request["call"].partition(":")
        if not module.startswith("asc_sched."):
            raise lowering.Refusal(f"{request['call']!r} is no function of asc_sched")
        return dict(getattr(importlib.import_module(module), name)(request["argument"]))
    return dict(lowering.lower_file(request) if "path" in request else lowering.lower_source(request))


def _scratch_size() -> int:
    """Empties the scratch file once it has grown, so that a long-lived worker's stays small."""
    with contextlib.suppress(OSError):
        size = os.fstat(SCRATCH_FD).st_size
        if size > 1 << 20:
            os.ftruncate(SCRATCH_FD, 0)
            return 0
        return size
    return 0


def _scratch_from(start: int) -> str:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    with contextlib.suppress(OSError):
        if os.fstat(SCRATCH_FD).st_size > start:
            return os.pread(SCRATCH_FD, 1 << 16, start).decode("utf-8", "replace")
    return ""


def _peak_rss_kib() -> int:
    """Of this program alone: what `getrusage` tells begins with the size of the process that started this one."""
    try:
        with Path("/proc/self/status").open("rb") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(b"VmHWM:"))
    except (OSError, StopIteration, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
