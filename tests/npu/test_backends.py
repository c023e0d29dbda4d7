"""The backends camodel and npu on the stand-in for CANN, through pyasc's launcher and through ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.npu.standin import REPO, Done, StandIn

MODULES = str(REPO / "tests" / "npu" / "standin" / "modules")
KINDS = [
    "add", "any size", "no element", "runtime scalar", "bfloat16", "int32", "transposed", "out", "in place",
    "out with gaps", "broadcast",
]  # fmt: skip


def play(standin: StandIn, scene: str, **env: str) -> tuple[dict[str, Any], Done]:
    done = standin.python("-m", "tests.npu.standin.scenes", scene, env=env)
    assert done.returncode == 0, done.err
    return json.loads(done.out), done


@pytest.fixture(scope="module")
def camodel(standin: StandIn) -> tuple[dict[str, Any], Done]:
    return play(standin, "camodel")


@pytest.fixture(scope="module")
def npu(standin: StandIn) -> tuple[dict[str, Any], Done]:
    return play(standin, "npu", PYTHONPATH=f"{REPO}:{MODULES}", ASC_SCHED_TWIN_DEVICES="2")


@pytest.fixture(scope="module")
def device_nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dev")
    for name in ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"):
        (folder / name).touch()
    return folder


@pytest.fixture(scope="module")
def faults(standin: StandIn, device_nodes: Path) -> dict[str, list[str]]:
    return play(standin, "faults", SCENE_DEV=str(device_nodes))[0]


# -- CPU tensors by copy -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("launcher", ["own", "pyasc"])
def test_camodel_runs_cpu_tensors(camodel: tuple[dict[str, Any], Done], launcher: str, kind: str) -> None:
    assert camodel[0][launcher][kind] is True


@pytest.mark.parametrize("kind", KINDS)
def test_npu_runs_cpu_tensors_by_copy(npu: tuple[dict[str, Any], Done], kind: str) -> None:
    assert npu[0]["by copy"][kind] is True


def test_our_launcher_does_not_register_a_kernel_at_each_launch(camodel: tuple[dict[str, Any], Done]) -> None:
    log = camodel[1].log
    own = [e["call"] for e in log[: next(i for i, e in enumerate(log) if e["call"] == "rtDevBinaryUnRegister")]]
    assert own.count("rtKernelLaunch") > own.count("rtDevBinaryRegister")


def test_our_kernels_stay_registered_when_pyascs_launcher_frees_its_own(camodel: tuple[dict[str, Any], Done]) -> None:
    assert camodel[0]["survives pyasc's launcher"] is True


def test_binaries_are_compiled_once_and_kept(camodel: tuple[dict[str, Any], Done], npu: tuple[Any, Done]) -> None:
    assert camodel[1].calls("compile")
    compiled = {json.dumps(e["args"][:2]) for e in npu[1].calls("compile")}
    assert len(npu[1].calls("compile")) <= len(camodel[1].calls("compile"))
    assert compiled <= {'["-c", "-x"]'}


def test_both_ways_call_the_device_compiler_alike(camodel: tuple[dict[str, Any], Done]) -> None:
    lines = {
        " ".join(a for a in e["args"] if not a.startswith("/") and not a.startswith("-I"))
        for e in camodel[1].calls("compile")
    }
    assert len(lines) == 1, lines


def test_memory_of_copies_is_given_back(camodel: tuple[dict[str, Any], Done]) -> None:
    (reset,) = camodel[1].calls("rtDeviceReset")
    assert reset["allocations"] == 1  # the control block, for the life of the process


# -- NPU tensors in place ----------------------------------------------------------------------------------------------
def test_npu_tensors_run_in_place_and_without_waiting(npu: tuple[dict[str, Any], Done]) -> None:
    seen = npu[0]
    assert seen["returns out"] is True
    assert seen["before the stream is done"] is True
    assert seen["after"] is True


def test_launches_go_to_torchs_current_stream(npu: tuple[dict[str, Any], Done]) -> None:
    log = npu[1].log
    created = [e["stream"] for e in log if e["call"] == "rtStreamCreate"]
    used = [e["stream"] for e in log if e["call"] == "rtKernelLaunch"]
    assert len(created) >= 3  # pyasc's, torch's on device 0, torch's on device 1
    assert set(used) == set(created)


def test_calls_of_a_known_form_go_the_short_way_and_are_right(npu: tuple[dict[str, Any], Done]) -> None:
    seen = npu[0]
    assert seen["remembered"] == seen["still one form"] == 1
    assert all(seen[f"again {i}"] for i in range(3))
    assert seen["in place"] is True


def test_partly_overlapping_memory_is_refused_on_both_ways(npu: tuple[dict[str, Any], Done]) -> None:
    for case in ("overlap", "overlap in a known form"):
        assert "OverlapError" in npu[0][case]


def test_results_are_made_on_the_device_of_the_inputs(npu: tuple[dict[str, Any], Done]) -> None:
    assert npu[0]["result made, the whole way"] == ["npu", True]
    assert npu[0]["result made, the short way"] == ["npu", True]


def test_tensors_of_two_devices_are_refused(npu: tuple[dict[str, Any], Done]) -> None:
    raised = npu[0]["mixed devices"]
    assert "ArgumentError" in raised
    assert "y is on cpu and another input on npu:0" in raised[-1]


def test_the_simulator_refuses_npu_tensors(npu: tuple[dict[str, Any], Done]) -> None:
    assert "the simulator takes CPU tensors" in npu[0]["simulator on NPU tensors"][-1]


def test_tensors_of_another_device_are_launched_there(npu: tuple[dict[str, Any], Done]) -> None:
    assert npu[0]["entered device"] == [1]


def test_kernels_run_from_threads_that_are_new_to_the_device(npu: tuple[dict[str, Any], Done]) -> None:
    assert npu[0]["threads"] == [True] * 8


def test_pyascs_launcher_takes_npu_tensors_in_place(npu: tuple[dict[str, Any], Done]) -> None:
    assert npu[0]["in place by pyasc's launcher"] is True


def test_npu_tensors_choose_the_npu(npu: tuple[dict[str, Any], Done]) -> None:
    assert npu[0]["decided"] == "npu"


def test_a_machines_npu_is_found_and_compiled_for(standin: StandIn, device_nodes: Path) -> None:
    seen, _ = play(
        standin, "machine", PYTHONPATH=f"{REPO}:{MODULES}", ASC_SCHED_TWIN_SOC="Ascend910B3",
        SCENE_DEV=str(device_nodes),
    )  # fmt: skip
    assert seen["decision"] == ["npu", "the machine has CANN, davinci0 and torch_npu"]
    assert seen["target"] == "Ascend910B3"
    assert seen["right"] is True
    assert seen["forced"] == "sim"


# -- time --------------------------------------------------------------------------------------------------------------
def test_camodel_is_timed_by_its_ticks(camodel: tuple[dict[str, Any], Done]) -> None:
    times, source, model = camodel[0]["ticks"]
    assert source == "camodel ticks"
    assert len(times) == 3
    # The stand-in's ticks are the simulator's own time, in whole cycles.
    assert times == pytest.approx([model] * 3, abs=1e-3)


def test_npu_is_timed_by_events(npu: tuple[dict[str, Any], Done]) -> None:
    seen = npu[0]["events"]
    (model,), _ = seen["model"]
    for l2 in ("hot", "cold"):
        times, source = seen[l2]
        assert source == "npu events"
        assert times == pytest.approx([model] * 3, rel=1e-2)


def test_events_refuse_cpu_tensors(npu: tuple[dict[str, Any], Done]) -> None:
    assert "pass npu tensors" in npu[0]["events"]["cpu tensors"][-1]


# -- refusals ----------------------------------------------------------------------------------------------------------
def test_a_kernel_for_another_soc_is_refused(npu: tuple[dict[str, Any], Done]) -> None:
    classes, text = npu[0]["wrong SoC"][:-1], npu[0]["wrong SoC"][-1]
    assert "BackendError" in classes
    assert "compiled for Ascend910B3, and this NPU is an Ascend910B1" in text
    assert "--target Ascend910B1" in text


def test_camodel_serves_one_soc_per_process(camodel: tuple[dict[str, Any], Done]) -> None:
    assert "in a process of its own" in camodel[0]["other SoC"][-1]


def test_pyasc_is_told_the_cores_of_the_platform(camodel: tuple[dict[str, Any], Done]) -> None:
    assert camodel[0]["cores"] == [48, 24]


def test_one_process_has_one_runtime(camodel: tuple[dict[str, Any], Done]) -> None:
    raised = camodel[0]["npu after camodel"]
    assert "BackendError" in raised
    assert "one runtime per process" in raised[-1]


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("too few values", "takes 3 values (x, y, z), got 2"),
        ("not a number", "z='z' doesn't fit the kernel's pointer"),
        ("beyond int64", "total_length=9223372036854775808 doesn't fit the kernel's int64"),
    ],
)
def test_arguments_that_cannot_be_packed_are_named(
    camodel: tuple[dict[str, Any], Done], case: str, text: str
) -> None:
    assert "ArgumentError" in camodel[0][case]
    assert text in camodel[0][case][-1]


def test_a_code_of_the_runtime_is_explained(camodel: tuple[dict[str, Any], Done]) -> None:
    raised = camodel[0]["no stream"]
    assert "BackendError" in raised
    assert "rtKernelLaunch failed with code 107003: the stream doesn't belong to this device" in raised[-1]


@pytest.mark.parametrize(
    ("case", "texts"),
    [
        ("no devices", ("found no device", "npu-smi info", "--device=/dev/davinci0")),
        ("driver error", ("code 507899", "npu-smi info", "dmesg")),
        ("unknown SoC", ("no platform 'Ascend310P3'", "Ascend910B1, Ascend910B2", "Ascend910_9392")),
        ("device won't open", ("rtSetDevice failed with code 507033", "npu-smi info")),
        ("no permission", ("can't open", "davinci_manager", "HwHiAiUser")),
    ],
)
def test_each_cause_has_a_message_with_a_command(
    faults: dict[str, list[str]], case: str, texts: tuple[str, ...]
) -> None:
    assert "BackendError" in faults[case]
    for text in texts:
        assert text in faults[case][-1]


def test_an_unknown_platform_is_a_value_error(faults: dict[str, list[str]]) -> None:
    assert "ValueError" in faults["unknown SoC"]


def test_a_later_try_succeeds(faults: dict[str, list[str]]) -> None:
    assert faults["at last"] == ["Ascend910B1", "0"]


def test_libraries_that_cannot_be_loaded_are_explained(standin: StandIn, tmp_path: Path) -> None:
    seen, _ = play(standin, "unloadable", LD_LIBRARY_PATH="", PYASC_CACHE_DIR=str(tmp_path))
    assert "can't be loaded" in seen["npu"][-1]
    assert "set_env.sh" in seen["npu"][-1]
    assert "LD_LIBRARY_PATH=/usr/local/Ascend/driver" in seen["npu"][-1]
    assert "tools/simulator/<SoC>/lib" in seen["camodel"][-1]
    assert "LD_PRELOAD" in seen["camodel"][-1]
    assert "it has simulators of Ascend910B1, Ascend910B2" in seen["camodel"][-1]
