"""Kernels for the simulator's tests: written by hand as text, lowered by the real pyasc."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from asc_sched.build import ArgType, LowerRequest, lower
from asc_sched.sim import SimReport, simulate
from asc_sched.target import get_target

TARGET = get_target("Ascend910B1")
FILE = "kernel_under_test.py"


@functools.cache
def asc_ir(source: str, args: tuple[str, ...], entry: str = "k") -> str:
    """The ASC-IR of a module's kernel; `args` are dtypes, with ``*`` before those of pointers."""
    types = [ArgType("pointer", a[1:]) if a[0] == "*" else ArgType("scalar", a) for a in args]
    return lower(LowerRequest(source=source, entry=entry, arg_types=types, filename=FILE), cache=None).asc_ir


def run(source: str, args: Sequence[Any], core_num: int = 1, **options: Any) -> SimReport:
    """Lowers a kernel for the given arguments and runs it."""
    types = tuple(f"*{a.dtype.name}" if isinstance(a, np.ndarray) else _scalar_name(a) for a in args)
    text = asc_ir(source, types)
    return simulate(text, args, core_num=core_num, target=TARGET, sources={FILE: source}, **options)


def _scalar_name(value: Any) -> str:
    if isinstance(value, np.generic):
        return value.dtype.name
    return "float32" if isinstance(value, float) else "int32"


def line_of(source: str, text: str) -> int:
    """The number of the only line of `source` that contains `text`."""
    found = [i for i, line in enumerate(source.splitlines(), 1) if text in line]
    assert len(found) == 1, (text, found)
    return found[0]


def instruction_kernel(
    body: str, inputs: Sequence[tuple[str, int]], output: str, count: int, scalars: Sequence[str] = ()
) -> str:
    """A kernel that loads each input (dtype, elements) whole, runs `body`, and stores `count` elements of `z`.

    In `body` the inputs are `a`, `b`, `c`..., the result `z`, scratch `t` (uint8), counts `n`. Everything is ordered
    by barriers, so that `body` alone is under test.
    """
    names = "abcdefg"[: len(inputs)]
    lines = ["import asc", "@asc.jit"]
    params = [f"{n}_addr: asc.GlobalAddress" for n in names] + ["z_addr: asc.GlobalAddress"]
    params += [f"s{i}: {'float' if d.startswith('float') else 'int'}" for i, d in enumerate(scalars)]
    lines.append(f"def k({', '.join(params)}):")
    code = [f"n = asc.number({count}, asc.int32)", "pipe = asc.TPipe()"]
    operands = [*inputs, (output, count)]
    sizes = [elements * np.dtype(d).itemsize for d, elements in operands]
    for name, (dtype, _), nbytes in zip([*names, "z"], operands, sizes, strict=True):
        padded = -(-nbytes // 256) * 256 + 256
        code += [
            f"{name}_gm = asc.GlobalTensor()",
            f"{name}_gm.set_global_buffer({name}_addr)",
            f"{name}_buf = asc.TBuf(asc.TPosition.VECCALC)",
            f"pipe.init_buffer({name}_buf, {padded})",
            f"{name} = {name}_buf.get(asc.{dtype})",
        ]
    code += ["t_buf = asc.TBuf(asc.TPosition.VECCALC)", "pipe.init_buffer(t_buf, 8192)"]
    code.append("t = t_buf.get(asc.uint8)")
    for name, (dtype, _), nbytes in zip(names, inputs, sizes, strict=False):
        code.append(
            f"asc.data_copy_pad({name}, {name}_gm, asc.DataCopyExtParams(1, {nbytes}, 0, 0, 0), "
            f"asc.DataCopyPadExtParams(asc.{dtype}, False, 0, 0, 0))"
        )
    code.append("asc.pipe_barrier(asc.PipeID.PIPE_ALL)")
    code += textwrap.dedent(body).strip().splitlines()
    code.append("asc.pipe_barrier(asc.PipeID.PIPE_ALL)")
    code.append(f"asc.data_copy_pad(z_gm, z, asc.DataCopyExtParams(1, {sizes[-1]}, 0, 0, 0))")
    return "\n".join(lines + [f"    {c}" for c in code]) + "\n"


def compute(
    body: str,
    inputs: Sequence[np.ndarray],
    output: str,
    count: int | None = None,
    scalars: Sequence[Any] = (),
    **kw: Any,
) -> np.ndarray:
    """The result of an `instruction_kernel` on the inputs."""
    count = len(inputs[0]) if count is None else count
    z = np.zeros(count, output)
    shapes = [(i.dtype.name, i.size) for i in inputs]
    source = instruction_kernel(body, shapes, output, count, [_scalar_name(s) for s in scalars])
    run(source, [*inputs, z, *scalars], outputs=[len(inputs)], **kw)
    return z


def source_of(function: Any) -> str:
    """The text of a kernel that stands in a test module's file, as a module of its own."""
    module = inspect.getmodule(function)
    assert module is not None
    return inspect.getsource(module)
