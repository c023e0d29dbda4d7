"""From repeated, noisy times to one winner: robust, repeatable, ties broken towards the simpler schedule."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import attrs

from asc_sched.schedule import Schedule

# Times closer than this are a tie where the noise doesn't say more: no tuner should chase half a percent.
TIE = 0.005
# A candidate needs at least this share of its samples to be usable numbers.
LEAST_GOOD = 0.5


@attrs.frozen
class Sample:
    """Statistics of one candidate's times, in microseconds. `spread` is half the interquartile range."""

    median_us: float
    min_us: float
    spread_us: float
    count: int


def summarise(times_us: Sequence[float]) -> Sample | None:
    """Statistics without the impossible values (zero, negative, NaN, infinite) and without lone outliers.

    None when too few times are usable: a clock that reads zero half of the time measures nothing.
    """
    good = sorted(t for t in times_us if math.isfinite(t) and t > 0)
    if len(good) < max(1, math.ceil(len(times_us) * LEAST_GOOD)):
        return None
    kept = _without_outliers(good)
    quarter = len(kept) // 4
    spread = (kept[-1 - quarter] - kept[quarter]) / 2
    return Sample(statistics.median(kept), kept[0], spread, len(kept))


def _without_outliers(times: list[float]) -> list[float]:
    """Drops what lies more than ten median deviations (at least 20 %) from the median: glitches, in both directions."""
    middle = statistics.median(times)
    deviation = statistics.median(abs(t - middle) for t in times)
    reach = max(10 * deviation, 0.2 * middle)
    return [t for t in times if abs(t - middle) <= reach]


@attrs.frozen
class Decision:
    """The winner's index, and the candidates that can't be told from it (its own index included)."""

    winner: int
    tied: tuple[int, ...]


def decide(samples: Sequence[Sample], schedules: Sequence[Schedule], tie: float = TIE) -> Decision:
    """The fastest by median; among those within the noise of it (at least the share `tie`), the simplest schedule."""
    best = min(range(len(samples)), key=lambda i: (samples[i].median_us, schedules[i].sort_key))
    lead = samples[best]
    tied = [i for i, s in enumerate(samples) if _alike(s, lead, tie)]
    winner = min(tied, key=lambda i: schedules[i].sort_key)
    return Decision(winner, tuple(tied))


def _alike(sample: Sample, lead: Sample, tie: float) -> bool:
    """Whether a candidate can't be told from the fastest: close, or within the noise and as fast at times."""
    apart = sample.median_us - lead.median_us
    if apart <= tie * lead.median_us:
        return True
    return apart <= sample.spread_us + lead.spread_us and sample.min_us <= lead.median_us + lead.spread_us
