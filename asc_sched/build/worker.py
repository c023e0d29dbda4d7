"""One lowering worker process, seen from the user's process: start, ask, time out, notice its death, end."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

from asc_sched.build.protocol import Disconnected, recv_frame, send_frame
from asc_sched.errors import BackendError

_log = logging.getLogger(__name__)

#: Seconds a worker may take to import pyasc. Generous: a loaded machine with a cold disk is slow, not broken.
START_LIMIT_S = 120.0

# The worker must be of the same asc_sched as this process, wherever that came from; everything else is found as a plain
# `python` would, and what isn't found so (this process may have been given folders of its own) as in this process. Not
# in the current folder: a file asc.py or json.py there is none of ours.
_BOOT = (
    "import sys;"
    "sys.path[:]=[p for p in sys.path if p];"
    "sys.path.insert(0,{home!a});"
    "from asc_sched.build.worker_main import main;"
    "del sys.path[0];"
    "sys.path+=[p for p in {path!a} if p not in sys.path];"
    "main({fd},{pid})"
)


class WorkerDied(Exception):
    """The worker ended in the middle of a request: exit status as of `Popen.returncode`, and what it wrote."""

    def __init__(self, status: int | None, output: str) -> None:
        super().__init__(describe_status(status))
        self.status, self.output = status, output

    @property
    def killed_from_outside(self) -> bool:
        """Signals that pyasc never raises itself: the OOM killer, an operator."""
        return self.status in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)


class WorkerTimeout(Exception):
    """The worker didn't answer in time and was killed."""


def describe_status(status: int | None) -> str:
    """Words for an exit status: ``SIGSEGV (signal 11)`` or ``exit status 3``."""
    if status is None:
        return "no exit status"
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return f"{signal.Signals(-status).name} (signal {-status})"
    return f"signal {-status}"


class Worker:
    """One process. Not for use by several threads at once; `close` may be called from any thread."""

    def __init__(self, *, cwd: str | None = "/") -> None:
        if _exiting:
            raise BackendError("no lowering worker is started while the interpreter ends")
        self.served = 0
        self._scratch = _scratch_file()
        ours, theirs = _socket_pair()
        try:
            self._process = _spawn(theirs, self._scratch, cwd)
        except OSError as err:
            ours.close()
            os.close(self._scratch)
            raise BackendError(f"can't start a lowering worker with {sys.executable!r}: {err}") from err
        finally:
            theirs.close()
        self._sock: socket.socket | None = ours
        _live.add(self)
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        try:
            hello = self._receive(time.monotonic() + START_LIMIT_S)
        except (WorkerDied, WorkerTimeout) as err:
            output = err.output if isinstance(err, WorkerDied) else ""
            raise BackendError(f"the lowering worker did not start: {err or 'no answer'}{_tail(output)}") from err
        if not hello.get("hello"):
            raise BackendError(
                f"pyasc can't be imported by {sys.executable}: {hello.get('reason')}; try: pip install pyasc==1.1.1"
            )
        self.first_rss_kib = self.rss_kib = int(hello["rss_kib"])

    @property
    def alive(self) -> bool:
        """Whether the process runs and can be asked."""
        return self._sock is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def request(self, message: dict[str, Any], time_limit_s: float) -> dict[str, Any]:
        """Ask and wait. Raises `WorkerDied` or `WorkerTimeout`; after any exception the worker is closed."""
        try:
            self._send({**message, "time_limit_s": time_limit_s}, time_limit_s)
            answer = self._receive(time.monotonic() + time_limit_s)
        except BaseException:
            # Also for KeyboardInterrupt: an answer that nobody waits for would be taken for the next one.
            self.close()
            raise
        self.served += 1
        self.rss_kib = int(answer.get("rss_kib", self.rss_kib))
        return answer

    def _send(self, message: dict[str, Any], time_limit_s: float) -> None:
        if self._sock is None:
            raise WorkerDied(None, "")
        try:
            self._sock.settimeout(time_limit_s)  # a stopped process doesn't read, and the buffer between is small
            send_frame(self._sock, message)
        except TimeoutError:
            raise WorkerTimeout from None
        except (Disconnected, OSError):
            raise self._obituary() from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        sock = self._sock
        if sock is None:
            raise WorkerDied(None, "")
        try:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            return recv_frame(sock)
        except TimeoutError:
            raise WorkerTimeout from None
        except (Disconnected, OSError, ValueError):
            raise self._obituary() from None

    def _obituary(self) -> WorkerDied:
        """Waits for the process to end (its socket is closed, so it is about to) and tells how it did."""
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return WorkerDied(self._process.returncode, _read_all(self._scratch))

    def kill(self) -> None:
        """End the process from another thread than the one that asks; that one sees it as a death."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End the process. Idempotent; never raises."""
        sock, self._sock = self._sock, None
        _live.discard(self)
        if sock is None:
            return
        sock.close()
        with contextlib.suppress(OSError):
            self._process.kill()
        with contextlib.suppress(OSError):
            self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._scratch)

    def _abandon(self) -> None:
        """After a fork, in the child: the worker belongs to the parent; let go of it without touching the process."""
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()
            with contextlib.suppress(OSError):
                os.close(self._scratch)
        self._process.returncode = 0  # not our child: nothing to wait for, nothing to warn about


