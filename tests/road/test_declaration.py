"""Text and traced functions declare the same thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from asc_sched import Schedule, fn, op
from asc_sched.declare import Op
from asc_sched.errors import DeclarationError, DtypeError
from asc_sched.kernel import generate
from tests.road.tensors import numbers, same_bits


def scaled(x, y, *, alpha: float = 1.0):  # type: ignore[no-untyped-def]
    return x + alpha * y


def several(x, y):  # type: ignore[no-untyped-def]
    t = torch.exp(x - y)
    return {"s": t + 1, "d": t / (t + 1)}


def everything(x, y):  # type: ignore[no-untyped-def]
    a = fn.sqrt(abs(x)) + torch.rsqrt(fn.maximum(y, 0.5)) - fn.reciprocal(y) * 2
    return fn.relu(-a) / fn.minimum(fn.log(abs(y)), 3.0)


def numbers_first(x):  # type: ignore[no-untyped-def]
    return 1 - (2 / (3 + 4 * x))


def unused(x, w):  # type: ignore[no-untyped-def]
    return x + 1


PAIRS: list[tuple[str, Mapping[str, Any], Callable[..., Any]]] = [
    ("z = x + y", {}, lambda x, y: x + y),
    ("z = x + alpha * y", {"scalars": {"alpha": 1.0}}, scaled),
    ("t = exp(x - y); s = t + 1; d = t / (t + 1)", {}, several),
    (
        "a = sqrt(abs(x)) + rsqrt(maximum(y, 0.5)) - reciprocal(y) * 2\nz = relu(-a) / minimum(log(abs(y)), 3.0)",
        {},
        everything,
    ),
    ("z = 1 - (2 / (3 + 4 * x))", {}, numbers_first),
    ("z = x + 1", {"inputs": ["x", "w"]}, unused),
    ("z = (x + y) + (x + y)", {}, lambda x, y: (x + y) + (x + y)),
    ("z = x * 2**3 / 7 % 5", {}, lambda x: x * 2**3 / 7 % 5) if hasattr(fn, "floor") else ("z = -x", {}, lambda x: -x),
    ("z0 = x - y; z1 = y - x", {}, lambda x, y: (x - y, y - x)),
    ("z = x * 1e-40 + 3.5e38", {}, lambda x: x * 1e-40 + 3.5e38),
    ("z = (1/45) * x", {}, lambda x: (1 / 45) * x),
]


@pytest.mark.parametrize(("text", "extra", "function"), PAIRS, ids=[text for text, _, _ in PAIRS])
def test_text_and_function_give_the_same_graph_and_the_same_kernel(
    text: str, extra: Mapping[str, Any], function: Callable[..., Any]
) -> None:
    written, traced = op(text, name="same", **extra), op(function, name="same")
    assert written.graph == traced.graph
    assert str(written) == str(traced)
    for shape in (13243, None):
        for dtype in ("float32", "float16"):
            assert generate(written, shape, dtype).source == generate(traced, shape, dtype).source


def test_how_a_declaration_was_written_leaves_no_trace() -> None:
    """Order of statements, names of intermediates, spaces, comments and brackets."""
    one = op("t = x * y; u = x - y; z = t / u", name="f")
    other = op("  # a remark\n  later = (x - y)\n  first = (x*y)  # another\n  z = ((first) / later)\n",
               inputs=["x", "y"], name="f")  # fmt: skip
    assert one.graph == other.graph
    assert generate(one, 100, "float32").source == generate(other, 100, "float32").source


def test_what_an_op_prints_declares_the_same_op() -> None:
    for text, extra, _ in PAIRS:
        declared = op(text, **extra)
        again = op(str(declared), inputs=declared.inputs, scalars={s.name: s.default for s in declared.scalars})
        assert again.graph == declared.graph


def test_a_shared_subexpression_is_computed_once() -> None:
    kernel = generate(op("z = exp(x) * exp(x) + (1 / exp(x))"), 1000, "float32")
    assert sum("asc.exp(" in line for line in kernel.plan.statements) == 1
    kernel = generate(op("a = sqrt(x + y); b = sqrt(x + y) * 2"), 1000, "float32")
    assert sum("asc.sqrt(" in line for line in kernel.plan.statements) == 1
    assert sum("asc.add(" in line for line in kernel.plan.statements) == 1


def test_negative_zero_one_true_and_nan_are_not_shared() -> None:
    x = torch.tensor([0.0, -0.0, 1.0])
    a, b = op("a = x * 0.0; b = x * -0.0")(x)
    assert same_bits(a, x * 0.0) and same_bits(b, x * -0.0)


def test_names_assigned_and_not_used_again_are_the_outputs() -> None:
    declared = op("t = x + y; u = t * 2; v = t - 1")
    assert (declared.inputs, declared.outputs) == (("x", "y"), ("u", "v"))
    x, y = numbers(50), numbers(50, seed=1)
    u, v = declared(x, y)
    assert same_bits(u, (x + y) * 2) and same_bits(v, (x + y) - 1)


def test_a_name_may_be_assigned_again() -> None:
    x = numbers(50)
    result = op("t = x + 1; t = t * t; z = t - x")(x)
    assert isinstance(result, torch.Tensor) and same_bits(result, (x + 1) * (x + 1) - x)


def test_results_of_a_function_are_named() -> None:
    assert op(lambda x: x + 1).outputs == ("z",)
    assert op(lambda x: (x + 1, x + 2)).outputs == ("z0", "z1")
    assert op(lambda x: {"up": x + 1, "down": x - 1}).outputs == ("up", "down")


def test_an_op_is_named_after_its_function_or_what_it_does() -> None:
    assert op(scaled).name == "scaled"
    assert op("z = x + alpha * y", scalars=["alpha"]).name == "mul_add"
    assert op("z = x").name == "copy"
    assert op("z = x + y", name="plus").name == "plus"
    long = op("z = " + " + ".join(f"exp(x{i})" for i in range(20)))
    assert len(long.name) <= 48 and long.name.startswith("exp_exp_add_")

    @op
    def decorated(x):  # type: ignore[no-untyped-def]
        """What it is for."""
        return -x

    assert isinstance(decorated, Op)
    assert (decorated.name, decorated.doc) == ("decorated", "What it is for.")


def test_scalars_take_their_dtype_from_a_default_or_a_name() -> None:
    def f(x, *, a: float, b: int = 2, c: "float16" = 0.5, d=1.5, e=3):  # type: ignore # noqa: F821, UP037
        return x * a + b * c - d * e

    assert [(s.name, s.dtype.name, s.default) for s in op(f).scalars] == [
        ("a", "float32", None), ("b", "int32", 2), ("c", "float16", 0.5), ("d", "float32", 1.5), ("e", "int32", 3)
    ]  # fmt: skip
    text = op("z = x * a + b * c", scalars={"a": None, "b": 2, "c": "float16"})
    assert [(s.name, s.dtype.name, s.default) for s in text.scalars] == [
        ("a", "float32", None), ("b", "int32", 2), ("c", "float16", None)
    ]  # fmt: skip


def test_runtime_scalars_are_given_at_the_call() -> None:
    declared = op(scaled)
    kernel = declared.compile(1000, schedule=Schedule(core_num=2, tile_num=2))
    x, y = numbers(1000), numbers(1000, seed=1)
    for alpha in (0.0, -1.5, 1e-30, float("inf"), 3):
        result = kernel(x, y, alpha=alpha)
        assert isinstance(result, torch.Tensor) and same_bits(result, x + alpha * y)
    default = kernel(x, y)
    assert isinstance(default, torch.Tensor) and same_bits(default, x + y)


# -- constants are Python's ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "value"),
    [("7//2", 3), ("-7//2", -4), ("-7%4", 1), ("2**-1", 0.5), ("2**10", 1024), ("1/45", 1 / 45), ("-(-3)", 3)],
)
def test_constants_are_computed_as_python_does(text: str, value: float) -> None:
    assert op(f"z = {text} * x").graph == op(f"z = {value!r} * x").graph


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1/0", "constant div(1, 0) has no value: division by zero"),
        ("1//0", "constant floor_div(1, 0) has no value"),
        ("(-2)**0.5", "which is not a real number"),
        ("10**10**10", "it has about 40000000000 bits, more than 4096"),
        ("10.0**400", "constant pow(10.0, 400) has no value"),
    ],
)
def test_constants_without_a_value_are_refused(text: str, reason: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        op(f"z = {text} * x")
    assert reason in str(caught.value)


def test_a_constant_too_large_for_any_dtype_is_refused_when_dtypes_are_known() -> None:
    with pytest.raises(DtypeError, match=r"mul\(int32, 1000+\) is not defined: torch says"):
        op("z = x * 10**30").compile(8, "int32")


# -- mistakes ------------------------------------------------------------------------------------------------------
TEXTS = {
    "": "'': no output; expected 'name = expression'",
    "x + y": "'x + y', line 1, column 1: expected 'name = expression'",
    "z = ": "invalid syntax (line 1, column 4); expected 'name = expression'",
    "z == x": "expected 'name = expression'",
    "z, w = x": "the left side must be one plain name",
    "z += x": "expected 'name = expression'",
    "z = qqq(x)": "unknown function 'qqq'; dir(asc_sched.fn) lists all ",
    "z = expp(x)": "line 1, column 5: unknown function 'expp'; did you mean exp",
    "t = x\nz = foo(t)": "line 2, column 5: unknown function 'foo'; ",
    "z = exp(x, y)": "exp() takes 1 argument, 2 given",
    "z = maximum(x)": "maximum() takes 2 arguments, 1 given",
    "z = exp(x=1)": "exp() takes positional arguments only",
    "z = x[0]": "an index can't be used in a declaration; an op is elementwise: pass the slice as an argument",
    "z = x.real": "an attribute can't be used in a declaration; call functions by their plain name: exp(x)",
    "z = x @ y": "'@', the matrix product, can't be used in a declaration; an op is elementwise",
    "z = x and y": "'and' and 'or' can't be used in a declaration; use & and | on comparisons",
    "z = not x": "'not' can't be used on tensors; use logical_not(x) or ~",
    "z = 'a'": "'a' is not a number",
    "z = 1j * x": "1j is not a number",
    "z = 3": "no input; an op takes at least one tensor",
    "z = x; z = y": "'z' is assigned twice and its first value is never used",
    "import os": "expected 'name = expression'",
    "z = (x if y else 1": "'(' was never closed (line 1, column 5)",
    "z = x\0": "null bytes",
    "z = cast(x, float33)": "cast(x, dtype) takes a dtype name as its second argument: cast(x, float16)",
    "z = " + "(" * 300 + "x" + ")" * 300: "expression too deep for Python's parser; name intermediate results",
    "z = x" + " " * 1_000_000: "declaration of 1000005 characters; at most 1000000 are read",
}


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: repr(t[:25]))
def test_mistakes_in_a_text_are_told_with_their_place(text: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        op(text)
    assert TEXTS[text] in str(caught.value)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_a_declaration_is_read_and_never_run() -> None:
    with pytest.raises(DeclarationError):
        op("z = __import__('os').system('touch /tmp/never') * x")


def test_mistakes_in_a_function_are_told_in_its_terms() -> None:
    import math

    cases: list[tuple[Callable[..., Any], str]] = [
        (lambda x: x if x else 0, "the value of an expression isn't known while an op is declared, so `if`"),
        (lambda x: math.exp(x), "an expression has no value while an op is declared, so math functions can't take it"),
        (lambda x: x[0], "an op is elementwise: its arguments can't be indexed"),
        (lambda x: [*x], "an op is elementwise: its arguments can't be iterated"),
        (lambda x: x + torch.ones(3), "add() takes expressions and numbers, not Tensor; tensors are the op's"),
        (lambda x: torch.round(x, decimals=2), "round() takes positional arguments only, not decimals="),
        (lambda x: torch.fft.fft(x), "unknown function 'fft_fft'"),
        (lambda x: x.sum(), "AttributeError: 'sum' is no elementwise function of the language"),
        (lambda x: None, "<lambda>() returned NoneType; expected an expression"),
        (lambda x: {1: x}, "must return an expression, a tuple, or a dict with names as keys"),
        (lambda *xs: xs[0], "*xs can't be declared; name every tensor"),
        (lambda x, y=1.0: x, "tensor 'y' has a default; make it keyword-only for a runtime scalar"),
        (lambda: 1, "takes no tensor; an op needs at least one positional parameter"),
        (lambda x, *, n="a": x, "scalar 'n' has the default 'a', which is not a number"),
        (fn.exp, "*args can't be declared"),
    ]
    for function, message in cases:
        with pytest.raises(DeclarationError) as caught:
            op(function)
        assert message in str(caught.value)


def test_an_expression_of_one_op_cant_be_used_in_another() -> None:
    kept: list[Any] = []
    op(lambda x: kept.append(x) or x + 1)
    with pytest.raises(DeclarationError, match="an expression of one op can't be used in another"):
        op(lambda x: x + kept[0])


def test_what_op_takes() -> None:
    with pytest.raises(DeclarationError, match=r"op\(\) takes a text or a function, not int"):
        op(3)  # type: ignore[call-overload]
    with pytest.raises(DeclarationError, match="inputs= and scalars= go with a text"):
        op(lambda x: x, inputs=["x"])  # type: ignore[call-overload]
    with pytest.raises(DeclarationError, match="an op's name must be a non-empty text, not ''"):
        op("z = x", name="")
    with pytest.raises(DtypeError, match="scalar 'n': unknown dtype 'flaot'; did you mean 'float'"):
        op("z = x + n", scalars={"n": "flaot"})

    def f(x, *, n: str = "a"):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(DtypeError, match="scalar 'n': unknown dtype 'str'"):
        op(f)
