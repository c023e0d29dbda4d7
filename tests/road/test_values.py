"""Values are IEEE, in source order, with constants as they were written."""

from __future__ import annotations

import math

import pytest
import torch

from asc_sched import op
from asc_sched.errors import DtypeError
from tests.road.tensors import numbers, same_bits

INF, NAN = math.inf, math.nan
I32, I16, F16 = torch.int32, torch.int16, torch.float16


def values(text: str, *inputs: torch.Tensor, **scalars: float) -> torch.Tensor:
    """The result of a declaration, equal to torch's own evaluation to the bit."""
    declared = op(text)
    result = declared(*inputs, **scalars)
    assert isinstance(result, torch.Tensor)
    assert same_bits(result, declared.reference(*inputs, **scalars)[0])
    return result


def assert_values(result: torch.Tensor, expected: list[float], dtype: torch.dtype = torch.float32) -> None:
    assert same_bits(result, torch.tensor(expected, dtype=dtype))


# -- nothing is cancelled ------------------------------------------------------------------------------------------
def test_differences_and_quotients_of_equals_are_not_folded() -> None:
    x = torch.tensor([INF, -INF, NAN, 0, 1])
    assert_values(values("z = x - x", x), [NAN, NAN, NAN, 0, 0])
    assert_values(values("z = x / x", x), [NAN, NAN, NAN, NAN, 1])
    assert_values(values("z = 0 * x", x), [NAN, NAN, NAN, 0, 0])
    assert_values(values("z = x * y / y", x, torch.zeros(5)), [NAN] * 5)


def test_inputs_are_those_declared_whatever_becomes_of_them() -> None:
    declared = op("z = 0 * x + y", inputs=["y", "x", "w"])
    kernel = declared.compile(100)
    assert [t.name for t in kernel.plan.inputs] == ["y", "x", "w"]
    y, x, w = (numbers(100, seed=s) for s in range(3))
    result = kernel(y, x, w)
    assert isinstance(result, torch.Tensor) and same_bits(result, 0 * x + y)


def test_a_constant_fills_the_shape_of_its_inputs() -> None:
    x = numbers((30, 70), I16)
    result = op("z = 2.5", inputs=["x"])(x)
    assert isinstance(result, torch.Tensor) and same_bits(result, torch.full((30, 70), 2.5))
    a, b = op("a = x; b = nan", inputs=["x"])(x)
    assert same_bits(a, x) and same_bits(b, torch.full((30, 70), NAN))


# -- nothing is re-associated --------------------------------------------------------------------------------------
def test_sums_and_products_keep_their_order() -> None:
    x = torch.tensor([1.0, 3, 4, 5, 12])
    assert_values(values("z = (x + 1e8) - 1e8", x), [0, 0, 0, 8, 16])
    small = values("z = x * 1e-30 * 1e30", torch.tensor([1e-10, 1e-20, 1]))
    assert small.tolist() == pytest.approx([9.99995e-11, 0, 1], rel=1e-6)
    assert_values(values("z = x * 1e300 * 1e300", torch.tensor([1.0, -1, 0])), [INF, -INF, NAN])


def test_brackets_decide() -> None:
    a, b, c = (numbers(1000, seed=s) for s in range(3))
    left, right = values("z = (a + b) + c", a, b, c), values("z = a + (b + c)", a, b, c)
    assert same_bits(left, (a + b) + c) and same_bits(right, a + (b + c))
    assert not torch.equal(left, right)


# -- constants -----------------------------------------------------------------------------------------------------
def test_tiny_huge_and_exact_constants_arrive_as_written() -> None:
    zero = torch.zeros(1)
    assert values("z = x + 1e-40", zero).item() == pytest.approx(9.9999461e-41, rel=1e-7)
    assert_values(values("z = x + 2e50", zero), [INF])
    assert_values(values("z = x - 2e50", zero), [-INF])
    assert_values(values("z = x + 1.401298464324817e-45", zero), [2**-149])
    assert_values(values("z = x + 3.4028234663852886e38", zero), [torch.finfo(torch.float32).max])
    assert_values(values("z = x + 1.0000001", zero), [1.00000011920929])
    assert_values(values("z = x + 0.1", zero), [0.1])


def test_infinity_and_nan_are_constants() -> None:
    x = torch.tensor([1.0, 0, -1, NAN])
    assert_values(values("z = x + inf", x), [INF, INF, INF, NAN])
    assert_values(values("z = x * -inf", x), [-INF, NAN, INF, NAN])
    assert_values(values("z = x + nan", x), [NAN] * 4)
    assert_values(values("z = x * 0 + nan", x.to(F16)), [NAN] * 4, F16)
    assert values("z = x + pi", torch.zeros(1)).item() == pytest.approx(math.pi, rel=1e-7)


def test_constants_that_python_calls_equal_have_kernels_of_their_own() -> None:
    x = torch.tensor([1.0, -2.0, NAN])
    for first, second in (("0.0", "-0.0"), ("-0.0", "0.0"), ("1", "True"), ("nan", "nan")):
        a, b = op(f"z = x * {first}"), op(f"z = x * {second}")
        assert (a.graph == b.graph) is (first == second)
        for declared in (a, b):
            result = declared(x)
            assert isinstance(result, torch.Tensor) and same_bits(result, declared.reference(x)[0])
    whole = torch.tensor([3, 4], dtype=torch.int32)
    for text, dtype in (("z = x * 2", torch.int32), ("z = x * 2.0", torch.float32)):
        found = op(text)(whole)
        assert isinstance(found, torch.Tensor) and found.dtype is dtype


