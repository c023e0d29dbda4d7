"""The catalogue: every op on every dtype that torch has it for gives torch's values, or refuses by name."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from asc_sched import op, ops
from asc_sched.errors import DtypeError
from asc_sched.lang.dtypes import DTYPES as LANGUAGE_DTYPES
from asc_sched.lang.infer import infer
from tests.lower.machine import check_op, run_both
from tests.lower.values import DTYPES, all_16bit, distance, op_inputs

CATALOGUE = sorted(ops.catalogue())


def defined(name: str, dtype: str) -> bool:
    """Whether torch has the op for these dtypes."""
    own = {"mask": "bool", "condition": "bool", "q": "int8", "acc": "int32"}
    found = ops.get(name)
    try:
        infer(found.graph, {n: LANGUAGE_DTYPES[own.get(n, dtype)] for n in found.inputs})
    except DtypeError:
        return False
    return True


def _check(name: str, dtype: str, count: int, seed: int) -> None:
    found = ops.get(name)
    tensors = op_inputs(found, dtype, count, torch.Generator().manual_seed(seed))
    if name in ("sinh", "cosh"):  # torch's own overflow at 88.72, before their values do
        tensors = [torch.where(t.float().abs() > 88, torch.ones_like(t), t) for t in tensors]
    check_op(found, tensors)


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_op_gives_torchs_values_on_every_dtype(name: str) -> None:
    for dtype in DTYPES:
        if defined(name, dtype):
            _check(name, dtype, 256, seed=len(name))


@pytest.mark.nightly
@pytest.mark.parametrize("name", CATALOGUE)
def test_each_op_gives_torchs_values_on_many_numbers(name: str) -> None:
    for dtype in DTYPES:
        if defined(name, dtype):
            _check(name, dtype, 20_000, seed=7)


def test_the_catalogue_has_what_pointwise_torch_has() -> None:
    wanted = """
    add sub mul div div_floor div_trunc floor_divide remainder fmod neg reciprocal square pow pow_scalar addcmul addcdiv
    lerp hypot floor ceil round trunc frac sign signbit copysign exp exp2 expm1 log log2 log10 log1p logaddexp sqrt
    rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 erf erfc relu relu6 leaky_relu prelu elu
    selu celu gelu gelu_tanh quick_gelu silu mish sigmoid logsigmoid hardsigmoid hardswish hardtanh tanhshrink
    softshrink hardshrink softplus softsign threshold swiglu geglu reglu clamp clamp_min clamp_max where masked_fill
    nan_to_num isnan isinf isfinite lt le gt ge eq ne logical_and logical_or logical_xor logical_not bitwise_and
    bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift gcd to_float32 to_float16 to_bfloat16
    to_int8 to_int16 to_int32 to_int64 to_uint8 to_bool mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits sgd_momentum adam adamw dropout quantize_int8 dequantize rope
    """.split()
    assert not [n for n in wanted if n not in CATALOGUE]
    assert len(CATALOGUE) >= 150


# -- against torch.nn.functional itself, not the op's own expression ---------------------------------------------------
NAMED = {
    "relu6": F.relu6, "elu": F.elu, "selu": F.selu, "celu": F.celu, "gelu": F.gelu, "silu": F.silu, "mish": F.mish,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "logsigmoid": F.logsigmoid, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "hardtanh": F.hardtanh, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "tanhshrink": F.tanhshrink, "softplus": F.softplus, "softsign": F.softsign, "sigmoid": torch.sigmoid,
    "leaky_relu": F.leaky_relu, "logit": torch.logit, "entr": torch.special.entr, "sinc": torch.sinc,
    "ndtr": torch.special.ndtr, "threshold": lambda x: F.threshold(x, 0.0, 0.0), "nan_to_num": torch.nan_to_num,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "square": torch.square, "deg2rad": torch.deg2rad,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(NAMED))
def test_named_functions_are_torchs_own_on_every_float16(name: str) -> None:
    x = all_16bit("float16")
    if name == "nan_to_num":
        expected = torch.nan_to_num(x)
    else:
        expected = NAMED[name](x.double()).half()  # torch's float32 functions cancel in their tails
    ((found, _),) = run_both(ops.get(name), x)
    off = distance(found, expected)
    finite = x.isfinite()
    assert off[finite].max() <= 2, f"{x[finite][off[finite].argmax()]}: {found[finite][off[finite].argmax()]}"


def _loss(name: str) -> Callable[..., torch.Tensor]:
    return lambda x, y: getattr(F, name)(x, y, reduction="none")


NAMED_BINARY = {
    "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2, "xlogy": torch.xlogy, "ldexp": torch.ldexp,
    "xlog1py": torch.special.xlog1py, "heaviside": torch.heaviside, "hypot": torch.hypot, "isclose": torch.isclose,
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"), "copysign": torch.copysign, "fmax": torch.fmax,
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"), "atan2": torch.atan2, "pow": torch.pow,
    **{n: _loss(n) for n in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss",
                             "hinge_embedding_loss", "binary_cross_entropy_with_logits")},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(NAMED_BINARY))
def test_named_functions_of_two_are_torchs_own_on_special_values(name: str) -> None:
    special = [0, -0.0, 1, -1, math.inf, -math.inf, math.nan, 0.5, -3, 2, 100, -100, 3e38, 0.3, 1e-42]
    x, y = (t.reshape(-1) for t in torch.meshgrid(torch.tensor(special), torch.tensor(special), indexing="ij"))
    ((found, _),) = run_both(ops.get(name), x, y)
    expected = NAMED_BINARY[name](x, y)
    assert found.dtype is expected.dtype
    close = torch.isclose(found, expected, rtol=2e-6, atol=1e-7, equal_nan=True)  # next to 0, their sums cancel
    assert close.all(), (x[~close], y[~close], found[~close], expected[~close])


@pytest.mark.parametrize("name", "gelu gelu_tanh silu mish softplus sigmoid logsigmoid quick_gelu".split())
def test_nothing_overflows_inside_out_to_the_largest_number(name: str) -> None:
    x = torch.tensor([s * v for v in (3.4e38, 1e30, 1e10, 1e4, 710.0, 104.0, 89.0, 50.0, 20.0, 13.24) for s in (1, -1)])
    ((found, _),) = run_both(ops.get(name), x)
    expected = NAMED[name](x.double())
    assert found.isfinite().all()
    assert ((found.double() - expected).abs() <= 1e-6 * expected.abs().clamp(min=1e-30)).all()


def test_gelus_tanh_form_is_right_where_its_exp_would_overflow() -> None:
    x = torch.tensor([-40, -13.24, -13, -12, -11, -7, -5, -4, 11, 12, 13.24, 40])
    text = "z = 0.5*x*(1+tanh(sqrt(2/pi)*(x+0.044715*x**3)))"
    exact = F.gelu(x.double(), approximate="tanh")
    for declared in (op(text), ops.get("gelu_tanh")):
        ((found, _),) = run_both(declared, x)
        assert found.isfinite().all()
        assert ((found - exact).abs() <= 1e-6).all()


# -- fast ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "gelu", "tanh", "sin", "div", "rsqrt", "adam", "softplus"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_fast_forms_keep_their_bound(name: str, dtype: str) -> None:
    found = ops.get(name)
    g = torch.Generator().manual_seed(3)
    kind = getattr(torch, dtype)
    tensors = [(torch.rand(512, generator=g) * 4 + 0.1).to(kind) for _ in found.inputs]
    check_op(found, tensors, precision="fast")


def test_fast_takes_fewer_steps() -> None:
    from asc_sched.lower.legalize import legalize
    from tests.lower.machine import typed_op

    for name in ("sin", "pow", "rsqrt", "maximum", "erfc", "fmod", "to_int32"):
        typed = typed_op(ops.get(name), dict.fromkeys(ops.get(name).inputs, "float32"))
        assert len(legalize(typed, "fast").steps) < len(legalize(typed).steps), name
    typed = typed_op(op("z = relu(x + y)"), {"x": "float32", "y": "float32"})
    assert [s.instruction.name for s in legalize(typed, "fast").steps] == ["add_relu"]


def test_an_unknown_precision_is_named() -> None:
    from asc_sched.errors import PrecisionError

    with pytest.raises(PrecisionError, match="'exact' or 'fast'"):
        op("z = exp(x)").compile(64, precision="quick")

