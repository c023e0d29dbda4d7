"""The expression graph: a flat, immutable list of nodes in evaluation order.

Nodes refer to earlier nodes by index, so no walk over a graph recurses, however deep the expression. Equal nodes are
one node (common subexpressions are computed once); nothing is ever re-associated or cancelled: values are IEEE, in
source order.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

import attrs

from asc_sched.lang.dtypes import DType

Constant: TypeAlias = bool | int | float


@attrs.frozen(eq=False)
class Node:
    """One value. `fn` is ``input``, ``scalar``, ``const``, ``cast`` or the name of a language function.

    `args` are indices of earlier nodes. `attr` is the name of an input or scalar, the value of a constant, or the
    dtype name of a cast.
    """

    fn: str
    args: tuple[int, ...] = ()
    attr: str | Constant | None = None

    @property
    def key(self) -> Hashable:
        """Identity for sharing: tells 0.0 from -0.0 and 1 from True and 1.0, and NaN equals itself."""
        attr = self.attr
        if isinstance(attr, float):
            return (self.fn, self.args, "float", attr.hex())
        return (self.fn, self.args, type(attr).__name__, attr)

    def __eq__(self, other: object) -> bool:
        """By `key`, for kernels are kept under graphs: those of ``x * 0.0`` and ``x * -0.0`` are different ones."""
        return self.key == other.key if isinstance(other, Node) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


@attrs.frozen
class Scalar:
    """A runtime scalar argument: its value is given at the call, not at compile time."""

    name: str
    dtype: DType
    default: Constant | None = None


@attrs.frozen
class Output:
    """A named result: the index of the node that computes it."""

    name: str
    node: int


@attrs.frozen
class Graph:
    """A declared computation: `outputs` as functions of `inputs` (in declared order, used or not) and `scalars`."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    outputs: tuple[Output, ...]

    def scalar(self, name: str) -> Scalar:
        return next(s for s in self.scalars if s.name == name)


class GraphBuilder:
    """Collects nodes, sharing equal ones. The only mutable thing in `lang`; `finish` gives the immutable graph."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._index: dict[Hashable, int] = {}

    def add(self, fn: str, args: tuple[int, ...] = (), attr: str | Constant | None = None) -> int:
        node = Node(fn, args, attr)
        key = node.key
        if key not in self._index:
            self._index[key] = len(self._nodes)
            self._nodes.append(node)
        return self._index[key]

    def __getitem__(self, index: int) -> Node:
        return self._nodes[index]

    def finish(self, inputs: tuple[str, ...], scalars: tuple[Scalar, ...], outputs: tuple[Output, ...]) -> Graph:
        """The graph of what the outputs need, in the order of a depth-first walk from the first output.

        The order depends on the expressions alone, not on how they were entered: text and traced functions agree.
        """
        order = _needed(self._nodes, [o.node for o in outputs])
        new = {old: i for i, old in enumerate(order)}
        nodes = tuple(attrs.evolve(self._nodes[i], args=tuple(new[a] for a in self._nodes[i].args)) for i in order)
        return Graph(nodes, inputs, scalars, tuple(Output(o.name, new[o.node]) for o in outputs))


def _needed(nodes: list[Node], roots: list[int]) -> list[int]:
    """Indices of the nodes under `roots`, arguments before their users (iterative post-order)."""
    order: list[int] = []
    done: set[int] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            index, expanded = stack.pop()
            if index in done:
                continue
            if expanded:
                done.add(index)
                order.append(index)
                continue
            stack.append((index, True))
            stack.extend((a, False) for a in reversed(nodes[index].args))
    return order
