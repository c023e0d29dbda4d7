"""What a kernel's scalar unit makes of the device formulas: pyasc's typing rules on fixed-width integers.

The left operand's dtype wins, Python ints take the other's dtype, `//` truncates, both arms of a conditional have one
dtype, and a value that leaves its dtype is an error here (it wraps on the chip).
"""

from __future__ import annotations

import ast
from typing import Any

import attrs

from asc_sched.tiling import DeviceFormulas


@attrs.frozen
class Typed:
    """A runtime value: `bits` is 32 or 64."""

    value: int
    bits: int

    def __attrs_post_init__(self) -> None:
        if not -(2 ** (self.bits - 1)) <= self.value < 2 ** (self.bits - 1):
            raise OverflowError(f"{self.value} does not fit into int{self.bits}")


Value = Typed | int


def _binary(op: ast.operator | ast.cmpop, left: Value, right: Value) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        raise TypeError("arithmetic of two constants belongs into the generator")
    bits = left.bits if isinstance(left, Typed) else right.bits  # type: ignore[union-attr]
    a = left.value if isinstance(left, Typed) else Typed(left, bits).value
    b = Typed(right.value if isinstance(right, Typed) else right, bits).value  # narrowed when the left is narrower
    if isinstance(op, ast.Lt):
        return a < b
    if isinstance(op, ast.Gt):
        return a > b
    if isinstance(op, ast.GtE):
        return a >= b
    if isinstance(op, ast.Add):
        return Typed(a + b, bits)
    if isinstance(op, ast.Sub):
        return Typed(a - b, bits)
    if isinstance(op, ast.Mult):
        return Typed(a * b, bits)
    if isinstance(op, ast.FloorDiv):
        return Typed(int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1), bits)
    if isinstance(op, ast.Mod):
        return Typed(abs(a) % abs(b) * (-1 if a < 0 else 1), bits)
    raise NotImplementedError(op)


class _Evaluator:
    def __init__(self, names: dict[str, Value], block_idx: int, block_num: int) -> None:
        self.names, self.block_idx, self.block_num = names, block_idx, block_num

    def run(self, node: ast.expr) -> Any:
        return getattr(self, f"run_{type(node).__name__}")(node)

    def run_Constant(self, node: ast.Constant) -> int:
        return Typed(node.value, 32).value  # pyasc's binding refuses longer literals

    def run_Name(self, node: ast.Name) -> Value:
        return self.names[node.id]

    def run_BinOp(self, node: ast.BinOp) -> Value:
        return _binary(node.op, self.run(node.left), self.run(node.right))

    def run_Compare(self, node: ast.Compare) -> bool:
        assert len(node.ops) == 1, "pyasc has no chained comparisons"
        return _binary(node.ops[0], self.run(node.left), self.run(node.comparators[0]))

    def run_IfExp(self, node: ast.IfExp) -> Value:
        test, yes, no = self.run(node.test), self.run(node.body), self.run(node.orelse)
        assert isinstance(test, bool)
        kinds = {arm.bits if isinstance(arm, Typed) else 32 for arm in (yes, no)}
        assert len(kinds) == 1, f"arms of two dtypes: {ast.unparse(node)}"
        chosen = yes if test else no
        return chosen if isinstance(chosen, Typed) else Typed(chosen, 32)

    def run_Call(self, node: ast.Call) -> Value:
        name = ast.unparse(node.func)
        if name == "asc.get_block_idx":
            return Typed(self.block_idx, 32)
        if name == "asc.get_block_num":
            return Typed(self.block_num, 32)
        if name == "asc.number":
            literal, dtype = node.args
            assert isinstance(literal, ast.Constant) and ast.unparse(dtype) == "asc.int64"
            return Typed(literal.value, 64)
        if name == "asc.ceildiv":
            a, b = (self.run(arg) for arg in node.args)
            total = _binary(ast.Sub(), _binary(ast.Add(), a, b), 1)
            return _binary(ast.FloorDiv(), total, b)
        assert isinstance(node.func, ast.Attribute) and node.func.attr == "cast", name
        bits = {"asc.int32": 32, "asc.int64": 64}[ast.unparse(node.args[0])]
        return Typed(self.run(node.func.value).value, bits)


def run_formulas(
    formulas: DeviceFormulas, block_idx: int, block_num: int, arguments: dict[str, int] | None = None
) -> list[tuple[int, int]]:
    """(tile_start, length) of every tile that a core runs, in order; checks the promised dtypes."""
    widths = {"int32": 32, "int64": 64}
    given = arguments or {}
    names: dict[str, Value] = {name: Typed(given[name], widths[dtype]) for name, dtype in formulas.arguments}
    evaluator = _Evaluator(names, block_idx, block_num)

    def evaluate(text: str) -> Any:
        return evaluator.run(ast.parse(text, mode="eval").body)

    for name, text in formulas.setup:
        names[name] = evaluate(text)
    count = evaluate(formulas.tile_count)
    assert isinstance(count, int) or count.bits == 32, "a loop's bound is int32"
    tiles = []
    for tile in range(count if isinstance(count, int) else count.value):
        names["tile"] = Typed(tile, 32)
        for name, text in formulas.loop:
            names[name] = evaluate(text)
        start, length = names["tile_start"], evaluate(formulas.length)
        assert isinstance(start, Typed) and start.bits == 64, "offsets are int64"
        assert isinstance(length, int) or length.bits == 32, "a tile's length is int32"
        tiles.append((start.value, length if isinstance(length, int) else length.value))
    return tiles
