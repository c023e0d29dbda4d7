"""The catalogue: declared operators, one module per family, each op one declaration.

``asc_sched.ops.add`` is an op; `catalogue()` is all of them by name; `get` finds one and names the nearest otherwise.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib import import_module
from typing import Any

from asc_sched.declare import Op
from asc_sched.errors import DeclarationError

FAMILIES = (
    "arithmetic", "rounding", "exponential", "trigonometric", "comparison", "logic", "cast", "activation", "gated",
    "loss", "gradient", "optimizer", "quantize", "network",
)  # fmt: skip


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Op]:
    """Every op by name, families in order."""
    found: dict[str, Op] = {}
    for family in FAMILIES:
        module = import_module(f"asc_sched.ops.{family}")
        found |= {o.name: o for o in vars(module).values() if isinstance(o, Op)}
    return found


def family_of(name: str) -> str:
    """The family (module) that declares an op."""
    return next(f for f in FAMILIES if any(
        isinstance(o, Op) and o.name == name for o in vars(import_module(f"asc_sched.ops.{f}")).values()
    ))  # fmt: skip


def get(name: str) -> Op:
    """The catalogue's op of that name. Raises `DeclarationError` with the nearest names."""
    ops = catalogue()
    if name in ops:
        return ops[name]
    near = difflib.get_close_matches(name, ops, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise DeclarationError(f"no op {name!r} in the catalogue; {hint}`asc-sched ops` lists all {len(ops)}")


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in catalogue():
        return catalogue()[name]
    raise AttributeError(f"asc_sched.ops has no op {name!r}; see asc_sched.ops.catalogue()")
