"""The twin's device, inside the process that runs a pyasc script: decodes argument blocks and simulates launches.

Called by the runtime library (native/runtime.cpp) with JSON text; answers are integers, negative for a failure that
has been explained on standard error. Nothing is raised into the library.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import ArgumentError, AscSchedError, SimulationError
from asc_sched.twin.compiler import MAGIC

if TYPE_CHECKING:
    from asc_sched.sim import Module
    from asc_sched.sim.ir import Arg, Func
    from asc_sched.target import Target

_log = logging.getLogger("asc_sched.twin")

#: "0" turns the simulator's findings into warnings; or the names of the checks that stop a launch, comma-separated.
ENV_STRICT = "ASC_SCHED_TWIN_STRICT"
#: Any value: launches aren't reported on standard error.
ENV_QUIET = "ASC_SCHED_TWIN_QUIET"
_REPORTS_MAX = 20
_reported: set[tuple[str, int, str]] = set()


@attrs.frozen
class Slot:
    """Where an argument lies in the block: `offset` as pyasc packs it, `natural` where its size aligns it (bytes)."""

    arg: Arg
    size: int
    offset: int
    natural: int


# -- called by the library -------------------------------------------------------------------------------------------
def started(_: str) -> int:
    """A device was set: from now on this process dumps its kernels into a folder of its own."""
    with contextlib.suppress(OSError):
        _own_dump_folder()
    return 0


def core_num(kind: str) -> int:
    """Cores of the platform that pyasc has set: ``vector``, or ``cube`` (half as many)."""
    cores = _target().vector_cores
    return cores // 2 if kind == "cube" else cores


def launch(text: str) -> int:
    """Simulate one launch, on the memory that was passed; returns its simulated cycles."""
    try:
        return _launch(json.loads(text))
    except SimulationError as err:
        _say(f"{json.loads(text)['name']}: {type(err).__name__}: {err}")
    except AscSchedError as err:
        _say(f"{json.loads(text)['name']}: {err}")
    except KeyboardInterrupt:
        _say("stopped")
    except Exception:  # nothing may pass into the library
        _log.exception("asc_sched twin: this is a fault of asc_sched's own")
    return -1


# -- launching -------------------------------------------------------------------------------------------------------
def _launch(request: Mapping[str, Any]) -> int:
    from asc_sched.sim import simulate

    address, nbytes = request["binary"]
    module = read_binary(ctypes.string_at(address, nbytes))
    func = module.kernel(request["name"])
    address, nbytes = request["args"]
    extents = {int(a): n for a, n in request["extents"].items()}
    args = decode(func, ctypes.string_at(address, nbytes), extents, request["ctrl_addr"])
    target, cores = _target(), request["block_num"]
    report = simulate(module, args, core_num=cores, target=target, strict=_strict(), entry=func.name)
    task_us = _time(module, args, cores, target)
    moved = report.bytes_read + report.bytes_written
    time = "time unknown" if task_us is None else f"{task_us:.2f} us"
    _report(func.name, cores, target, f"{time}, {moved} bytes moved, {report.instructions} instructions")
    return round((task_us or 0.0) * target.clock_mhz)


def _time(module: Module, args: list[Any], cores: int, target: Target) -> float | None:
    """Microseconds of the launch with its inputs in L2, as after the copies from the host; None where the time model
    can't tell: results don't wait for it."""
    from asc_sched.sim.timing import time_kernel

    log = logging.getLogger("asc_sched.sim")
    quiet, log.disabled = log.disabled, True  # what the kernel prints was told when it was executed
    try:
        return time_kernel(module, args, core_num=cores, target=target).task_us
    except Exception as err:
        _log.info("the launch has no predicted time: %s: %s", type(err).__name__, err)
        return None
    finally:
        log.disabled = quiet


def _target() -> Target:
    from asc.lib.runtime import get_soc_version

    from asc_sched.target import get_target

    version = get_soc_version()
    return get_target(getattr(version, "value", version))


def _strict() -> bool | list[str]:
    text = os.environ.get(ENV_STRICT, "1").strip()
    if text in ("0", "1", ""):
        return text != "0"
    return [name.strip() for name in text.split(",") if name.strip()]


def _report(kernel: str, cores: int, target: Target, what: str) -> None:
    """Each kernel's first launch of a kind is told on standard error, later ones are logged."""
    line = f"{kernel} on {cores} cores of {target.name}: simulated, {what}"
    key = (kernel, cores, what)
    if key in _reported or len(_reported) >= _REPORTS_MAX or os.environ.get(ENV_QUIET):
        _log.info("%s", line)
        return
    _reported.add(key)
    _say(line)


def _say(text: str) -> None:
    sys.stderr.write(f"asc_sched twin: {text}\n")
    sys.stderr.flush()