_live: weakref.WeakSet[Worker] = weakref.WeakSet()


_exiting = False


def _at_exit() -> None:
    # Kill only: a thread may still sit in a request, and its descriptors are its own to close.
    global _exiting
    _exiting = True
    for worker in list(_live):
        worker.kill()


def _after_fork() -> None:
    global _live
    orphans, _live = list(_live), weakref.WeakSet()
    for worker in orphans:
        worker._abandon()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)


def _spawn(theirs: socket.socket, scratch: int, cwd: str | None) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise OSError("this Python does not know its own executable (sys.executable is empty)")
    home = str(Path(__file__).resolve().parents[2])
    code = _BOOT.format(home=home, path=[*_absolute(sys.path), home], fd=theirs.fileno(), pid=os.getpid())
    return subprocess.Popen(
        [sys.executable, *_flags(), "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=scratch,
        stderr=scratch,
        pass_fds=(theirs.fileno(),),
        cwd=cwd,
        env=_environment(),
    )


def _flags() -> list[str]:
    # -I and -E would make the worker ignore PYTHONHASHSEED; their effect is had through `_environment`.
    return ["-s"] if sys.flags.no_user_site else []


def _environment() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not (sys.flags.ignore_environment and k.startswith("PYTHON"))}
    env.pop("PYTHONINSPECT", None)
    if env.get("PYTHONPATH"):
        # The worker runs in another folder.
        env["PYTHONPATH"] = os.pathsep.join(_absolute(env["PYTHONPATH"].split(os.pathsep)))
    # Two loop-carried scalars come out in the order of a set: only a fixed seed gives the same text each time.
    env["PYTHONHASHSEED"] = "0"
    # numpy would start a BLAS thread per core for nothing.
    env.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    return env


def _absolute(folders: list[str]) -> list[str]:
    try:
        return [str(Path(folder).absolute()) for folder in folders if folder]
    except OSError:  # the current folder is gone, and with it what is relative to it
        return [folder for folder in folders if Path(folder).is_absolute()]


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    return socket.socket(fileno=_above_stdio(ours.detach())), socket.socket(fileno=_above_stdio(theirs.detach()))


def _scratch_file() -> int:
    """An unnamed file for the worker's output: in memory, since a disk may be full or read-only."""
    try:
        fd = os.memfd_create("asc_sched-worker", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    # Appending keeps the text whole when the worker empties the file while both of its streams hold old positions.
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return _above_stdio(fd)


def _above_stdio(fd: int) -> int:
    """The descriptor, moved clear of 0 to 2: where those are closed, new ones take their place."""
    if fd > 2:
        return fd
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def _read_all(fd: int) -> str:
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, 1 << 16, max(0, size - (1 << 16))).decode("utf-8", "replace")
    except OSError:
        return ""


def _tail(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return f": {lines[-1].strip()}" if lines else ""
