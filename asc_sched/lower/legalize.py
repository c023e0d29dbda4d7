"""From a typed graph to a machine program: which instructions compute each function on each dtype.

16-bit floating point is evaluated in float32 and rounded once (`lang/reference.py` has the contract). A single
instruction in float16 rounds once as well, so it is used where its operands are exact float16 values and its result
goes nowhere but to an output. 8-bit integers are computed in int16 and wrapped; bools are masks, one bit per element.
"""

from __future__ import annotations

import math

import attrs

from asc_sched.errors import PrecisionError
from asc_sched.lang.dtypes import BOOL, FLOAT16, FLOAT32, INT32, INT64, DType, Kind
from asc_sched.lang.graph import Node
from asc_sched.lang.infer import TypedGraph, rounded_first
from asc_sched.lower.convert import FILLED, constant, convert, filled, home_carrier, to_dtype
from asc_sched.lower.halves import early_nodes, exact_float16, narrow_nodes
from asc_sched.lower.program import Immediate, Program, ProgramBuilder, ScalarExpr, ScalarRef
from asc_sched.lower.ranges import INT32 as INT32_RANGE
from asc_sched.lower.ranges import fits, float_bounds, integer_ranges
from asc_sched.lower.registers import Operand, Reg, fill
from asc_sched.lower.rules import CHOOSING, NATIVE_FLOAT16, SINGLE_ROUNDING, find_rule
from asc_sched.lower.wide import Words, extend, join, split


def legalize(typed: TypedGraph, precision: str = "exact") -> Program:
    """The machine program of a typed graph. Raises `DtypeError` naming what the chip can't do.

    `precision`: "exact" is torch's values (docs/precision.md has the contract), "fast" the chip's quick forms.
    """
    if precision not in PRECISIONS:
        raise PrecisionError(f"precision={precision!r}; it is {' or '.join(map(repr, PRECISIONS))}")
    return Legalizer(typed, precision == "fast").run()


PRECISIONS = ("exact", "fast")


