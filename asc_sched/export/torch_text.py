"""An op's definition as torch source: what `asc_sched.lang.reference` evaluates, written down, one line per node."""

from __future__ import annotations

import math
from typing import Any

from asc_sched.lang.functions import FUNCTIONS, Function
from asc_sched.lang.graph import Node
from asc_sched.lang.infer import Type, TypedGraph, rounded_first


def torch_lines(typed: TypedGraph, names: dict[str, str]) -> tuple[list[str], list[str]]:
    """Statements that compute the op with torch, and the expression of each output.

    `names`: what inputs and runtime scalars are called in the text. 16-bit floating-point values are widened to
    float32 where they enter, computed on in float32, and rounded once where they leave.
    """
    return _Writer(typed, names).write()


class _Writer:
    def __init__(self, typed: TypedGraph, names: dict[str, str]) -> None:
        self.typed, self.names = typed, names
        self.lines: list[str] = []
        self.texts: list[str] = []
        taken = set(names.values())
        self.fresh = (name for name in (f"t{i}" for i in range(2 * len(typed.graph.nodes) + 2)) if name not in taken)

    def write(self) -> tuple[list[str], list[str]]:
        for scalar in self.typed.graph.scalars:
            name = self.names[scalar.name]
            self.lines.append(f"{name} = torch.tensor({name}).to(torch.{scalar.dtype}).item()")
        for index, node in enumerate(self.typed.graph.nodes):
            text = self._node(node, index)
            if node.fn not in ("const", "scalar") and not text.isidentifier():
                name = next(self.fresh)
                self.lines.append(f"{name} = {text}")
                text = name
            self.texts.append(text)
        return self.lines, [self._output(o.node) for o in self.typed.graph.outputs]

    def _output(self, index: int) -> str:
        text = self.texts[index]
        dtype = self.typed.types[index].dtype
        if self._is_number(index):
            return f"torch.tensor({text}).to(torch.{dtype})"
        return f"{text}.to(torch.{dtype})" if dtype.is_half else text

    def _is_number(self, index: int) -> bool:
        return self.typed.graph.nodes[index].fn in ("const", "scalar")

    def _node(self, node: Node, index: int) -> str:
        dtype = self.typed.types[index].dtype
        if node.fn == "const":
            return _literal(node.attr)
        if node.fn == "scalar":
            return self.names[str(node.attr)]
        if node.fn == "input":
            name = self.names[str(node.attr)]
            return f"{name}.float()" if dtype.is_half else name
        if node.fn == "cast":
            text = self.texts[node.args[0]]
            tensor = f"torch.tensor({text})" if self._is_number(node.args[0]) else text
            return f"{tensor}.to(torch.{dtype}){'.float()' if dtype.is_half else ''}"
        return self._call(node, self.typed.types[index])

    def _call(self, node: Node, type_: Type) -> str:
        function, dtype = FUNCTIONS[node.fn], type_.dtype
        args = [self._argument(node, k, type_) for k in range(len(node.args))]
        numbers = [self._is_number(a) for a in node.args]
        if all(numbers):
            args[0], numbers[0] = f"torch.tensor({args[0]})", False
        if function.own_dtype:
            args = [f"{a}.to(torch.{dtype})" for a in args]
        if function.tensors_only:
            like = args[numbers.index(False)]
            args = [
                f"torch.tensor({a}, dtype=torch.result_type({like}, {a}))" if number else a
                for a, number in zip(args, numbers, strict=True)
            ]
        keywords = "".join(f", {k}={v!r}" for k, v in function.keywords)
        call = f"{_place(function)}({', '.join(args)}{keywords})"
        if function.own_dtype:
            return f"{call}.float()" if dtype.is_half else call
        widened = any(self.typed.types[a].dtype.is_half for a in node.args)
        return f"{call}.to(torch.{dtype})" if widened and not dtype.is_half else call

    def _argument(self, node: Node, k: int, type_: Type) -> str:
        """torch rounds what weighs less to the operands' dtype first: 0-d, integers, and numbers in comparisons."""
        index, operands = node.args[k], type_.operands
        text = self.texts[index]
        if not rounded_first(node.fn, k, self.typed.types[index], type_):
            return text
        if self._is_number(index):
            return f"torch.tensor({text}).to(torch.{operands}).item()"
        return f"{text}.to(torch.{operands}).float()"


def _place(function: Function) -> str:
    import torch

    for module, text in ((torch, "torch"), (torch.special, "torch.special")):
        if hasattr(module, function.torch_name):
            return f"{text}.{function.torch_name}"
    return f"torch.nn.functional.{function.torch_name}"


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
