"""Worker processes: they crash, hang, outlive nobody, and start anywhere."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from asc_sched.build import lower, lower_file
from asc_sched.build.request import LowerRequest
from asc_sched.build.service import SharedStation, Station
from asc_sched.build.worker import Worker
from asc_sched.errors import BackendError, CompileError, WorkerCrashError
from tests.build import kernels
from tests.build.kernels import crash_request, exp_request, nth, tiny
from tests.build.processes import ROOT, python, wait_until_gone


@pytest.fixture
def station() -> Iterator[Station]:
    station = Station()
    yield station
    station.close()


def worker_pid(station: Station) -> int:
    assert station._worker is not None
    return station._worker.pid


LOWER_EXP = """
from tests.build.kernels import exp_request
from asc_sched.build import lower
assert "AscendC::Exp" in lower(exp_request(), cache=None).ascendc
"""


# -- crashes and hangs -----------------------------------------------------------------------------------------
def test_segfault_is_an_error_that_names_kernel_signal_and_line_and_the_next_kernel_works(station: Station) -> None:
    with pytest.raises(WorkerCrashError) as caught:
        station.lower(crash_request())
    line = 1 + kernels.CRASH.splitlines().index("        last = i")
    assert "pyasc crashed on kernel 'crash_kernel'" in str(caught.value)
    assert "SIGSEGV (signal 11)" in str(caught.value)
    assert f"line {line} `last = i`" in str(caught.value)
    assert "AscendC::Exp" in station.lower(exp_request()).ascendc


def test_crash_of_a_used_worker_is_tried_again_in_a_fresh_one_before_blaming_the_kernel(
    station: Station, tmp_path: Path
) -> None:
    marker = tmp_path / "crashed once"
    flaky = tiny("k", "pass")
    body = f"import os, pathlib\np = pathlib.Path({str(marker)!r})\nif not p.exists():\n    p.touch()\n    os.abort()\n"
    flaky = LowerRequest(source=body + flaky.source, entry="k", arg_types=flaky.arg_types)
    station.lower(exp_request())
    assert "void k(" in station.lower(flaky).ascendc
    marker.unlink()
    station.close()
    with pytest.raises(WorkerCrashError, match="SIGABRT"):
        station.lower(flaky)


def test_worker_killed_from_outside_is_replaced_without_an_error(station: Station) -> None:
    station.lower(exp_request())
    for sig in (signal.SIGKILL, signal.SIGTERM):
        pid = worker_pid(station)
        os.kill(pid, sig)
        assert "AscendC::Exp" in station.lower(exp_request()).ascendc
        assert worker_pid(station) != pid


def test_kernel_that_takes_too_long_is_stopped_and_the_next_works(station: Station) -> None:
    request = LowerRequest(source=kernels.HANG, entry="hang_kernel", arg_types=(kernels.F32,))
    station.lower(exp_request())
    pid = worker_pid(station)
    start = time.monotonic()
    with pytest.raises(WorkerCrashError, match=r"'hang_kernel' did not lower within 0\.5 s"):
        station.lower(request, time_limit_s=0.5)
    assert time.monotonic() - start < 5
    assert not Path(f"/proc/{pid}").exists()
    assert "AscendC::Exp" in station.lower(exp_request()).ascendc


def test_worker_that_does_not_even_read_is_given_up_in_time(station: Station) -> None:
    station.lower(exp_request())
    os.kill(worker_pid(station), signal.SIGSTOP)
    large = exp_request(source=kernels.EXP + "# " + "x" * 4_000_000)
    with pytest.raises(WorkerCrashError, match=r"within 0\.5 s"):
        station.lower(large, time_limit_s=0.5)
    assert "AscendC::Exp" in station.lower(large).ascendc


def test_fault_of_the_worker_program_itself_is_an_error_and_costs_no_worker(station: Station) -> None:
    station.lower(exp_request())
    worker = station._worker
    assert worker is not None
    answer = worker.request({"source": "", "filename": "k.py"}, 30.0)  # no entry named
    assert answer["ok"] is False and answer["reason"].startswith("internal error while lowering: ")
    assert "AscendC::Exp" in station.lower(exp_request()).ascendc and station._worker is worker


def test_time_limit_comes_from_the_environment(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    request = LowerRequest(source=kernels.HANG, entry="hang_kernel", arg_types=(kernels.F32,))
    monkeypatch.setenv("ASC_SCHED_LOWER_TIMEOUT", "0.4")
    with pytest.raises(WorkerCrashError, match=r"within 0\.4 s"):
        station.lower(request)
    monkeypatch.setenv("ASC_SCHED_LOWER_TIMEOUT", "soon")
    with pytest.raises(CompileError, match="ASC_SCHED_LOWER_TIMEOUT='soon' is not a number of seconds"):
        station.lower(request)


def test_exit_inside_a_users_file_is_an_error_with_the_status(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("import os\nprint('bye')\nos._exit(3)\n")
    with pytest.raises(WorkerCrashError, match="exit status 3"):
        lower_file(path, "k", ())


def test_worker_that_has_grown_is_replaced(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    grow = LowerRequest(source="import asc\nblob = bytearray(b'1') * (1 << 26)\n" + kernels.EXP, entry="exp_kernel",
                        arg_types=exp_request().arg_types)  # fmt: skip
    monkeypatch.setattr("asc_sched.build.service.MAX_GROWTH_KIB", 32 * 1024)
    station.lower(exp_request())
    first = worker_pid(station)
    station.lower(grow)
    assert worker_pid(station) == first
    station.lower(exp_request())
    assert worker_pid(station) != first


def test_output_of_a_kernels_module_never_reaches_the_protocol_or_the_terminal(
    station: Station, capfd: pytest.CaptureFixture[str]
) -> None:
    noisy = "import os, sys\nprint('to stdout')\nos.write(1, b'raw')\nos.write(2, b'err')\n" + kernels.EXP
    result = station.lower(exp_request(source=noisy))
    assert "AscendC::Exp" in result.ascendc and "to stdout" in result.diagnostics
    assert station.lower(exp_request()).diagnostics == ""
    assert capfd.readouterr() == ("", "")


def test_worker_knows_neither_torch_nor_sympy(station: Station) -> None:
    source = "import sys\nassert not {'torch', 'sympy', 'attrs', 'attr'} & set(sys.modules), 'imported'\n" + kernels.EXP
    assert "AscendC::Exp" in station.lower(exp_request(source=source)).ascendc


# -- where it is started from ----------------------------------------------------------------------------------
@pytest.mark.parametrize("closed", [(0,), (0, 1, 2)])
def test_starts_with_standard_streams_closed(closed: tuple[int, ...], tmp_path: Path) -> None:
    out = tmp_path / "result"
    code = "import os\n" + "".join(f"os.close({fd})\n" for fd in closed) + LOWER_EXP
    python(code + f"open({str(out)!r}, 'w').write('done')\n")
    assert out.read_text() == "done"


def test_starts_from_a_program_read_from_standard_input() -> None:
    command = [sys.executable, "-"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, input=LOWER_EXP + "print('ok')\n", env=env, capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr


def test_starts_under_interpreter_flags_and_odd_environments(tmp_path: Path) -> None:
    odd = {"LANG": "C", "LC_ALL": "C", "PYTHONHASHSEED": "7", "HOME": "/nowhere", "PYTHONINSPECT": "1"}
    for flags in (["-s", "-O", "-W", "error"], ["-E", "-X", "dev", "-S"]):
        paths = f"import sys; sys.path[1:1] = {[str(ROOT), *sys.path]!r}\n"
        done = python(paths + LOWER_EXP, *flags, env=odd, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (flags, done.stderr)


def test_starts_in_a_folder_with_files_named_like_modules(tmp_path: Path) -> None:
    for name in ("asc", "numpy", "json", "socket", "asc_sched"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    kernel = tmp_path / "elsewhere" / "k.py"
    kernel.parent.mkdir()
    kernel.write_text(kernels.EXP)
    code = f"import sys; sys.path[0] = {str(ROOT)!r}\n" + LOWER_EXP
    code += "from asc_sched.build import lower_file\nfrom tests.build.kernels import *\n"
    done = python(code + f"lower_file({str(kernel)!r}, 'exp_kernel', (F32, F32, I32))", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_worker_is_of_the_same_asc_sched_as_its_parent_even_if_another_is_installed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "asc_sched", tmp_path / "mine" / "asc_sched", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "mine" / "only_here.py").write_text("")
    source = "import sys, only_here, asc_sched\nprint(asc_sched.__file__)\n" + kernels.EXP
    code = f"""
