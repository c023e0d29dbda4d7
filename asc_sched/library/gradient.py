"""The derivative of an op, from its own graph: reverse mode, one rule per function, giving the graph of a new op.

The rules and their values at special points (ties of maximum, 0 of sqrt and pow, the masks of relu and where) are those
of torch's own autograd (`tools/autograd/derivatives.yaml` of torch 2.x names them), so that what is derived here equals
torch's backward of the same expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import attrs

from asc_sched.errors import DeclarationError, DtypeError
from asc_sched.lang.functions import find_function
from asc_sched.lang.graph import Graph, GraphBuilder, Node, Output
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lang.value import Operand, Value, apply, cast

#: How an input's gradient is had: an output of the derived kernel, the gradient of an output as it is, or zeros.
GradientKind: TypeAlias = Literal["kernel", "same", "zero"]


class NotDifferentiable(Exception):
    """The op has no derivative: the text says which function stands in the way."""


@attrs.frozen
class InputGradient:
    """The gradient of one input: `source` is the name of the derived op's output, or of the output whose gradient it
    is."""

    input: str
    kind: GradientKind
    source: str = ""


@attrs.frozen
class Gradient:
    """The derivative of an op on given dtypes.

    `typed` is the derived op (None where no kernel is needed): it takes the inputs `saved` of the forward op and then
    one gradient for each output in `gradients`, which map an output's name to the derived op's input.
    """

    typed: TypedGraph | None
    saved: tuple[str, ...]
    gradients: tuple[tuple[str, str], ...]
    inputs: tuple[InputGradient, ...]


def derive(typed: TypedGraph) -> Gradient:
    """The gradient of every floating-point output with respect to every floating-point input.

    Raises `NotDifferentiable`, also where there is no floating-point input or output.
    """
    return _Derivation(typed).run()


class _Derivation:
    def __init__(self, typed: TypedGraph) -> None:
        self.typed, self.graph = typed, typed.graph
        self.builder = GraphBuilder()
        self.values: list[Operand] = []
        for node in self.graph.nodes:
            self.values.append(self._copy(node))
        self.active = self._active()
        self.wild = self._wild()
        self.adjoints: dict[int, Value] = {}
        self.may_vanish: set[int] = set()

    def _copy(self, node: Node) -> Operand:
        """A forward node again, in the derived graph; only what a gradient needs stays in it."""
        if node.fn == "const":
            assert node.attr is not None and not isinstance(node.attr, str)
            return node.attr
        args = tuple(_index(self.builder, self.values[a]) for a in node.args)
        return Value(self.builder, self.builder.add(node.fn, args, node.attr))

    def _is_float(self, index: int) -> bool:
        return self.typed.types[index].dtype.is_float

    def _active(self) -> list[bool]:
        """Nodes through which a gradient flows from an output to a floating-point input."""
        active: list[bool] = []
        for i, node in enumerate(self.graph.nodes):
            below = any(active[a] for a in node.args) or node.fn == "input"
            active.append(below and self._is_float(i) and node.fn not in _FLAT)
        return active

    def _wild(self) -> list[bool]:
        """Nodes whose values may be infinite or NaN although the inputs are finite."""
        wild: list[bool] = []
        for node in self.graph.nodes:
            wild.append(node.fn in _UNBOUNDED or (node.fn not in _BOUNDED and any(wild[a] for a in node.args)))
        return wild

    def run(self) -> Gradient:
        outputs = [o for o in self.graph.outputs if self._is_float(o.node)]
        wanted = [n for n, d in self.typed.input_dtypes.items() if d.is_float]
        if not outputs or not wanted:
            raise NotDifferentiable("it has no floating-point output" if wanted else "it has no floating-point input")
        taken = {*self.graph.inputs, *(s.name for s in self.graph.scalars), *(o.name for o in self.graph.outputs)}
        names = {o.name: _fresh(f"grad_{o.name}", taken) for o in outputs}
        for output in outputs:
            if self.active[output.node]:
                self._add(output.node, Value(self.builder, self.builder.add("input", (), names[output.name])))
        for i in reversed(range(len(self.graph.nodes))):
            if i in self.adjoints and self.graph.nodes[i].fn != "input":
                self._back(i, self.adjoints[i])
        return self._result(wanted, names, taken)

    def _add(self, index: int, gradient: Value) -> None:
        if index in self.adjoints:
            gradient = apply("add", self.adjoints[index], gradient)
        self.adjoints[index] = gradient

    def _back(self, index: int, g: Value) -> None:
        node = self.graph.nodes[index]
        if node.fn == "cast":
            (arg,) = node.args
            if self.active[arg]:
                self._add(arg, cast(g, self.typed.types[arg].dtype))
                self.may_vanish.update({arg} if index in self.may_vanish else ())
            return
        rule = _RULES.get(node.fn)
        if rule is None:
            raise NotDifferentiable(f"{node.fn} has no derivative")
        need = tuple(self.active[a] for a in node.args)
        try:
            gradients = rule(g, self.values[index], need, *(self.values[a] for a in node.args))
        except (DeclarationError, KeyError) as error:
            raise NotDifferentiable(f"the derivative of {node.fn} can't be written: {error}") from None
        for arg, needed, gradient in zip(node.args, need, gradients, strict=True):
            if needed and gradient is not None:
                self._add(arg, self._settled(node, index, g, gradient))
                if index in self.may_vanish or node.fn in _SELECTING or (node.fn == "div" and arg == node.args[1]):
                    self.may_vanish.add(arg)

    def _settled(self, node: Node, index: int, g: Value, gradient: Value) -> Value:
        """`gradient`, or 0 where `g` is 0: what isn't chosen by a `where`, or is crushed by an infinite divisor, has no
        part in the result, even where its own derivative is infinite (0 * inf is NaN)."""
        unbounded = node.fn in _UNBOUNDED or any(self.wild[a] for a in node.args)
        if index not in self.may_vanish or not unbounded or node.fn in _SELECTING | {"add", "sub", "neg"}:
            return gradient
        settled = _zero_where(_fn("eq", g, 0), gradient)
        assert isinstance(settled, Value)
        return settled

    # -- the derived op ------------------------------------------------------------------------------------------
    def _result(self, wanted: list[str], names: dict[str, str], taken: set[str]) -> Gradient:
        nodes = {str(n.attr): i for i, n in enumerate(self.graph.nodes) if n.fn == "input"}
        dtypes = self.typed.input_dtypes | {names[n]: d for n, d in self.typed.output_dtypes.items() if n in names}
        found: list[InputGradient] = []
        computed: dict[str, Value] = {}
        same = {names[o]: o for o in names}
        for name in wanted:
            adjoint = self.adjoints.get(nodes[name]) if name in nodes else None
            if adjoint is None:
                found.append(InputGradient(name, "zero"))
                continue
            node = self.builder[adjoint.index]
            if node.fn == "input" and node.attr in same and dtypes[str(node.attr)] is dtypes[name]:
                found.append(InputGradient(name, "same", same[str(node.attr)]))
                continue
            result = _fresh(f"{name}_grad", taken)
            computed[result] = adjoint
            found.append(InputGradient(name, "kernel", result))
        if not computed:
            return Gradient(None, (), (), tuple(found))
        targets = {g.source: dtypes[g.input].name for g in found if g.kind == "kernel"}
        graph = self._graph(computed, names, {})
        first = infer(graph, {n: dtypes[n] for n in graph.inputs})
        wrong = {n: d for n, d in targets.items() if first.output_dtypes[n].name != d}
        graph = self._graph(computed, names, wrong) if wrong else graph
        final = infer(graph, {n: dtypes[n] for n in graph.inputs})
        used = tuple((o, names[o]) for o in names if names[o] in graph.inputs)
        return Gradient(final, tuple(n for n in graph.inputs if n in self.graph.inputs), used, tuple(found))

    def _graph(self, computed: dict[str, Value], names: dict[str, str], casts: dict[str, str]) -> Graph:
        """The derived graph; outputs in `casts` are converted to their input's dtype at the end."""
        outputs = []
        for name, value in computed.items():
            last = cast(value, casts[name]) if name in casts else value
            outputs.append(Output(name, last.index))
        whole = self.builder.finish((), (), tuple(outputs))
        read = {str(n.attr) for n in whole.nodes if n.fn == "input"}
        scalars = {str(n.attr) for n in whole.nodes if n.fn == "scalar"}
        inputs = (*(n for n in self.graph.inputs if n in read), *(n for n in names.values() if n in read))
        return attrs.evolve(
            whole, inputs=inputs, scalars=tuple(s for s in self.graph.scalars if s.name in scalars)
        )


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _index(builder: GraphBuilder, value: Operand) -> int:
    return value.index if isinstance(value, Value) else builder.add("const", (), value)


