"""How the chip computes each function of the language: one module per family, one rule per function and kind of dtype.

A rule gets a `Call` (its arguments as registers or immediates) and gives the register with the result. Rules are
looked up by the dtype that the function is computed in, then by its kind: ``int`` stands for every integer dtype that
has no rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from asc_sched.errors import DtypeError
from asc_sched.lang.dtypes import DType, Kind

if TYPE_CHECKING:
    from asc_sched.lower.legalize import Call
    from asc_sched.lower.registers import Reg

Rule: TypeAlias = "Callable[[Call], Reg]"

FAMILIES = (
    "arithmetic", "comparison", "rounding", "exponential", "hyperbolic", "trigonometric", "special", "power",
    "division", "integer64",
)  # fmt: skip

_KIND = {Kind.FLOAT: "float", Kind.INT: "int", Kind.BOOL: "bool"}

RULES: dict[tuple[str, str], Rule] = {}

# Functions that one float16 instruction (or a few that don't round) computes with a single rounding, and those that
# don't round at all.
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
EXACT = frozenset({"neg", "abs", "relu", "maximum", "minimum", "fmax", "fmin", "where", "sign", "copysign", "finite"})
WHOLE = frozenset({"floor", "ceil", "round", "trunc", "frac"})
CLASSIFIED = frozenset({"isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit"})
SINGLE_ROUNDING = EXACT | COMPARISONS | CLASSIFIED | {"add", "sub", "mul", "div", "sqrt", "leaky_relu", "reciprocal"}
# Functions whose result is one of their operands, which may then be rounded before or after.
CHOOSING = frozenset({"maximum", "minimum", "fmax", "fmin", "where"})


# What precision="fast" computes in float16, one rounding after the other.
NATIVE_FLOAT16 = EXACT | COMPARISONS | CLASSIFIED | frozenset(
    "add sub mul div sqrt rsqrt reciprocal exp log leaky_relu".split()
)


def rule(names: str, kinds: str = "float") -> Callable[[Rule], Rule]:
    """Register a rule for functions (names in one text) on kinds of dtypes or single dtypes."""

    def register(function: Rule) -> Rule:
        for name in names.split():
            for kind in kinds.split():
                RULES[name, kind] = function
        return function

    return register


def find_rule(fn: str, dtype: DType, result: DType) -> Rule:
    """The rule for a function computed in `dtype`. Raises `DtypeError` where there is none."""
    for kind in (dtype.name, _KIND[dtype.kind]):
        found = RULES.get((fn, kind))
        if found is not None:
            return found
    raise DtypeError(f"{fn} on {dtype} is not supported")


for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")
