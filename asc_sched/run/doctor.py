"""What this machine has, what each lack means, how to mend it; and which backend follows from that."""

from __future__ import annotations

import os
import platform
import shutil
from importlib import metadata
from pathlib import Path

import attrs

from asc_sched.errors import BackendError
from asc_sched.run import cann


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
    found = (
        _python(),
        _package("pyasc", "1.1.1"),
        _package("torch"),
        _cache(),
        _cxx(),
        _cann(),
        _compiler(),
        _simulator(),
        _npu(),
        _access(),
        _driver(),
        _torch_npu(),
        _backend(),
    )
    return tuple(f for f in found if f is not None)


def _python() -> Finding:
    version = platform.python_version()
    ok = (3, 10) <= tuple(map(int, platform.python_version_tuple()[:2])) <= (3, 12)
    return Finding("python", ok, version, "asc_sched is tested on Python 3.10 to 3.12", "use one of these", needed=True)


def _package(name: str, wanted: str | None = None) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        remedy = f"pip install {name}{f'=={wanted}' if wanted else ''}"
        return Finding(name, False, "not installed", "kernels can't be compiled", remedy, needed=True)
    ok = wanted is None or version == wanted
    remedy = f"pip install {name}=={wanted}"
    return Finding(name, ok, version, f"asc_sched is written for {name} {wanted}", remedy, needed=True)


def _cache() -> Finding:
    from asc_sched.paths import cache_dir

    folder = cache_dir("lower")
    return Finding(
        "cache", folder.path is not None and folder.writable, folder.problem or str(folder.path),
        "everything works, but nothing is kept from one process to the next",
        "set ASC_SCHED_CACHE_DIR to a folder of yours",
    )  # fmt: skip


def _cxx() -> Finding:
    from asc_sched.twin.build import cxx_compiler

    try:
        path, found = cxx_compiler(), True
    except BackendError as err:
        path, found = str(err).split(";")[0], False
    return Finding(
        "c++", found, path,
        "pyasc can't build its runtime wrapper: no NPU, no CANN simulator, no `asc-sched twin`",
        "apt-get install g++ (or dnf install gcc-c++)",
    )  # fmt: skip


def _cann() -> Finding:
    home, there = os.environ.get(cann.ENV_HOME), cann.find_cann()
    means = "kernels run on the simulator only; no device binary can be built"
    remedy = f"install the CANN toolkit, then: {cann.SET_ENV}"
    if there is None:
        detail = f"{cann.ENV_HOME}={home} is no folder" if home else f"{cann.ENV_HOME} is not set"
        return Finding("CANN", False, detail, means, remedy)
    if there.twin:
        means = "pyasc's Model backend works and runs on asc_sched's simulator; there is no NPU behind it"
        return Finding("CANN", False, f"{there.home} is asc_sched's twin of CANN", means, remedy)
    return Finding("CANN", True, f"{there.version or 'version unknown'} at {there.home}")


def _compiler() -> Finding:
    name = os.environ.get("PYASC_COMPILER", "bisheng")
    path = shutil.which(name)
    return Finding(
        "compiler", path is not None, path or f"{name} is not on PATH",
        "Ascend C is emitted but not compiled to a device binary",
        "it comes with CANN: source set_env.sh (or set PYASC_COMPILER)",
    )  # fmt: skip


def _simulator() -> Finding:
    there = cann.find_cann()
    folders = [] if there is None else sorted((there.home / "tools" / "simulator").glob("Ascend*"))
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    on_path = any((Path(p) / "libruntime_camodel.so").is_file() for p in searched if p)
    names = ", ".join(p.name for p in folders)
    detail = names or "no tools/simulator/Ascend* in CANN"
    if folders and not on_path:
        detail = f"{names}; none of them on LD_LIBRARY_PATH"
    return Finding(
        "camodel", bool(folders) and on_path, detail, "CANN's own simulator (backend camodel) can't be loaded",
        "export LD_LIBRARY_PATH=$ASCEND_HOME_PATH/tools/simulator/<SoC>/lib:$LD_LIBRARY_PATH",
    )  # fmt: skip


def _npu() -> Finding:
    devices = cann.device_nodes()
    return Finding(
        "NPU", bool(devices), ", ".join(devices) or f"no {cann.DEV}/davinci*",
        "kernels can't run on hardware from here; the simulator runs and times them",
        "on a machine with an Ascend card, install its driver; npu-smi info shows the cause",
    )  # fmt: skip


def _access() -> Finding | None:
    """Whether this user may open the devices, where there are any."""
    blocked = cann.blocked_nodes()
    if not cann.device_nodes():
        return None
    if not blocked:
        return Finding("access", True, "this user may open the devices")
    means = "the driver refuses this user; kernels can't run on hardware"
    return Finding("access", False, f"can't open {', '.join(blocked)}", means, cann.permission_advice(blocked))


def _driver() -> Finding:
    """The driver's version, from the file that it installs."""
    for place in (Path("/usr/local/Ascend/driver/version.info"), Path("/var/davinci/driver/version.info")):
        try:
            text = place.read_text("utf-8", "replace")
        except OSError:
            continue
        found = [line.split("=", 1)[1].strip() for line in text.splitlines() if line.lower().startswith("version=")]
        return Finding("driver", True, found[0] if found else f"version unknown ({place})")
    return Finding(
        "driver", False, "no /usr/local/Ascend/driver/version.info", "an NPU needs the driver on the host",
        "install it; in a container, mount /usr/local/Ascend/driver",
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


def _backend() -> Finding:
    from asc_sched.run.backend import BACKENDS, ENVIRONMENT, decide

    try:
        decision = decide()
    except BackendError as err:
        return Finding("backend", False, str(err), "every run fails", f"unset {ENVIRONMENT}", needed=True)
    others = ", ".join(b for b in BACKENDS if b != decision.name)
    how = f"--backend or {ENVIRONMENT} choose another: {others}"
    return Finding("backend", True, f"{decision.name}: {decision.reason}; {how}")
