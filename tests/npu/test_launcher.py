"""The argument block of our launcher, and the decision for a backend."""

from __future__ import annotations

import ctypes
import json
import struct
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import op
from asc_sched.build.request import Lowered
from asc_sched.errors import BackendError, BackendNameError, CompileError
from asc_sched.kernel import generate
from asc_sched.run import backend as backends
from asc_sched.run import cann
from asc_sched.run.backend import BACKENDS, decide, get_backend
from asc_sched.run.launcher import argument_kinds, block_format
from tests.npu.standin import REPO, StandIn

CTYPES = {
    "pointer": ctypes.c_uint64, "int64": ctypes.c_int64, "float32": ctypes.c_float, "int32": ctypes.c_int32,
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(CTYPES)), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_arguments_lie_where_a_c_struct_of_them_has_them(kinds: list[str]) -> None:
    fields = [(f"a{i}", CTYPES[kind]) for i, kind in enumerate(kinds)]
    layout = type("Layout", (ctypes.Structure,), {"_fields_": fields})
    text, nbytes = block_format(kinds)
    assert struct.calcsize(text) == nbytes == -(-ctypes.sizeof(layout) // 8) * 8
    values = [i + 1 for i in range(len(kinds))]
    seen = layout.from_buffer_copy(struct.pack(text, *values))
    assert [getattr(seen, name) for name, _ in fields] == values


def test_small_scalars_take_four_bytes() -> None:
    assert block_format(["int8", "float16", "int8"]) == ("<b3xe2xb3x4x", 16)
    assert struct.pack(block_format(["float16"])[0], 1.5)[:2] == b"\x00\x3e"


def test_arguments_that_pyasc_adds_are_known_from_the_asc_ir() -> None:
    kernel = generate(op("z = alpha * x", scalars={"alpha": None}), None, "float32")
    line = "  func.func @k({}) attributes {{ascendc.aicore, ascendc.global}} {{"
    arg = "%a: memref<?xf32, 22> {{emitasc.kernel_arg = #emitasc<kernel_arg {}>}}"

    def lowered(kinds: list[str]) -> object:
        text = line.format(", ".join(arg.format(kind) for kind in kinds))
        return attrs.evolve(kernel, lowered=Lowered(text, ""))

    explicit = len(kernel.request.arg_types)
    kinds, added = argument_kinds(lowered(["explicit"] * explicit + ["ffts_addr"]))  # type: ignore[arg-type]
    assert kinds == ["pointer", "pointer", "int64", "float32", "pointer"]
    assert added == [False] * explicit + [True]
    for wrong in (["explicit"] * (explicit - 1), ["explicit"] * explicit + ["workspace"]):
        with pytest.raises(CompileError, match="explicit ones"):
            argument_kinds(lowered(wrong))  # type: ignore[arg-type]


# -- which backend -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrong", ["npuu", "Model", "cuda", "", "SIM"])
def test_unknown_backends_are_value_errors_that_list_the_known_ones(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"supported: sim, camodel, npu") as raised:
        decide(wrong)
    assert isinstance(raised.value, BackendNameError)


@pytest.mark.parametrize(("wrong", "near"), [("npuu", "npu"), ("camodle", "camodel"), ("Model", "camodel")])
def test_the_nearest_backend_is_named(wrong: str, near: str) -> None:
    with pytest.raises(BackendNameError, match=f"did you mean '{near}'"):
        decide(wrong)


def test_the_environment_decides_after_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASC_SCHED_BACKEND", "camodel")
    assert decide().name == "camodel"
    assert decide().reason == "ASC_SCHED_BACKEND=camodel is set"
    assert decide("sim").name == "sim"
    assert decide(None, "npu").name == "camodel"
    monkeypatch.setenv("ASC_SCHED_BACKEND", "gpu")
    with pytest.raises(BackendNameError, match="ASC_SCHED_BACKEND='gpu'"):
        decide()


def test_without_cann_the_simulator_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ASC_SCHED_BACKEND", raising=False)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.setattr(cann, "DEV", tmp_path)
    backends._found.cache_clear()
    decision = decide()
    backends._found.cache_clear()
    assert decision.name == "sim"
    assert "no CANN (ASCEND_HOME_PATH), no NPU (/dev/davinci*)" in decision.reason
    assert decide(None, "npu").name == "npu"


@pytest.mark.parametrize("name", ["npu", "camodel"])
def test_no_cann_is_one_message_with_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    kernel = op("z = x + y").compile((8,), "float32")
    x = torch.ones(8)
    with pytest.raises(BackendError, match=r"ASCEND_HOME_PATH is not set.*`source /usr/local/Ascend") as raised:
        kernel(x, x, backend=name)
    assert ("asc-sched twin env" in str(raised.value)) is (name == "camodel")
    monkeypatch.setenv("ASCEND_HOME_PATH", "/no/such/folder")
    with pytest.raises(BackendError, match="ASCEND_HOME_PATH=/no/such/folder is no folder"):
        kernel(x, x, backend=name)


def test_a_missing_device_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("PYASC_COMPILER", str(tmp_path / "bisheng"))
    with pytest.raises(BackendError, match=r"bisheng' is not on PATH.*PYASC_COMPILER.*which bisheng"):
        cann.require_cann("npu")


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("version.cfg", "# version: 1.0\nruntime_running_version=[7.7.0.1.238:8.1.RC1]\n", "8.1.RC1"),
        ("compiler/version.info", "Version=8.2.RC1\nversion_dir=8.2.RC1\n", "8.2.RC1"),
        ("version.cfg", "nothing to see", ""),
    ],
)
def test_canns_version_is_read_from_its_files(tmp_path: Path, file: str, text: str, version: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert cann.cann_version(tmp_path) == version


def test_every_backend_can_be_asked_for() -> None:
    assert [get_backend(name).name for name in BACKENDS] == list(BACKENDS)


# -- what a launch costs -----------------------------------------------------------------------------------------------
def test_a_launch_costs_at_most_a_fifth_of_pyascs_host_time(standin: StandIn) -> None:
    modules = f"{REPO}:{REPO / 'tests' / 'npu' / 'standin' / 'modules'}"
    env = {"PYTHONPATH": modules, "ASC_SCHED_LAUNCH_COST": "1", "ASC_SCHED_TWIN_LAUNCH": "skip"}
    env["ASC_SCHED_TWIN_LOG"] = ""
    done = standin.python(str(REPO / "benchmarks" / "launch_cost.py"), "--calls", "900", "--json", env=env)
    assert done.returncode == 0, done.err
    shares = json.loads(done.out.splitlines()[-1])["share_of_pyasc"]
    ours = {name: share for name, share in shares.items() if name.startswith("ours")}
    assert len(ours) == 3
    assert max(ours.values()) <= 0.2, shares