import sys
sys.path.insert(0, "mine")
from asc_sched.build import *
f32 = ArgType("pointer", "float32")
types = (f32, f32, ArgType("scalar", "int32"))
print(lower(LowerRequest(source={source!r}, entry="exp_kernel", arg_types=types), cache=None).diagnostics)
"""
    done = python(code, cwd=tmp_path)
    assert done.stdout.strip() == str(tmp_path / "mine" / "asc_sched" / "__init__.py"), done.stderr


def test_missing_pyasc_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asc_sched.build.worker._BOOT", "import sys; sys.modules['asc'] = None;" + _boot())
    with pytest.raises(BackendError, match=r"pyasc can't be imported by .*: .*pip install pyasc==1\.1\.1"):
        Worker()


def test_worker_that_can_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asc_sched.build.worker._BOOT", "raise ValueError('no luck')")
    with pytest.raises(BackendError, match="did not start: exit status 1: ValueError: no luck"):
        Worker()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(BackendError, match="can't start a lowering worker with '/no/such/python'"):
        Worker()
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(BackendError, match="does not know its own executable"):
        Worker()


def _boot() -> str:
    from asc_sched.build import worker

    return worker._BOOT


# -- ends and forks --------------------------------------------------------------------------------------------
PRINT_PID = LOWER_EXP + "from asc_sched.build.service import shared; print(shared._station._worker.pid, flush=True)\n"


def test_worker_ends_with_its_parent(tmp_path: Path) -> None:
    endings = ("", "import os; os._exit(1)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    for ending in endings:
        wait_until_gone(int(python(PRINT_PID + ending).stdout))


def test_worker_in_the_middle_of_a_kernel_ends_though_its_parent_is_killed() -> None:
    code = PRINT_PID + (
        "from tests.build import kernels as k\nfrom asc_sched.build import LowerRequest\n"
        "lower(LowerRequest(source=k.HANG, entry='hang_kernel', arg_types=()), cache=None, time_limit_s=1.0)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until_gone(pid)


def test_forked_child_gets_a_worker_of_its_own_and_leaves_the_parents_alone() -> None:
    code = (
        PRINT_PID
        + """
