"""Functions made of primitives: called as the user likes, expanded, printed and read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from asc_sched import fn, op, ops
from asc_sched.errors import DeclarationError
from asc_sched.lang.composites import COMPOSITES
from asc_sched.lang.functions import FUNCTIONS


def same(text: str, function: object) -> bool:
    return str(op(text)) == str(op(function, name="f"))  # type: ignore[call-overload]


def test_text_and_traced_functions_expand_to_the_same_graph() -> None:
    assert same("z = gelu(x)", lambda x: fn.gelu(x))
    assert same("z = elu(x, 0.5)", lambda x: fn.elu(x, alpha=0.5))
    assert same("z = clamp(x, 0, 6)", lambda x: x.clamp(0, 6))
    assert same("z = silu(x) * y", lambda x, y: F.silu(x) * y)
    assert same("z = leaky_relu(x)", lambda x: F.leaky_relu(x))
    assert same("z = softplus(x, beta=2)", lambda x: F.softplus(x, beta=2))
    assert same("z = leaky_relu(x, 0.1)", lambda x: F.leaky_relu(x, 0.1))
    assert same("z = exp(x)", lambda x: x.exp())
    assert same("z = gelu_tanh(x)", lambda x: F.gelu(x, approximate="tanh"))


def test_keywords_and_defaults() -> None:
    assert str(op("z = hardshrink(x)")) == str(op("z = hardshrink(x, lambd=0.5)"))
    assert str(op("z = clamp(x, max=1)")) == str(op("z = clamp_max(x, 1)"))
    assert str(op("z = celu(x)")) == str(op("z = elu(x)"))


def test_numbers_alone_are_computed_at_once() -> None:
    assert str(op("z = x * square(3)")) == "z = x * 9"
    assert str(op("z = x + relu(-1.5)")) in ("z = x + 0.0", "z = x + -0.0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z = elu(x, 1, 2)", r"elu\(\) takes 1 to 2 arguments \(x, alpha\), 3 given"),
        ("z = elu()", r"elu\(\) takes 1 to 2 arguments"),
        ("z = elu(x, beta=2)", r"elu\(\) has no parameter 'beta'; it has x, alpha"),
        ("z = elu(x, 1.0, alpha=2)", r"elu\(\) got 'alpha' twice"),
        ("z = clamp(x)", r"clamp\(\) takes at least one bound"),
        ("z = exp(x, base=2)", r"exp\(\) takes positional arguments only"),
        ("z = exp(*x)", "Starred can't be used"),
    ],
)
def test_wrong_calls_say_what_is_right(text: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        op(text)


def test_an_unknown_form_of_gelu_is_named() -> None:
    with pytest.raises(DeclarationError, match="forms 'none' and 'tanh', not 'erf'"):
        op(lambda x: fn.gelu(x, "erf"), name="f")


def test_names_dont_clash_with_primitives() -> None:
    assert not set(COMPOSITES) & set(FUNCTIONS)
    assert all(c.doc for c in COMPOSITES.values())


@pytest.mark.parametrize("name", sorted(ops.catalogue()))
def test_printed_declarations_read_back_the_same(name: str) -> None:
    declared = ops.get(name)
    scalars = {s.name: s.default if s.default is not None else str(s.dtype) for s in declared.scalars}
    again = op(str(declared), inputs=list(declared.inputs), scalars=scalars)
    assert str(again) == str(declared)


def test_runtime_scalars_are_rounded_to_their_dtype() -> None:
    x = torch.ones(3)
    for dtype, given, expected in (("float16", 0.1, 0.0999755859375), ("bfloat16", 0.1, 0.10009765625)):
        (found,) = op("z = x * alpha", scalars={"alpha": dtype}).reference(x, alpha=given)
        assert found.tolist() == [expected] * 3


def test_torchs_methods_and_keywords_are_taken_in_traced_functions() -> None:
    def check(traced: Callable[..., Any], text: str) -> None:
        assert op(traced, name="f").graph == op(f"z = {text}", inputs="x, y").graph

    check(lambda x, y: torch.add(x, y, alpha=2), "x + y * 2")
    check(lambda x, y: torch.sub(x, y, alpha=0.5), "x - y * 0.5")
    check(lambda x, y: torch.div(x, y, rounding_mode="floor"), "floor_div(x, y)")
    check(lambda x, y: torch.div(x, y, rounding_mode="trunc"), "trunc_div(x, y)")
    check(lambda x, y: torch.div(x, y, rounding_mode=None), "x / y")
    check(lambda x, y: x.half() + y.int(), "float16(x) + int32(y)")
    check(lambda x, y: x.bool() & y.long().bool(), "bool(x) & bool(int64(y))")
    check(lambda x, y: torch.clip(x, None, 1.0) + y, "clamp_max(x, 1.0) + y")
    check(lambda x, y: torch.special.expm1(x) + torch.special.xlogy(x, y), "expm1(x) + xlogy(x, y)")
    check(lambda x, y: torch.nn.functional.threshold(x, 0.1, 20.0) + y, "threshold(x, 0.1, 20.0) + y")
    with pytest.raises(DeclarationError, match="rounding modes None, 'floor' and 'trunc', not 'up'"):
        op(lambda x, y: torch.div(x, y, rounding_mode="up"), name="f")
    with pytest.raises(DeclarationError, match="takes positional arguments only, not alpha="):
        op(lambda x, y: fn.mul(x, y, alpha=3), name="f")
