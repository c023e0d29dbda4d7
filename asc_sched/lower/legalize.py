"""From a typed graph to a machine program: which instructions compute each function on each dtype.

16-bit floating point is evaluated in float32 and rounded once (`lang/reference.py` has the contract). A single
instruction in float16 rounds once as well, so it is used where its operands are exact float16 values and its result
goes nowhere but to an output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from asc_sched.errors import DtypeError
from asc_sched.lang.dtypes import DTYPES, FLOAT16, FLOAT32, DType
from asc_sched.lang.graph import Node
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower.program import Immediate, Program, ProgramBuilder, ScalarRef

Rule: TypeAlias = "Callable[[Legalizer, Node, DType], int]"


def legalize(typed: TypedGraph) -> Program:
    """The machine program of a typed graph. Raises `DtypeError` naming what the chip can't do."""
    return Legalizer(typed).run()


class Legalizer:
    """Walks the graph once; `form(node, dtype)` is the register that holds a node's value in a dtype."""

    def __init__(self, typed: TypedGraph) -> None:
        self.typed = typed
        self.graph = typed.graph
        self.build = ProgramBuilder()
        self._forms: dict[tuple[int, str], int] = {}
        self._home: dict[int, DType] = {}
        self._users = _users(typed)
        self._exact = _exact_float16(typed)

    def run(self) -> Program:
        for name, dtype in self.typed.input_dtypes.items():
            self._check_supported(dtype)
            self.build.load(name, dtype.name)
        stores = []
        for i, node in enumerate(self.graph.nodes):
            self._node(i, node)
        stored = {self.build.load(name, dtype.name) for name, dtype in self.typed.input_dtypes.items()}
        for output in self.graph.outputs:
            register = self.form(output.node, self.typed.types[output.node].dtype)
            if register in stored:
                register = self.copy(register)
            stored.add(register)
            stores.append((output.name, register))
        return self.build.finish(stores)

    def _check_supported(self, dtype: DType) -> None:
        if dtype.name not in SUPPORTED:
            raise DtypeError(f"dtype {dtype} is not supported yet; supported: {', '.join(SUPPORTED)}")

    # -- values ----------------------------------------------------------------------------------------------------
    def _node(self, index: int, node: Node) -> None:
        dtype = self.typed.types[index].dtype
        if node.fn in ("const", "scalar"):
            return
        if node.fn == "input":
            self._define(index, dtype, self.build.load(str(node.attr), dtype.name))
            return
        self._check_supported(dtype)
        if node.fn == "cast":
            self._define(index, dtype, self.form(node.args[0], dtype))
            return
        compute = self._compute_dtype(index, node, dtype)
        rule = RULES.get(node.fn)
        if rule is None:
            raise DtypeError(f"{node.fn} is not supported on {dtype} yet")
        self._define(index, compute, rule(self, node, compute))

    def _define(self, index: int, dtype: DType, register: int) -> None:
        self._home[index] = dtype
        self._forms[index, dtype.name] = register

    def _compute_dtype(self, index: int, node: Node, dtype: DType) -> DType:
        if not dtype.is_half:
            return dtype
        return FLOAT16 if dtype is FLOAT16 and self._native_float16(index, node) else FLOAT32

    def _native_float16(self, index: int, node: Node) -> bool:
        """Whether float16 instructions give the value rounded once: see the module's docstring."""
        if node.fn not in _SINGLE_ROUNDING or not all(a in self._exact for a in node.args):
            return False
        return index in self._exact or self._users[index] <= {"output", "cast float16"}

    def form(self, index: int, dtype: DType) -> int:
        """The register with node `index` in `dtype`, converting (by torch's rules) where needed."""
        key = (index, dtype.name)
        if key not in self._forms:
            self._forms[key] = self._convert(index, dtype)
        return self._forms[key]

    def _convert(self, index: int, dtype: DType) -> int:
        node = self.graph.nodes[index]
        if node.fn in ("const", "scalar"):
            return self._fill(self.immediate(index, dtype), dtype)
        home = self._home[index]
        return self.convert(self._forms[index, home.name], home, dtype)

    def convert(self, register: int, source: DType, dtype: DType) -> int:
        """Numeric conversion as torch's ``to``: to nearest-even between floats, toward zero to integers."""
        if source is dtype:
            return register
        if self.build.has("cast", dtype.name, source.name):
            return self.build.emit("cast", dtype.name, register, mode=_round_mode(source, dtype))
        for middle in (FLOAT32, FLOAT16):
            if self.build.has("cast", middle.name, source.name) and self.build.has("cast", dtype.name, middle.name):
                half = self.convert(register, source, middle)
                return self.convert(half, middle, dtype)
        raise DtypeError(f"no conversion from {source} to {dtype} on this chip")

    def _fill(self, imm: Immediate, dtype: DType) -> int:
        if isinstance(imm, float) and math.isnan(imm):
            bits = np.array(math.nan, dtype.numpy).view(f"int{8 * dtype.itemsize}")
            return self.build.emit("duplicate_bits", dtype.name, imm=int(bits))
        return self.build.emit("duplicate", dtype.name, imm=imm)

    def number(self, index: int) -> bool:
        """Whether a node is a runtime scalar or a constant that an instruction can take as its immediate."""
        node = self.graph.nodes[index]
        if node.fn == "const":
            return not (isinstance(node.attr, float) and math.isnan(node.attr))
        return node.fn == "scalar"

    def immediate(self, index: int, dtype: DType) -> Immediate:
        """A constant converted to `dtype`, or a reference to a runtime scalar."""
        node = self.graph.nodes[index]
        if node.fn == "scalar":
            return ScalarRef(str(node.attr))
        return constant(node.attr, dtype)

    def is_const(self, index: int) -> bool:
        return self.graph.nodes[index].fn == "const" and self.number(index)

    def copy(self, register: int) -> int:
        """The same bits in a register of their own: x * 1 keeps NaN, infinities and the sign of zero."""
        carrier = self.build.registers[register]
        if carrier.startswith("float"):
            return self.build.emit("muls", carrier, register, imm=1.0, fresh=True)
        return self.build.emit("adds", carrier, register, imm=0, fresh=True)


