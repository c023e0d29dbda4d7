"""Inputs of one element: read from GM by the scalar unit at the start, so that they serve as immediates."""

from __future__ import annotations

import attrs

from asc_sched.lang.graph import Graph, Node, Scalar
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower.geometry import Geometry

# What the scalar unit can bring into the type that immediates have: {asc}'s value as float32 or int32. A bfloat16 is
# bits to it, and an int64 doesn't fit.
_READ = {
    "float32": "{gm}.get_value(0)",
    "float16": "{gm}.get_value(0).cast(asc.float32)",
    "int32": "{gm}.get_value(0)",
    "int16": "{gm}.get_value(0).cast(asc.int32)",
    "int8": "{gm}.get_value(0).cast(asc.int32)",
    "uint8": "{gm}.get_value(0).cast(asc.int32)",
    "bool": "{gm}.get_value(0).cast(asc.int32)",
}


def scalar_inputs(typed: TypedGraph, geometry: Geometry) -> frozenset[str]:
    """The inputs that are one element for the whole geometry, and of a type that can be an immediate."""
    inputs = enumerate(typed.input_dtypes.items())
    return frozenset(name for i, (name, dtype) in inputs if geometry.is_scalar(i) and dtype.name in _READ)


def with_scalars(typed: TypedGraph, names: frozenset[str]) -> TypedGraph:
    """The graph with these inputs as runtime scalars of the same name and type."""
    if not names:
        return typed
    graph, dtypes = typed.graph, typed.input_dtypes
    nodes = tuple(
        Node("scalar", (), n.attr) if n.fn == "input" and n.attr in names else n for n in graph.nodes
    )
    scalars = (*graph.scalars, *(Scalar(n, dtypes[n]) for n in graph.inputs if n in names))
    kept = tuple(n for n in graph.inputs if n not in names)
    types = tuple(
        attrs.evolve(t, is_number=True) if n.fn == "scalar" else t for n, t in zip(nodes, typed.types, strict=True)
    )
    return TypedGraph(Graph(nodes, kept, scalars, graph.outputs), types, inputs=tuple(dtypes[n] for n in kept))


def read_text(dtype: str, gm: str) -> str:
    """The expression that reads the element from a GlobalTensor."""
    return _READ[dtype].format(gm=gm)
