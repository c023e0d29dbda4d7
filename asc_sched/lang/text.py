"""Declarations as text: ``z = x + y``. Read with Python's own grammar, never evaluated."""

from __future__ import annotations

import ast
import contextlib
import keyword
import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from asc_sched.errors import DeclarationError
from asc_sched.lang.dtypes import is_dtype_name
from asc_sched.lang.graph import Constant, Graph, GraphBuilder, Output, Scalar
from asc_sched.lang.value import Value, apply, cast

CONSTANTS = {"pi": math.pi, "inf": math.inf, "nan": math.nan}
MAX_TEXT = 1_000_000

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_div", ast.Mod: "remainder",
    ast.Pow: "pow", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor",
    ast.LShift: "shift_left", ast.RShift: "shift_right",
}  # fmt: skip
_UNARY = {ast.USub: "neg", ast.Invert: "bitwise_not"}
_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_ALLOWED = "allowed: names, numbers, operators, function calls, a if condition else b"
# What can't be used, in a user's words, and what to use in its place.
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.BoolOp: ("'and' and 'or'", "use & and | on comparisons (or logical_and, logical_or)"),
    ast.Subscript: ("an index", "an op is elementwise: pass the slice as an argument"),
    ast.Attribute: ("an attribute", "call functions by their plain name: exp(x)"),
    ast.Lambda: ("'lambda', a reserved word of Python,", _ALLOWED),
    ast.Yield: ("'yield', a reserved word of Python,", _ALLOWED),
    ast.Await: ("'await', a reserved word of Python,", _ALLOWED),
    ast.NamedExpr: ("':='", "assign in a statement of its own: t = ...; z = f(t)"),
    ast.BinOp: ("'@', the matrix product,", "an op is elementwise"),
    ast.JoinedStr: ("a text", _ALLOWED),
    ast.List: ("a list", _ALLOWED),
    ast.Tuple: ("a tuple", _ALLOWED),
}


def parse(text: str, *, inputs: Sequence[str] | None = None, scalars: Sequence[Scalar] = ()) -> Graph:
    """The graph of a declaration such as ``"t = x * y; z = t + 1"``.

    Names that are assigned and not used again are the outputs; names that are used and never assigned are the inputs,
    in order of appearance, unless `inputs` gives them. `scalars` are runtime scalars. ``pi``, ``inf`` and ``nan`` are
    constants unless declared as inputs or scalars. Raises `DeclarationError` with the place of the mistake.
    """
    tree = _read(text)
    return _Reader(text, inputs, scalars).run(tree)


def _read(text: str) -> ast.Module:
    if len(text) > MAX_TEXT:
        raise DeclarationError(f"declaration of {len(text)} characters; at most {MAX_TEXT} are read")
    try:
        return ast.parse(textwrap.dedent(text).strip())
    except SyntaxError as error:
        raise _syntax_error(text, error) from None
    except (RecursionError, MemoryError):
        raise DeclarationError(
            "expression too deep for Python's parser; name intermediate results: t = ...; z = f(t)"
        ) from None
    except ValueError as error:  # null bytes
        raise DeclarationError(f"can't read the declaration: {error}") from None


def _syntax_error(text: str, error: SyntaxError) -> DeclarationError:
    shown = repr(text.strip()[:200])
    reserved = _reserved_name(textwrap.dedent(text).strip())
    if reserved:
        return DeclarationError(
            f"{shown}: {reserved!r} is a reserved word of Python and can't name a value; use {reserved + '_'!r}"
        )
    if "nested" in str(error.msg):
        return DeclarationError("expression too deep for Python's parser; name intermediate results: t = ...; z = f(t)")
    place = "" if error.lineno is None else f" (line {error.lineno}, column {error.offset})"
    return DeclarationError(f"{shown}: {error.msg}{place}; expected 'name = expression'")


def _reserved_name(text: str) -> str | None:
    """The reserved word that stands where a name belongs: with ``_`` added to it the text can be read."""
    words: list[str] = list(dict.fromkeys(w for w in re.findall(r"\w+", text) if keyword.iskeyword(w)))
    for chosen in (*([w] for w in words), words):
        pattern = rf"\b({'|'.join(chosen)})\b"
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            if chosen:
                ast.parse(re.sub(pattern, r"\1_", text))
                return chosen[0]
    return None