# -- rules: (gradient, result, which arguments need one, *arguments) -> one gradient or None per argument -----------
Rule: TypeAlias = "Callable[..., tuple[Any, ...]]"

#: Functions that, or whose derivatives, are infinite or NaN for some finite arguments.
_UNBOUNDED = frozenset(
    """exp exp2 expm1 log log2 log10 log1p div reciprocal sqrt rsqrt pow sinh cosh tan asin acos acosh atanh remainder
    fmod hypot atan2 xlogy logaddexp copysign""".split()
)
#: Functions with finite values whatever their arguments.
_BOUNDED = frozenset("sigmoid tanh sin cos erf erfc atan lt le gt ge eq ne isnan isinf isfinite logical_not".split())
#: Functions that pass a gradient to one of their arguments and 0 to the others.
_SELECTING = frozenset("where maximum minimum fmax fmin relu".split())
#: Piecewise constant: torch's gradient is zero.
_FLAT = frozenset({"floor", "ceil", "round", "trunc", "sign", "sgn", "heaviside", "zeros_like", "ones_like"})


def _exists(name: str) -> bool:
    return find_function(name) is not None


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _fn(name: str, *args: Operand) -> Any:
    if name in _SWAPPED and not isinstance(args[0], Value):
        return apply(_SWAPPED[name], *reversed(args))  # torch compares a tensor with a number, not the other way round
    return apply(name, *args)


