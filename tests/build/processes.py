"""Programs of their own, for tests of what a process does to its workers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def python(code: str, *args: str, **popen: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of its own that can import this checkout."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)} | popen.pop("env", {})
    command = [sys.executable, *args, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, **popen)


def wait_until_gone(pid: int, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")
