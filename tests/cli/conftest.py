from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from asc_sched import cli


@attrs.frozen
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def asc_sched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `asc-sched` through its entry point, in this process."""

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["asc-sched", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return Ran(int(stop.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def shell() -> Callable[..., Ran]:
    """Run a shell command line in which ``asc-sched`` is this installation's."""

    def run(command: str, **environment: str) -> Ran:
        text = f'asc-sched() {{ "{sys.executable}" -m asc_sched "$@"; }}\nset -o pipefail\n{command}'
        env = os.environ | environment
        done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, timeout=120)
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def coloured() -> Callable[..., str]:
    """The output on a terminal that takes colours."""

    def run(*arguments: str) -> str:
        return CliRunner().invoke(cli.group, arguments, color=True).output

    return run