def _unary(rule: Callable[[Any, Any, Any], Any]) -> Rule:
    return lambda g, r, need, x: (rule(g, r, x),)


def _zero_where(condition: Any, g: Any) -> Any:
    return _fn("where", condition, 0.0, g)


def _pow(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
    base = exponent = None
    if need[0] and not isinstance(y, Value):
        base = None if y == 0 else g * (y * _fn("pow", x, y - 1))
    elif need[0]:
        base = _fn("where", _fn("eq", y, 0), 0.0, g * (y * _fn("pow", x, y - 1)))
    if need[1]:
        at_zero = _fn("eq", x, 0) if not isinstance(x, Value) else _fn("logical_and", _fn("eq", x, 0), _fn("ge", y, 0))
        if not isinstance(x, Value):
            exponent = _fn("where", _fn("ge", y, 0), 0.0, g * (r * _log(x))) if x == 0 else g * (r * _log(x))
        else:
            exponent = _zero_where(at_zero, g * (r * _fn("log", x)))
    return base, exponent


def _log(x: Any) -> float:
    if x == 0:
        return -math.inf
    return math.log(x) if x > 0 else math.nan


def _choose(second: str) -> Rule:
    """maximum and minimum: equal arguments share the gradient; `second` is the comparison that picks the second."""

    def rule(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
        other = {"lt": "gt", "gt": "lt"}[second]
        shared = _fn("where", _fn("eq", x, y), g / 2, g)
        return _zero_where(_fn(second, x, y), shared), _zero_where(_fn(other, x, y), shared)

    return rule


def _abs(g: Any, r: Any, x: Any) -> Any:
    if _exists("sign"):
        return g * _fn("sign", x)
    return _fn("where", _fn("gt", x, 0), g, _fn("where", _fn("lt", x, 0), -g, g * 0.0))


def _where(g: Any, r: Any, need: tuple[bool, ...], c: Any, x: Any, y: Any) -> tuple[Any, ...]:
    return None, _fn("where", c, g, 0.0), _fn("where", c, 0.0, g)


def _div(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
    return g / y, -g * ((x / y) / y) if need[1] else None


def _mul(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
    return g * y if need[0] else None, g * x if need[1] else None


def _remainder(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
    return g, -g * _fn("floor", x / y) if need[1] else None


def _fmod(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
    return g, -g * _fn("trunc", x / y) if need[1] else None


def _atan2(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
    square = x * x + y * y
    scaled = _zero_where(_fn("eq", square, 0), g / square)
    return scaled * y, scaled * -x


def _logaddexp(g: Any, r: Any, need: tuple[bool, ...], x: Any, y: Any) -> tuple[Any, ...]:
    return g / (1 + _fn("exp", y - x)), g / (1 + _fn("exp", x - y))


_RULES: dict[str, Rule] = {
    "add": lambda g, r, need, x, y: (g, g),
    "sub": lambda g, r, need, x, y: (g, -g if need[1] else None),
    "mul": _mul,
    "div": _div,
    "remainder": _remainder,
    "fmod": _fmod,
    "pow": _pow,
    "maximum": _choose("lt"),
    "minimum": _choose("gt"),
    "fmax": lambda g, r, need, x, y: (_keep(_fn("ge", x, y), y, g), _drop(_fn("ge", x, y), y, g)),
    "fmin": lambda g, r, need, x, y: (_keep(_fn("le", x, y), y, g), _drop(_fn("le", x, y), y, g)),
    "where": _where,
    "atan2": _atan2,
    "hypot": lambda g, r, need, x, y: (g * (x / r), g * (y / r)),
    "logaddexp": _logaddexp,
    "xlogy": lambda g, r, need, x, y: (
        g * _zero_where(_fn("logical_and", _fn("eq", x, 0), _fn("le", y, 0)), _fn("log", y)), g * x / y
    ),
    "copysign": lambda g, r, need, x, y: (
        _zero_where(_fn("eq", x, 0), g * (r / x)), None
    ),
    "neg": _unary(lambda g, r, x: -g),
    "abs": _unary(_abs),
    "exp": _unary(lambda g, r, x: g * r),
    "exp2": _unary(lambda g, r, x: g * r * math.log(2.0)),
    "expm1": _unary(lambda g, r, x: g * (r + 1)),
    "log": _unary(lambda g, r, x: g / x),
    "log2": _unary(lambda g, r, x: g / (x * math.log(2.0))),
    "log10": _unary(lambda g, r, x: g / (x * math.log(10.0))),
    "log1p": _unary(lambda g, r, x: g / (x + 1)),
    "sqrt": _unary(lambda g, r, x: g / (2 * r)),
    "rsqrt": _unary(lambda g, r, x: -0.5 * g * (r * r * r)),
    "reciprocal": _unary(lambda g, r, x: -g * (r * r)),
    "square": _unary(lambda g, r, x: g * (2 * x)),
    "relu": _unary(lambda g, r, x: _zero_where(_fn("le", x, 0), g)),
    "sigmoid": _unary(lambda g, r, x: g * (1 - r) * r),
    "tanh": _unary(lambda g, r, x: g * (1 - r * r)),
    "sin": _unary(lambda g, r, x: g * _fn("cos", x)),
    "cos": _unary(lambda g, r, x: g * -_fn("sin", x)),
    "tan": _unary(lambda g, r, x: g * (1 + r * r)),
    "sinh": _unary(lambda g, r, x: g * _fn("cosh", x)),
    "cosh": _unary(lambda g, r, x: g * _fn("sinh", x)),
    "asin": _unary(lambda g, r, x: g * _fn("rsqrt", 1 - x * x)),
    "acos": _unary(lambda g, r, x: g * -_fn("rsqrt", 1 - x * x)),
    "atan": _unary(lambda g, r, x: g / (x * x + 1)),
    "asinh": _unary(lambda g, r, x: g * _fn("rsqrt", x * x + 1)),
    "acosh": _unary(lambda g, r, x: g * _fn("rsqrt", x * x - 1)),
    "atanh": _unary(lambda g, r, x: g / (1 - x * x)),
    "erf": _unary(lambda g, r, x: 2 / math.sqrt(math.pi) * _fn("exp", -(x * x)) * g),
    "erfc": _unary(lambda g, r, x: -2 / math.sqrt(math.pi) * _fn("exp", -(x * x)) * g),
    "frac": _unary(lambda g, r, x: g),
    "positive": _unary(lambda g, r, x: g),
}  # fmt: skip


def _keep(condition: Any, y: Any, g: Any) -> Any:
    """fmax and fmin: the first argument's share; a NaN in the second leaves it the gradient."""
    return _fn("where", _fn("logical_or", condition, _fn("ne", y, y)), g, 0.0)


def _drop(condition: Any, y: Any, g: Any) -> Any:
    return _fn("where", _fn("logical_or", condition, _fn("ne", y, y)), 0.0, g)


def try_derive(typed: TypedGraph) -> tuple[Gradient | None, str]:
    """`derive`, or None and the reason."""
    try:
        return derive(typed), ""
    except NotDifferentiable as reason:
        return None, str(reason)
    except DtypeError as error:
        return None, f"its derivative isn't defined: {error}"
