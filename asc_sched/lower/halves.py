"""16-bit floating-point values: which may be rounded where they are, and which need fewer bits on the way."""

from __future__ import annotations

import math

from asc_sched.lang.dtypes import FLOAT16
from asc_sched.lang.infer import TypedGraph
from asc_sched.lower.convert import constant
from asc_sched.lower.rules import EXACT, WHOLE

# Functions that pass relative errors of an argument on as they are (or halved).
_PASSING = frozenset({"mul", "div", "neg", "abs", "sqrt", "reciprocal", "copysign", "where"})


def narrow_nodes(typed: TypedGraph) -> frozenset[int]:
    """16-bit floating-point nodes whose value only goes through products into a 16-bit result.

    A cast that is asked for has to be right itself where anything but the result depends on it.
    """
    nodes, types = typed.graph.nodes, typed.types
    users: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for a in node.args:
            users[a].append(i)
    stored = {o.node for o in typed.graph.outputs}
    found: set[int] = set()
    for i in reversed(range(len(nodes))):
        if not types[i].dtype.is_half or not (users[i] or i in stored):
            continue
        if all(
            (nodes[u].fn == "cast" and types[u].dtype.is_half and not users[u])
            or (u in found and nodes[u].fn in _PASSING)
            for u in users[i]
        ):
            found.add(i)
    return frozenset(found)


def early_nodes(typed: TypedGraph) -> frozenset[int]:
    """float16 nodes that may be rounded where they are: they only go into float16 results, by choices and signs."""
    nodes, types = typed.graph.nodes, typed.types
    users: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for a in node.args:
            users[a].append(i)
    found: set[int] = set()
    for i in reversed(range(len(nodes))):
        if types[i].dtype is not FLOAT16:
            continue
        if all(
            (nodes[u].fn == "cast" and types[u].dtype is FLOAT16) or (u in found and nodes[u].fn in EXACT)
            for u in users[i]
        ):
            found.add(i)
    return frozenset(found)


def exact_float16(typed: TypedGraph) -> frozenset[int]:
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
            operands = node.args[1:] if node.fn == "where" else node.args
            ok = node.fn in ("input", "cast") or (node.fn in EXACT | WHOLE and all(a in exact for a in operands))
        if ok:
            exact.add(i)
    return frozenset(exact)


def _is_float16(value: object) -> bool:
    assert isinstance(value, (bool, int, float))
    rounded = constant(value, "float16")
    return rounded == value or (math.isnan(float(value)) and math.isnan(rounded))
