"""The tiling benchmark runs, finds no difference, and would say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "tiling.py"


def run(count: int) -> str:
    command = [sys.executable, str(BENCHMARK), "--count", str(count), "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_random_tilings_equal_plain_integer_arithmetic_and_are_proved() -> None:
    output = run(2000)
    assert "cases: 2000 (seed 7)  differences: 0  unproved: 0" in output
    assert output.startswith("machine: ")


@pytest.mark.nightly
def test_a_hundred_thousand_random_tilings_do_too() -> None:
    assert "cases: 100000 (seed 7)  differences: 0  unproved: 0" in run(100_000)
