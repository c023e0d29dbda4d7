"""A built library's own NPU path on the stand-in for CANN: pyasc's JIT, compiler and launcher, by torch's operators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asc_sched.library import build
from tests.npu.standin import REPO, Done, StandIn

MODULES = REPO / "tests" / "npu" / "standin" / "modules"
ONBOARD: dict[str, Any] = {
    "name": "onboard",
    "ops": [
        {"name": "product", "expr": "z = x * y"},
        {"name": "scaled", "expr": "z = a * x + b", "scalars": {"a": 1.0, "b": 0.5}},
        {"name": "pair", "expr": "s = x + y; d = x - y"},
    ],
    "dtypes": ["float32", "bfloat16"],
    "shapes": ["dynamic", "100"],
    "gradients": False,
}


@pytest.fixture(scope="module")
def onboard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onboard")
    assert build(ONBOARD, folder).ok
    return folder


def play(standin: StandIn, scene: str, library: Path, **env: str) -> tuple[dict[str, Any], Done]:
    variables = {"PYTHONPATH": f"{REPO}:{MODULES}", "ASC_SCHED_TWIN_DEVICES": "2", **env}
    done = standin.python("-m", "tests.npu.standin.library_scenes", scene, str(library), env=variables)
    assert done.returncode == 0, done.err
    return json.loads(done.out), done


@pytest.fixture(scope="module")
def npu(standin: StandIn, onboard: Path) -> tuple[dict[str, Any], Done]:
    return play(standin, "npu", onboard)


@pytest.mark.parametrize(
    "kind",
    ["float32", "of its own size", "bfloat16", "scalars", "two results", "no element", "again", "in a thread"],
)
def test_operators_run_on_npu_tensors(npu: tuple[dict[str, Any], Done], kind: str) -> None:
    assert npu[0][kind] is True


def test_results_are_made_and_written_on_the_device(npu: tuple[dict[str, Any], Done]) -> None:
    seen, done = npu
    assert seen["device"] == "npu:0"
    assert seen["in place"] == [True, "npu:0"]
    launches = [i for i, name in enumerate(done.names) if name == "rtKernelLaunch"]
    blocks = [done.names[a:b] for a, b in zip([0, *launches], launches, strict=False)]
    # A kernel needs one address that pyasc copies; the tensors stay where they are.
    assert min(block[block.index("rtFunctionRegister") :].count("rtMemcpy") for block in blocks) == 1


def test_what_torch_has_queued_is_done_before_a_launch_and_the_kernel_after_it(
    npu: tuple[dict[str, Any], Done],
) -> None:
    names = [n for n in npu[1].names if n in ("rtStreamSynchronize", "rtKernelLaunch")]
    launches = [i for i, name in enumerate(names) if name == "rtKernelLaunch"]
    assert len(launches) > 8
    assert all(names[i - 1] == names[i + 1] == "rtStreamSynchronize" for i in launches)


def test_the_chip_is_found_and_the_handler_of_interrupts_kept(npu: tuple[dict[str, Any], Done]) -> None:
    assert npu[0]["target"] == "Ascend910B1"
    assert npu[0]["^C's handler"] is True


def test_tensors_on_other_devices_are_refused_with_the_devices_named(npu: tuple[dict[str, Any], Done]) -> None:
    assert "found npu:0 and cpu" in npu[0]["mixed devices"][-1]
    told = npu[0]["second device"]
    assert "BackendError" in told
    assert "the tensors are on npu:1, and pyasc has npu:0 in this process" in told[-1]


def test_the_first_launch_may_come_from_any_thread(standin: StandIn, onboard: Path) -> None:
    assert play(standin, "thread_first", onboard)[0] == {"result": True}


def test_another_chip_is_told(standin: StandIn, onboard: Path) -> None:
    seen, done = play(standin, "other_chip", onboard, ASC_SCHED_TWIN_SOC="Ascend910B3")
    assert seen["own"][-1] == "onboard has no kernels for Ascend910B3; it was built for Ascend910B1"
    assert "this NPU is an Ascend910B3, and the kernels are for Ascend910B1" in seen["forced"][-1]
    assert not done.calls("rtKernelLaunch")


def test_faults_of_the_driver_are_told_and_do_not_last(standin: StandIn, onboard: Path) -> None:
    seen, _ = play(standin, "faults", onboard, ASC_SCHED_TARGET="Ascend910B1")
    assert "BackendError" in seen["no name"]
    assert "pyasc can't use the NPU: Function GetSocVersionWrapper returned 507899" in seen["no name"][-1]
    assert "npu-smi info" in seen["no name"][-1]
    assert "BackendError" in seen["no launch"]
    assert "product_float32_100_auto_Ascend910B1: " in seen["no launch"][-1]
    assert "507015" in seen["no launch"][-1]
    assert seen["at last"] is True