class _Reader:
    def __init__(self, text: str, inputs: Sequence[str] | None, scalars: Sequence[Scalar]) -> None:
        self._text = text
        self._builder = GraphBuilder()
        self._fixed = inputs is not None
        self._scalars = tuple(scalars)
        self._inputs: dict[str, Value] = {}
        self._names: dict[str, Any] = {}
        self._used: set[str] = set()
        for name in inputs or ():
            self._inputs[name] = self._names[name] = Value(self._builder, self._builder.add("input", (), name))
        for s in self._scalars:
            self._names[s.name] = Value(self._builder, self._builder.add("scalar", (), s.name))

    def run(self, tree: ast.Module) -> Graph:
        assigned: dict[str, Any] = {}
        for statement in tree.body:
            name = self._target(statement)
            assert isinstance(statement, ast.Assign)
            value = self._expression(statement.value)
            if name in assigned and name not in self._used:
                raise self._error(statement, f"{name!r} is assigned twice and its first value is never used")
            assigned.pop(name, None)
            self._used.discard(name)
            assigned[name] = self._names[name] = value
        outputs = {n: v for n, v in assigned.items() if n not in self._used}
        if not outputs:
            raise DeclarationError(f"{self._text.strip()!r}: no output; expected 'name = expression'")
        if not self._inputs:
            raise DeclarationError(f"{self._text.strip()!r}: no input; an op takes at least one tensor" + self._hint())
        nodes = tuple(Output(n, self._as_node(v)) for n, v in outputs.items())
        return self._builder.finish(tuple(self._inputs), self._scalars, nodes)

    def _hint(self) -> str:
        constants = [c for c in CONSTANTS if c in self._used]
        if constants:
            return f" ({constants[0]!r} is a reserved name, a constant; declare it in inputs=[...] to make it a tensor)"
        words = [w for w in ("True", "False") if re.search(rf"\b{w}\b", self._text)]
        return f" ({words[0]!r} is a reserved word of Python, a constant; use {words[0] + '_'!r})" if words else ""

    def _as_node(self, value: Any) -> int:
        return value.index if isinstance(value, Value) else self._builder.add("const", (), value)

    def _target(self, statement: ast.stmt) -> str:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            raise self._error(statement, "expected 'name = expression'")
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            raise self._error(statement, "the left side must be one plain name")
        if target.id in CONSTANTS:
            raise self._error(statement, f"{target.id!r} is a reserved name, a constant here")
        return target.id

    def _error(self, node: ast.AST, message: str) -> DeclarationError:
        line = getattr(node, "lineno", 1)
        column = getattr(node, "col_offset", 0) + 1
        return DeclarationError(f"{self._text.strip()[:200]!r}, line {line}, column {column}: {message}")

    def _expression(self, root: ast.expr) -> Any:
        """Evaluate iteratively (operands first), so that depth is bounded by memory, not by Python's stack."""
        results: list[Any] = []
        stack: list[tuple[ast.expr, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                operands = self._operands(node)
                args = results[len(results) - len(operands) :]
                del results[len(results) - len(operands) :]
                results.append(self._combine(node, args))
            else:
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(self._operands(node)))
        return results[0]

    def _operands(self, node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(node, ast.UnaryOp):
            return [node.operand]
        if isinstance(node, ast.IfExp):
            return [node.test, node.body, node.orelse]
        if isinstance(node, ast.Compare):
            return [node.left, *node.comparators]
        if isinstance(node, ast.Call):
            return node.args[:1] if self._is_cast(node) else [*node.args, *(k.value for k in node.keywords if k.arg)]
        return []

    @staticmethod
    def _is_cast(node: ast.Call) -> bool:
        return isinstance(node.func, ast.Name) and node.func.id == "cast" and len(node.args) == 2

    def _combine(self, node: ast.expr, args: list[Any]) -> Any:
        try:
            return self._apply(node, args)
        except DeclarationError as error:
            if ", line " in str(error):
                raise
            raise self._error(node, str(error)) from None

    def _apply(self, node: ast.expr, args: list[Any]) -> Any:
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return apply(_BINARY[type(node.op)], *args)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, args[0])
        if isinstance(node, ast.IfExp):
            return apply("where", *args)
        if isinstance(node, ast.Compare):
            if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARE:
                raise self._error(node, "one comparison of < <= > >= == != at a time; join them with &")
            return apply(_COMPARE[type(node.ops[0])], *args)
        if isinstance(node, ast.Call):
            return self._call(node, args)
        what, instead = _REFUSED.get(type(node), (type(node).__name__, _ALLOWED))
        raise self._error(node, f"{what} can't be used in a declaration; {instead}")

    def _unary(self, node: ast.UnaryOp, arg: Any) -> Any:
        if isinstance(node.op, ast.UAdd):
            return arg
        if isinstance(node.op, ast.Not):
            raise self._error(node, "'not' can't be used on tensors; use logical_not(x) or ~")
        return apply(_UNARY[type(node.op)], arg)

    def _constant(self, node: ast.Constant) -> Constant:
        if isinstance(node.value, (bool, int, float)):
            return node.value
        if node.value is None:
            raise self._error(node, "'None' is a reserved word of Python and can't name a value; use 'None_'")
        raise self._error(node, f"{node.value!r} is not a number")

    def _name(self, node: ast.Name) -> Any:
        name = node.id
        self._used.add(name)
        if name in self._names:
            return self._names[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        if self._fixed:
            known = ", ".join([*self._inputs, *(s.name for s in self._scalars)])
            raise self._error(node, f"unknown name {name!r}; inputs and scalars are: {known}")
        value = Value(self._builder, self._builder.add("input", (), name))
        self._inputs[name] = self._names[name] = value
        return value

    def _call(self, node: ast.Call, args: list[Any]) -> Any:
        if not isinstance(node.func, ast.Name):
            raise self._error(node, "call functions by their plain name: exp(x)")
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self._error(node, f"{node.func.id}() takes its arguments one by one, without *")
        if self._is_cast(node):
            dtype = node.args[1]
            name = dtype.id if isinstance(dtype, ast.Name) else getattr(dtype, "value", None)
            if not isinstance(name, str) or not is_dtype_name(name):
                raise self._error(node, "cast(x, dtype) takes a dtype name as its second argument: cast(x, float16)")
            return cast(args[0], name)
        names = [k.arg for k in node.keywords if k.arg]
        plain = len(args) - len(names)
        return apply(node.func.id, *args[:plain], **dict(zip(names, args[plain:], strict=True)))
