"""The polynomials of asc_sched/lower/rules/coefficients.py: fitted, rounded to float32, and their errors.

`python tools/coefficients.py` prints the module. Each polynomial is a minimax fit (Remez exchange in 40 digits) whose
coefficients are then rounded one by one, lowest power first, with the rest fitted again after each.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 40
Real = Callable[[Any], Any]


def chebyshev_nodes(low: float, high: float, count: int) -> list[Any]:
    low, high = mp.mpf(low), mp.mpf(high)
    return [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def remez(fn: Real, low: float, high: float, degree: int, weight: Real, fixed: Sequence[Any]) -> tuple[list[Any], Any]:
    """Coefficients (lowest first) that minimise the largest weighted error; the first few may be given."""
    free = degree + 1 - len(fixed)
    if low < 0 < high:  # with the value at 0 given, powers don't alternate around it: least squares instead
        return least_squares(fn, low, high, degree, weight, fixed)

    def rest(x: Any) -> Any:
        return fn(x) - sum(c * x**i for i, c in enumerate(fixed))

    nodes = sorted(chebyshev_nodes(low, high, free + 1))
    grid = sorted(chebyshev_nodes(low, high, 40 * (free + 2)))
    coefficients: list[Any] = []
    for _ in range(12):
        rows = [[x ** (len(fixed) + j) for j in range(free)] + [(-1) ** i / weight(x)] for i, x in enumerate(nodes)]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([rest(x) for x in nodes]))
        coefficients = [solution[j] for j in range(free)]

        def error(x: Any) -> Any:
            return (rest(x) - sum(c * x ** (len(fixed) + j) for j, c in enumerate(coefficients))) * weight(x)  # noqa: B023

        values = [error(x) for x in grid]
        extremes = _alternating(grid, values, free + 1)
        if extremes is None or max(abs(a - b) for a, b in zip(extremes, nodes, strict=True)) < 1e-9:
            break
        nodes = extremes
    worst = max(abs(error(x)) for x in grid)
    return [*fixed, *coefficients], worst


def least_squares(
    fn: Real, low: float, high: float, degree: int, weight: Real, fixed: Sequence[Any]
) -> tuple[list[Any], Any]:
    """As `remez`, by least squares over Chebyshev nodes, which is within a small factor of the best."""
    nodes = chebyshev_nodes(low, high, 8 * (degree + 1))
    powers = range(len(fixed), degree + 1)
    rows = mp.matrix([[x**j * weight(x) for j in powers] for x in nodes])
    rest = mp.matrix([(fn(x) - sum(c * x**i for i, c in enumerate(fixed))) * weight(x) for x in nodes])
    solution = mp.lu_solve(rows, rest)
    return [*fixed, *solution], mp.norm(rows * solution - rest, mp.inf)


def _alternating(grid: list[Any], values: list[Any], count: int) -> list[Any] | None:
    """Points of largest error with alternating signs, one per run of equal signs."""
    runs: list[tuple[Any, Any]] = []
    for x, v in zip(grid, values, strict=True):
        if runs and (v > 0) == (runs[-1][1] > 0):
            if abs(v) > abs(runs[-1][1]):
                runs[-1] = (x, v)
        else:
            runs.append((x, v))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    return [x for x, _ in runs] if len(runs) == count else None


def fit(
    fn: Real, low: float, high: float, degree: int, weight: Real = lambda x: mp.mpf(1)
) -> tuple[list[float], float]:
    """Rounded coefficients, lowest power first, and the largest weighted error with them."""
    fixed: list[Any] = []
    for i in range(degree + 1):
        coefficients, _ = remez(fn, low, high, degree, weight, fixed)
        fixed.append(mp.mpf(float(np.float32(float(coefficients[i])))))
    grid = chebyshev_nodes(low, high, 400)
    worst = max(abs(fn(x) - sum(c * x**i for i, c in enumerate(fixed))) * weight(x) for x in grid)
    return [float(c) for c in fixed], float(worst)


def odd_part(fn: Real) -> Real:
    """R with fn(x) = x + x * z * R(z), z = x * x."""

    def part(z: Any) -> Any:
        if abs(z) < mp.mpf(10) ** -30:
            z = mp.mpf(10) ** -30
        x = mp.sqrt(z)
        return (fn(x) / x - 1) / z

    return part


def _expm1(x: Any) -> Any:
    return mp.mpf(1) / 2 if abs(x) < mp.mpf(10) ** -15 else (mp.expm1(x) - x) / x**2


def _erf_small(z: Any) -> Any:
    x = mp.sqrt(max(z, mp.mpf(10) ** -30))
    return mp.erf(x) / x - 1


def _erf_large(a: Any) -> Any:
    return -mp.log(mp.erfc(a))


def _erfcx(t: Any) -> Any:
    """erfc(a) exp(a^2) / t with t = 2 / (2 + a)."""
    a = 2 / t - 2
    return mp.erfc(a) * mp.exp(a * a) / t


def _log_series(z: Any) -> Any:
    s = mp.sqrt(max(z, mp.mpf(10) ** -20))
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3


def _near_z(z: Any) -> Any:
    """Weight that makes the error of x z P(z) relative, without vanishing at 0."""
    return z + mp.mpf("0.01")


PI = float(mp.pi)
TABLE: dict[str, tuple[str, Callable[[], tuple[list[float], float]]]] = {
    "EXPM1": ("expm1(x) = x + x^2 P(x), |x| <= 0.5", lambda: fit(_expm1, -0.5, 0.5, 5)),
    "TANH": ("tanh(x) = x + x z P(z), z = x^2, |x| <= 0.6", lambda: fit(odd_part(mp.tanh), 0, 0.36, 4, _near_z)),
    "SINH": ("sinh(x) = x + x z P(z), |x| <= 1", lambda: fit(odd_part(mp.sinh), 0, 1, 3, _near_z)),
    "ATAN": ("atan(x) = x + x z P(z), |x| <= 1", lambda: fit(odd_part(mp.atan), 0, 1, 8, _near_z)),
    "ASIN": ("asin(x) = x + x z P(z), |x| <= 0.5", lambda: fit(odd_part(mp.asin), 0, 0.25, 4, _near_z)),
    "SIN": ("sin(x) = x + x z P(z), |x| <= pi / 2", lambda: fit(odd_part(mp.sin), 0, PI**2 / 3.99, 3, _near_z)),
    "ERF": ("erf(x) = x + x P(z), |x| <= 0.9", lambda: fit(_erf_small, 0, 0.81, 6)),
    "ERF_TAIL": ("erf(x) = 1 - exp(-P(x)), 0.9 <= x <= 4", lambda: fit(_erf_large, 0.9, 4.0, 6, mp.erfc)),
    "ERFCX": (
        "erfc(x) = t P(t) exp(-x^2), t = 2 / (2 + x), 0 <= x <= 10.1",
        lambda: fit(_erfcx, 2 / 12.1, 1, 10, lambda t: 1 / _erfcx(t)),
    ),
    "LOG": (
        "log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2), |s| <= 0.1716",
        lambda: fit(_log_series, 0, 0.1716**2, 3),
    ),
    # For results that are rounded to 16 bits.
    "TANH_SHORT": ("as TANH", lambda: fit(odd_part(mp.tanh), 0, 0.36, 2, _near_z)),
    "SINH_SHORT": ("as SINH", lambda: fit(odd_part(mp.sinh), 0, 1, 1, _near_z)),
    "ATAN_SHORT": ("as ATAN", lambda: fit(odd_part(mp.atan), 0, 1, 4, _near_z)),
    "ASIN_SHORT": ("as ASIN", lambda: fit(odd_part(mp.asin), 0, 0.25, 2, _near_z)),
    "SIN_SHORT": ("as SIN", lambda: fit(odd_part(mp.sin), 0, PI**2 / 3.99, 2, _near_z)),
    "ERF_SHORT": ("as ERF", lambda: fit(_erf_small, 0, 0.81, 3)),
    "ERF_TAIL_SHORT": ("as ERF_TAIL", lambda: fit(_erf_large, 0.9, 4.0, 3, mp.erfc)),
    "ERFCX_SHORT": ("as ERFCX", lambda: fit(_erfcx, 2 / 12.1, 1, 5, lambda t: 1 / _erfcx(t))),
}


def main() -> None:
    names = sys.argv[1:] or list(TABLE)
    write = sys.stdout.write
    write('"""Polynomials in float32, highest power first. Written by tools/coefficients.py."""\n')
    for name in names:
        text, make = TABLE[name]
        coefficients, worst = make()
        numbers = ", ".join(repr(float(str(np.float32(c)))) for c in reversed(coefficients))
        body = "\n    ".join(textwrap.wrap(numbers, 110))
        write(f"\n#: {text}; error {worst:.1e}\n{name} = (\n    {body},\n)\n")


if __name__ == "__main__":
    main()
