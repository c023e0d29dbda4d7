"""Values that are one number: literals, runtime scalars, tensors of one element, and functions of those."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from asc_sched import op

X = torch.arange(-3.0, 5.0)


def one(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([value], dtype=dtype)


def same(text: str, *tensors: torch.Tensor, **scalars: Any) -> None:
    names = ["x", "a", "b"][: len(tensors)]
    declared = op(text, inputs=names, scalars=list(scalars))
    found, wanted = declared(*tensors, **scalars), declared.reference(*tensors, **scalars)[0]
    assert found.dtype == wanted.dtype
    assert torch.equal(found, wanted), f"{text}: {found} is not {wanted}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int64])
@pytest.mark.parametrize("fn", ["maximum", "minimum"])
@pytest.mark.parametrize(("a", "b"), [(-5, 3), (3, -5), (2, 2)])
def test_the_larger_and_smaller_of_two_numbers(fn: str, a: int, b: int, dtype: torch.dtype) -> None:
    x = X.to(dtype)
    same(f"z = x + {fn}(a, b)", x, one(a, dtype), one(b, dtype))
    same(f"z = x * {fn}(a, 2)", x, one(a, dtype))
    same(f"z = x * {fn}(2, a)", x, one(a, dtype))
    if dtype.is_floating_point:
        same(f"z = x * {fn}(k, 2)", x, k=float(a))
        same(f"z = x * {fn}(2, k)", x, k=float(a))
        same("z = x * clamp(a, 0, 1)", x, one(a, dtype))


@pytest.mark.parametrize(
    "text",
    [
        "z = where(a, x, -1)", "z = where(a, -1, x)", "z = float32(where(a, x, -1))", "z = masked_fill(x, a, -1)",
        "z = where(a, x, -1) > 3", "z = where(a, x, -1) // 2", "z = where(a, x, -1) >> 1", "z = x if x > 3 else -1",
        "z = threshold(x, 3, -1)", "z = heaviside(x, -1)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_a_literal_in_a_choice_is_an_element_of_its_dtype(text: str, dtype: torch.dtype) -> None:
    """-1 is 255 beside uint8, as in torch."""
    x = torch.arange(8, dtype=dtype)
    same(text, x, x % 2 == 0) if "(a," in text or ", a" in text else same(text, x)


def test_functions_of_one_number_are_computed_once_per_core() -> None:
    """Not per tile, and in hardly more temporaries than functions of a tensor need."""
    shape = (1 << 16,)
    many = op("z = x * sin(s)").compile([shape, shape], "float32").plan
    once = op("z = x * sin(s)").compile([shape, (1,)], "float32").plan
    assert len(many.compute.statements) > 200
    assert len(once.compute.statements) == 1 and len(once.setup.statements) > 200
    assert len(once.temps) <= len(many.temps) + 4
    same("z = x * sin(a)", X, one(2.0))
    same("z = x & gcd(a, 12)", torch.arange(64, dtype=torch.int32), one(8, torch.int32))
    same("z = x + 0 * a + sin(b)", X, one(1.0), one(0.5))


_FUNCTIONS: dict[str, Any] = {
    "erf": torch.erf, "tanh": torch.tanh, "sin": torch.sin, "expm1": torch.expm1, "gelu": torch.nn.functional.gelu,
}  # fmt: skip
_MORE: dict[str, Any] = {
    "float32({y})": lambda x, y: y.float(),
    "x - {y}": lambda x, y: x - y,
    "int32({y} * 1000)": lambda x, y: (y.float() * 1000).to(torch.int32),
    "{y} * 2": lambda x, y: y * 2,
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("text", _MORE)
@pytest.mark.parametrize("fn", _FUNCTIONS)
def test_a_cast_to_16_bits_is_right_where_more_depends_on_it(fn: str, text: str, dtype: torch.dtype) -> None:
    """The short form of a function is for results alone: an ulp of float16 counts in what is computed from it."""
    name = str(dtype).removeprefix("torch.")
    declared = op("z = " + text.format(y=f"{name}({fn}(x))"))
    x = (torch.randn(20000, generator=torch.Generator().manual_seed(1)) * 2).to(dtype)
    wanted = _MORE[text](x, _FUNCTIONS[fn](x.double()).to(dtype))
    wrong = (declared(x) != wanted).double().mean()
    assert wrong < 2e-3  # float32's own error, where a value lies halfway between two of 16 bits
