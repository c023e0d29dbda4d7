"""Runs a machine program on numpy arrays, with the simulator's own instruction semantics but no kernel around it.

A sweep over every float16 value takes milliseconds this way, so all functions can have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from asc_sched import Op
from asc_sched.lang.dtypes import DTYPES
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lang.reference import evaluate
from asc_sched.lower.legalize import legalize
from asc_sched.lower.program import Immediate, Program, ScalarExpr, ScalarRef, Step
from asc_sched.run.check import allowances, compare
from asc_sched.sim.instructions import BASIC, INLINE
from asc_sched.sim.numerics.casts import Round

Array = np.ndarray[Any, Any]
_NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "mask": np.dtype(bool)}
_COMPARE_MODES = ("LT", "GT", "EQ", "LE", "GE", "NE")
_BY_NAME = {i.name: i for i in (*INLINE.values(), *BASIC.values())} | {"Select": BASIC["select"]}


def dtype_of(carrier: str) -> np.dtype[Any]:
    return _NUMPY.get(carrier) or np.dtype(carrier)


def run_program(
    program: Program, inputs: Mapping[str, Array], scalars: Mapping[str, float] | None = None
) -> dict[str, Array]:
    """Stored arrays by output name, from loaded arrays by input name (bool as uint8)."""
    held: dict[int, Array] = {}
    asked = len(next(iter(inputs.values())))
    length = asked + asked % 2  # And, Or and Not work on 16-bit words
    for name, register in program.loads:
        carrier = program.registers[register]
        array = np.ascontiguousarray(inputs[name]).view(dtype_of(carrier))
        held[register] = np.concatenate([array, array[-1:]]) if asked % 2 else array
    last = {s: i for i, step in enumerate(program.steps) for s in step.srcs}
    kept = {r for _, r in program.stores}
    for i, step in enumerate(program.steps):
        held[step.dst] = _run(program, step, held, length, scalars or {})
        for s in set(step.srcs):
            if last[s] == i and s not in kept:
                held.pop(s, None)
    return {name: held[register][:asked] for name, register in program.stores}


def _run(program: Program, step: Step, held: Mapping[int, Array], length: int, scalars: Mapping[str, float]) -> Array:
    row = step.instruction
    srcs = tuple(held[s] for s in step.srcs)
    imm = _number(step.imm, scalars)
    out = np.empty(length, dtype_of(row.dst))
    if row.name.startswith("bitwise") and row.dst == "mask":
        return _logic(row.name, srcs)
    if row.name == "duplicate" and row.dst == "mask":
        return np.full(length, imm != 0)
    view, views, imm = _seen(row.name.startswith("bitwise"), row.call, out, srcs, imm)
    name = row.name if row.name in ("select_scalar", "select_zero") else row.ascendc
    compute = BASIC["select_scalar"].compute if name != row.ascendc else _BY_NAME[name].compute
    mode = 0
    if row.ascendc == "Cast":
        mode = Round[step.mode].value
        _check_cast(row.signature, mode)
    elif row.ascendc.startswith("Compare"):
        mode = _COMPARE_MODES.index(step.mode)
    compute(view, views, 0.0 if name == "select_zero" else imm, mode)
    return out


def _number(imm: Immediate | None, scalars: Mapping[str, float]) -> Any:
    if isinstance(imm, ScalarRef):
        return scalars[imm.name]
    if isinstance(imm, ScalarExpr):
        left, right = (np.float32(_number(side, scalars)) for side in (imm.left, imm.right))
        with np.errstate(all="ignore"):
            return float({"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[imm.symbol](left, right))
    return imm


def _logic(name: str, srcs: tuple[Array, ...]) -> Array:
    if name == "bitwise_not":
        return ~srcs[0]
    return srcs[0] & srcs[1] if name == "bitwise_and" else srcs[0] | srcs[1]


def _seen(
    row_is_bitwise: bool, call: str, out: Array, srcs: tuple[Array, ...], imm: Any
) -> tuple[Array, tuple[Array, ...], Any]:
    """Operands as the call sees them: reinterpreted where its text says so."""

    def view(hole: str, array: Array) -> Array:
        head = "{" + hole + "}.reinterpret_cast(asc."
        if head not in call:
            return array.view(np.int16) if row_is_bitwise and array.itemsize == 2 else array
        kind = call.split(head)[1].split(")")[0]
        return array.view(kind)

    return view("dst", out), tuple(view(str(i), s) for i, s in enumerate(srcs)), imm


_C_NAMES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16_t"}


def _check_cast(signature: tuple[str, ...], mode: int) -> None:
    c = tuple(_C_NAMES.get(s, f"{s}_t") for s in signature)
    complaint = BASIC["cast"].complaint(c, mode)
    assert complaint is None, complaint


def typed_op(op: Op, dtypes: Mapping[str, str]) -> TypedGraph:
    return infer(op.graph, {n: DTYPES[dtypes[n]] for n in op.inputs})


def to_numpy(tensor: torch.Tensor) -> Array:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_NUMPY["bfloat16"])
    return (tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor).numpy()


def to_torch(array: Array, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bfloat16:
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    found = torch.from_numpy(np.ascontiguousarray(array))
    return found.view(torch.bool) if dtype == torch.bool else found


def run_both(
    op: Op, *tensors: torch.Tensor, precision: str = "exact", **scalars: float
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(machine program's result, torch's reference) for each output."""
    typed, named, bound = _bind(op, tensors, scalars)
    found = run_program(legalize(typed, precision), {n: to_numpy(t) for n, t in named.items()}, bound)
    expected = evaluate(typed, named, bound)
    return [(to_torch(found[n], expected[n].dtype), expected[n]) for n in op.outputs]


def _bind(
    op: Op, tensors: Sequence[torch.Tensor], scalars: Mapping[str, float]
) -> tuple[TypedGraph, dict[str, torch.Tensor], dict[str, Any]]:
    named = dict(zip(op.inputs, tensors, strict=True))
    typed = infer(op.graph, {n: DTYPES[str(t.dtype).removeprefix("torch.")] for n, t in named.items()})
    return typed, named, op.bind_scalars(scalars)


def check_op(op: Op, tensors: Sequence[torch.Tensor], precision: str = "exact", **scalars: float) -> None:
    """The result is torch's: integers and bools exactly, floats within the tolerance of `asc-sched run`."""
    typed, named, bound = _bind(op, tensors, scalars)
    allowed = allowances(typed, named, bound, precision)
    results = run_both(op, *tensors, precision=precision, **scalars)
    for name, (found, expected) in zip(op.outputs, results, strict=True):
        compared = compare(found, expected, allowed(name))
        assert compared.ok, f"{op.name}: {compared.mismatches} of {compared.elements} elements of {name} are off"
