"""Random kernels: valid ones give the right result and no finding, broken ones are found out."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asc_sched.errors import CompileError
from asc_sched.sim import HardwareError
from tests.sim.lowering import run
from tests.sim.random_kernels import Kernel, Mutation, mutations, random_kernel

SEEDS = st.integers(0, 2**40)
QUICK = settings(max_examples=40, deadline=None, derandomize=True, database=None)
LONG = settings(QUICK, max_examples=500, suppress_health_check=list(HealthCheck))


def result(kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    arrays, want = kernel.arguments()
    z = np.zeros_like(want)
    run(kernel.source, [*arrays, z, kernel.total_length], kernel.core_num, outputs=[len(arrays)])
    return z, want


def check_valid(seed: int) -> None:
    kernel = random_kernel(seed)
    got, want = result(kernel)
    np.testing.assert_array_equal(got, want, err_msg=kernel.source)


@QUICK
@given(SEEDS)
def test_valid_kernels_are_right_and_raise_no_alarm(seed: int) -> None:
    check_valid(seed)


@pytest.mark.nightly
@LONG
@given(SEEDS)
def test_500_valid_kernels_are_right_and_raise_no_alarm(seed: int) -> None:
    check_valid(seed)


def broken_kernels(count: int) -> Iterator[Mutation]:
    """Valid kernels, each broken in one way that pyasc still compiles."""
    for seed in range(10**6, 10**6 + count):
        yield mutations(random_kernel(seed), random.Random(seed))[0]


def outcome(mutation: Mutation) -> str:
    """How a broken kernel was found out, or ``missed``."""
    try:
        got, want = result(mutation.kernel)
    except HardwareError as e:
        return e.check
    except CompileError:
        return "refused by pyasc"
    return "missed" if np.array_equal(got, want) else "wrong result"


def why_harmless(mutation: Mutation) -> str | None:
    """Why a broken kernel runs right on hardware, too; None when it doesn't."""
    kernel = mutation.kernel
    once = kernel.tiles <= kernel.buffers
    if mutation.what in ("no V_MTE2 flags at all", "no MTE3_V flags at all") and once:
        return "no buffer is used a second time, so nothing has to wait for its first use"
    if mutation.what == "tensors that overlap" and once:
        return "the result takes the place of an input that is read for the last time with it"
    if mutation.what == "a longer instruction" and kernel.style == "flags" and kernel.tiles < kernel.buffers:
        return "what lies beyond the tile belongs to a buffer that isn't used"
    if mutation.what == "a smaller buffer" and kernel.longest_tile_bytes <= 32:
        return "no tile is longer than the smaller buffer"
    return None


def check_broken(count: int) -> None:
    missed, caught, unexplained = 0, 0, []
    for mutation in broken_kernels(count):
        how = outcome(mutation)
        if how == "refused by pyasc":
            continue
        if how != "missed":
            caught += 1
            continue
        missed += 1
        reason = why_harmless(mutation)
        if reason is None:
            unexplained.append(f"{mutation.what}:\n{mutation.kernel.source}")
        print(f"not caught: {mutation.what} ({reason})")
    print(f"{caught} of {caught + missed} broken kernels caught")
    assert not unexplained, "\n".join(unexplained)
    assert caught >= 0.95 * (caught + missed)


def test_broken_kernels_are_found_out() -> None:
    check_broken(60)


@pytest.mark.nightly
def test_200_broken_kernels_are_found_out() -> None:
    check_broken(220)