@lru_cache(maxsize=64)
def read_binary(binary: bytes) -> Module:
    """The ASC-IR that the twin's compiler put into a binary. Raises `ArgumentError` for anything else."""
    import hashlib

    from asc_sched.sim import parse

    head, _, ir = binary[len(MAGIC) :].partition(b"\n")
    if not binary.startswith(MAGIC):
        raise ArgumentError("the binary was not made by the twin's compiler")
    if json.loads(head).get("sha256") != hashlib.sha256(ir).hexdigest():
        raise ArgumentError("the binary is damaged: its ASC-IR doesn't have the digest that it names")
    return parse(ir.decode("utf-8"))


# -- the argument block ----------------------------------------------------------------------------------------------
def layout(func: Func) -> tuple[list[Slot], int]:
    """Where a kernel's arguments lie in pyasc's block, and the block's size in bytes.

    pyasc aligns pointers to 8 bytes and pads smaller scalars to 4, but puts an 8-byte scalar right after a 4-byte one;
    `Slot.natural` is where a device function's parameters of those sizes lie.
    """
    slots: list[Slot] = []
    at = natural = 0
    for arg in func.args:
        size = 8 if arg.is_pointer else max(4, _itemsize(arg))
        if arg.is_pointer:
            at = _up(at, 8)
        natural = _up(natural, size)
        slots.append(Slot(arg, size, at, natural))
        at += size
        natural += size
    return slots, _up(at, 8)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _itemsize(arg: Arg) -> int:
    from asc_sched.sim import dtypes

    return dtypes.of(arg.type).size


def decode(func: Func, block: bytes, extents: Mapping[int, int], ctrl_addr: int) -> list[Any]:
    """The explicit arguments of a launch: arrays on the memory that pointers name, numpy scalars for the others.

    `extents`: bytes of device memory from each address that the block holds. Raises `ArgumentError` naming the
    argument that is wrong.
    """
    slots, nbytes = layout(func)
    if len(block) != nbytes:
        printing = "; printf and dump_tensor add one: export ASCENDC_DUMP=false" if len(block) > nbytes else ""
        raise ArgumentError(
            f"the argument block has {len(block)} bytes, the kernel's {len(slots)} arguments take {nbytes}{printing}"
        )
    for slot in slots:
        if slot.offset != slot.natural and _strict():
            raise ArgumentError(
                f"pyasc packs {slot.arg.name} ({slot.size} bytes) at byte {slot.offset} of the argument block, and a "
                f"device function reads it at {slot.natural}: pass 8-byte scalars before 4-byte ones"
            )
    values = [(slot, _value(func, slot, block, extents, ctrl_addr)) for slot in slots]
    return [value for slot, value in values if slot.arg.kind == "explicit"]


def _value(func: Func, slot: Slot, block: bytes, extents: Mapping[int, int], ctrl_addr: int) -> Any:
    import numpy as np

    from asc_sched.sim import dtypes

    raw = block[slot.offset : slot.offset + slot.size]
    if not slot.arg.is_pointer:
        dtype = dtypes.of(slot.arg.type)
        return np.frombuffer(raw[: dtype.size], dtype.np)[0]
    address = int.from_bytes(raw, "little")
    nbytes = extents.get(address, 0)
    if nbytes == 0:
        raise ArgumentError(f"{func.name}: {slot.arg.name} points to {address:#x}, which is no device memory")
    if slot.arg.kind == "ffts_addr":
        _check_ctrl(func, address, nbytes, ctrl_addr)
        return None
    return _array(slot.arg, address, nbytes)


def _check_ctrl(func: Func, address: int, nbytes: int, ctrl_addr: int) -> None:
    """The hidden argument points to device memory that holds the address of the cross-core control block."""
    found = ctypes.c_uint64.from_address(address).value if nbytes >= 8 else None
    if found != ctrl_addr:
        raise ArgumentError(
            f"{func.name}: the hidden argument ffts_addr must point to the control address {ctrl_addr:#x}, and points "
            f"to {'too little memory' if found is None else hex(found)}"
        )


def _array(arg: Arg, address: int, nbytes: int) -> Any:
    import numpy as np

    from asc_sched.sim import dtypes

    dtype = dtypes.of(arg.type)
    memory = (ctypes.c_uint8 * (nbytes // dtype.size * dtype.size)).from_address(address)
    return np.frombuffer(memoryview(memory), dtype=np.uint8).view(dtype.np)


# -- dumps -----------------------------------------------------------------------------------------------------------
def _own_dump_folder() -> None:
    """Point PYASC_DUMP_PATH at a folder of this process inside the shared one, so that processes don't mix kernels.

    pyasc reads the variable at every compilation. Does nothing where the user has chosen a folder.
    """
    home = os.environ.get("ASCEND_HOME_PATH", "")
    current, shared = Path(os.environ.get("PYASC_DUMP_PATH", "")), Path(home, "dump")
    if not home or shared not in (current, *current.parents) or current.name.startswith(f"pid{os.getpid()}_"):
        return
    shared.mkdir(mode=0o700, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"pid{os.getpid()}_", dir=shared)
    os.environ["PYASC_DUMP_PATH"] = folder
    atexit.register(_remove, folder, os.getpid())


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


os.register_at_fork(after_in_child=lambda: started(""))
