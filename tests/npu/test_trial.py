"""A candidate's check on a device: what it finds there before the launch, and what it may not touch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.npu.standin import REPO, needs_compiler


@needs_compiler
def test_device_memory_is_poisoned_and_watched(tmp_path: Path) -> None:
    """A device may hand out memory that holds the right results of the candidate before."""
    line = 'eval "$(python -m asc_sched twin env)" && python -m tests.npu.standin.trial_scene'
    env = {
        **os.environ, "PYTHONPATH": str(REPO), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ASC_SCHED_CACHE_DIR": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["right"] == ""
    assert found["poison"] == "5a" * 8
    assert "4096 of 4096 elements differ from torch" in found["nothing is written"]
    beside = {name: f"memory beside {'output' if name[-1] == 'z' else 'input'} {name[-1]} was overwritten" for name in (
        "before x", "behind y", "before z", "behind z",
    )}  # fmt: skip
    assert {name: found[name] for name in beside} == beside
    assert found["in y"] == "input y was changed"
