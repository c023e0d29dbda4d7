"""What this machine has, what each lack means, and how to mend it."""

from __future__ import annotations

import os
import platform
import shutil
from importlib import metadata
from pathlib import Path

import attrs


@attrs.frozen
class Finding:
    """One thing looked for. `needed` says whether the main job (generate, compile, simulate) works without it."""

    name: str
    found: bool
    detail: str
    means: str = ""
    remedy: str = ""
    needed: bool = False


def examine() -> tuple[Finding, ...]:
    """Looks at the machine; starts nothing, changes nothing."""
    return (_python(), _package("pyasc", "1.1.1"), _package("torch"), _cann(), _compiler(), _npu(), _torch_npu())


def _python() -> Finding:
    version = platform.python_version()
    ok = (3, 10) <= tuple(map(int, platform.python_version_tuple()[:2])) <= (3, 12)
    return Finding("python", ok, version, "asc_sched is tested on Python 3.10 to 3.12", "use one of these", needed=True)


def _package(name: str, wanted: str | None = None) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", "kernels can't be compiled", f"pip install {name}", needed=True)
    ok = wanted is None or version == wanted
    remedy = f"pip install {name}=={wanted}"
    return Finding(name, ok, version, f"asc_sched is written for {name} {wanted}", remedy, needed=True)


def _cann() -> Finding:
    home = os.environ.get("ASCEND_HOME_PATH")
    found = bool(home) and Path(str(home)).is_dir()
    detail = str(home) if home else "ASCEND_HOME_PATH is not set"
    if home and not found:
        detail = f"ASCEND_HOME_PATH={home} is no folder"
    return Finding(
        "CANN", found, detail, "kernels run on the simulator only; no device binary can be built",
        "install the CANN toolkit, then: source /usr/local/Ascend/ascend-toolkit/set_env.sh",
    )  # fmt: skip


def _compiler() -> Finding:
    name = os.environ.get("PYASC_COMPILER", "bisheng")
    path = shutil.which(name)
    return Finding(
        "compiler", path is not None, path or f"{name} is not on PATH",
        "Ascend C is emitted but not compiled to a device binary",
        "it comes with CANN: source set_env.sh (or set PYASC_COMPILER)",
    )  # fmt: skip


def _npu() -> Finding:
    devices = sorted(d.name for d in Path("/dev").glob("davinci*") if d.name[7:].isdigit())
    return Finding(
        "NPU", bool(devices), ", ".join(devices) or "no /dev/davinci*",
        "kernels can't run on hardware from here; the simulator runs and times them",
        "on a machine with an Ascend card, install its driver; npu-smi info shows the cause",
    )  # fmt: skip


def _torch_npu() -> Finding:
    try:
        version = metadata.version("torch_npu")
    except metadata.PackageNotFoundError:
        return Finding(
            "torch_npu", False, "not installed", "tensors on the NPU can't be passed in place",
            "needed on NPU machines only: pip install torch_npu (the release that fits torch and CANN)",
        )  # fmt: skip
    return Finding("torch_npu", True, version)
