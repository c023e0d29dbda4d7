"""What is generated moves each tensor once, and is near the fewest cycles: the figures of the benchmark of lowering."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from asc_sched import ops
from asc_sched.lang.dtypes import DTYPES
from asc_sched.report.op_table import input_dtypes
from tests.lower.values import op_inputs
from tests.shapes.running import traffic

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "lowering_quality.py"


@pytest.fixture(scope="module")
def quality() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lowering_quality", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # attrs looks classes' modules up
    spec.loader.exec_module(module)
    return module


def test_no_op_moves_a_tensor_twice_and_few_leave_one_out(quality: ModuleType) -> None:
    """Inputs that decide nothing aren't read, as in isnan of integers and signbit of bools."""
    unread = set()
    for name in ops.catalogue():
        for dtype in DTYPES:
            found = quality.measure(name, dtype)
            if found is not None:
                assert found.gm_bytes <= found.fewest_bytes, (name, dtype)
                unread.update({(name, DTYPES[dtype].is_float)} if found.gm_bytes < found.fewest_bytes else ())
    assert {name for name, _ in unread} <= {"isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit"}
    assert not any(is_float for _, is_float in unread)


@pytest.mark.parametrize("name", "add gelu where swiglu_backward rope floor_divide to_int8 clamp_tensor".split())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_gm_traffic_is_inputs_once_and_outputs_once(name: str, dtype: str) -> None:
    declared = ops.get(name)
    tensors = op_inputs(declared, dtype, 9999, torch.Generator().manual_seed(1))
    kernel = declared.compile(9999, {n: d.name for n, d in input_dtypes(declared, dtype).items()})
    report = traffic(kernel, *tensors)
    assert report.bytes_read == sum(t.nbytes for t in tensors)
    assert report.bytes_written == sum(t.nbytes for t in declared.reference(*tensors))


# Somewhat above what they are: exact quotients, NaN in maxima and the like have their price, but none should be new.
RATIOS = {"float32": (1.35, 5.5), "float16": (1.25, 5.5), "bfloat16": (1.25, 3.0), "int32": (1.7, 4.5)}


def test_instructions_are_near_the_fewest(quality: ModuleType) -> None:
    """V cycles against the chip's cheapest call for each function, whatever that is worth: median and 90 of 100."""
    for dtype, (median, most) in RATIOS.items():
        found = sorted(q.ratio for n in ops.catalogue() if (q := quality.measure(n, dtype)) is not None)
        assert found[len(found) // 2] <= median, dtype
        assert found[len(found) * 9 // 10] <= most, dtype


def test_the_report_prints_the_worst_ten() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--dtype", "float32", "--all"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    table, worst = done.stdout.split("The worst ten, by ratio")
    assert len(worst.strip().splitlines()) == 10
    assert all(f"\n{name:<34}float32" in table for name in ("add", "gelu", "adamw"))
    assert "GM bytes above inputs and outputs once: 0" in table