class Legalizer:
    """Walks the graph once; `form(node, carrier)` is the register that holds a node's value as a carrier."""

    def __init__(self, typed: TypedGraph, fast: bool = False) -> None:
        self.typed = typed
        self.fast = fast
        self.graph = typed.graph
        self.build = ProgramBuilder()
        self._forms: dict[tuple[int, str], Reg] = {}
        self._home: dict[int, str] = {}
        self.uses = _uses(typed)
        self.narrow = narrow_nodes(typed)
        self._exact = set(exact_float16(typed))
        self._early = early_nodes(typed)
        self._ranges = integer_ranges(typed)
        self._bounds = float_bounds(self.graph)
        self._scalars = _scalar_values(typed)
        self._words: dict[int, Words] = {}

    def run(self) -> Program:
        loaded = {self.build.load(name, gm_carrier(dtype)) for name, dtype in self.typed.input_dtypes.items()}
        for i, node in enumerate(self.graph.nodes):
            self._node(i, node)
        stores = []
        for output in self.graph.outputs:
            register = self.form(output.node, gm_carrier(self.typed.types[output.node].dtype))
            if register.index in loaded:
                register = copy(register)
            loaded.add(register.index)
            stores.append((output.name, register.index))
        return self.build.finish(stores)

    # -- values ----------------------------------------------------------------------------------------------------
    def _node(self, index: int, node: Node) -> None:
        dtype = self.typed.types[index].dtype
        if node.fn in ("const", "scalar") or index in self._scalars:
            return
        if node.fn == "input":
            self._define(index, Reg(self.build, self.build.load(str(node.attr), gm_carrier(dtype))))
        elif node.fn == "cast":
            self._define(index, self.as_dtype(node.args[0], dtype))
        else:
            call = Call(self, index, node, self._operand_dtype(index, node), dtype)
            self._define(index, find_rule(node.fn, call.dtype, dtype)(call))

    def _define(self, index: int, register: Reg) -> None:
        self._home[index] = register.carrier
        self._forms[index, register.carrier] = register

    def _operand_dtype(self, index: int, node: Node) -> DType:
        """The dtype to compute in: torch's common dtype of the operands, but float32 for 16-bit floating point."""
        type_ = self.typed.types[index]
        dtype = type_.operands or type_.dtype
        if dtype.kind is not Kind.FLOAT and type_.dtype.is_float:
            dtype = FLOAT32  # torch's float functions of integers
        if dtype is INT64 and self._is_small(index, node):
            return INT32
        if not dtype.is_half:
            return dtype
        return FLOAT16 if dtype is FLOAT16 and self._native_float16(index, node) else FLOAT32

    def _is_small(self, index: int, node: Node) -> bool:
        """Whether int32 holds an int64 function's operands and result."""
        operands = node.args[1:] if node.fn == "where" else node.args
        return all(
            self.typed.types[i].dtype is BOOL or fits(self._ranges[i], INT32_RANGE) for i in (*operands, index)
        )

    def words(self, index: int) -> Words:
        """An int64 node as two int32 words."""
        register = self.as_dtype(index, INT64)
        if register.index not in self._words:
            small = fits(self._ranges[index], INT32_RANGE)
            node = self.graph.nodes[index]
            if small and node.fn == "const":
                self._words[register.index] = extend(fill(self.build, "int32", int(node.attr)))  # type: ignore[arg-type]
            elif small and node.fn != "input" and (index, "int32") in self._forms:
                self._words[register.index] = extend(self._forms[index, "int32"])
            else:
                self._words[register.index] = split(register)
        return self._words[register.index]

    def join(self, words: Words) -> Reg:
        """Two words as an int64 register, which remembers them."""
        register = join(words)
        self._words[register.index] = words
        return register

    def _native_float16(self, index: int, node: Node) -> bool:
        """Whether float16 instructions give the value rounded once: see the module's docstring."""
        if self.fast and node.fn in NATIVE_FLOAT16:
            return True
        if node.fn not in SINGLE_ROUNDING:
            return False
        compares = self.typed.types[index].dtype is BOOL
        # Numbers that are only chosen may be rounded before: the rounded choice is the choice of the rounded. (Those
        # of comparisons are rounded by definition.)
        numbers_may_round = compares or node.fn in CHOOSING
        operands = node.args[1:] if node.fn == "where" else node.args
        for a in operands:
            if a not in self._exact and not (numbers_may_round and self.typed.types[a].is_number):
                return False
        if not compares and index not in self._exact:
            if index not in self._early:
                return False
            self._exact.add(index)
        return True

    def form(self, index: int, carrier: str) -> Reg:
        """The register with node `index` as `carrier`: the same number, rounded where a float can't hold it."""
        key = (index, carrier)
        if key not in self._forms:
            self._forms[key] = self._make(index, carrier)
        return self._forms[key]

    def carrier_of(self, index: int) -> str | None:
        """What a node was computed as; None for numbers."""
        return self._home.get(index)

    def _make(self, index: int, carrier: str) -> Reg:
        node = self.graph.nodes[index]
        if node.fn == "const":
            assert isinstance(node.attr, (bool, int, float))
            return filled(self.build, carrier, node.attr)
        return convert(self._own(index), carrier)

    def _own(self, index: int) -> Reg:
        """The register that a node was computed in; a runtime scalar is spread over one when first asked for."""
        if index not in self._home:
            carrier = "float32" if self.typed.types[index].dtype.is_float else "int32"
            self._define(index, fill(self.build, carrier, self._scalars[index]))
        return self._forms[index, self._home[index]]

    def as_dtype(self, index: int, dtype: DType) -> Reg:
        """A node's value converted to `dtype` by torch's rules: integers wrap, floats go toward zero."""
        node = self.graph.nodes[index]
        if node.fn == "const":
            assert isinstance(node.attr, (bool, int, float))
            return filled(self.build, home_carrier(dtype), constant(node.attr, dtype.name))
        key = (index, f"to {dtype}")
        if key not in self._forms:
            own, source = self._own(index), self.typed.types[index].dtype
            self._forms[key] = to_dtype(own, source, dtype, self._bounds[index], self.fast)
        return self._forms[key]

    def immediate(self, index: int, carrier: str, dtype: DType | None = None) -> Immediate | None:
        """A node as the immediate of an instruction on `carrier` (rounded to `dtype` first), where it can be one."""
        node = self.graph.nodes[index]
        if index in self._scalars:
            if dtype is not None and dtype.is_half and self.typed.types[index].dtype is not dtype:
                return None  # it has to be rounded
            # pyasc takes a float for floats and an int for int32, and no other pairs.
            wanted = "float32" if self.typed.types[index].dtype.is_float else "int32"
            same = carrier == wanted or (wanted == "float32" and carrier == "float16" and node.fn == "scalar")
            return self._scalars[index] if same else None
        if node.fn != "const" or carrier not in FILLED:
            return None
        assert isinstance(node.attr, (bool, int, float))
        value = node.attr if dtype is None else constant(node.attr, dtype.name)
        return None if math.isnan(value) else constant(value, carrier)


