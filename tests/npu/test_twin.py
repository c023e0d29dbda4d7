"""The twin as users get it: its exports, its compiler, its device, and what they refuse."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from asc_sched.cli.twin import command
from asc_sched.errors import ArgumentError, BackendError
from asc_sched.sim import parse
from asc_sched.twin import build, compiler, device
from tests.npu.standin import REPO, needs_compiler

SCRIPTS = Path(__file__).parent / "standin" / "scripts"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of this module, in this process's environment too."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("ASC_SCHED_CACHE_DIR")
    os.environ["ASC_SCHED_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["ASC_SCHED_CACHE_DIR"]
    else:
        os.environ["ASC_SCHED_CACHE_DIR"] = before


def shell(line: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(REPO), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=240, check=False)


# -- for the user ------------------------------------------------------------------------------------------------------
@needs_compiler
def test_a_script_runs_in_a_shell_with_the_exports(cache: Path) -> None:
    line = f'eval "$(python -m asc_sched twin env)" && python {SCRIPTS / "vadd_flags.py"} -r Model -v Ascend910B1'
    done = shell(line)
    assert done.returncode == 0, done.stderr
    assert "[INFO] Sample add run success." in done.stderr
    assert "asc_sched twin: vadd_kernel on 4 cores of Ascend910B1: simulated" in done.stderr


@needs_compiler
def test_it_is_built_once_in_the_users_cache_folder(cache: Path) -> None:
    first = build.twin_home().path
    assert first.parent == cache / "twin"
    stamp = (first / "lib64" / "libruntime_camodel.so").stat().st_mtime_ns
    assert build.twin_home().path == first
    assert (first / "lib64" / "libruntime_camodel.so").stat().st_mtime_ns == stamp
    assert build.is_twin(first)
    assert first.stat().st_mode & 0o077 == 0


@needs_compiler
def test_a_damaged_one_is_built_again(tmp_path: Path) -> None:
    small = (build.Library("ascendcl", "acl.cpp"),)
    home = build.twin_home(tmp_path, small).path
    shutil.rmtree(home / "lib64")
    (home / "complete").unlink()
    assert build.twin_home(tmp_path, small).path == home
    assert (home / "lib64" / "libascendcl.so").is_file()
    assert [p.name for p in tmp_path.iterdir()] == [home.name]


@needs_compiler
def test_what_the_compiler_says_is_told_when_it_fails(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"can't build the twin's libbad\.so \(exit code 1\):\n.*error: expected"):
        build.twin_home(tmp_path, (build.Library("bad", "runtime.cpp", ("kParamInvalid=",)),))
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_exports_keep_what_is_on_the_library_path(cache: Path) -> None:
    home = build.twin_home()
    lines = dict(line.removeprefix("export ").split("=", 1) for line in _env().splitlines())
    assert lines["LD_LIBRARY_PATH"] == f"{home.path}/lib64${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    assert lines["ASCEND_HOME_PATH"] == str(home.path)
    assert home.merged({"LD_LIBRARY_PATH": "/mine"})["LD_LIBRARY_PATH"] == f"{home.path}/lib64:/mine"
    assert json.loads(_env("--shell", "json"))["PYASC_CACHE_DIR"] == str(home.path / "pyasc_cache")
    assert f"set -gx ASCEND_HOME_PATH '{home.path}';" in _env("--shell", "fish")


def _env(*args: str) -> str:
    result = CliRunner().invoke(command, ["env", *args])
    assert result.exit_code == 0, result.output
    return result.stdout


@needs_compiler
def test_there_is_no_npu_behind_it(cache: Path) -> None:
    code = "import asc.runtime.config as c; c.set_platform(c.Backend.NPU)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=build.twin_home().merged(os.environ), capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.count("there is no NPU behind asc_sched's twin") == 1
    assert "-r Model" in done.stderr


def test_no_cxx_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(BackendError, match=r"neither g\+\+ nor clang\+\+ is on PATH.*apt-get install g\+\+"):
        build.twin_home()


def test_a_compiler_that_is_set_and_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler")
    with pytest.raises(BackendError, match="CC=/no/such/compiler isn't there"):
        build.twin_home()


# -- its compiler ------------------------------------------------------------------------------------------------------
CPP = """#include "kernel_operator.h"
extern "C"  __global__ __aicore__ void add(__gm__ float* v1_x, int64_t v2_n, __gm__ uint64_t* v3_ffts_addr) {
  set_ffts_base_addr(*v3_ffts_addr);
  constexpr int32_t c2_i32 = 2;
  constexpr int64_t c7_i64 = 7;
  return;
}
"""
IR = """module {
  emitc.include "kernel_operator.h"
  func.func @add(%arg0: memref<?xf32, 22> {emitasc.kernel_arg = #emitasc<kernel_arg explicit>} loc("x"), %arg1: i64 \
{emitasc.kernel_arg = #emitasc<kernel_arg explicit>} loc("n"), %arg2: memref<?xui64, 22> {emitasc.kernel_arg = \
#emitasc<kernel_arg ffts_addr>} loc("ffts_addr")) attributes {ascendc.aicore, ascendc.global} {
    ascendc.set_ffts_base_addr %arg2 : memref<?xui64, 22>
    %c2_i32 = arith.constant 2 : i32
    %c7_i64 = arith.constant 7 : i64
    return
  }
}
"""


@pytest.fixture
def dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pyasc leaves before it calls the compiler; returns the source file that it passes."""
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "ascir.mlir").write_text(IR)
    (dump / "ascendc.cpp").write_text(CPP)
    monkeypatch.setenv("PYASC_DUMP_PATH", str(dump))
    source = tmp_path / "input.cce"
    source.write_text(CPP)
    return source


def compile_(source: Path, arch: str = "dav-c220-vec") -> tuple[int, Path]:
    out = source.with_name("output.o")
    args = ["-c", "-x", "cce", "-O3", str(source), f"--cce-aicore-arch={arch}", "--cce-aicore-only", "-o", str(out)]
    return compiler.main(["compile", *args]), out


def test_the_binary_holds_the_asc_ir(dumped: Path) -> None:
    code, out = compile_(dumped)
    assert code == 0
    assert compiler.main(["link", "-m", "aicorelinux", "-Ttext=0", str(out), "-static", "-o", str(out)]) == 0
    module = device.read_binary(out.read_bytes())
    assert [a.name for a in module.kernel("add").explicit_args] == ["x", "n"]


def test_cube_kernels_are_refused(dumped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_(dumped, "dav-c220-cube")[0] == 1
    message = capsys.readouterr().err
    assert "dav-c220-cube: matmul and other cube-core kernels can't be simulated" in message
    assert "CANN's own simulator or on an NPU" in message


def test_mix_kernels_are_refused_at_the_link(dumped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = compile_(dumped)
    other = out.with_name("output_cube.o")
    shutil.copy(out, other)
    assert compiler.main(["link", str(other), str(out), "-static", "-o", str(out.with_name("all.o"))]) == 1
    assert "mix kernels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("ascendc.cpp", "c2_i32 = 2", "c2_i32 = 3"),
        ("ascir.mlir", "@add(", "@sub("),
        ("ascir.mlir", "constant 7", "constant 8"),
    ],
)
def test_a_dump_of_another_kernel_is_noticed(
    dumped: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str
) -> None:
    file = Path(os.environ["PYASC_DUMP_PATH"]) / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert compile_(dumped)[0] == 1
    assert "two processes compiled there at the same time" in capsys.readouterr().err


def test_a_missing_dump_is_told(
    dumped: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYASC_DUMP_PATH")
    assert compile_(dumped)[0] == 1
    assert "asc-sched twin env" in capsys.readouterr().err


def test_a_damaged_binary_is_refused(dumped: Path) -> None:
    _, out = compile_(dumped)
    with pytest.raises(ArgumentError, match="digest"):
        device.read_binary(out.read_bytes().replace(b"constant 7", b"constant 9"))
    with pytest.raises(ArgumentError, match="not made by the twin's compiler"):
        device.read_binary(b"\x7fELF" + bytes(100))


# -- its device --------------------------------------------------------------------------------------------------------
CTRL = 0x1234


class Block:
    """An argument block of `IR`'s kernel: an array, a number, and the control address."""

    def __init__(self) -> None:
        self.array = np.arange(16, dtype=np.float32)
        self.ctrl = ctypes.c_uint64(CTRL)
        self.words = [self.array.ctypes.data, 5, ctypes.addressof(self.ctrl)]
        self.extents = {self.words[0]: 64, self.words[2]: 8}

    def decode(self) -> list[object]:
        block = b"".join(w.to_bytes(8, "little") for w in self.words)
        return device.decode(parse(IR).kernel("add"), block, self.extents, CTRL)


def test_arguments_are_decoded_in_place() -> None:
    block = Block()
    array, number = block.decode()
    assert isinstance(array, np.ndarray)
    array[3] = -1.0
    assert block.array[3] == -1.0
    assert array.shape == (16,)
    assert number == 5


def test_an_address_that_is_no_device_memory_is_named() -> None:
    block = Block()
    block.words[0] = 0x1000
    with pytest.raises(ArgumentError, match="add: x points to 0x1000, which is no device memory"):
        block.decode()


def test_a_block_of_another_size_is_refused() -> None:
    block = Block()
    block.words.append(0)
    with pytest.raises(ArgumentError, match=r"block has 32 bytes, the kernel's 3 arguments take 24.*ASCENDC_DUMP"):
        block.decode()


def test_the_hidden_argument_is_checked() -> None:
    block = Block()
    block.ctrl.value = 7
    with pytest.raises(ArgumentError, match="must point to the control address 0x1234, and points to 0x7"):
        block.decode()


def test_an_8_byte_scalar_at_half_its_size_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    text = IR.replace("memref<?xf32, 22> {emitasc.kernel_arg = #emitasc<kernel_arg explicit>} loc(\"x\")",
                      "i32 {emitasc.kernel_arg = #emitasc<kernel_arg explicit>} loc(\"m\")")  # fmt: skip
    func = parse(text).kernel("add")
    ctrl = ctypes.c_uint64(CTRL)
    block = (3).to_bytes(4, "little") + (5).to_bytes(8, "little") + bytes(4)
    block += ctypes.addressof(ctrl).to_bytes(8, "little")
    extents = {ctypes.addressof(ctrl): 8}
    with pytest.raises(ArgumentError, match=r"packs n \(8 bytes\) at byte 4.*reads it at 8: pass 8-byte scalars"):
        device.decode(func, block, extents, CTRL)
    monkeypatch.setenv(device.ENV_STRICT, "0")
    assert device.decode(func, block, extents, CTRL) == [3, 5]


def test_each_process_dumps_into_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("PYASC_DUMP_PATH", str(tmp_path / "dump"))
    assert device.started("") == 0
    own = Path(os.environ["PYASC_DUMP_PATH"])
    assert own.parent == tmp_path / "dump"
    assert own.name.startswith(f"pid{os.getpid()}_")
    device.started("")
    assert Path(os.environ["PYASC_DUMP_PATH"]) == own


def test_a_dump_folder_of_the_users_choice_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("PYASC_DUMP_PATH", "/elsewhere/dump")
    device.started("")
    assert os.environ["PYASC_DUMP_PATH"] == "/elsewhere/dump"
