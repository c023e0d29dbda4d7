"""Running a kernel's IR: `simulate` for results and checks, `stream` for the instructions alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from asc_sched.errors import ArgumentError
from asc_sched.sim import dtypes, errors, scalar
from asc_sched.sim.dtypes import DType
from asc_sched.sim.errors import HardwareError
from asc_sched.sim.execute import ExecutingCore
from asc_sched.sim.findings import Findings
from asc_sched.sim.ir import Arg, Func, Module
from asc_sched.sim.machine import Program, compile_kernel
from asc_sched.sim.memory import Gm, GmBuffer
from asc_sched.sim.parse import parse
from asc_sched.sim.record import RecordingCore
from asc_sched.sim.stream import Record
from asc_sched.target import Target


@attrs.frozen
class ArraySpec:
    """Stands for a GM array where no data is needed: numpy dtype name and size in bytes."""

    dtype: str
    nbytes: int


Argument: TypeAlias = "np.ndarray[Any, Any] | np.generic | int | float | ArraySpec"


@attrs.frozen
class SimReport:
    """What a simulated launch did. Bytes are GM traffic; `ub_bytes` is the most UB that a core laid out."""

    kernel: str
    core_num: int
    instructions: int
    bytes_read: int
    bytes_written: int
    ub_bytes: int
    warnings: tuple[HardwareError, ...]


def simulate(
    asc_ir: str | Module,
    args: Sequence[Argument],
    *,
    core_num: int,
    target: Target,
    strict: bool | Collection[str] = True,
    entry: str | None = None,
    outputs: Collection[int] | None = None,
    sources: Mapping[str, str] | None = None,
) -> SimReport:
    """Runs a kernel on `core_num` cores, one after the other, and updates the arrays in `args` in place.

    `args`: the kernel's explicit arguments in order: contiguous numpy arrays for pointers, numbers for scalars.
    `strict`: True raises at the first finding, False makes findings warnings (`SimReport.warnings`, Python logging),
    a collection of check names (`errors.CHECKS`) raises for those alone. `outputs`: indices of arguments whose contents
    are undefined before and must be complete after; without it, gaps in what is only written are warnings. `sources`:
    kernel source text by the file name that the IR's locations carry, for messages (files with an absolute path are
    read).

    Raises `ArgumentError` for arguments that don't fit the kernel, and the classes of `sim.errors`.
    """
    func = _kernel(asc_ir, entry)
    findings = Findings(strict, sources)
    program = _compile(func, findings)
    values, buffers = _bind(func, args, frozenset(outputs or ()))
    gm = Gm(buffers)
    instructions = bytes_read = bytes_written = ub_bytes = 0
    for number in range(core_num):
        core = ExecutingCore(number, core_num, target, findings, _names(func), gm=gm)
        program.run(core, values)
        gm.finish_core(number)
        instructions += core.instructions
        bytes_read += core.bytes_read
        bytes_written += core.bytes_written
        ub_bytes = max(ub_bytes, core.pipe.peak)
    for buffer in gm.buffers:
        if outputs is None:
            _warn_of_gaps(func, gm, buffer, findings)
        elif buffer.is_output:
            _check_written(func, gm, buffer, findings)
    warnings = tuple(findings.warnings)
    return SimReport(func.name, core_num, instructions, bytes_read, bytes_written, ub_bytes, warnings)


def stream(
    asc_ir: str | Module,
    args: Sequence[Argument],
    *,
    core: int,
    core_num: int,
    target: Target,
    entry: str | None = None,
) -> Iterator[Record]:
    """The instruction stream of one core as records, in program order.

    No tensors are needed: pointer arguments may be `ArraySpec`s (or arrays, of which no data is read). Raises
    `StreamDataError` when the kernel's control flow depends on tensor data.
    """
    func = _kernel(asc_ir, entry)
    program = compile_kernel(func, True)
    values, _ = _bind(func, args, frozenset(), need_data=False)
    recorder = RecordingCore(core, core_num, target, Findings((), quiet=True), _names(func))
    for _ in program.iterate(recorder, values):
        if recorder.records:
            yield from recorder.records
            recorder.records.clear()
    yield from recorder.records


def _compile(func: Func, findings: Findings) -> Program:
    """The kernel's program; an operation without a model is reported with its source line."""
    try:
        return compile_kernel(func, False)
    except HardwareError as e:
        line = findings.source_line(e.loc)
        raise type(e)(f"{e}\n    {line}" if line else str(e), e.loc) from None


def _kernel(asc_ir: str | Module, entry: str | None) -> Func:
    module = parse(asc_ir) if isinstance(asc_ir, str) else asc_ir
    try:
        return module.kernel(entry)
    except KeyError as e:
        raise ArgumentError(str(e.args[0])) from None


