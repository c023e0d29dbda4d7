"""Losses per element (reduction "none"), by torch.nn.functional's names."""

from __future__ import annotations

from asc_sched import op

l1_loss = op("z = abs(x - target)", name="l1_loss")
mse_loss = op("z = square(x - target)", name="mse_loss")
smooth_l1_loss = op(
    "d = abs(x - target); z = where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)",
    scalars={"beta": 1.0},
    name="smooth_l1_loss",
)
huber_loss = op(
    "d = abs(x - target); z = where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))",
    scalars={"delta": 1.0},
    name="huber_loss",
)
log_cosh_loss = op(
    "d = abs(x - target); z = d + log1p(exp(-2 * d)) - 0.6931471805599453", name="log_cosh_loss"
)
binary_cross_entropy = op(
    "z = (target - 1) * clamp_min(log1p(-x), -100) - target * clamp_min(log(x), -100)",
    inputs="x, target",
    name="binary_cross_entropy",
)
binary_cross_entropy_with_logits = op(
    "z = (1 - target) * x - logsigmoid(x)", inputs="x, target", name="binary_cross_entropy_with_logits"
)
kl_div = op("z = xlogy(target, target) - target * x", inputs="x, target", name="kl_div")
soft_margin_loss = op("z = softplus(-target * x)", inputs="x, target", name="soft_margin_loss")
hinge_embedding_loss = op(
    "z = where(target != 1, clamp_min(margin - x, 0), 0) + where(target != -1, x, 0)",
    inputs="x, target",
    scalars={"margin": 1.0},
    name="hinge_embedding_loss",
)
hinge_loss = op("z = relu(1 - target * x)", inputs="x, target", name="hinge_loss")
poisson_nll_loss = op("z = exp(x) - target * x", inputs="x, target", name="poisson_nll_loss")
gaussian_nll_loss = op(
    "v = clamp_min(var, eps); z = 0.5 * (log(v) + square(x - target) / v)",
    inputs="x, target, var",
    scalars={"eps": 1e-6},
    name="gaussian_nll_loss",
)
margin_ranking_loss = op(
    "z = clamp_min(-target * (x - y) + margin, 0)",
    inputs="x, y, target",
    scalars={"margin": 0.0},
    name="margin_ranking_loss",
)
sigmoid_focal_loss = op(
    """
    p = sigmoid(x)
    miss = p + target - 2 * p * target
    weight = alpha * target + (1 - alpha) * (1 - target)
    z = weight * square(miss) * ((1 - target) * x - logsigmoid(x))
    """,
    inputs="x, target",
    scalars={"alpha": 0.25},
    name="sigmoid_focal_loss",
)
