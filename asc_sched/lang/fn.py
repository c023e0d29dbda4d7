"""The language's functions for use in traced declarations: ``from asc_sched import fn; fn.exp(x)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asc_sched.lang.dtypes import DTYPES
from asc_sched.lang.value import apply, cast, known_names

__all__ = ["cast"]


def __getattr__(name: str) -> Callable[..., Any]:
    if name in known_names() or name in DTYPES:

        def function(*args: Any, **keywords: Any) -> Any:
            return apply(name, *args, **keywords)

        function.__name__ = name
        return function
    raise AttributeError(f"asc_sched.fn has no function {name!r}; known: {', '.join(known_names())}")


def __dir__() -> list[str]:
    return sorted([*known_names(), *DTYPES, "cast"])
