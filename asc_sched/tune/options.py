"""How to search, apart from what."""

from __future__ import annotations

from collections.abc import Callable

import attrs

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