def _names(func: Func) -> list[str]:
    return [a.name for a in func.explicit_args if a.is_pointer]


def _bind(
    func: Func, args: Sequence[Argument], outputs: frozenset[int], need_data: bool = True
) -> tuple[list[Any], list[GmBuffer]]:
    """The kernel's value for each argument: (buffer number, byte offset 0) for pointers, plain numbers for scalars."""
    formal = func.explicit_args
    if len(args) != len(formal):
        names = ", ".join(a.name for a in formal)
        raise ArgumentError(f"kernel {func.name} takes {len(formal)} arguments ({names}), got {len(args)}")
    values: list[Any] = []
    buffers: list[GmBuffer] = []
    for index, (arg, actual) in enumerate(zip(formal, args, strict=True)):
        if arg.is_pointer:
            values.append((len(buffers), 0))
            buffers.append(_buffer(func, arg, actual, index in outputs, need_data))
        else:
            values.append(_number(func, arg, actual))
    return values, buffers


def _number(func: Func, arg: Arg, actual: Argument) -> Any:
    dtype = dtypes.of(arg.type)
    if isinstance(actual, (np.ndarray, ArraySpec)) or not isinstance(actual, (int, float, np.generic)):
        raise ArgumentError(f"argument {arg.name} of kernel {func.name} is a {dtype}, got {type(actual).__name__}")
    plain = actual.item() if isinstance(actual, np.generic) else actual
    if not dtype.is_float and isinstance(plain, float):
        raise ArgumentError(f"argument {arg.name} of kernel {func.name} is a {dtype}, got the float {plain}")
    return scalar.constant(plain, dtype)


def _buffer(func: Func, arg: Arg, actual: Argument, is_output: bool, need_data: bool) -> GmBuffer:
    dtype = dtypes.of(arg.type)
    if isinstance(actual, ArraySpec):
        if need_data:
            raise ArgumentError(f"argument {arg.name} of kernel {func.name} needs an array, got {actual}")
        return GmBuffer(arg.name, dtype, np.empty(0, np.uint8), 0, actual.nbytes)
    if not isinstance(actual, np.ndarray):
        kind = type(actual).__name__
        raise ArgumentError(f"argument {arg.name} of kernel {func.name} is an array of {dtype}, got {kind}")
    if not _fits(actual.dtype, dtype):
        raise ArgumentError(f"argument {arg.name} of kernel {func.name} is an array of {dtype}, got {actual.dtype}")
    if not actual.flags.c_contiguous:
        raise ArgumentError(f"argument {arg.name} of kernel {func.name} must be contiguous")
    if is_output and not actual.flags.writeable:
        raise ArgumentError(f"argument {arg.name} of kernel {func.name} is an output and read-only")
    data = actual.reshape(-1).view(np.uint8) if actual.size else np.empty(0, np.uint8)
    return GmBuffer(arg.name, dtype, data, actual.ctypes.data, actual.nbytes, is_output, actual.flags.writeable)


def _fits(actual: np.dtype[Any], dtype: DType) -> bool:
    """Whether an array can stand for GM of `dtype`: the same type, or bits that pyasc has no pointer type for."""
    if actual == dtype.np:
        return True
    return actual.itemsize == dtype.size and not dtype.is_float and actual.name in ("bfloat16", "bool")


def _not_written(func: Func, gm: Gm, buffer: GmBuffer) -> errors.NotWrittenError | None:
    gaps = list(gm.all_writes.gaps(buffer.address, buffer.address + buffer.nbytes))
    if not gaps:
        return None
    size = buffer.dtype.size
    missing = sum(end - start for start, end in gaps) // size
    ranges = [f"[{(s - buffer.address) // size}:{-(-(e - buffer.address) // size)}]" for s, e in gaps]
    more = f" and {len(ranges) - 4} more ranges" if len(ranges) > 4 else ""
    text = f"{missing} of {buffer.nbytes // size} elements of {buffer.name} are never written: {', '.join(ranges[:4])}"
    return errors.NotWrittenError(f"{func.loc}: {text}{more}", func.loc)


def _check_written(func: Func, gm: Gm, buffer: GmBuffer, findings: Findings) -> None:
    """A declared output must be complete."""
    finding = _not_written(func, gm, buffer)
    if finding is not None:
        findings.add(finding)


def _warn_of_gaps(func: Func, gm: Gm, buffer: GmBuffer, findings: Findings) -> None:
    """An array that is written and never read looks like an output; if it isn't complete, that is worth a word."""
    start, end = buffer.address, buffer.address + buffer.nbytes
    if gm.all_writes.overlap(start, end) and not gm.all_reads.overlap(start, end):
        finding = _not_written(func, gm, buffer)
        if finding is not None:
            findings.warn(finding)
