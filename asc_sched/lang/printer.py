"""A graph as the text of a declaration again: canonical, the same for text and traced functions."""

from __future__ import annotations

from asc_sched.lang.functions import FUNCTIONS
from asc_sched.lang.graph import Graph, Node

# Python's binding strength of the operators that are printed infix.
_STRENGTH = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, "**": 8}
_COMPARE = frozenset({"<", "<=", ">", ">=", "==", "!="})
_ATOM, _UNARY = 10, 7
MAX_LINE = 100


def statements(graph: Graph) -> tuple[str, ...]:
    """One ``name = expression`` per output, after one per shared or overlong intermediate (``t0``, ``t1``...)."""
    return _Printer(graph).run()


class _Printer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lines: list[str] = []
        self.shown: list[tuple[str, int]] = []  # text and strength per node
        taken = {*graph.inputs, *(s.name for s in graph.scalars), *(o.name for o in graph.outputs)}
        self.fresh = (name for name in (f"t{i}" for i in range(len(graph.nodes) * 2 + 2)) if name not in taken)
        self.uses = [0] * len(graph.nodes)
        for node in graph.nodes:
            for a in node.args:
                self.uses[a] += 1

    def run(self) -> tuple[str, ...]:
        outputs = {o.node for o in self.graph.outputs}
        for i, node in enumerate(self.graph.nodes):
            text, strength = self._node(node)
            shared = self.uses[i] > 1 or (i in outputs and self.uses[i] > 0)
            if node.args and (shared or len(text) > MAX_LINE):
                name = next(self.fresh)
                self.lines.append(f"{name} = {text}")
                text, strength = name, _ATOM
            self.shown.append((text, strength))
        self.lines += [f"{o.name} = {self.shown[o.node][0]}" for o in self.graph.outputs]
        return tuple(self.lines)

    def _node(self, node: Node) -> tuple[str, int]:
        if node.fn in ("input", "scalar"):
            return str(node.attr), _ATOM
        if node.fn == "const":
            text = repr(node.attr)
            return text, _UNARY if text.startswith("-") else _ATOM
        args = [self.shown[a] for a in node.args]
        if node.fn == "cast":
            return f"{node.attr}({args[0][0]})", _ATOM
        symbol = FUNCTIONS[node.fn].symbol
        if symbol and len(args) == 1:
            return f"{symbol}{_wrap(args[0], _UNARY)}", _UNARY
        if symbol:
            return self._infix(symbol, args)
        return f"{node.fn}({', '.join(text for text, _ in args)})", _ATOM

    def _infix(self, symbol: str, args: list[tuple[str, int]]) -> tuple[str, int]:
        if symbol in _COMPARE:
            return f"{_wrap(args[0], 1)} {symbol} {_wrap(args[1], 1)}", 0
        strength = _STRENGTH[symbol]
        right_first = symbol == "**"
        left = _wrap(args[0], strength + right_first)
        right = _wrap(args[1], strength + (not right_first))
        return f"{left} {symbol} {right}", strength


def _wrap(shown: tuple[str, int], at_least: int) -> str:
    text, strength = shown
    return text if strength >= at_least else f"({text})"
