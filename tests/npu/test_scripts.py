"""pyasc's own scripts, unmodified, on the stand-in: its JIT, compiler, cache and launcher end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.npu.standin import Done, StandIn

SCRIPTS = Path(__file__).parent / "standin" / "scripts"


@pytest.fixture(scope="module")
def queues(standin: StandIn) -> Done:
    return standin.python(str(SCRIPTS / "vadd_queues.py"), "-r", "Model", "-v", "Ascend910B1")


def test_a_queue_script_prints_its_success_line(queues: Done) -> None:
    assert queues.returncode == 0, queues.err
    assert "[INFO] Sample add_framework run success." in queues.err


def test_compiler_and_linker_get_pyascs_command_lines(queues: Done) -> None:
    (compiled,), (linked,) = queues.calls("compile"), queues.calls("link")
    args = compiled["args"]
    assert args[:4] == ["-c", "-x", "cce", "-O3"]
    assert "--cce-aicore-arch=dav-c220-vec" in args
    assert "--cce-aicore-only" in args
    assert linked["args"][:3] == ["-m", "aicorelinux", "-Ttext=0"]


def test_the_launch_passes_three_pointers_an_int_and_the_control_address(queues: Done) -> None:
    (launched,) = queues.calls("rtKernelLaunch")
    assert launched["name"] == "vadd_kernel"
    assert launched["block_num"] == 8
    assert launched["bytes"] == 3 * 8 + 8 + 8


def test_results_come_when_the_stream_is_synchronised(queues: Done) -> None:
    names = queues.names
    assert names.index("rtKernelLaunch") < names.index("run") < names.index("rtStreamSynchronize")
    assert queues.calls("run")[0]["ticks"] > 0


def test_pyasc_gives_back_all_that_it_took(queues: Done) -> None:
    (reset,) = queues.calls("rtDeviceReset")
    assert (reset["allocations"], reset["binaries"]) == (0, 0)
    assert len(queues.calls("rtMalloc")) == len(queues.calls("rtFree")) == 4


def test_a_script_with_flags_and_numpy_arrays_runs(standin: StandIn) -> None:
    done = standin.python(str(SCRIPTS / "vadd_flags.py"), "-r", "Model", "-v", "Ascend910B3")
    assert done.returncode == 0, done.err
    assert "[INFO] Sample add run success." in done.err
    assert done.calls("rtKernelLaunch")[0]["block_num"] == 4


def test_what_the_simulator_finds_stops_the_script(standin: StandIn, tmp_path: Path) -> None:
    text = (SCRIPTS / "vadd_flags.py").read_text()
    broken = text.replace("        asc.wait_flag(asc.HardEvent.MTE2_V, buffer)\n", "")
    assert broken != text
    script = tmp_path / "broken.py"
    script.write_text(broken)
    done = standin.python(str(script))
    assert done.returncode != 0
    assert "asc_sched twin: vadd_kernel: DataRaceError" in done.err
    assert "broken.py:" in done.err
    assert "StreamSynchronizeWrapper returned 507015" in done.err


def test_what_a_kernel_prints_is_logged_and_a_badly_packed_call_is_explained(standin: StandIn) -> None:
    done = standin.python(str(SCRIPTS / "prints.py"))
    assert done.returncode != 0
    printed, _, after = done.err.partition("INFO:root:printed")
    assert printed.count("n is") == 2  # once per core
    assert "Logging error" not in done.err
    assert "pyasc packs n (8 bytes) at byte 12 of the argument block, and a device function reads it at 16" in after
