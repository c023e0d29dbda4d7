"""Graphs and their types as plain JSON data and back: how they travel to workers and stand in a manifest.

A constant keeps its kind and its exact value: ``["float", "0x1.8p+0"]`` (`float.hex`, also ``inf`` and ``nan``),
``["int", "3"]``, ``["bool", "true"]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asc_sched.errors import LibraryError
from asc_sched.lang.dtypes import DTYPES, DType
from asc_sched.lang.graph import Constant, Graph, Node, Output, Scalar
from asc_sched.lang.infer import Type, TypedGraph


def constant_to_json(value: Constant) -> list[str]:
    """A constant with its kind."""
    if isinstance(value, bool):
        return ["bool", "true" if value else "false"]
    if isinstance(value, int):
        return ["int", str(value)]
    return ["float", value.hex()]


def constant_from_json(data: Sequence[str]) -> Constant:
    """The inverse of `constant_to_json`. Raises `LibraryError`."""
    kind, text = data
    try:
        if kind == "bool" and text in ("true", "false"):
            return text == "true"
        if kind == "int":
            return int(text)
        if kind == "float":
            return float.fromhex(text)
    except (ValueError, OverflowError):
        pass
    raise LibraryError(f"{kind} {text!r} is not a constant")


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """Nodes as ``[function, [arguments], attribute]``, then inputs, scalars and outputs."""
    return {
        "nodes": [_node_to_json(n) for n in graph.nodes],
        "inputs": list(graph.inputs),
        "scalars": [_scalar_to_json(s) for s in graph.scalars],
        "outputs": [[o.name, o.node] for o in graph.outputs],
    }


def _node_to_json(node: Node) -> list[Any]:
    if node.fn == "const":
        assert node.attr is not None and not isinstance(node.attr, str)
        return [node.fn, list(node.args), constant_to_json(node.attr)]
    return [node.fn, list(node.args), node.attr]


def _scalar_to_json(scalar: Scalar) -> list[Any]:
    default = None if scalar.default is None else constant_to_json(scalar.default)
    return [scalar.name, scalar.dtype.name, default]


def graph_from_json(data: Mapping[str, Any]) -> Graph:
    """The inverse of `graph_to_json`. Raises `LibraryError` for what is no graph: this may come from a file."""
    try:
        nodes = tuple(_node_from_json(i, n) for i, n in enumerate(data["nodes"]))
        graph = Graph(
            nodes,
            tuple(str(n) for n in data["inputs"]),
            tuple(_scalar_from_json(s) for s in data["scalars"]),
            tuple(Output(str(name), int(node)) for name, node in data["outputs"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LibraryError(f"the graph of a kernel can't be read: {type(error).__name__}: {error}") from None
    if not all(0 <= o.node < len(nodes) for o in graph.outputs):
        raise LibraryError("the graph of a kernel can't be read: an output refers to no node")
    return graph


def _node_from_json(index: int, data: Sequence[Any]) -> Node:
    fn, args, attr = data
    args = tuple(int(a) for a in args)
    if not all(0 <= a < index for a in args):
        raise ValueError(f"node {index} refers to a later one")
    return Node(str(fn), args, constant_from_json(attr) if fn == "const" else attr)


def _scalar_from_json(data: Sequence[Any]) -> Scalar:
    name, dtype, default = data
    return Scalar(str(name), DTYPES[dtype], None if default is None else constant_from_json(default))


def types_to_json(typed: TypedGraph) -> list[list[Any]]:
    """One ``[dtype, zero_dim, is_number, operands]`` per node."""
    return [
        [t.dtype.name, t.zero_dim, t.is_number, None if t.operands is None else t.operands.name] for t in typed.types
    ]


def typed_from_json(graph: Graph, types: Sequence[Sequence[Any]], inputs: Sequence[str]) -> TypedGraph:
    """The graph with the types that `types_to_json` wrote; `inputs` are the dtypes of its inputs, in order."""
    return TypedGraph(graph, tuple(_type_from_json(t) for t in types), inputs=tuple(DTYPES[d] for d in inputs))


def _type_from_json(data: Sequence[Any]) -> Type:
    dtype, zero_dim, is_number, operands = data
    wide: DType | None = None if operands is None else DTYPES[operands]
    return Type(DTYPES[dtype], bool(zero_dim), bool(is_number), wide)