def constant(value: object, dtype: DType) -> int | float:
    """A Python number as an element of `dtype`: rounded to nearest for floats, wrapped for integers."""
    assert isinstance(value, (bool, int, float))
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return float(np.asarray(value, dtype=np.float64).astype(dtype.numpy))
    return int(np.asarray(int(value) & (2**64 - 1), dtype=np.uint64).astype(dtype.numpy))


def _round_mode(source: DType, dtype: DType) -> str:
    if source.is_float and not dtype.is_float:
        return "CAST_TRUNC"
    widening = dtype.is_float and (source.itemsize < dtype.itemsize)
    return "CAST_NONE" if widening else "CAST_RINT"


def _users(typed: TypedGraph) -> list[set[str]]:
    users: list[set[str]] = [set() for _ in typed.graph.nodes]
    for i, node in enumerate(typed.graph.nodes):
        label = f"cast {typed.types[i].dtype}" if node.fn == "cast" else node.fn
        for a in node.args:
            users[a].add(label)
    for output in typed.graph.outputs:
        users[output.node].add("output")
    return users


# Functions that one float16 instruction computes with a single rounding, and those that don't round at all.
_EXACT = frozenset({"neg", "abs", "relu", "maximum", "minimum"})
_SINGLE_ROUNDING = _EXACT | {"add", "sub", "mul", "div", "sqrt"}


def _exact_float16(typed: TypedGraph) -> frozenset[int]:
    """Nodes whose values are float16 numbers exactly, however they are computed."""
    exact: set[int] = set()
    for i, (node, type_) in enumerate(zip(typed.graph.nodes, typed.types, strict=True)):
        if node.fn == "const":
            ok = _is_float16(node.attr)
        elif node.fn == "scalar":
            ok = type_.dtype is FLOAT16
        elif type_.dtype is not FLOAT16:
            ok = False
        else:
            ok = node.fn in ("input", "cast") or (node.fn in _EXACT and all(a in exact for a in node.args))
        if ok:
            exact.add(i)
    return frozenset(exact)


def _is_float16(value: object) -> bool:
    assert isinstance(value, (bool, int, float))
    rounded = constant(value, FLOAT16)
    return rounded == value or (math.isnan(float(value)) and math.isnan(rounded))


# -- rules: one function of the language on one compute dtype ------------------------------------------------------
def _plain(instruction: str) -> Rule:
    def rule(lower: Legalizer, node: Node, dtype: DType) -> int:
        return lower.build.emit(instruction, dtype.name, *(lower.form(a, dtype) for a in node.args))

    return rule


def _commutative(instruction: str, with_scalar: str) -> Rule:
    def rule(lower: Legalizer, node: Node, dtype: DType) -> int:
        a, b = node.args
        if lower.number(a) and not lower.number(b):
            a, b = b, a
        if lower.number(b) and not lower.number(a):
            return lower.build.emit(with_scalar, dtype.name, lower.form(a, dtype), imm=lower.immediate(b, dtype))
        return lower.build.emit(instruction, dtype.name, lower.form(a, dtype), lower.form(b, dtype))

    return rule


def _sub(lower: Legalizer, node: Node, dtype: DType) -> int:
    a, b = node.args
    if lower.is_const(b) and not lower.number(a):  # x - c is x + (-c), exactly
        imm = constant(-lower.graph.nodes[b].attr, dtype)  # type: ignore[operator]
        return lower.build.emit("adds", dtype.name, lower.form(a, dtype), imm=imm)
    return lower.build.emit("sub", dtype.name, lower.form(a, dtype), lower.form(b, dtype))


def _neg(lower: Legalizer, node: Node, dtype: DType) -> int:
    imm: Immediate = -1.0 if dtype.is_float else -1
    return lower.build.emit("muls", dtype.name, lower.form(node.args[0], dtype), imm=imm)


def _abs(lower: Legalizer, node: Node, dtype: DType) -> int:
    x = lower.form(node.args[0], dtype)
    if dtype.is_float:
        return lower.build.emit("abs", dtype.name, x)
    return lower.build.emit("max", dtype.name, x, lower.build.emit("muls", dtype.name, x, imm=-1))


def _relu(lower: Legalizer, node: Node, dtype: DType) -> int:
    x = lower.form(node.args[0], dtype)
    if lower.build.has("relu", dtype.name, dtype.name):
        return lower.build.emit("relu", dtype.name, x)
    return lower.build.emit("maxs", dtype.name, x, imm=0)


RULES: dict[str, Rule] = {
    "add": _commutative("add", "adds"),
    "mul": _commutative("mul", "muls"),
    "maximum": _commutative("max", "maxs"),
    "minimum": _commutative("min", "mins"),
    "sub": _sub,
    "div": _plain("div"),
    "neg": _neg,
    "abs": _abs,
    "exp": _plain("exp"),
    "log": _plain("ln"),
    "sqrt": _plain("sqrt"),
    "rsqrt": _plain("rsqrt"),
    "reciprocal": _plain("reciprocal"),
    "relu": _relu,
}

SUPPORTED = tuple(d for d in DTYPES if d in ("float32", "float16", "int32", "int16"))
