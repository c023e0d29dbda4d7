"""The primitive functions of the language: each is defined by the torch function it equals.

A function's meaning (values, result dtype, errors) is its torch function on the CPU; `lower/` says how a chip computes
it. Functions made of these (gelu, sigmoid...) are macros in `lang/composites.py`: expressions, not instructions.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import attrs

from asc_sched.errors import DeclarationError


@attrs.frozen
class Function:
    """A primitive: its name, number of arguments, the torch function that defines it, and how it is written.

    `torch_name` is looked up in `torch`, `torch.special` and `torch.nn.functional`, and called with `keywords`.
    `tensors_only`: torch takes no Python number there, so one becomes a 0-d tensor first. `own_dtype`: it depends on
    the dtype's limits, so 16-bit floating point isn't widened for it. `optional`: its last parameters by name, with
    torch's defaults.
    """

    name: str
    arity: int
    torch_name: str = attrs.field()
    symbol: str = ""
    aliases: tuple[str, ...] = ()
    tensors_only: bool = False
    keywords: tuple[tuple[str, str], ...] = ()
    own_dtype: bool = False
    optional: tuple[tuple[str, float], ...] = ()

    @torch_name.default
    def _same_name(self) -> str:
        return self.name

    @property
    def torch(self) -> Callable[..., Any]:
        return _torch_function(self.torch_name, self.keywords)


@cache
def _torch_function(name: str, keywords: tuple[tuple[str, str], ...]) -> Callable[..., Any]:
    import torch

    places = (torch, torch.special, torch.nn.functional)
    fn = next(getattr(p, name) for p in places if hasattr(p, name))
    assert callable(fn)
    return partial(fn, **dict(keywords)) if keywords else fn


def _plain(names: str, arity: int = 1, **more: Any) -> tuple[Function, ...]:
    """Functions with torch's own name."""
    return tuple(Function(n, arity, n, **more) for n in names.split())


_TABLE = (
    # arithmetic
    Function("add", 2, "add", "+"),
    Function("sub", 2, "sub", "-", ("subtract",)),
    Function("mul", 2, "mul", "*", ("multiply",)),
    Function("div", 2, "true_divide", "/", ("true_divide", "divide")),
    Function("floor_div", 2, "floor_divide", "//", ("floor_divide", "div_floor")),
    Function("trunc_div", 2, "div", "", ("div_trunc",), keywords=(("rounding_mode", "trunc"),)),
    Function("remainder", 2, "remainder", "%"),
    Function("fmod", 2),
    Function("pow", 2, "pow", "**"),
    Function("neg", 1, "neg", "-", ("negative",)),
    Function("abs", 1, "abs", "", ("absolute", "fabs")),
    *_plain("sign signbit sqrt rsqrt reciprocal"),
    Function("copysign", 2, tensors_only=True),
    *_plain("hypot gcd", 2, tensors_only=True),
    Function("maximum", 2, "maximum", "", ("max",), tensors_only=True),
    Function("minimum", 2, "minimum", "", ("min",), tensors_only=True),
    *_plain("fmax fmin", 2, tensors_only=True),
    Function("relu", 1),
    Function("leaky_relu", 2, "leaky_relu", optional=(("negative_slope", 0.01),)),
    # rounding
    *_plain("floor ceil round trunc frac"),
    # exponentials and logarithms
    *_plain("exp exp2 expm1"),
    Function("log", 1, "log", "", ("ln",)),
    *_plain("log2 log10 log1p"),
    # trigonometric, hyperbolic, and their inverses
    *_plain("sin cos tan sinh cosh tanh"),
    *(Function(f"a{f}", 1, f"a{f}", "", (f"arc{f}",)) for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")),
    Function("atan2", 2, "atan2", "", ("arctan2",), tensors_only=True),
    *_plain("erf erfc"),
    # comparisons and choices
    Function("lt", 2, "lt", "<", ("less",)),
    Function("le", 2, "le", "<=", ("less_equal",)),
    Function("gt", 2, "gt", ">", ("greater",)),
    Function("ge", 2, "ge", ">=", ("greater_equal",)),
    Function("eq", 2, "eq", "=="),
    Function("ne", 2, "ne", "!=", ("not_equal",)),
    Function("where", 3),
    Function("finite", 1, "nan_to_num", own_dtype=True),
    *_plain("isnan isinf isfinite isposinf isneginf"),
    # logic and bits
    *_plain("logical_and logical_or logical_xor", 2, tensors_only=True),
    Function("logical_not", 1),
    Function("bitwise_and", 2, "bitwise_and", "&"),
    Function("bitwise_or", 2, "bitwise_or", "|"),
    Function("bitwise_xor", 2, "bitwise_xor", "^"),
    Function("bitwise_not", 1, "bitwise_not", "~"),
    Function("shift_left", 2, "bitwise_left_shift", "<<", ("bitwise_left_shift",)),
    Function("shift_right", 2, "bitwise_right_shift", ">>", ("bitwise_right_shift",)),
)

FUNCTIONS: dict[str, Function] = {f.name: f for f in _TABLE}
_BY_NAME: dict[str, Function] = FUNCTIONS | {alias: f for f in _TABLE for alias in f.aliases}


def find_function(name: str) -> Function | None:
    """The primitive of that name or alias, or None."""
    return _BY_NAME.get(name)


def function_names() -> list[str]:
    """Names and aliases of all primitives."""
    return sorted(_BY_NAME)


def check_arity(name: str, expected: int, got: int) -> None:
    """Raise `DeclarationError` unless a function got the number of arguments that it takes."""
    if expected != got:
        plural = "" if expected == 1 else "s"
        raise DeclarationError(f"{name}() takes {expected} argument{plural}, {got} given")


def unknown_function(name: str, known: list[str]) -> DeclarationError:
    """The error for a name that is no function of the language, with the nearest ones."""
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return DeclarationError(f"unknown function {name!r}; {hint}dir(asc_sched.fn) lists all {len(known)}")
