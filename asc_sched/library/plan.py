"""A library's declaration to the list of its kernels and operators: every name fixed before anything is built."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from asc_sched.declare import Op
from asc_sched.errors import LibraryError
from asc_sched.lang.graph import Constant, Graph, Scalar
from asc_sched.lang.printer import statements
from asc_sched.library.analysis import Analysis, Analyst, GradientData, TypedData, input_dtypes
from asc_sched.library.choose import find_tuned
from asc_sched.library.graphs import constant_to_json, graph_from_json
from asc_sched.library.names import check_operators, spread, symbol, torch_name
from asc_sched.library.spec import Library, OpEntry
from asc_sched.library.toolchain import digest, toolchain
from asc_sched.lower.naming import identifier
from asc_sched.schedule import Schedule

#: Elements for which a kernel of any size is timed. 15 x 2^16 splits evenly over 48, 40, 20 and 8 cores: timing cores
#: that are alike is quick.
TIMED_LENGTH = 15 << 16
#: Words that torch's schemas, or its handling of arguments, give a meaning of their own.
_SCHEMA_WORDS = frozenset(
    "Tensor Scalar int float bool str complex SymInt Device Generator None True False out device dtype layout "
    "memory_format pin_memory generator".split()
)


@attrs.frozen(eq=False)
class PlannedKernel:
    """One kernel to build. `schedule` is ``auto``, ``tuned`` or fixed; `tuned` is what was tuned for it, if anything,
    and by the build itself if it was `searched`; `shape` None is any size."""

    symbol: str
    operator: str
    typed: TypedData
    shape: tuple[int, ...] | None
    schedule: str | Schedule
    target: str
    timed_length: int
    tuned: Schedule | None = None
    searched: bool = False

    def job(self) -> dict[str, Any]:
        """All that a worker needs, as JSON data."""
        return {
            "symbol": self.symbol,
            "op": self.operator,
            "graph": self.typed.graph,
            "types": self.typed.types,
            "inputs": list(self.typed.inputs),
            "shape": None if self.shape is None else list(self.shape),
            "schedule": self.schedule if isinstance(self.schedule, str) else self.schedule.to_dict(),
            "tuned": None if self.tuned is None else self.tuned.to_dict(),
            "searched": self.searched,
            "target": self.target,
            "timed_length": self.timed_length,
            "toolchain": toolchain(),
        }

    @property
    def key(self) -> str:
        """Content key: what the kernel is made of and by."""
        return digest(self.job())


@attrs.frozen(eq=False)
class Variant:
    """An operator on given dtypes, and its kernels."""

    typed: TypedData
    kernels: tuple[PlannedKernel, ...]
    gradient: GradientData | None
    gradient_operator: str | None
    no_gradient: str


@attrs.frozen(eq=False)
class Operator:
    """One operator as torch will see it. `internal` ones are derivatives that autograd calls."""

    torch_name: str
    name: str
    doc: str
    internal: bool
    expression: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    scalars: tuple[tuple[Scalar, str], ...]
    outputs: tuple[str, ...]
    schema: str
    variants: tuple[Variant, ...]


@attrs.frozen(eq=False)
class Plan:
    """Everything that is going to be built. `skipped` are (op, dtypes, torch's reason for not having it)."""

    library: Library
    operators: tuple[Operator, ...]
    skipped: tuple[tuple[str, tuple[str, ...], str], ...]

    @property
    def kernels(self) -> Iterator[PlannedKernel]:
        """In the order of their symbols."""
        found = (k for o in self.operators for v in o.variants for k in v.kernels)
        return iter(sorted(found, key=lambda k: k.symbol))

    def with_schedules(self, found: Mapping[str, Schedule]) -> Plan:
        """The plan with the schedules that searches have found for some of its kernels, by symbol."""

        def kernel(planned: PlannedKernel) -> PlannedKernel:
            if planned.symbol not in found:
                return planned
            return attrs.evolve(planned, tuned=found[planned.symbol], searched=True)

        def variant(planned: Variant) -> Variant:
            return attrs.evolve(planned, kernels=tuple(map(kernel, planned.kernels)))

        operators = (attrs.evolve(o, variants=tuple(map(variant, o.variants))) for o in self.operators)
        return attrs.evolve(self, operators=tuple(operators))


def make_plan(library: Library, analyst: Analyst) -> Plan:
    """Raises `LibraryError` for names that clash and for a library without any kernel."""
    forward: list[Operator] = []
    backward: list[Operator] = []
    skipped: list[tuple[str, tuple[str, ...], str]] = []
    for entry in library.ops:
        analyses = []
        for given in entry.dtypes:
            dtypes = input_dtypes(entry.op.graph, given)
            analysis = analyst.analyse(entry.op.graph, dtypes, gradient=entry.gradients)
            if analysis.forward is None:
                skipped.append((entry.name, dtypes, analysis.refused))
            else:
                analyses.append(analysis)
        if analyses:
            derived = _backward(entry, analyses)
            backward += derived.values()
            forward.append(_forward(entry, analyses, {k: o.torch_name for k, o in derived.items()}))
    if not forward:
        reasons = "; ".join(f"{o} ({', '.join(d)}): {r}" for o, d, r in skipped[:3])
        raise LibraryError(f"{library.name} has no kernel: torch defines none of its ops for its dtypes ({reasons})")
    check_operators([(o.name, "declared") for o in forward] + [(o.name, "a derivative") for o in backward])
    return Plan(library, tuple(_named(sorted([*forward, *backward], key=lambda o: o.torch_name))), tuple(skipped))


def _named(operators: Iterable[Operator]) -> Iterator[Operator]:
    """Kernels with their final symbols: unique whatever the case of letters."""
    operators = list(operators)
    kernels = [k for o in operators for v in o.variants for k in v.kernels]
    identities = [json.dumps([k.job()[f] for f in ("op", "inputs", "shape", "schedule", "target")]) for k in kernels]
    names = iter(spread([k.symbol for k in kernels], identities))
    for operator in operators:
        variants = [
            attrs.evolve(v, kernels=tuple(attrs.evolve(k, symbol=next(names)) for k in v.kernels))
            for v in operator.variants
        ]
        yield attrs.evolve(operator, variants=tuple(variants))


# -- operators ---------------------------------------------------------------------------------------------------
def _forward(entry: OpEntry, analyses: list[Analysis], derived: Mapping[str, str]) -> Operator:
    variants = []
    for a in analyses:
        assert a.forward is not None
        kernels = _kernels(entry.torch_name, entry.op, a.forward, entry, entry.schedules)
        name = derived.get(_signature(a.gradient.typed)) if a.gradient and a.gradient.typed else None
        variants.append(Variant(a.forward, kernels, a.gradient, name, a.no_gradient))
    return _operator(entry.torch_name, entry.name, entry.op.doc, False, entry.op.graph, variants)


def _backward(entry: OpEntry, analyses: list[Analysis]) -> dict[str, Operator]:
    """The derivatives' operators by signature; dtypes that share one share the operator."""
    groups: dict[str, list[TypedData]] = {}
    for a in analyses:
        if a.gradient is not None and a.gradient.typed is not None:
            groups.setdefault(_signature(a.gradient.typed), []).append(a.gradient.typed)
    schedules = ("tuned",) if "tuned" in entry.schedules else ("auto",)
    result: dict[str, Operator] = {}
    for signature, members in groups.items():
        # The first combination's derivative has the plain name; others occur only where dtypes are mixed.
        suffix = "" if not result else f"_{digest(signature)[:8]}"
        name = f"{entry.name}_vjp{suffix}"  # vector-Jacobian product; ops of users' own are called _backward
        usable = torch_name(name)
        variants = []
        for typed in members:
            op = Op(usable, graph_from_json(typed.graph))
            kernels = _kernels(usable, op, typed, entry, schedules)
            variants.append(Variant(typed, kernels, None, None, "it is a derivative"))
        graph = graph_from_json(members[0].graph)
        result[signature] = _operator(usable, name, f"The derivative of {entry.name}.", True, graph, variants)
    return result


def _signature(typed: TypedData) -> str:
    return json.dumps([typed.graph["inputs"], [s[0] for s in typed.graph["scalars"]], list(typed.output_names)])


def _operator(
    usable: str, name: str, doc: str, internal: bool, graph: Graph, variants: list[Variant]
) -> Operator:
    outputs = tuple(o.name for o in graph.outputs)
    names = argument_names([*graph.inputs, *(s.name for s in graph.scalars)])
    inputs = tuple((n, names[n]) for n in graph.inputs)
    scalars = tuple((s, names[s.name]) for s in graph.scalars)
    schema = operator_schema(usable, [a for _, a in inputs], scalars, len(outputs))
    expression = statements(graph)
    return Operator(usable, name, doc, internal, expression, inputs, scalars, outputs, schema, tuple(variants))


def argument_names(names: Iterable[str]) -> dict[str, str]:
    """A name for each argument that torch's schemas and Python's calls take."""
    result: dict[str, str] = {}
    for name in names:
        usable = identifier(name)
        while usable in _SCHEMA_WORDS or keyword.iskeyword(usable) or usable in result.values():
            usable += "_"
        result[name] = usable
    return result


def operator_schema(name: str, inputs: list[str], scalars: Iterable[tuple[Scalar, str]], outputs: int) -> str:
    """The operator in torch's schema language: tensors by position, runtime scalars by keyword."""
    tensors = [f"Tensor {n}" for n in inputs]
    numbers = [f"{_schema_type(s)} {n}{_schema_default(s.default)}" for s, n in scalars]
    numbers.sort(key=lambda n: "=" in n)
    result = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    return f"{name}({', '.join([*tensors, *(['*'] if numbers else []), *numbers])}) -> {result}"


def _schema_type(scalar: Scalar) -> str:
    return "float" if scalar.dtype.is_float else "bool" if scalar.dtype.name == "bool" else "int"


def _schema_default(default: Constant | None) -> str:
    if default is None or (isinstance(default, float) and not math.isfinite(default)):
        return ""
    return f"={default!r}"


# -- kernels -----------------------------------------------------------------------------------------------------
def _kernels(
    operator: str, op: Op, typed: TypedData, entry: OpEntry, schedules: tuple[str | Schedule, ...]
) -> tuple[PlannedKernel, ...]:
    kernels = []
    for target in entry.targets:
        for shape in entry.shapes:
            for schedule in schedules:
                timed = TIMED_LENGTH if shape is None else math.prod(shape)
                name = symbol(operator, typed.inputs, shape, schedule, target)
                tuned = find_tuned(op, typed.inputs, shape, target) if schedule == "tuned" else None
                kernels.append(PlannedKernel(name, operator, typed, shape, schedule, target, timed, tuned))
    return tuple(kernels)


def scalar_to_json(scalar: Scalar, argument: str) -> dict[str, Any]:
    """A runtime scalar in the manifest."""
    default = None if scalar.default is None else constant_to_json(scalar.default)
    return {"name": scalar.name, "argument": argument, "dtype": scalar.dtype.name, "default": default}

