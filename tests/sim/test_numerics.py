"""The rules of numbers by themselves: rounding by every mode against the neighbours in a dtype, specials, shifts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from asc_sched.sim.numerics import arith, casts, choices, widths
from asc_sched.sim.numerics.casts import Round

NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def finite_values(dtype: np.dtype) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        everything = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float64)
    return np.unique(everything[np.isfinite(everything)])


def samples(values: np.ndarray) -> np.ndarray:
    """Random numbers, exact values, half-way points and the edges of the range, as float32."""
    rng = np.random.default_rng(5)
    spread = rng.standard_normal(1500) * 10.0 ** rng.integers(-8, 5, 1500)
    middles = (values[:-1] + values[1:]) / 2
    top, ulp = values[-1], values[-1] - values[-2]
    edges = [0.0, -0.0, top, top + ulp / 2, top + ulp / 4, -top - ulp / 2, 2.0**-25, -(2.0**-25), 3e38, -3e38]
    chosen = [spread, rng.choice(values, 500), rng.choice(middles, 800), edges]
    return np.concatenate(chosen).astype(np.float32)


def rounded(x: float, values: np.ndarray, dtype: np.dtype, mode: Round) -> float:
    """`x` rounded by its definition: from the nearest values below and above."""
    at = int(np.searchsorted(values, x))
    if at < len(values) and values[at] == x:
        return x
    low = values[at - 1] if at > 0 else -np.inf
    high = values[at] if at < len(values) else np.inf
    toward_zero, away = (low, high) if x > 0 else (high, low)
    if mode is Round.CAST_FLOOR:
        return low
    if mode is Round.CAST_CEIL:
        return high
    if mode is Round.CAST_TRUNC:
        return toward_zero
    odd = bool(np.array([toward_zero]).astype(dtype).view(np.uint16)[0] & 1)
    if mode is Round.CAST_ODD:
        return toward_zero if odd else away
    step = abs(values[-1] - values[-2])  # beyond the largest value, the next one would be a step further
    below = abs(x - toward_zero)
    above = abs((away if np.isfinite(away) else np.copysign(values[-1] + step, x)) - x)
    if below != above:
        return toward_zero if below < above else away
    return away if odd or mode is Round.CAST_ROUND else toward_zero


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("mode", list(Round))
def test_narrowing_floats_by_every_mode(dtype: np.dtype, mode: Round) -> None:
    values = finite_values(dtype)
    xs = samples(values)
    got = casts.convert(xs, dtype, mode).astype(np.float64)
    want = np.array([rounded(float(x), values, dtype, mode) for x in xs])
    np.testing.assert_array_equal(got, want)
    specials = np.array([np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(casts.convert(specials, dtype, mode).astype(np.float64), specials)


def test_integers_beyond_2_to_24_become_float32_by_mode() -> None:
    x = np.array([2**24 + 1, -(2**24 + 1), 2**31 - 1, -(2**31)], np.int32)
    float32 = np.dtype(np.float32)
    assert casts.convert(x, float32, Round.CAST_RINT).tolist() == [2**24, -(2**24), 2**31, -(2**31)]
    assert casts.convert(x, float32, Round.CAST_FLOOR).tolist() == [2**24, -(2**24) - 2, 2**31 - 128, -(2**31)]
    assert casts.convert(x, float32, Round.CAST_CEIL).tolist() == [2**24 + 2, -(2**24), 2**31, -(2**31)]
    wide = np.array([2**62 + 1, -(2**62) - 1, 2**63 - 1], np.int64)
    assert casts.convert(wide, float32, Round.CAST_TRUNC).tolist() == [2.0**62, -(2.0**62), 2.0**63 - 2.0**39]
    assert casts.convert(wide, float32, Round.CAST_CEIL).tolist() == [2.0**62 + 2.0**39, -(2.0**62), 2.0**63]


def test_float_to_int64_saturates_exactly() -> None:
    x = np.array([9.3e18, -9.3e18, 2.0**62, np.nan], np.float32)
    got = casts.convert(x, np.dtype(np.int64), Round.CAST_TRUNC)
    assert got.tolist() == [2**63 - 1, -(2**63), 2**62, choices.NAN_TO_INTEGER]


def test_half_arithmetic_equals_numpys_on_every_pair_of_a_sample() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 65536, 20000, dtype=np.uint16).view(np.float16)
    b = rng.integers(0, 65536, 20000, dtype=np.uint16).view(np.float16)
    out = np.empty_like(a)
    with np.errstate(all="ignore"):
        for fn, ufunc in (
            (arith.add, np.add),
            (arith.sub, np.subtract),
            (arith.mul, np.multiply),
            (arith.div, np.divide),
        ):
            fn(out, (a, b), None, 0)
            np.testing.assert_array_equal(out, ufunc(a, b))


def test_doubles_become_bfloat16_in_one_rounding() -> None:
    # through float32 the first would be rounded to a tie and then to even
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8], np.float64)
    out = np.empty(3, ml_dtypes.bfloat16)
    widths.store(out, x)
    assert out.astype(np.float64).tolist() == [1 + 2.0**-7, 1.0, 1.0]


def test_results_may_overwrite_their_sources() -> None:
    a = np.arange(-5, 5).astype(np.float16)
    want = np.maximum(a, np.float16(0))
    arith.relu(a, (a,), None, 0)
    np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize(("count", "want"), [(0, -8), (3, -1), (16, -1)])
def test_shifts_as_far_as_the_width(count: int, want: int) -> None:
    x = np.array([-8], np.int16)
    out = np.empty_like(x)
    arith.shift_right(out, (x,), count, 0)
    assert out[0] == want
    arith.shift_left(out, (x,), 16, 0)
    assert out[0] == 0
