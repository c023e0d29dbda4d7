"""Every unary function on every 16-bit float, and on special and random float32."""

from __future__ import annotations

import pytest
import torch

from asc_sched import op, ops
from asc_sched.lang.accuracy import EXACT, error_ulp
from asc_sched.lang.functions import FUNCTIONS
from tests.lower.machine import check_op, run_both
from tests.lower.values import all_16bit, distance, float32_values

_OTHERS = ("bitwise", "logical", "is", "signbit")  # of integers, or with bools for a result
UNARY = sorted(f.name for f in FUNCTIONS.values() if f.arity == 1 and not f.name.startswith(_OTHERS))
UNARY_OPS = sorted(
    name
    for name, o in ops.catalogue().items()
    if len(o.inputs) == 1 and o.inputs[0] not in ("acc", "q") and not name.startswith("bitwise")
)

# torch's own float32 sinh and cosh overflow where exp does, at 88.72; the values there are finite up to 89.41.
_OVERFLOWS_EARLY = {"sinh": 88.7, "cosh": 88.7}


def _comparable(name: str, x: torch.Tensor) -> torch.Tensor:
    return x if name not in _OVERFLOWS_EARLY else x[~((x.abs() > 88.7) & (x.abs() < 89.5))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", UNARY)
def test_16bit_functions_are_torchs_value_rounded_once(name: str, dtype: str) -> None:
    x = _comparable(name, all_16bit(dtype))
    ((found, expected),) = run_both(op(f"z = {name}(x)"), x)
    off = distance(found, expected)
    assert off.max() <= (0 if name in EXACT else 2), f"{x[off.argmax()]}: {found[off.argmax()]}"


@pytest.mark.parametrize("name", UNARY)
def test_float32_functions_keep_their_stated_bound(name: str) -> None:
    x = _comparable(name, float32_values(20_000))
    ((found, expected),) = run_both(op(f"z = {name}(x)"), x)
    off = distance(found, expected)
    assert off.max() <= error_ulp(name), f"{x[off.argmax()]}: {found[off.argmax()]}, not {expected[off.argmax()]}"


@pytest.mark.nightly
@pytest.mark.parametrize("name", UNARY)
def test_float32_functions_keep_their_stated_bound_on_many_values(name: str) -> None:
    for seed in range(8):
        x = _comparable(name, float32_values(500_000, seed))
        ((found, expected),) = run_both(op(f"z = {name}(x)"), x)
        assert distance(found, expected).max() <= error_ulp(name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", UNARY_OPS)
def test_unary_ops_of_the_catalogue_on_every_16bit_value(name: str, dtype: str) -> None:
    check_op(ops.get(name), [_comparable(name, all_16bit(dtype))])


def test_signs_of_zero_survive_odd_functions() -> None:
    x = torch.tensor([0.0, -0.0] * 8)
    for name in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "erf", "sqrt"):
        ((found, expected),) = run_both(op(f"z = {name}(x)"), x)
        assert torch.equal(found.signbit(), expected.signbit()), name
