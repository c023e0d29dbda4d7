"""Inputs of one element: read from GM by the scalar unit at the start, so that they serve as immediates."""

from __future__ import annotations

import attrs

from asc_sched.lang.graph import Graph, Node, Scalar
from asc_sched.lang.infer import TypedGraph, rounded_first
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
    """The inputs that are one element for the whole geometry, and of a type that can be an immediate.

    What torch rounds to 16 bits before it combines it with a tensor is none, nor is what such a value is made of: the
    vector unit rounds it.
    """
    inputs = enumerate(typed.input_dtypes.items())
    found = {name for i, (name, dtype) in inputs if geometry.is_scalar(i) and dtype.name in _READ}
    return frozenset(found - _rounded(typed) if found else ())


def _rounded(typed: TypedGraph) -> set[str]:
    """The inputs that are rounded first by some function, or that decide a value which is."""
    nodes, types = typed.graph.nodes, typed.types
    found = {
        a
        for node, type_ in zip(nodes, types, strict=True)
        for k, a in enumerate(node.args)
        if rounded_first(node.fn, k, types[a], type_)
    }
    for i in reversed(range(len(nodes))):
        found.update(nodes[i].args if i in found else ())
    return {str(nodes[i].attr) for i in found if nodes[i].fn == "input"}


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
