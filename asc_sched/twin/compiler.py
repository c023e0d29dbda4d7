"""The twin's device compiler and linker: takes pyasc's command lines, keeps the kernel's ASC-IR as its "binary".

Runs as a script of its own, copied into the twin's folder and started with ``python -I -S``: standard library only.

pyasc leaves the ASC-IR in PYASC_DUMP_PATH just before it calls the compiler. Since the files there have fixed names and
processes may share the folder, what is found is compared with the C++ that was passed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

MAGIC = b"asc_sched twin kernel 1\n"
_KERNEL = re.compile(r"__global__\s+__aicore__\s+void\s+(\w+)\s*\(")
_CPP_NUMBER = re.compile(r"constexpr int(?:8|16|32|64)_t \w+ = (-?\d+);")
_IR_NUMBER = re.compile(r"arith\.constant (-?\d+) : i(?:8|16|32|64)\b")


class Refusal(Exception):
    """The kernel can't be taken; the text says why."""


def main(argv: list[str]) -> int:
    """``compile`` or ``link``, then the command line that bisheng or ld.lld would get."""
    tool, args = argv[0], argv[1:]
    _log(tool, args)
    try:
        if tool == "compile":
            _compile(args)
        else:
            _link(args)
    except (Refusal, OSError, ValueError) as err:
        print(f"asc_sched twin: {err}", file=sys.stderr)  # noqa: T201  (a compiler's messages)
        return 1
    return 0


def _log(tool: str, args: list[str]) -> None:
    path = os.environ.get("ASC_SCHED_TWIN_LOG")
    if path:
        line = json.dumps({"call": tool, "args": args}) + "\n"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(line)


def _value_of(args: list[str], option: str) -> str:
    if option not in args or args.index(option) + 1 >= len(args):
        raise Refusal(f"the command line has no {option}: {' '.join(args)}")
    return args[args.index(option) + 1]


def _compile(args: list[str]) -> None:
    arch = next((a.split("=", 1)[1] for a in args if a.startswith("--cce-aicore-arch=")), "")
    if not arch.endswith("-vec"):
        raise Refusal(
            f"this kernel is compiled for {arch or 'an unknown core'}: matmul and other cube-core kernels can't be "
            "simulated, only kernels of vector cores (dav-c220-vec); run it with CANN's own simulator or on an NPU"
        )
    source = next((Path(a) for a in args if a.endswith(".cce")), None)
    if source is None:
        raise Refusal(f"the command line has no .cce file: {' '.join(args)}")
    cpp = source.read_text(encoding="utf-8")
    ir = _find_ir(cpp)
    found = _KERNEL.search(cpp)
    header = {"kernel": found.group(1) if found else "", "arch": arch, "sha256": hashlib.sha256(ir).hexdigest()}
    body = MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + ir
    Path(_value_of(args, "-o")).write_bytes(body)


def _link(args: list[str]) -> None:
    """One object: it becomes the result as it is (pyasc links a file onto itself)."""
    out = Path(_value_of(args, "-o"))
    objects = [Path(a) for a in args if a.endswith(".o") and Path(a) != out] or [out]
    if len(objects) > 1:
        raise Refusal("kernels of cube and vector cores together (mix kernels) can't be simulated")
    if not objects[0].read_bytes().startswith(MAGIC):
        raise Refusal(f"{objects[0].name} was not made by the twin's compiler")
    if objects[0] != out:
        shutil.copyfile(objects[0], out)


def _find_ir(cpp: str) -> bytes:
    folder = os.environ.get("PYASC_DUMP_PATH")
    if not folder:
        raise Refusal("PYASC_DUMP_PATH is not set, so pyasc leaves no ASC-IR to simulate; `asc-sched twin env` sets it")
    try:
        dumped = Path(folder, "ascendc.cpp").read_text(encoding="utf-8")
        ir = Path(folder, "ascir.mlir").read_bytes()
    except OSError as err:
        raise Refusal(f"pyasc left no ASC-IR in PYASC_DUMP_PATH={folder}: {err.strerror}") from None
    if dumped != cpp or not _same_kernel(ir.decode("utf-8"), cpp):
        raise Refusal(
            f"PYASC_DUMP_PATH={folder} holds another kernel than the one being compiled: two processes compiled there "
            "at the same time; run it again, or give each process a PYASC_DUMP_PATH of its own"
        )
    return ir


def _same_kernel(ir: str, cpp: str) -> bool:
    """Whether C++ can have been emitted from this ASC-IR: the kernel's name, and every integer constant in order."""
    kernel = _KERNEL.search(cpp)
    if kernel is None or f"func.func @{kernel.group(1)}(" not in ir:
        return False
    return _CPP_NUMBER.findall(cpp) == _IR_NUMBER.findall(ir)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
