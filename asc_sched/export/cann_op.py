"""An op as a CANN custom operator project: what `msopgen` gives an empty frame of, filled in.

Prototype (inputs, outputs, dtypes, shape and dtype inference), host tiling in C++ printed from the same sympy formulas
that `asc_sched.tiling` runs, the device kernel from the Ascend C that pyasc emitted (its sizes and scalars come from
the tiling data), CMake files and presets, and a README. Any size; all inputs of one shape.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import CompileError, DeclarationError
from asc_sched.export.render import camel, render, snake
from asc_sched.schedule import Schedule

if TYPE_CHECKING:
    from asc_sched.declare import Op
    from asc_sched.kernel import Kernel
    from asc_sched.tiling.symbolic import SymbolicTiling

_GE_DTYPES = {
    "float32": "DT_FLOAT", "float16": "DT_FLOAT16", "bfloat16": "DT_BF16", "bool": "DT_BOOL", "int8": "DT_INT8",
    "uint8": "DT_UINT8", "int16": "DT_INT16", "int32": "DT_INT32", "int64": "DT_INT64",
}  # fmt: skip
_HEAD = re.compile(r'extern "C"\s+__global__ __aicore__ void (\w+)\((.*)\) \{\n')
_CTRL = re.compile(r"^\s*set_ffts_base_addr\(\*(\w+)\);\n", re.MULTILINE)
_INCLUDE = '#include "kernel_operator.h"\n'
_TEMPLATES = {
    "CMakeLists.txt": "cann_op/CMakeLists.txt.j2",
    "CMakePresets.json": "cann_op/CMakePresets.json.j2",
    "README.md": "cann_op/README.md.j2",
    "op_host/CMakeLists.txt": "cann_op/op_host/CMakeLists.txt.j2",
    "op_host/{base}.cpp": "cann_op/op_host/op.cpp.j2",
    "op_host/{base}_split.h": "cann_op/op_host/split.h.j2",
    "op_kernel/CMakeLists.txt": "cann_op/op_kernel/CMakeLists.txt.j2",
    "op_kernel/{base}.cpp": "cann_op/op_kernel/op.cpp.j2",
    "op_kernel/{base}_tiling.h": "cann_op/op_kernel/tiling.h.j2",
}


@attrs.frozen
class DeviceFunction:
    """A kernel's emitted C++ as a device function: its name, parameters as (type, name), and the lines of its body."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    body: str


def export_cann_op(
    op: Op,
    dtype: Any = "float32",
    *,
    schedule: Schedule | None = None,
    target: Any = None,
    op_type: str | None = None,
) -> dict[str, str]:
    """The project's files: path inside the project to text.

    `op_type` is the operator's type in CANN, in camel case (default: the op's name and ``Custom``). Raises
    `DeclarationError` for a type that C++ can't name, and what compiling the op raises.
    """
    named = op_type if op_type is not None else camel(op.name) + "Custom"
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,63}", named):
        raise DeclarationError(f"operator type {named!r}: expected letters and digits, the first a capital: AddCustom")
    kernel, device = _compile(op, dtype, schedule, target, snake(named))
    values = _values(kernel, device, named, schedule)
    return {path.format(base=values["base"]): render(file, **values) for path, file in _TEMPLATES.items()}


def _compile(
    op: Op, dtype: Any, schedule: Schedule | None, target: Any, base: str
) -> tuple[Kernel, DeviceFunction]:
    """The kernel of any size that takes its tile_length at the launch."""
    from asc_sched.build import lower
    from asc_sched.kernel import generate

    kernel = generate(
        op, None, dtype, schedule=schedule, target=target, name=f"{base}_kernel", tile_argument=True
    )
    return kernel, device_function(lower(kernel.request).ascendc)


