"""How to search, apart from what."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from asc_sched.errors import TuningError
from asc_sched.run.measure import L2_STATES
from asc_sched.tune.search import Strategy, descent
from asc_sched.tune.space import Space

REPEATS = 20
TRIAL_LIMIT_S = 60.0
Progress = Callable[[str, int, float | None], None]


@attrs.frozen(kw_only=True)
class Options:
    """How to search. `runner` replaces the backend's own (``module:class``), `trial_limit_s` bounds one candidate."""

    space: Space
    backend: str
    l2: str = "hot"
    budget_s: float = 60.0
    top: int = 10
    strategy: Strategy = descent
    repeats: int = REPEATS
    trial_limit_s: float = TRIAL_LIMIT_S
    runner: str | None = None
    progress: Progress | None = None


_AT_LEAST: dict[str, float] = {"top": 1, "repeats": 1, "budget_s": 0.0, "trial_limit_s": 0.0}


def check_options(options: Mapping[str, Any]) -> None:
    """Raises `TuningError` naming a keyword that there isn't, or a value that can't be."""
    known = [f.name for f in attrs.fields(Options) if f.name not in ("space", "backend")]
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; nearest: {near[0]}" if near else ""
            raise TuningError(f"tune has no keyword {name!r} (it has: {', '.join(known)}){hint}")
        least = _AT_LEAST.get(name)
        if least is not None:
            _check_number(name, value, least)
    l2 = options.get("l2", "hot")
    if l2 not in L2_STATES:
        raise TuningError(f"l2={l2!r} is unknown (supported: {', '.join(L2_STATES)})")
    strategy = options.get("strategy", descent)
    if not callable(strategy):
        raise TuningError(f"strategy={strategy!r} is no strategy; see asc_sched.tune.search, for example descent")


def _check_number(name: str, value: Any, least: float) -> None:
    whole = isinstance(least, int)
    kind = "a whole number" if whole else "a number of seconds"
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not fits or not value >= least or (not whole and value == least and name == "trial_limit_s"):
        above = "above 0" if name == "trial_limit_s" else f"of at least {least:g}"
        raise TuningError(f"{name}={value!r}: it has to be {kind} {above}")