@attrs.frozen
class Call:
    """One use of a function: what its rule sees. `dtype` is what it is computed in, `result` its result's dtype."""

    lower: Legalizer
    index: int
    node: Node
    dtype: DType
    result: DType

    @property
    def build(self) -> ProgramBuilder:
        return self.lower.build

    @property
    def carrier(self) -> str:
        return home_carrier(self.dtype)

    def reg(self, k: int) -> Reg:
        """Argument k as a register of the compute dtype."""
        index = self.node.args[k]
        if not self.dtype.is_float:
            return self.lower.as_dtype(index, self.dtype)
        operands = self.lower.typed.types[self.index].operands
        if operands is not None and self.rounds(k):
            return convert(self.lower.as_dtype(index, operands), self.carrier)
        return self.lower.form(index, self.carrier)

    def rounds(self, k: int) -> bool:
        """Whether argument k is rounded to the operands' dtype before it is used."""
        types = self.lower.typed.types
        return rounded_first(self.node.fn, k, types[self.node.args[k]], types[self.index])

    def mask(self, k: int) -> Reg:
        """Whether argument k isn't 0."""
        index, operands = self.node.args[k], self.lower.typed.types[self.index].operands
        if operands is not None and (self.constant(k) is not None or self.rounds(k)):
            return convert(self.lower.as_dtype(index, operands), "mask")
        return self.lower.form(index, "mask")

    def words(self, k: int) -> Words:
        """Argument k, an int64, as two int32 words."""
        return self.lower.words(self.node.args[k])

    def join(self, words: Words) -> Reg:
        """An int64 result given by its words."""
        return self.lower.join(words)

    def operand(self, k: int) -> Operand:
        """Argument k as a number where an instruction can take it as its immediate, else as a register."""
        found = self.lower.immediate(self.node.args[k], self.carrier, self._rounded)
        return self.reg(k) if found is None else found

    def constant(self, k: int) -> int | float | None:
        """Argument k's value if it is a constant (NaN included)."""
        node = self.lower.graph.nodes[self.node.args[k]]
        if node.fn != "const":
            return None
        assert isinstance(node.attr, (bool, int, float))
        return constant(node.attr, self.carrier)

    def argument_is_input(self, k: int) -> bool:
        """Whether argument k is a tensor as given (or rounded by a cast): a value of its dtype exactly."""
        return self.lower.graph.nodes[self.node.args[k]].fn in ("input", "cast")

    @property
    def fast(self) -> bool:
        """Whether the chip's quick forms will do."""
        return self.lower.fast

    @property
    def narrow(self) -> bool:
        """Whether 12 bits of the value are enough: it is rounded to 16-bit floating point without more sums."""
        return self.fast or self.index in self.lower.narrow

    @property
    def _rounded(self) -> DType | None:
        """As in torch, comparisons take numbers as elements of the operands' dtype, integer functions of their own."""
        if self.result is not BOOL:
            return None if self.dtype.is_float else self.dtype
        return self.lower.typed.types[self.index].operands


def gm_carrier(dtype: DType) -> str:
    """The carrier that lies in GM."""
    return "uint8" if dtype is BOOL else dtype.name


def copy(register: Reg) -> Reg:
    """The same bits in a register of their own: x * 1 keeps NaN, infinities and the sign of zero."""
    build, carrier = register.build, register.carrier
    if carrier in ("float32", "float16"):
        name, imm, srcs = "muls", 1.0, (register.index,)
    elif carrier in ("int32", "int16"):
        name, imm, srcs = "adds", 0, (register.index,)
    else:
        name, imm, srcs = "bitwise_or", None, (register.index, register.index)  # type: ignore[assignment]
    return Reg(build, build.emit(name, carrier, *srcs, imm=imm, fresh=True))


_SCALAR_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def _scalar_values(typed: TypedGraph) -> dict[int, Immediate]:
    """Nodes that runtime scalars (and constants) alone decide, as immediates: float32 arithmetic, as torch's."""
    found: dict[int, Immediate] = {}
    for i, node in enumerate(typed.graph.nodes):
        if node.fn == "scalar":
            found[i] = ScalarRef(str(node.attr))
        elif node.fn in (*_SCALAR_SYMBOLS, "neg") and typed.types[i].dtype is FLOAT32:
            sides = [_scalar_side(typed, a, found) for a in node.args]
            if any(a in found for a in node.args) and None not in sides:
                left, right = (sides[0], -1.0) if node.fn == "neg" else sides
                found[i] = ScalarExpr(_SCALAR_SYMBOLS.get(node.fn, "*"), left, right)  # type: ignore[arg-type]
    return found


def _scalar_side(typed: TypedGraph, index: int, found: dict[int, Immediate]) -> Immediate | None:
    node = typed.graph.nodes[index]
    if index in found:
        return found[index] if typed.types[index].dtype is FLOAT32 else None
    if node.fn != "const":
        return None
    value = constant(node.attr, "float32")  # type: ignore[arg-type]
    return value if math.isfinite(value) else None


def _uses(typed: TypedGraph) -> list[int]:
    """How often each node is read, by other nodes and as an output."""
    uses = [0] * len(typed.graph.nodes)
    for node in typed.graph.nodes:
        for a in node.args:
            uses[a] += 1
    for output in typed.graph.outputs:
        uses[output.node] += 1
    return uses
