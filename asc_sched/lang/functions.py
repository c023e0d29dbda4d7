"""The primitive functions of the language: each is defined by the torch function it equals.

A function's meaning (values, result dtype, errors) is its torch function on the CPU; `lower/` says how a chip computes
it. Functions made of these (gelu, sigmoid...) are macros in `lang/composites.py`: expressions, not instructions.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs

from asc_sched.errors import DeclarationError


@attrs.frozen
class Function:
    """A primitive: its name, number of arguments, the torch function that defines it, and how it is written.

    `torch_name` is looked up in `torch` and then in `torch.special`. `symbol` is the infix or prefix operator, if any.
    """

    name: str
    arity: int
    torch_name: str
    symbol: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def torch(self) -> Callable[..., Any]:
        return _torch_function(self.torch_name)


@cache
def _torch_function(name: str) -> Callable[..., Any]:
    import torch

    fn = getattr(torch, name, None) or getattr(torch.special, name)
    assert callable(fn)
    return fn  # type: ignore[no-any-return]


_TABLE = (
    Function("add", 2, "add", "+"),
    Function("sub", 2, "sub", "-", ("subtract",)),
    Function("mul", 2, "mul", "*", ("multiply",)),
    Function("div", 2, "true_divide", "/", ("true_divide", "divide")),
    Function("floor_div", 2, "floor_divide", "//", ("floor_divide",)),
    Function("remainder", 2, "remainder", "%"),
    Function("pow", 2, "pow", "**"),
    Function("neg", 1, "neg", "-", ("negative",)),
    Function("abs", 1, "abs", "", ("absolute", "fabs")),
    Function("exp", 1, "exp"),
    Function("log", 1, "log", "", ("ln",)),
    Function("sqrt", 1, "sqrt"),
    Function("rsqrt", 1, "rsqrt"),
    Function("reciprocal", 1, "reciprocal"),
    Function("relu", 1, "relu"),
    Function("maximum", 2, "maximum", "", ("max",)),
    Function("minimum", 2, "minimum", "", ("min",)),
    Function("lt", 2, "lt", "<", ("less",)),
    Function("le", 2, "le", "<=", ("less_equal",)),
    Function("gt", 2, "gt", ">", ("greater",)),
    Function("ge", 2, "ge", ">=", ("greater_equal",)),
    Function("eq", 2, "eq", "=="),
    Function("ne", 2, "ne", "!=", ("not_equal",)),
    Function("where", 3, "where"),
    Function("logical_and", 2, "logical_and"),
    Function("logical_or", 2, "logical_or"),
    Function("logical_xor", 2, "logical_xor"),
    Function("logical_not", 1, "logical_not"),
    Function("bitwise_and", 2, "bitwise_and", "&"),
    Function("bitwise_or", 2, "bitwise_or", "|"),
    Function("bitwise_xor", 2, "bitwise_xor", "^"),
    Function("bitwise_not", 1, "bitwise_not", "~"),
)

FUNCTIONS: dict[str, Function] = {f.name: f for f in _TABLE}
_BY_NAME: dict[str, Function] = FUNCTIONS | {alias: f for f in _TABLE for alias in f.aliases}


def find_function(name: str) -> Function | None:
    """The primitive of that name or alias, or None."""
    return _BY_NAME.get(name)


def check_arity(name: str, expected: int, got: int) -> None:
    """Raise `DeclarationError` unless a function got the number of arguments that it takes."""
    if expected != got:
        plural = "" if expected == 1 else "s"
        raise DeclarationError(f"{name}() takes {expected} argument{plural}, {got} given")


def unknown_function(name: str, known: list[str]) -> DeclarationError:
    """The error for a name that is no function of the language, with the nearest ones."""
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return DeclarationError(f"unknown function {name!r}; {hint}known functions: {', '.join(sorted(known))}")
