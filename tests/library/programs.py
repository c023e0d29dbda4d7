"""Builds in processes of their own: what a kill, a full disk or another process does to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

BUILD = """
import json, os, signal, sys
from asc_sched.library import Watcher, build

given = json.loads(sys.argv[1])


class Killer(Watcher):
    count = 0

    def finished(self, symbol):
        self.count += 1
        if self.count == given.get("kill_after"):
            os.kill(os.getpid(), signal.SIGKILL)


if "kill_at_rename" in given:
    import pathlib
    rename, left = pathlib.Path.replace, [given["kill_at_rename"]]

    def replace(self, target):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    pathlib.Path.replace = replace

if "kill_at_create" in given:
    import asc_sched.library.journal as journal
    create, still = journal.create, [given["kill_at_create"]]

    def half(path, data):
        still[0] -= 1
        if still[0] == 0:
            create(path, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return create(path, data)

    journal.create = half

report = build(given["spec"], given["out"], jobs=given.get("jobs", 1), cache=given.get("cache", "default"),
               watcher=Killer())
loaded = [m for m in ("torch", "sympy", "jinja2") if m in sys.modules]
print(json.dumps({"built": report.built, "cached": report.cached, "kept": report.kept, "seconds": report.seconds,
                  "failures": [f.symbol for f in report.failures], "loaded": loaded}))
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def start_build(spec: Any, out: Path, **given: Any) -> subprocess.Popen[str]:
    """Start a build; keywords are given to the program above (or another), `env` and `cwd` to the process."""
    env, cwd = environment(**given.pop("env", {})), given.pop("cwd", None)
    command = [sys.executable, "-c", given.pop("program", BUILD), json.dumps({"spec": spec, "out": str(out), **given})]
    return subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> Any:
    """What a build printed."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


def run_build(spec: Any, out: Path, **given: Any) -> Any:
    return finish(start_build(spec, out, **given))


def command(*arguments: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """`asc-sched` as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "asc_sched", *arguments], env=environment(**env), cwd=cwd, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