def device_function(ascendc: str) -> DeviceFunction:
    """pyasc's kernel as a function to be called from another: no entry point, no hidden argument.

    Raises `CompileError` if pyasc's text isn't of the form known.
    """
    head, ctrl = _HEAD.search(ascendc), _CTRL.search(ascendc)
    if head is None or ctrl is None or not ascendc.startswith(_INCLUDE) or not ascendc.rstrip().endswith("}"):
        raise CompileError("the Ascend C that pyasc emitted doesn't begin as that of a vector kernel does")
    parameters = [_parameter(text) for text in head[2].split(", ")]
    body = ascendc[head.end() :].rstrip()[:-1]
    body = _CTRL.sub("", body, count=1)
    kept = tuple(p for p in parameters if p[1] != ctrl[1])
    if len(kept) + 1 != len(parameters) or ctrl[1] in body:
        raise CompileError(f"the hidden argument {ctrl[1]} of pyasc's kernel is used in more places than one")
    return DeviceFunction(head[1], kept, body)


def _parameter(text: str) -> tuple[str, str]:
    kind, _, name = text.rpartition(" ")
    return kind, name


def _values(kernel: Kernel, device: DeviceFunction, op_type: str, schedule: Schedule | None) -> dict[str, Any]:
    plan, base = kernel.plan, snake(op_type)
    symbolic = split_formulas(kernel, schedule)
    pointers = (*plan.inputs, *plan.outputs)
    fields = _fields(kernel, device)
    casts = [f"reinterpret_cast<{kind}>({t.ident})" for (kind, _), t in zip(device.parameters, pointers, strict=False)]
    return {
        "op": kernel.op,
        "op_type": op_type,
        "base": base,
        "aclnn": f"aclnn{op_type}",
        "expression": str(kernel.op).splitlines(),
        "target": kernel.target,
        "compute_unit": "ascend910_93" if kernel.target.name.startswith("Ascend910_93") else "ascend910b",
        "schedule": kernel.schedule,
        "core_limit": 0 if schedule is None else schedule.core_num or 0,
        "buffer_num": kernel.schedule.buffer_num,
        "tile_by": symbolic.tile_by,
        "tile_length": plan.tile_length,
        "itemsize": max(kernel.itemsizes),
        "formulas": symbolic.cpp_source().splitlines(),
        "inputs": symbolic.inputs,
        "names": list(symbolic.formulas),
        "ge_inputs": [(t.ident, f"ge::{_GE_DTYPES[t.dtype.name]}") for t in plan.inputs],
        "ge_outputs": [(t.ident, f"ge::{_GE_DTYPES[t.dtype.name]}") for t in plan.outputs],
        "attributes": [_attribute(kernel, s.name, s.ident, i) for i, s in enumerate(plan.scalars)],
        "fields": fields,
        "device": device,
        "call": [*casts, *(f"data.{f['name']}" for f in fields)],
        "pointers": [t.ident for t in pointers],
    }


def split_formulas(kernel: Kernel, schedule: Schedule | None) -> SymbolicTiling:
    """The formulas that the host runs: with the tile_length that was asked for, or with tiles up to the kernel's own,
    shorter where that makes them equal."""
    from asc_sched.tiling import Alignment, symbolic_tiling

    align = Alignment.of(kernel.itemsizes, kernel.target)
    tile_by = "fill" if schedule is None or schedule.tile_length is None else "tile_length"
    return symbolic_tiling(kernel.schedule.core_split, align, tile_by)  # type: ignore[arg-type]


def _fields(kernel: Kernel, device: DeviceFunction) -> list[dict[str, str]]:
    """The tiling data: the kernel's arguments after its pointers, in order."""
    known = {"total_length": "total_length", "tile_length": "tile_length"}
    wanted = [next(v for k, v in known.items() if name.startswith(k)) for name, _ in kernel.plan.formulas.arguments]
    names = wanted + [s.ident for s in kernel.plan.scalars]
    kinds = [kind for kind, _ in device.parameters if "*" not in kind]
    return [{"type": kind, "name": name} for kind, name in zip(kinds, names, strict=True)]


def _attribute(kernel: Kernel, name: str, ident: str, index: int) -> dict[str, Any]:
    declared = kernel.op.graph.scalar(name)
    kind, default = ("Float", "0.0f") if declared.dtype.is_float else ("Int", "0")
    if declared.default is not None:
        default = f"{float(declared.default)!r}f" if declared.dtype.is_float else str(int(declared.default))
    return {
        "name": ident, "index": index, "kind": kind, "default": default, "required": declared.default is None,
        "type": "float" if declared.dtype.is_float else "int64_t",
    }  # fmt: skip
