"""Noise, glitches and impossible times never choose the winner."""

from __future__ import annotations

import math
import random

import pytest

from asc_sched import Schedule
from asc_sched.tune.decide import Sample, decide, summarise

A, B, C, D, E, F = (Schedule(core_num=n) for n in (1, 2, 3, 4, 5, 6))


@pytest.mark.parametrize("seed", range(20))
def test_the_choice_is_stable_under_noise(seed: int) -> None:
    rng = random.Random(seed)
    times = {
        A: [100 + rng.uniform(-5, 5) for _ in range(30)],
        B: [101 + rng.uniform(-5, 5) for _ in range(30)],
        C: [150.0] * 29 + [1.0],
        D: [0.0] * 30,
        E: [math.nan] * 30,
        F: [20.0] + [140 + rng.uniform(-5, 5) for _ in range(29)],
    }
    samples = {s: summarise(t) for s, t in times.items()}
    assert samples[D] is None and samples[E] is None
    usable = {s: m for s, m in samples.items() if m is not None}
    decision = decide(list(usable.values()), list(usable))
    assert list(usable)[decision.winner] is A  # A and B are a tie; the simpler one wins, every time
    assert {list(usable)[i] for i in decision.tied} == {A, B}


def test_a_glitch_to_a_hundredth_is_no_time() -> None:
    sample = summarise([150.0, 151.0, 149.0, 1.0, 150.0])
    assert sample is not None and sample.min_us == 149.0 and sample.count == 4


def test_no_times_at_all() -> None:
    assert summarise([]) is None
    assert summarise([math.inf, -1.0, 5.0]) is None


def test_without_noise_the_fastest_wins() -> None:
    exact = [Sample(100.0, 100.0, 0.0, 1), Sample(99.99, 99.99, 0.0, 1)]
    assert decide(exact, [A, B], tie=1e-6).winner == 1
    assert decide(exact, [A, B]).winner == 0


def test_a_noisy_candidate_that_is_never_faster_is_no_tie() -> None:
    noisy = summarise([101, 102, 103, 104, 105, 106, 120, 121, 122, 150, 151, 152, 153, 154])
    steady = summarise([100.0] * 14)
    assert noisy is not None and steady is not None
    decision = decide([noisy, steady], [A, B])
    assert decision.winner == 1 and decision.tied == (1,)
