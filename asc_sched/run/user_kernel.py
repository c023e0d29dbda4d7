"""A user's own `@asc.jit` kernel on the simulator: results, checks and modelled time, without CANN or an NPU."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from asc_sched.build import ArgType, lower_file
from asc_sched.errors import ArgumentError
from asc_sched.sim import ArraySpec, HardwareError, SimReport, Timing, simulate, time_kernel
from asc_sched.target import Target, get_target

_WIDE = {"bfloat16": "int16", "bool": "uint8"}  # pyasc has no such pointers; the bits travel as these


@attrs.frozen
class KernelRun:
    """What a simulated run of a user's kernel gave. `timing` is modelled time, never measured; None with the reason in
    `no_timing` where the kernel's control flow depends on tensor data."""

    asc_ir: str
    ascendc: str
    report: SimReport
    timing: Timing | None
    no_timing: str = ""


def simulate_kernel(
    kernel: Any,
    *args: Any,
    core_num: int,
    target: str | Target | None = None,
    strict: bool | Collection[str] = True,
    outputs: Collection[int] | None = None,
    l2: str = "hot",
    **constexprs: Any,
) -> KernelRun:
    """Compile a vector kernel with the real pyasc and run it on `core_num` simulated cores.

    `kernel` is ``"FILE.py:name"`` or the `@asc.jit` function itself. `args` are its run-time arguments in order: numpy
    arrays or CPU torch tensors (contiguous, updated in place), and numbers, typed as pyasc types them (int is int32,
    float is float32, numpy scalars are their own). `asc.ConstExpr` parameters are given by keyword. `outputs` are the
    positions of arguments that hold nothing before and must be complete after. `strict` as in `sim.simulate`.

    Raises `ArgumentError`, `CompileError`, and the classes of `asc_sched.sim.errors` for what hardware would corrupt.
    """
    chip = get_target() if target is None else get_target(target)
    path, name = _place(kernel)
    values = [_argument(i, a) for i, a in enumerate(args)]
    lowered = lower_file(path, name, [_type(v) for v in values], constexprs=_constants(constexprs), target=chip.name)
    report = simulate(
        lowered.asc_ir, values, core_num=core_num, target=chip, strict=strict, outputs=outputs, entry=_entry(name),
        sources={Path(path).name: Path(path).read_text(encoding="utf-8")},
    )  # fmt: skip
    specs = [ArraySpec(str(v.dtype), v.nbytes) if isinstance(v, np.ndarray) else v for v in values]
    try:
        timing = time_kernel(lowered.asc_ir, specs, core_num=core_num, target=chip, l2=l2, entry=_entry(name))
    except HardwareError as error:
        return KernelRun(lowered.asc_ir, lowered.ascendc, report, None, str(error))
    return KernelRun(lowered.asc_ir, lowered.ascendc, report, timing)


def _entry(name: str) -> str:
    return name.rpartition(".")[2]


def _place(kernel: Any) -> tuple[str, str]:
    if isinstance(kernel, str):
        path, colon, name = kernel.rpartition(":")
        if not colon or not path or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
            raise ArgumentError(f"kernel {kernel!r}: expected FILE.py:name, such as my_kernels.py:add")
        return path, name
    function = getattr(kernel, "fn", kernel)
    file = inspect.getsourcefile(function) if callable(function) else None
    if file is None:
        raise ArgumentError(f"{kernel!r} is neither 'FILE.py:name' nor an @asc.jit function in a file")
    return file, function.__qualname__


def _argument(index: int, value: Any) -> Any:
    """A numpy array on the caller's own memory, or a numpy scalar of the type that pyasc gives the number."""
    if hasattr(value, "data_ptr"):
        return _tensor(index, value)
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ArgumentError(f"argument {index} is not contiguous; the launcher passes plain memory")
        return value
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.int8(value)
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise ArgumentError(f"argument {index}: {value} is over int32, as which pyasc passes it; use np.int64(...)")
        return np.int32(value)
    if isinstance(value, float):
        return np.float32(value)
    raise ArgumentError(f"argument {index} is a {type(value).__name__}; kernels take arrays, tensors and numbers")