def test_signed_zeros_are_kept() -> None:
    x = torch.tensor([0.0, -0.0, 2.0])
    assert_values(values("z = x * -0.0", x), [-0.0, 0.0, -0.0])
    assert_values(values("z = x + -0.0", x), [0.0, -0.0, 2.0])
    assert_values(values("z = -x", x), [-0.0, 0.0, -2.0])
    assert_values(values("z = x", x), [0.0, -0.0, 2.0])
    assert_values(values("z = abs(x)", x), [0.0, 0.0, 2.0])


def test_a_quotient_of_integers_is_no_integer_division() -> None:
    result = values("z = x * (1/45)", torch.tensor([1, 2, 3], dtype=I32))
    assert result.dtype == torch.float32
    assert result.tolist() == pytest.approx([0.0222222, 0.0444444, 0.0666667], rel=1e-5)
    assert_values(values("z = x / y", torch.tensor([7, -7, 0], dtype=I32), torch.tensor([2, 2, 0], dtype=I32)),
                  [3.5, -3.5, NAN])  # fmt: skip


def test_bounds_beyond_the_dtype_bound_nothing() -> None:
    x = torch.tensor([1.0, -INF, INF, NAN])
    assert_values(values("z = minimum(maximum(x, -3.4e39), 3.4e39)", x), [1, -INF, INF, NAN])
    assert_values(values("z = clamp(x, -3.4e39, 3.4e39)", x), [1, -INF, INF, NAN])


def test_a_choice_has_infinity_for_one_side() -> None:
    x = torch.tensor([1.0, -1, NAN])
    assert_values(values("z = where(x > 0, x, -inf)", x), [1, -INF, -INF])
    assert_values(values("z = x if x > 0 else -inf", x), [1, -INF, -INF])


def test_integers_wrap_as_torchs() -> None:
    assert_values(values("z = x + 2**31", torch.tensor([1], dtype=I32)), [-2147483647], I32)
    assert_values(values("z = x + y", *torch.tensor([[2**31 - 1], [1]], dtype=I32)), [-(2**31)], I32)
    assert_values(values("z = x * 70000", torch.tensor([70000], dtype=I32)), [605032704], I32)
    assert_values(values("z = x + 40000", torch.tensor([1], dtype=I16)), [-25535], I16)
    assert_values(values("z = x * 300", torch.tensor([300], dtype=I16)), [24464], I16)
    assert_values(values("z = abs(x)", torch.tensor([-(2**31), -5], dtype=I32)), [-(2**31), 5], I32)
    assert_values(values("z = -x", torch.tensor([-(2**15), 5], dtype=I16)), [-(2**15), -5], I16)


def test_what_torch_refuses_is_refused_with_its_reason() -> None:
    with pytest.raises(DtypeError, match=r"mul\(int32, 1000+\) is not defined: torch says"):
        op("z = x * 10**30")(torch.tensor([1], dtype=I32))


# -- functions at their edges --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, F16], ids=str)
def test_special_values_of_the_functions(dtype: torch.dtype) -> None:
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 4.0], dtype=dtype)
    for text in ("sqrt(x)", "rsqrt(x)", "reciprocal(x)", "log(x)", "exp(x)", "abs(x)", "-x", "1 / x"):
        values(f"z = {text}", x)
    result = op("z = relu(x)")(x)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result.nan_to_num(7), torch.relu(x).nan_to_num(7))


@pytest.mark.parametrize("dtype", [torch.float32, F16], ids=str)
def test_nan_wins_in_maximum_and_minimum(dtype: torch.dtype) -> None:
    x, y = torch.tensor([NAN, 1, 2, INF], dtype=dtype), torch.tensor([1, NAN, 3, -INF], dtype=dtype)
    assert_values(values("z = maximum(x, y)", x, y), [NAN, NAN, 3, INF], dtype)
    assert_values(values("z = minimum(x, y)", x, y), [NAN, NAN, 2, -INF], dtype)


@pytest.mark.parametrize("text", ["x + y", "x - y", "x * y", "x / y", "x * y + x / y - 0.3", "abs(x) * -y"])
@pytest.mark.parametrize("dtype", [torch.float32, F16], ids=str)
def test_arithmetic_equals_torch_to_the_bit(dtype: torch.dtype, text: str) -> None:
    values(f"z = {text}", numbers(4999, dtype), numbers(4999, dtype, seed=1))


def test_float16_is_rounded_once_at_the_end() -> None:
    """Steps are computed in float32: 60000 + 60000 doesn't overflow on the way to half of it."""
    x = torch.tensor([60000.0], dtype=F16)
    assert_values(values("z = (x + x) / 2", x), [60000.0], F16)
    assert_values(values("z = float16(x + x) / 2", x), [INF], F16)


def test_dtypes_mix_as_torchs() -> None:
    x, y = torch.tensor([3, -4], dtype=I32), torch.tensor([0.5, 0.25], dtype=F16)
    assert values("z = x + y", x, y).dtype == F16
    assert values("z = x * 1.5", x).dtype == torch.float32
    assert values("z = x + 1", x.to(I16)).dtype == I16
    assert values("z = x + y", x.to(I16), x).dtype == I32
    assert values("z = float32(y) + x", y, x).dtype == torch.float32
