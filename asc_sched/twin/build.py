"""Makes the twin's folder: what pyasc's runtime takes for a CANN installation, built with the machine's compiler."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import attrs

from asc_sched.errors import BackendError
from asc_sched.files import write_atomic
from asc_sched.paths import cache_dir

#: Marks a folder without a hardware side, so that nothing takes it for CANN.
MARKER = "asc_sched_twin"
#: The last file that is written.
_COMPLETE = "complete"
_SOURCES = ("runtime.cpp", "acl.cpp", "msprofiler.cpp")
_HEADERS = (
    "acl/acl.h",
    "experiment/runtime/runtime/rt.h",
    "experiment/msprof/toolchain/prof_api.h",
    "experiment/msprof/toolchain/prof_data_config.h",
)
_FLAGS = ("-std=c++17", "-O0", "-shared", "-fPIC", "-pthread")


@attrs.frozen
class Library:
    """One shared library: its name without ``lib`` and ``.so``, source file, and preprocessor names."""

    name: str
    source: str
    defines: tuple[str, ...] = ()


#: The Model backend alone: the hardware side links, and refuses with a message.
MODEL_ONLY = (
    Library("runtime_camodel", "runtime.cpp", ("ASC_TWIN_MODEL",)),
    Library("runtime", "runtime.cpp", ("ASC_TWIN_REFUSE",)),
    Library("ascendcl", "acl.cpp"),
    Library("msprofiler", "msprofiler.cpp"),
)


@attrs.frozen
class TwinHome:
    """A built twin. `environment` is what a process needs for pyasc to use it."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables by name. LD_LIBRARY_PATH is the twin's part alone, to be put before what is there."""
        return {
            "ASCEND_HOME_PATH": str(self.path),
            "LD_LIBRARY_PATH": str(self.path / "lib64"),
            "PYASC_COMPILER": str(self.path / "bin" / "bisheng"),
            "PYASC_LINKER": str(self.path / "bin" / "ld.lld"),
            "PYASC_CACHE_DIR": str(self.path / "pyasc_cache"),
            "PYASC_DUMP_PATH": str(self.path / "dump"),
            "ASCENDC_DUMP": "false",
        }

    def merged(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with the twin's variables."""
        env = {**base, **self.environment}
        if base.get("LD_LIBRARY_PATH"):
            env["LD_LIBRARY_PATH"] += os.pathsep + base["LD_LIBRARY_PATH"]
        return env


def is_twin(home: str | os.PathLike[str]) -> bool:
    """Whether an ASCEND_HOME_PATH is a twin's folder and not CANN."""
    return Path(home, MARKER).is_file()


def twin_home(root: Path | None = None, libraries: Sequence[Library] = MODEL_ONLY) -> TwinHome:
    """The twin's folder, built on first use (in the user's cache folder, or under `root`).

    Its name holds a digest of all that it is made of, so a new version of asc_sched, another Python or compiler makes a
    new one. Raises `BackendError` where there is no C++ compiler, it fails, or there is no folder to keep it in.
    """
    compiler = cxx_compiler()
    parent = root if root is not None else _cache_root()
    path = parent / _digest(compiler, libraries)
    if not (path / _COMPLETE).is_file():
        _build(path, compiler, libraries)
    return TwinHome(path)


def cxx_compiler() -> str:
    """The C++ compiler that pyasc's runtime will use, too: CC, clang++ or g++. Raises `BackendError` without one."""
    given = os.environ.get("CC")
    found = shutil.which(given) if given else shutil.which("g++") or shutil.which("clang++")
    if found is None:
        missing = f"CC={given} isn't there" if given else "neither g++ nor clang++ is on PATH"
        raise BackendError(
            f"no C++ compiler: {missing}; pyasc builds its runtime wrapper with one, and the twin's runtime library "
            "is built with it: install g++ (apt-get install g++, dnf install gcc-c++) or set CC"
        )
    return found


def _cache_root() -> Path:
    folder = cache_dir("twin")
    if folder.path is None or not folder.writable:
        raise BackendError(f"the twin has no folder to be built in: {folder.problem}; set ASC_SCHED_CACHE_DIR")
    return folder.path


def _native(name: str) -> bytes:
    return resources.files("asc_sched.twin").joinpath("native", *name.split("/")).read_bytes()


def _compiler_script() -> bytes:
    return resources.files("asc_sched.twin").joinpath("compiler.py").read_bytes()


def _digest(compiler: str, libraries: Sequence[Library]) -> str:
    parts = [sys.executable, compiler, repr(list(libraries)), _compiler_script().decode()]
    parts += [_native(name).decode() for name in _SOURCES]
    parts += [_native(f"include/{name}").decode() for name in _HEADERS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(path: Path, compiler: str, libraries: Sequence[Library]) -> None:
    """Everything in a temporary folder beside it, which then takes its place in one step."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}_", dir=path.parent))
    try:
        _fill(work, compiler, libraries)
        try:
            work.rename(path)
        except OSError:
            if (path / _COMPLETE).is_file():  # another process was quicker
                return
            shutil.rmtree(path)  # somebody has emptied it in part
            work.rename(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(work: Path, compiler: str, libraries: Sequence[Library]) -> None:
    for header in _HEADERS:
        place = work / "include" / header
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(_native(f"include/{header}"))
    for folder in ("src", "lib64", "bin", "dump", "pyasc_cache"):
        (work / folder).mkdir(mode=0o700)
    for source in _SOURCES:
        (work / "src" / source).write_bytes(_native(source))
    for library in libraries:
        _compile(work, compiler, library)
    for soc in _platforms():
        place = work / "tools" / "simulator" / soc / "lib"
        place.mkdir(parents=True)
        (place / "libruntime_camodel.so").symlink_to("../../../../lib64/libruntime_camodel.so")
    (work / "bin" / "compiler.py").write_bytes(_compiler_script())
    for tool, action in (("bisheng", "compile"), ("ld.lld", "link")):
        script = work / "bin" / tool
        script.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "${{0%/*}}/compiler.py" {action} "$@"\n', "utf-8"
        )
        script.chmod(0o700)
    if tuple(libraries) == MODEL_ONLY:
        (work / MARKER).write_text("Not CANN: pyasc's Model backend on asc_sched's simulator.\n", "utf-8")
    write_atomic(work / _COMPLETE, "")


def _platforms() -> list[str]:
    from asc_sched.target import TARGETS

    return list(TARGETS)


def _compile(work: Path, compiler: str, library: Library) -> None:
    out = work / "lib64" / f"lib{library.name}.so"
    command = [
        compiler, "-x", "c++", str(work / "src" / library.source), *_FLAGS, f"-I{work / 'include'}",
        *(f"-D{name}" for name in library.defines), f"-Wl,-soname,{out.name}", "-o", str(out), "-ldl", "-lstdc++",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        told = "\n".join([line for line in lines if "error" in line][:3] or lines[-3:])
        raise BackendError(f"{compiler} can't build the twin's {out.name} (exit code {done.returncode}):\n{told}")