def _tensor(index: int, value: Any) -> np.ndarray[Any, Any]:
    import torch

    if value.device.type != "cpu" or not value.is_contiguous():
        raise ArgumentError(f"argument {index} is a tensor on {value.device}; it must be contiguous and on the CPU")
    name = str(value.dtype).removeprefix("torch.")
    flat: np.ndarray[Any, Any] = value.detach().reshape(-1).view(torch.uint8).numpy()
    return flat.view(_WIDE.get(name, name))


def _type(value: Any) -> ArgType:
    name = str(value.dtype)
    return ArgType("pointer" if isinstance(value, np.ndarray) else "scalar", _WIDE.get(name, name))


def _constants(constexprs: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in constexprs.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ArgumentError(f"{name}={value!r}: an asc.ConstExpr is a number, a bool or a text")
    return dict(constexprs)


def parse_arguments(words: Sequence[str], seed: int = 0) -> tuple[list[Any], set[int], dict[str, Any]]:
    """Arguments as text: what they are, which are outputs, and the constants by name. See `asc-sched sim --help`."""
    generator = np.random.default_rng(seed)
    values: list[Any] = []
    outputs: set[int] = set()
    constants: dict[str, Any] = {}
    for word in words:
        if word.startswith("const:"):
            name, equals, text = word.removeprefix("const:").partition("=")
            if not equals or not name.isidentifier():
                raise ArgumentError(f"argument {word!r}: expected const:NAME=VALUE")
            constants[name] = _number_or_text(text)
            continue
        if word.startswith("out:"):
            outputs.add(len(values))
        values.append(_parse_one(word.removeprefix("out:"), generator))
    return values, outputs, constants


_ARRAY = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<shape>\d+(x\d+)*)\](=(?P<fill>\w+))?")
_SCALAR = re.compile(r"(?P<dtype>(u?int|float)\d+):(?P<value>\S+)")


def _parse_one(word: str, generator: np.random.Generator) -> Any:
    if word.startswith("@"):
        return _load(word[1:])
    array = _ARRAY.fullmatch(word)
    if array:
        shape = tuple(int(d) for d in array["shape"].split("x"))
        return _filled(_dtype(word, array["dtype"]), shape, array["fill"] or "random", generator)
    scalar = _SCALAR.fullmatch(word)
    if scalar:
        return _scalar(word, _dtype(word, scalar["dtype"]), scalar["value"])
    number = _number_or_text(word)
    if isinstance(number, (int, float)):
        return number
    raise ArgumentError(
        f"argument {word!r}: expected an array (float32[8x2048], out:float16[100]=zeros, @file.npy), a number "
        "(5, 1.5, int64:7) or const:NAME=VALUE"
    )


def _scalar(word: str, dtype: np.dtype[Any], text: str) -> Any:
    try:
        number = _number(text)
    except ValueError:
        raise ArgumentError(f"argument {word!r}: {text} is no {dtype}") from None
    limits = None if dtype.kind == "f" else np.iinfo(dtype)
    if limits is not None and not (isinstance(number, int) and limits.min <= number <= limits.max):
        raise ArgumentError(f"argument {word!r}: {text} is no {dtype}")
    return dtype.type(number)


def _dtype(word: str, name: str) -> np.dtype[Any]:
    try:
        return np.dtype(_WIDE.get(name, name))
    except TypeError:
        raise ArgumentError(f"argument {word!r}: unknown dtype {name!r}") from None


def _filled(dtype: np.dtype[Any], shape: tuple[int, ...], fill: str, generator: np.random.Generator) -> Any:
    if fill in ("zeros", "ones"):
        return getattr(np, fill)(shape, dtype)
    if fill == "arange":
        return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    if fill == "random":
        if dtype.kind == "f":
            return generator.standard_normal(shape).astype(dtype)
        return generator.integers(0 if dtype.kind == "u" else -100, 101, shape).astype(dtype)
    raise ArgumentError(f"={fill}: arrays are filled with random, zeros, ones or arange")


def _load(path: str) -> Any:
    try:
        return np.ascontiguousarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError) as error:
        raise ArgumentError(f"argument @{path}: {error}") from None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _number_or_text(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    try:
        return _number(text)
    except ValueError:
        return text
