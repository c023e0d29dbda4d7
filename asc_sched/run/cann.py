"""What there is of CANN and of NPUs on this machine, by looking at files alone; nothing is loaded."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import attrs

from asc_sched.errors import BackendError
from asc_sched.twin.build import is_twin

ENV_HOME = "ASCEND_HOME_PATH"
SET_ENV = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
#: Where device nodes are; `davinci<N>` is a card, the others are what every card needs.
DEV = Path("/dev")
MANAGER_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_VERSION_FILES = ("version.cfg", "compiler/version.info", "{arch}-linux/ascend_toolkit_install.info")
_VERSION = re.compile(r"(?:^|[\[_=:\s])[Vv]ersion\s*=\s*\[?(?:[\d.]+:)?([\w.]+)", re.MULTILINE)


@attrs.frozen
class Cann:
    """A CANN installation (or asc_sched's twin of one): its folder, and its version where a file tells."""

    home: Path
    version: str
    twin: bool


def find_cann() -> Cann | None:
    """The CANN that ASCEND_HOME_PATH names, or None where it is unset or names no folder."""
    home = os.environ.get(ENV_HOME, "")
    if not home or not Path(home).is_dir():
        return None
    return Cann(Path(home), cann_version(Path(home)), is_twin(home))


def cann_version(home: Path) -> str:
    """The version that an installation's own files name, or ''."""
    for name in _VERSION_FILES:
        try:
            found = _VERSION.search((home / name.format(arch=os.uname().machine)).read_text("utf-8", "replace"))
        except OSError:
            continue
        if found:
            return found.group(1)
    return ""


def require_cann(backend: str) -> Cann:
    """CANN with its device compiler, or a `BackendError` that says what is missing and the command that helps."""
    home = os.environ.get(ENV_HOME, "")
    if not home:
        raise BackendError(
            f"backend {backend!r} needs CANN, and {ENV_HOME} is not set: install the CANN toolkit, then run "
            f"`{SET_ENV}` in this shell{_twin_hint(backend)}"
        )
    cann = find_cann()
    if cann is None:
        raise BackendError(f"backend {backend!r} needs CANN, and {ENV_HOME}={home} is no folder: run `{SET_ENV}`")
    for variable, name in (("PYASC_COMPILER", "bisheng"), ("PYASC_LINKER", "ld.lld")):
        tool = os.environ.get(variable, name)
        if shutil.which(tool) is None:
            raise BackendError(
                f"backend {backend!r} needs the device compiler of CANN, and {tool!r} is not on PATH: run `{SET_ENV}` "
                f"(or set {variable}); `which {name}` shows the cause"
            )
    return cann


def _twin_hint(backend: str) -> str:
    if backend != "camodel":
        return ""
    return '; or eval "$(asc-sched twin env)", which puts asc_sched\'s simulator in its place'


def device_nodes() -> tuple[str, ...]:
    """The cards' device nodes, such as ``davinci0``."""
    try:
        names = [p.name for p in DEV.glob("davinci*") if p.name.removeprefix("davinci").isdigit()]
    except OSError:
        return ()
    return tuple(sorted(names, key=lambda name: int(name.removeprefix("davinci"))))


def blocked_nodes() -> tuple[str, ...]:
    """Device nodes that exist and that this user can't open for reading and writing."""
    there = [DEV / name for name in (*device_nodes(), *MANAGER_NODES)]
    return tuple(str(p) for p in there if p.exists() and not os.access(p, os.R_OK | os.W_OK))


def permission_advice(nodes: tuple[str, ...]) -> str:
    """What a user without access to device nodes can do."""
    return (
        f"this user can't open {', '.join(nodes)}: `ls -l /dev/davinci*` shows who may; join that group "
        "(usually `sudo usermod -aG HwHiAiUser $USER`, then log in again), or start the container with "
        "--device=/dev/davinci0 --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc"
    )


def no_device_advice() -> str:
    """What to look at where no card is found."""
    return (
        "`npu-smi info` shows the cause: the driver isn't installed or the card is down; in a container, it was "
        "started without --device=/dev/davinci0 --device=/dev/davinci_manager --device=/dev/devmm_svm "
        "--device=/dev/hisi_hdc"
    )
