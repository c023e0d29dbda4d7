"""Differential fuzz: random expressions on random dtypes, against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asc_sched import op
from asc_sched.errors import ArgumentError, DeclarationError, DtypeError
from asc_sched.run.check import check_kernel
from tests.lower.machine import check_op
from tests.lower.values import DTYPES, random_tensor

# Functions that jump are kept off inexact values: a last-bit difference before a step is a whole step after it.
SMOOTH = ("exp", "tanh", "sin", "atan", "erf", "log1p", "sigmoid", "silu", "gelu", "softplus", "expm1", "cosh")
EXACT_UNARY = ("-{}", "abs({})", "relu({})", "square({})", "sign({})", "leaky_relu({}, 0.25)", "positive({})")
EXACT_BINARY = (
    "{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "minimum({}, {})", "where({} < {}, x, y)", "fmax({}, {})",
)  # fmt: skip
# Whose signs may be asked for: that of a computed NaN, and of the larger of two zeros, is unspecified in torch as here.
SIGNED = ("x", "y", "float32(x)", "float16(y)")
FLOAT_BINARY = (*EXACT_BINARY, "{} / {}", "hypot({}, {})", "atan2({}, {})")
MASKS = ("{} < {}", "{} >= {}", "{} == {}", "{} != {}")
BITS = ("{} & {}", "{} | {}", "{} ^ {}")
CASTS = ("float32({})", "float16({})", "bfloat16({})", "int32({})", "int16({})", "int8({})", "uint8({})", "bool({})")
NUMBERS = ("1", "2", "-3", "0.5", "1.25", "100", "1e-3", "True")


@st.composite
def exact_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Functions that round at most as torch does, bit for bit, and casts."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(("x", "y", "x", "y", *NUMBERS)))
    pick = draw(st.integers(0, 10))
    inner = exact_expressions(depth=depth - 1)
    if pick == 10:
        return f"copysign({draw(inner)}, {draw(st.sampled_from(SIGNED))})"
    if pick < 4:
        return f"({draw(st.sampled_from(EXACT_BINARY)).format(draw(inner), draw(inner))})"
    if pick < 6:
        return f"({draw(st.sampled_from(EXACT_UNARY)).format(draw(inner))})"
    if pick < 7:
        return f"({draw(st.sampled_from(MASKS)).format(draw(inner), draw(inner))})"
    if pick < 8:
        return f"({draw(st.sampled_from(BITS)).format(draw(inner), draw(inner))})"
    return draw(st.sampled_from(CASTS)).format(draw(inner))


@st.composite
def smooth_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Functions with errors of their own, without steps."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(("x", "y", "0.5", "2.0", "-1.5")))
    inner = smooth_expressions(depth=depth - 1)
    if draw(st.booleans()):
        return f"{draw(st.sampled_from(SMOOTH))}({draw(inner)})"
    return f"({draw(st.sampled_from(('{} + {}', '{} - {}', '{} * {}', '{} / {}'))).format(draw(inner), draw(inner))})"


def _tensors(dtypes: tuple[str, str], seed: int, count: int = 96) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [random_tensor(d, count, g) for d in dtypes]


def _agrees(text: str, dtypes: tuple[str, str], seed: int) -> None:
    try:
        check_op(op(f"z = {text}", inputs=["x", "y"]), _tensors(dtypes, seed))
    except (DtypeError, ArgumentError, DeclarationError) as error:
        _refused_by_torch(error)


def _refused_by_torch(error: Exception) -> None:
    """torch (or Python, of constants) has no such function; the chip has all of those used here."""
    assert any(why in str(error) for why in ("torch says", "vector cores don't have", "has no value")), error


_CASES: dict[str, Any] = {
    "text": exact_expressions(),
    "dtypes": st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)),
    "seed": st.integers(0, 1000),
}
_SMOOTH: dict[str, Any] = {
    "text": smooth_expressions(),
    "dtypes": st.tuples(st.sampled_from(DTYPES[:3]), st.sampled_from(DTYPES[:3])),
    "seed": st.integers(0, 1000),
}
_SETTINGS: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=130, **_SETTINGS)
@given(**_CASES)
def test_random_exact_expressions(text: str, dtypes: tuple[str, str], seed: int) -> None:
    _agrees(text, dtypes, seed)


@settings(max_examples=70, **_SETTINGS)
@given(**_SMOOTH)
def test_random_smooth_expressions(text: str, dtypes: tuple[str, str], seed: int) -> None:
    _agrees(text, dtypes, seed)


@pytest.mark.nightly
@settings(max_examples=1300, **_SETTINGS)
@given(**_CASES)
def test_many_random_exact_expressions(text: str, dtypes: tuple[str, str], seed: int) -> None:
    _agrees(text, dtypes, seed)


@pytest.mark.nightly
@settings(max_examples=700, **_SETTINGS)
@given(**_SMOOTH)
def test_many_random_smooth_expressions(text: str, dtypes: tuple[str, str], seed: int) -> None:
    _agrees(text, dtypes, seed)


def _road(text: str, dtypes: tuple[str, str], shape: int) -> None:
    try:
        report = check_kernel(op(f"z = {text}", inputs=["x", "y"]).compile(shape, list(dtypes)))
    except (DtypeError, ArgumentError, DeclarationError) as error:
        _refused_by_torch(error)
        return
    assert report["ok"], report["outputs"]


@settings(max_examples=25, **_SETTINGS)
@given(text=exact_expressions(), dtypes=_CASES["dtypes"], shape=st.integers(1, 3000))
def test_random_expressions_through_the_whole_road(text: str, dtypes: tuple[str, str], shape: int) -> None:
    _road(text, dtypes, shape)


@pytest.mark.nightly
@settings(max_examples=400, **_SETTINGS)
@given(text=exact_expressions(), dtypes=_CASES["dtypes"], shape=st.integers(1, 9000))
def test_many_random_expressions_through_the_whole_road(text: str, dtypes: tuple[str, str], shape: int) -> None:
    _road(text, dtypes, shape)
