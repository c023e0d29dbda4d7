"""What stated errors become on their way to a result: enough where sums cancel, and no more than that."""

from __future__ import annotations

import pytest
import torch

from asc_sched import op, ops
from asc_sched.declare import Op
from asc_sched.lang.accuracy import FAST_RELATIVE, error_ulp
from asc_sched.lang.dtypes import DTYPES
from asc_sched.lang.infer import infer
from asc_sched.lang.spread import GROUPS, spread
from tests.lower.machine import check_op, run_both


def _spread(declared: Op, *tensors: torch.Tensor, relative: float | None = None) -> torch.Tensor:
    named = dict(zip(declared.inputs, tensors, strict=True))
    typed = infer(declared.graph, {n: DTYPES[str(t.dtype).removeprefix("torch.")] for n, t in named.items()})
    return spread(typed, named, declared.bind_scalars({}), relative=relative)["z"]


def test_errors_of_a_sum_add_up_at_every_element_whatever_cancels() -> None:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(5000, generator=g), torch.randn(5000, generator=g)
    found = _spread(op("z = x * y - y * x + exp(x) * 0"), x, y, relative=FAST_RELATIVE)
    assert (found >= 1.99 * FAST_RELATIVE * (x * y).abs().double()).all()
    narrow = _spread(op("z = x * y"), (x * 1e-4).half(), y.half(), relative=FAST_RELATIVE)
    assert (narrow >= 2.0**-24).all(), "float16 numbers this small are subnormal"


def test_exact_functions_have_no_errors_of_their_own() -> None:
    x = torch.linspace(-3, 3, 64)
    assert not _spread(op("z = x * 3 + relu(x) / 7"), x).any()
    (found,) = _spread(op("z = exp(x) * 1"), torch.zeros(1))
    assert found == pytest.approx(error_ulp("exp") * 2.0**-23 + 2.0**-24)


def test_a_long_expression_is_followed_in_groups() -> None:
    lines = [f"t{i + 1} = tanh(t{i}) + x" for i in range(GROUPS)]
    found = _spread(op("; ".join(["t0 = x", *lines, f"z = t{GROUPS}"])), torch.linspace(-2, 2, 64))
    assert (found < 1e-5).all() and (found > 0).all()


CANCELLING = ["logaddexp", "logaddexp2", "log_cosh_loss", "tanhshrink", "binary_cross_entropy", "kl_div",
              "gaussian_nll_loss", "poisson_nll_loss", "xlogy", "softplus", "logsigmoid", "sigmoid_focal_loss",
              "soft_margin_loss", "binary_cross_entropy_with_logits", "entr", "logit"]  # fmt: skip


@pytest.mark.parametrize("name", CANCELLING)
def test_ops_whose_sums_cancel_are_within_what_cancels(name: str) -> None:
    """Many ordinary numbers, so that some results are next to 0."""
    declared = ops.get(name)
    g = torch.Generator().manual_seed(11)
    check_op(declared, [torch.randn(40_000, generator=g) for _ in declared.inputs])


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_next_to_zero_the_error_is_that_of_the_larger_operand(name: str) -> None:
    """As docs/precision.md has it: 4 ulp of what cancels, not of what is left of it."""
    g = torch.Generator().manual_seed(2)
    x = torch.rand(40_000, generator=g) * -3
    zero = torch.log1p(-x.double().exp()) if name == "logaddexp" else torch.log2(1 - torch.exp2(x.double()))
    y = zero.float() * (1 + torch.randn(40_000, generator=g) * 1e-6)
    ((found, _),) = run_both(ops.get(name), x, y)
    exact = getattr(torch, name)(x.double(), y.double())
    assert exact.abs().median() < 1e-5
    larger = torch.maximum(x.abs(), y.abs()).double()
    assert ((found.double() - exact).abs() <= 4 * 2.0**-23 * larger.clamp(min=0.5)).all()


def test_a_result_that_is_off_by_more_is_found() -> None:
    declared = ops.get("logaddexp")
    g = torch.Generator().manual_seed(3)
    x, y = torch.randn(4000, generator=g), torch.randn(4000, generator=g)
    (expected,) = declared.reference(x, y)
    allowed = 2 * _spread(declared, x, y)
    assert (allowed < 4e-6).all()
    assert ((expected * (1 + 2e-5)).double() - expected.double()).abs().gt(allowed).double().mean() > 0.9
