"""The two commands that a newcomer types."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from asc_sched import demo

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_shows_every_stage_and_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    out = capsys.readouterr().out
    for part in (
        "z = x + y",
        "Schedule(core_num=8, tile_num=8)",
        "1000003 elements on 8 of 8 cores",
        "UB map",
        "@asc.jit",
        '#include "kernel_operator.h"',
        "z: 1000003 elements compared, max abs error 0",
        "equal to torch, bit for bit",
    ):
        assert part in out
    assert out.rstrip().endswith("OK")


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_the_commands_of_the_readme_are_there() -> None:
    def make(*arguments: str) -> str:
        done = subprocess.run(["make", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = make("help")
    for target in ("demo", "test", "lint", "nightly", "bench", "clean"):
        assert f"\n{target} " in f"\n{listed}"
    assert "python -m asc_sched.demo" in make("-n", "demo")
    dry = make("-n", "test")
    assert "ruff check" in dry and "mypy" in dry and "-m pytest" in dry
    assert "make test" in (ROOT / ".ci" / "run").read_text()
