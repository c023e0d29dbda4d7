"""Exact integer functions for sympy, and printers of them.

sympy's own `ceiling` of a quotient goes through Rationals (and accepts floats); these functions stay integers: they
evaluate on Integers alone, are left symbolic otherwise, and print to people, Python and C++. This module imports sympy
(0.4 s and more), so nothing imports it before a formula is needed.
"""

from __future__ import annotations

from typing import Any, cast

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter


class _Exact(sympy.Function):  # type: ignore[misc]
    """A function of integers that evaluates only when all its arguments are Integers."""

    is_integer = True

    @classmethod
    def eval(cls, *args: Any) -> Any:
        for arg in args:
            if arg.is_Float or arg.is_integer is False:
                raise TypeError(f"{cls.__name__} takes integers, not {arg}")
        if all(arg.is_Integer for arg in args):
            return sympy.Integer(cls.exact(*(int(arg) for arg in args)))
        return None

    @staticmethod
    def exact(*args: int) -> int:
        """The function on plain integers."""
        raise NotImplementedError

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(arg.is_nonnegative for arg in self.args) else None


class ceil_div(_Exact):
    """a / b rounded up, for b > 0."""

    nargs = (2,)

    @staticmethod
    def exact(*args: int) -> int:
        a, b = args
        return -(-a // b)


class floor_div(_Exact):
    """a / b rounded down, for b > 0."""

    nargs = (2,)

    @staticmethod
    def exact(*args: int) -> int:
        a, b = args
        return a // b


class mod(_Exact):
    """The remainder of `floor_div`, for b > 0."""

    nargs = (2,)

    @staticmethod
    def exact(*args: int) -> int:
        a, b = args
        return a % b


class minimum(_Exact):
    """The smaller of two."""

    nargs = (2,)

    @staticmethod
    def exact(*args: int) -> int:
        return min(args)


class if_at_least(_Exact):
    """``if_at_least(a, b, x, y)`` is x if a >= b, else y."""

    nargs = (4,)

    @staticmethod
    def exact(*args: int) -> int:
        a, b, x, y = args
        return x if a >= b else y


class _PlainPrinter(StrPrinter):  # type: ignore[misc]
    """As people read it: the functions by name, `if_at_least` spelled out."""

    def _print_if_at_least(self, expr: Any) -> str:
        a, b, x, y = (self._print(arg) for arg in expr.args)
        return f"({x} if {a} >= {b} else {y})"

    def _atom(self, expr: Any) -> str:
        return str(self.parenthesize(expr, PRECEDENCE["Atom"], strict=True))


class _PythonPrinter(_PlainPrinter):
    def _print_ceil_div(self, expr: Any) -> str:
        a, b = (self._atom(arg) for arg in expr.args)
        return f"(-(-{a} // {b}))"

    def _print_floor_div(self, expr: Any) -> str:
        a, b = (self._atom(arg) for arg in expr.args)
        return f"({a} // {b})"

    def _print_mod(self, expr: Any) -> str:
        a, b = (self._atom(arg) for arg in expr.args)
        return f"({a} % {b})"

    def _print_minimum(self, expr: Any) -> str:
        return f"min({', '.join(self._print(arg) for arg in expr.args)})"


class _CppPrinter(_PlainPrinter):
    """C++ on int64_t values that aren't negative, where `/` and `%` round as floor_div and mod do."""

    def _print_ceil_div(self, expr: Any) -> str:
        a, b = (self._atom(arg) for arg in expr.args)
        return f"(({a} + {b} - 1) / {b})"

    def _print_floor_div(self, expr: Any) -> str:
        a, b = (self._atom(arg) for arg in expr.args)
        return f"({a} / {b})"

    def _print_mod(self, expr: Any) -> str:
        a, b = (self._atom(arg) for arg in expr.args)
        return f"({a} % {b})"

    def _print_minimum(self, expr: Any) -> str:
        return f"std::min<int64_t>({', '.join(self._print(arg) for arg in expr.args)})"

    def _print_if_at_least(self, expr: Any) -> str:
        a, b, x, y = (self._print(arg) for arg in expr.args)
        return f"({a} >= {b} ? {x} : {y})"


def to_text(expr: Any) -> str:
    """`expr` as people write it."""
    return cast(str, _PlainPrinter().doprint(expr))


def to_python(expr: Any) -> str:
    """`expr` as Python source on ints."""
    return cast(str, _PythonPrinter().doprint(expr))


def to_cpp(expr: Any) -> str:
    """`expr` as C++ source on int64_t, for values that aren't negative."""
    return cast(str, _CppPrinter().doprint(expr))


def unwrap(text: str) -> str:
    """`text` without parentheses around the whole of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]
