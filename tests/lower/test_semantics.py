"""What values mean: NaN and zeros, integers, casts, constants, source order. torch is the reference throughout."""

from __future__ import annotations

import math

import pytest
import torch

from asc_sched import op, ops
from asc_sched.errors import DeclarationError, DtypeError
from asc_sched.sim.numerics import choices
from tests.lower.machine import check_op, run_both
from tests.lower.values import DTYPES, float32_values, integers, op_inputs, pairs, random_tensor

NAN, INF = math.nan, math.inf


def value(text: str, *rows: list[float], dtype: torch.dtype = torch.float32, **scalars: float) -> torch.Tensor:
    """What the machine computes, after checking that torch agrees exactly."""
    tensors = [torch.tensor(r).to(dtype) for r in rows]
    ((found, expected),) = run_both(op(text, scalars=list(scalars)), *tensors, **scalars)
    assert torch.equal(found.nan_to_num(777), expected.nan_to_num(777)), (found, expected)
    assert found.dtype == expected.dtype
    return found


def same(found: torch.Tensor, expected: list[float]) -> bool:
    return torch.equal(found.double().nan_to_num(777), torch.tensor(expected).double().nan_to_num(777))


# -- NaN and zeros ---------------------------------------------------------------------------------------------------
X, Y = [-3, NAN, -1, 0, 1, 2, NAN, 5], [0, 0, NAN, 0, 0, 0, 0, 5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_extremes_are_nan_where_an_operand_is(dtype: torch.dtype) -> None:
    assert same(value("z = maximum(x, y)", X, Y, dtype=dtype), [0, NAN, NAN, 0, 1, 2, NAN, 5])
    assert same(value("z = minimum(x, y)", X, Y, dtype=dtype), [-3, NAN, NAN, 0, 0, 0, NAN, 5])
    assert same(value("z = clamp_min(x, 0.5)", X, dtype=dtype), [0.5, NAN, 0.5, 0.5, 1, 2, NAN, 5])
    assert same(value("z = clamp(x, -1, 1)", X, dtype=dtype), [-1, NAN, -1, 0, 1, 1, NAN, 1])
    assert same(value("z = relu(x)", X, dtype=dtype), [0, NAN, 0, 0, 1, 2, NAN, 5])
    assert same(value("z = fmax(x, y)", X, Y, dtype=dtype), [0, 0, -1, 0, 1, 2, 0, 5])


def test_an_integer_and_a_bound_that_isnt_one_are_floats() -> None:
    found = value("z = clamp_min(x, 0.5)", [-3, 0, 1, 2], dtype=torch.int32)
    assert same(found, [0.5, 0.5, 1, 2]) and found.dtype is torch.float32


def test_extremes_with_a_runtime_bound_that_is_nan() -> None:
    assert same(value("z = maximum(x, low)", [1.0, -1.0], low=NAN), [NAN, NAN])


def test_relu_and_clamp_keep_negative_zero() -> None:
    for text in ("z = relu(x)", "z = clamp_min(x, 0)", "z = leaky_relu(x, 0.1)", "z = hardshrink(x, -1)"):
        assert value(text, [-0.0, 0.0]).signbit().tolist() == [True, False], text


def test_exact_results_dont_hang_on_what_the_chip_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way the hardware treats NaN in Max, Min, Relu and Cast, and zeros in Max, the bits are the same."""
    g = torch.Generator().manual_seed(5)
    before, tried = {}, {}
    for name, found in ops.catalogue().items():
        for dtype in ("float32", "float16"):
            tensors = op_inputs(found, dtype, 48, g)
            try:
                before[name, dtype] = run_both(found, *tensors)
            except DtypeError:
                continue
            tried[name, dtype] = tensors
    for key, setting in {"MAX_MIN_PROPAGATE_NAN": False, "MAX_MIN_ORDER_ZEROS": False, "NAN_TO_INTEGER": -1}.items():
        assert getattr(choices, key) != setting
        monkeypatch.setattr(choices, key, setting)
    for (name, dtype), tensors in tried.items():
        after = run_both(ops.get(name), *tensors)
        for (a, _), (b, _) in zip(before[name, dtype], after, strict=True):
            assert torch.equal(a.nan_to_num(777), b.nan_to_num(777)), name
            if a.dtype.is_floating_point:
                assert torch.equal(a.signbit()[~a.isnan()], b.signbit()[~a.isnan()]), name


def test_powers_of_special_values() -> None:
    base = [0, 0, -2, -2, 1, NAN, -1, 0, INF, -8]
    exponent = [0, -1, 3, 0.5, NAN, 0, INF, NAN, 0, 1 / 3]
    assert same(value("z = x ** y", base, exponent), [1, INF, -8, NAN, 1, 1, 1, NAN, 1, NAN])
    assert same(value("z = rsqrt(x)", [0.0, -0.0, -1, INF, 4]), [INF, -INF, NAN, 0, 0.5])
    assert same(value("z = x ** 2", [-2, 0]), [4, 0])
    assert same(value("z = x ** 3", [-2, 0]), [-8, 0])
    assert same(value("z = x ** -1", [-2, 0]), [-0.5, INF])
    assert same(value("z = x ** 0.5", [-2, 0, 4]), [NAN, 0, 2])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_powers_of_special_values_are_torchs(dtype: str) -> None:
    special = [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1 / 3, INF, -INF, NAN, -8, 1e-42, 2.5, 16777216.0]
    every = torch.tensor(special).to(getattr(torch, dtype))
    x, y = (t.reshape(-1) for t in torch.meshgrid(every, every, indexing="ij"))
    check_op(op("z = x ** y"), [x, y])
    for exponent in (0, 1, 2, 3, 5, 7, -1, -2, -3, 0.5, -0.5, 2.5, -2.5, INF, NAN):
        check_op(op(f"z = x ** ({exponent})" if exponent == exponent else "z = x ** nan"), [every])
    for base in ("2.0", "0.3", "1.0", "0.0", "(-2.0)", "inf"):
        check_op(op(f"z = {base} ** x"), [every])


# -- source order ----------------------------------------------------------------------------------------------------
def test_nothing_is_cancelled_or_folded_away() -> None:
    x = [INF, -INF, NAN, 0, 1]
    assert same(value("z = x - x", x), [NAN, NAN, NAN, 0, 0])
    assert same(value("z = x / x", x), [NAN, NAN, NAN, NAN, 1])
    assert same(value("z = 0 * x", x), [NAN, NAN, NAN, 0, 0])
    assert same(value("z = x * y / y", x, [0] * 5), [NAN] * 5)
    assert same(value("z = x + 0.0", [-0.0]), [0.0]) and not value("z = x + 0.0", [-0.0]).signbit().item()


def test_floating_point_keeps_its_order() -> None:
    assert same(value("z = (x + 1e8) - 1e8", [1, 3, 4, 5, 12]), [0, 0, 0, 8, 16])
    found = value("z = x * 1e-30 * 1e30", [1e-10, 1e-20, 1.0])
    assert 9.9e-11 < found[0] < 1.0001e-10 and found[0] != 1e-10 and found[1:].tolist() == [0, 1]
    assert same(value("z = x * 1e300 * 1e300", [1, -1, 0]), [INF, -INF, NAN])


def test_functions_arent_simplified() -> None:
    check_op(op("z = 0.17 * x / abs(x) ** 0.6"), [torch.tensor([-1.0, -2, 0, 8])])
    ((found, _),) = run_both(op("z = exp(log(x))"), torch.tensor([-1.0, 0, 2]))
    assert found[0].isnan() and found[1] == 0 and abs(found[2] - 2) <= 2.4e-7
    assert same(value("z = sqrt(x ** 2)", [-3, 3]), [3, 3])
    assert same(value("z = log(exp(x))", [-200, 200]), [-INF, INF])


def test_a_cast_down_and_up_again_stays() -> None:
    x = [1.00390625, 1.001, 3.14159274, -2.7182817, 0.1]
    assert same(value("z = float32(bfloat16(x))", x), [1.0, 1.0, 3.140625, -2.71875, 0.10009765625])
    check_op(op("t = float32(bfloat16(x)); z = t * sigmoid(t)"), [torch.tensor(x)])
    check_op(op("z = float16(x) + 0.001"), [torch.tensor(x)])


# -- integers --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_floor_division_and_remainder_of_negatives(dtype: torch.dtype) -> None:
    x = [-7, -6, -1, 0, 1, 6, 7, 7]
    assert same(value("z = x // 2", x, dtype=dtype), [-4, -3, -1, 0, 0, 3, 3, 3])
    assert same(value("z = x // -2", x, dtype=dtype), [3, 3, 0, 0, -1, -3, -4, -4])
    assert same(value("z = x % 3", x, dtype=dtype), [2, 0, 2, 0, 1, 0, 1, 1])
    assert same(value("z = x % -3", x, dtype=dtype), [-1, 0, -1, 0, -2, 0, -2, -2])
    assert value("z = x / y", x, [2] * 8, dtype=dtype).dtype is torch.float32


INTEGER_TEXTS = """
x + y|x - y|x * y|-x|abs(x)|maximum(x, y)|minimum(x, 3)|x < y|x >= y|x == y|x != y|x < 5|3 >= x|where(x < y, x, y)
x & y|x \\| y|x ^ y|~x|x << y|x >> y|x << 3|x >> 3|x << 100|x >> 100|x ** 3|x // 4|x % 8|relu(x)|sign(x)|signbit(x)
float32(x)|float16(x)|bfloat16(x)|int8(x)|uint8(x)|int16(x)|int32(x)|int64(x)|bool(x)|logical_and(x, y)|logical_not(x)
isnan(x)|isfinite(x)|fmax(x, y)|x * 2.5|x + 1|x - 3|x * -3|(x > 0) * 2 - 1|where(x > 0, 1, 0)|(x > 0) + (y > 0)
int64(x) * y|int32(int64(x) + y)|bool(x) & (y > 0)|bool(x) == bool(y)|bool(x) < bool(y)|bool(x) + bool(y)|x / 3
maximum(bool(x), bool(y))|~bool(x)|where(bool(x), bool(y), True)|where(bool(x), False, bool(y))|bool(x) / 2|square(x)
""".replace("\n", "|").replace("\\|", "\0").split("|")


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integers_are_exact(dtype: str) -> None:
    x, y = pairs(dtype, 2000)
    if len(x) > 20_000:
        x, y = x[::16], y[::16].roll(77)
    for text in filter(None, (t.strip().replace("\0", "|") for t in INTEGER_TEXTS)):
        declared = op(f"z = {text}")
        try:
            ((found, expected),) = run_both(declared, *(x, y)[: len(declared.inputs)])
        except DtypeError as error:
            assert "torch says" in str(error), text
            continue
        assert found.dtype == expected.dtype and torch.equal(found, expected), (text, dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("text", ["x // y", "x % y", "trunc_div(x, y)", "fmod(x, y)", "x // 7", "x % 10", "x ** y"])
def test_integer_division_and_powers_are_exact(text: str, dtype: str) -> None:
    x, y = pairs(dtype, 2000)
    if "y" in text:
        keep = (y != 0) & ~((y == -1) & (x == torch.iinfo(x.dtype).min))  # torch raises, or traps
        if "**" in text:
            keep = y >= 0 if dtype == "uint8" else (y >= 0) | (x != 0)
        x, y = x[keep], y[keep]
    even = len(x) // 2 * 2
    declared = op(f"z = {text}")
    ((found, expected),) = run_both(declared, *(x[:even], y[:even])[: len(declared.inputs)])
    wrong = (found != expected).nonzero().flatten()
    assert not len(wrong), (x[wrong[0]], y[wrong[0]], found[wrong[0]], expected[wrong[0]])


def test_powers_and_divisors_of_int64_are_exact() -> None:
    base = torch.tensor([1, -7, 2**62, -(2**63), 0, 5, -1, 3, 10**9 + 7, 2**32 + 1])
    exponent = torch.tensor([0, 1, 2, 3, 7, 31, 32, 40, 63, 64, 2**62, 2**63 - 1, -1, -2, -(2**63)])
    x, y = (t.reshape(-1) for t in torch.meshgrid(base, exponent, indexing="ij"))
    keep = (y >= 0) | (x != 0)
    ((found, expected),) = run_both(op("z = x ** y"), x[keep], y[keep])
    assert torch.equal(found, expected)
    fibonacci = [1, 2]
    while fibonacci[-1] < 2**62:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    numbers = torch.tensor([*fibonacci[::3], 0, 2**62, -(2**62), 3 * 2**60, 2**63 - 1, -6, 2**40 * 9, 2**31, 2**32, 1])
    x, y = (t.reshape(-1) for t in torch.meshgrid(numbers, numbers, indexing="ij"))
    for divisor in (1, 2**33):  # and what of it int32 holds
        numbers = [(t // divisor).to(torch.int64 if divisor == 1 else torch.int32) for t in (x, y)]
        ((found, expected),) = run_both(op("z = gcd(x, y)"), *numbers)
        assert torch.equal(found, expected)
    for name in ("pow", "gcd"):
        x, y = torch.randint(-50, 50, (70,)), torch.randint(1, 20, (70,))
        assert torch.equal(ops.get(name)(x, y), getattr(torch, name)(x, y)), "the compiled kernel"


def test_bools_to_literal_powers() -> None:
    x = torch.tensor([True, False, True])
    for exponent in (True, False):
        assert torch.equal(op(f"z = x ** {exponent}")(x), x**exponent)


# -- casts -----------------------------------------------------------------------------------------------------------
def test_floats_become_narrow_integers_as_torch_does_it() -> None:
    assert same(value("z = uint8(x)", [0, -2, -1.5, -0.5, 0, 0.5, 1.5, 2, 0, 0]), [0, 254, 255, 0, 0, 0, 1, 2, 0, 0])
    assert same(value("z = int8(x)", [127.9, 128, 200, -129]), [127, -128, -56, 127])


def test_floats_beyond_integers_give_the_smallest_one() -> None:
    x = [INF, -INF, NAN, 3e9, -3e9, 2.0**31, 2147483520.0]
    low = -(2**31)
    assert same(value("z = int32(x)", x), [low, low, low, low, low, low, 2147483520])
    assert same(value("z = int64(x)", [INF, NAN, 1e19, -1e19, 3e9]), [-(2.0**63)] * 4 + [3e9])
    assert same(value("z = bool(x)", [NAN, 0.0, -0.0, 1e-45, INF]), [1, 0, 0, 1, 1])


@pytest.mark.parametrize("source", DTYPES)
def test_every_cast_is_torchs(source: str) -> None:
    g = torch.Generator().manual_seed(1)
    x = random_tensor(source, 512, g)
    if source == "float32":
        x = torch.cat([x, float32_values(500)])
        x = x[x.isfinite() & (x.abs() < 2.0**31)]
    elif source not in ("float16", "bfloat16", "bool"):
        x = torch.cat([x, integers(source, 501)])
    x = x[: len(x) // 2 * 2]
    for target in DTYPES:
        ((found, expected),) = run_both(op(f"z = {target}(x)"), x)
        assert found.dtype == expected.dtype
        assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7)), (source, target)


# -- constants -------------------------------------------------------------------------------------------------------
def test_awkward_constants() -> None:
    assert same(value("z = where(x > 0, x, -inf)", [1, -1, NAN]), [1, -INF, -INF])
    assert same(value("z = x + 1e-40", [0.0]), [9.9999461e-41])
    assert same(value("z = x + 2e50", [0.0]), [INF])
    found = value("z = x * (1 / 45)", [1, 2, 3, 4], dtype=torch.int32)
    assert found.dtype is torch.float32 and (found - torch.tensor([1, 2, 3, 4]) / 45).abs().max() < 1e-8
    assert same(value("z = clamp(x, -3.4e39, 3.4e39)", [1.0, INF]), [1, INF])
    assert same(value("z = where(x > 0, nan, x)", [1.0, -1.0]), [NAN, -1])


def test_an_integer_constant_beyond_the_dtype_wraps_or_is_refused_as_in_torch() -> None:
    x = torch.tensor([1, 2], dtype=torch.int32)
    try:
        expected = x + 2**31
    except RuntimeError:
        with pytest.raises(DtypeError, match="torch says"):
            run_both(op(f"z = x + {2**31}"), x)
    else:
        ((found, _),) = run_both(op(f"z = x + {2**31}"), x)
        assert torch.equal(found, expected)


def test_nan_appears_while_constants_are_folded() -> None:
    assert same(value("z = maximum(x, sqrt(-1.0) * 0 + log(-1.0))", [1, 2]), [NAN, NAN])
    assert same(value("z = maximum(x, nan)", [1, 2]), [NAN, NAN])
    with pytest.raises(DeclarationError, match="has no value"):
        op("z = x + 1 // 0")


# -- long expressions ------------------------------------------------------------------------------------------------
def test_long_chains_and_deep_nesting() -> None:
    x = torch.tensor([0.5, -2.0, 3.0])
    chain = "\n".join(["t0 = x", *(f"t{i + 1} = 1.0 * t{i}" for i in range(1000)), "z = t1000"])
    ((found, _),) = run_both(op(chain), x)
    assert torch.equal(found, x)
    nested = "x"
    for i in range(50):
        nested = f"maximum({nested}, minimum(x, {i}))"
    check_op(op(f"z = {nested}"), [x])
    text = "z = minimum(31, ceil(maximum(0.09414722*x1-0.54402936-149.09248, 149.08806-0.09424036*x2))-0.1880195)"
    ((found, _),) = run_both(op(text), torch.zeros(2), torch.zeros(2))
    assert found.tolist() == [31.0, 31.0]


# -- runtime scalars -------------------------------------------------------------------------------------------------
def test_arithmetic_of_scalars_alone_takes_no_vector_instructions() -> None:
    from asc_sched.lower.legalize import legalize
    from tests.lower.machine import typed_op

    declared = op("z = x * ((1 - beta) / (alpha * 2 + 0.1)) - -alpha", scalars=["alpha", "beta"])
    steps = legalize(typed_op(declared, {"x": "float32"})).steps
    assert [s.instruction.name for s in steps] == ["muls", "sub"] or len(steps) <= 3
    for alpha, beta in ((0.3, 0.9), (1e-30, 1.0), (-0.05, 3.0)):
        check_op(declared, [torch.linspace(-3, 3, 64)], alpha=alpha, beta=beta)
    ((found, expected),) = run_both(declared, torch.linspace(-3, 3, 64), alpha=0.3, beta=0.9)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("float32", {1.5: 1.5, 65504: 65504, -42: -42, 0.1: 0.10000000149011612}),
     ("float16", {1.5: 1.5, 65504: 65504, -42: -42, 0.1: 0.0999755859375}),
     ("bfloat16", {1.5: 1.5, 65504: 65536, -42: -42, 0.1: 0.10009765625})],
)  # fmt: skip
def test_a_scalar_arrives_in_the_kernel_rounded_to_the_dtype_it_is_declared_with(
    dtype: str, values: dict[float, float]
) -> None:
    declared = op("z = x * alpha", scalars={"alpha": dtype})
    for alpha, expected in values.items():
        result = declared(torch.ones(33), alpha=alpha)
        assert isinstance(result, torch.Tensor) and result.tolist() == [expected] * 33


def test_scalars_alone_may_be_an_output() -> None:
    ((found, expected),) = run_both(op("z = alpha * 3 + x * 0", scalars=["alpha"]), torch.ones(8), alpha=0.1)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("text", ["sin(exp(x))", "cos(exp(x))", "tan(exp(x))", "sin(x * 3000.0)"])
def test_computed_arguments_of_trigonometric_functions_may_be_large(text: str, dtype: torch.dtype) -> None:
    """They aren't rounded to 16 bits, so they go beyond what a float16 holds, and have more bits than it."""
    x = torch.tensor([23.859375, 20.0, 22.0, 11.0, 8.5, 0.25], dtype=dtype)
    check_op(op(f"z = {text}"), [x])
    ((found, _),) = run_both(op(f"z = {text}"), x)
    assert bool(found.isfinite().all())
