"""Ascend C to a device binary, by pyasc's own `Compiler` (its command line, bisheng and ld.lld), kept on disk.

The lowered C++ is compiled as it is: pyasc's front end has run before, in a worker process. A binary's key holds
everything that it depends on, and its digest is checked when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asc_sched.errors import CompileError, StorageError
from asc_sched.files import warn_once, write_atomic
from asc_sched.paths import cache_dir

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel
    from asc_sched.run.runtime import Runtime

_MAGIC = b"asc_sched device binary 1 "


def device_binary(kernel: Kernel, runtime: Runtime) -> bytes:
    """The kernel's ELF for vector cores. Raises `CompileError` with the compiler's own message."""
    key = _key(kernel, runtime)
    path = _path(key)
    found = _read(path) if path is not None else None
    if found is not None:
        return found
    binary = compile_binary(kernel)
    if path is not None:
        try:
            write_atomic(path, _MAGIC + hashlib.sha256(binary).hexdigest().encode() + b"\n" + binary, durable=False)
        except StorageError as err:
            warn_once("device binaries", f"device binaries can't be kept: {err}")
    return binary


def compile_binary(kernel: Kernel) -> bytes:
    """Run the device compiler. pyasc's dumps (PYASC_DUMP_PATH) are written as for any kernel."""
    from asc.runtime.compiler import CompileOptions, Compiler
    from asc.runtime.config import KernelType
    from asc.runtime.utils import FileUtils

    try:
        compiler: Any = Compiler(CompileOptions(kernel_type=KernelType.AIV_ONLY))
        FileUtils.dump_file(compiler.dump_dir, "ascir.mlir", kernel.asc_ir)
        FileUtils.dump_file(compiler.dump_dir, "ascendc.cpp", kernel.ascendc)
        binary: Any = compiler.run_compilation(kernel.ascendc).binary
    except (RuntimeError, OSError) as err:
        raise CompileError(f"{kernel.name}: the device compiler refused the kernel: {_short(str(err))}") from err
    if not isinstance(binary, bytes) or not binary:
        raise CompileError(f"{kernel.name}: the device compiler left an empty binary")
    return binary


def _short(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines if len(lines) <= 20 else [*lines[:12], f"... {len(lines) - 16} lines ...", *lines[-4:]])


def _key(kernel: Kernel, runtime: Runtime) -> str:
    from asc_sched.build import pyasc_version

    tools = [_identity(os.environ.get(v, n)) for v, n in (("PYASC_COMPILER", "bisheng"), ("PYASC_LINKER", "ld.lld"))]
    parts = {
        "ascendc": kernel.ascendc,
        "asc_ir": kernel.asc_ir,
        "soc": runtime.soc,
        "pyasc": pyasc_version(),
        "cann": [str(runtime.cann.home), runtime.cann.version],
        "tools": tools,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _identity(tool: str) -> list[Any]:
    """Which file a tool is, and which state of it."""
    found = Path(shutil.which(tool) or tool).resolve()
    try:
        info = found.stat()
    except OSError:
        return [str(found)]
    return [str(found), info.st_size, info.st_mtime_ns]


def _path(key: str) -> Path | None:
    folder = cache_dir("binaries")
    return None if folder.path is None else folder.path / f"{key}.bin"


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, binary = data[: len(_MAGIC) + 65], data[len(_MAGIC) + 65 :]
    if head != _MAGIC + hashlib.sha256(binary).hexdigest().encode() + b"\n":
        warn_once(f"damaged {path.name}", f"the device binary {path} is damaged; it is compiled again")
        return None
    return binary