import os
from asc_sched.build.service import shared
mine = shared._station._worker.pid
held = shared._station._worker
wire = held._sock.fileno()
for _ in range(2):
    child = os.fork()
    if child == 0:
        try:
            os.fstat(wire)
            os._exit(2)  # still holds the parent's end: the worker would not see the parent go
        except OSError:
            pass
        lower(exp_request(), cache=None)
        os._exit(0 if shared._station._worker.pid != mine else 1)
    lower(exp_request(), cache=None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
child = os.fork()
if child == 0:
    sys.exit()  # runs the exit handlers, which must not end the parent's worker
os.waitpid(child, 0)
lower(exp_request(), cache=None)
assert shared._station._worker.pid == mine
"""
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_fork_while_another_thread_lowers() -> None:
    code = (
        LOWER_EXP
        + """
import os, threading
stop = threading.Event()
def busy():
    while not stop.is_set():
        lower(exp_request(), cache=None)
thread = threading.Thread(target=busy)
thread.start()
for _ in range(2):
    child = os.fork()
    if child == 0:
        lower(exp_request(), cache=None)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
thread.join()
"""
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_multiprocessing_fork_pool_may_lower() -> None:
    code = (
        LOWER_EXP
        + """
import multiprocessing
def work(i):
    return len(lower(exp_request(), cache=None).ascendc)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert len(set(pool.map(work, range(6)))) == 1
"""
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_interrupt_leaves_no_answer_for_the_next_request() -> None:
    station = SharedStation()
    station.lower(exp_request())
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            station.lower(LowerRequest(source=kernels.HANG, entry="hang_kernel", arg_types=(kernels.F32,)))
        assert "void fill_5(" in station.lower(nth(5)).ascendc
    finally:
        timer.join()
        station.close()


def test_interrupt_from_the_terminal_does_not_end_the_worker(station: Station) -> None:
    station.lower(exp_request())
    pid = worker_pid(station)
    os.kill(pid, signal.SIGINT)
    station.lower(exp_request())
    assert worker_pid(station) == pid


def test_many_threads_share_the_worker_behind_lower() -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda i: lower(nth(i), cache=None), range(24)))
    assert all(f"void fill_{i}(" in result.ascendc for i, result in enumerate(results))
