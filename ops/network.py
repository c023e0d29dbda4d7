"""Pointwise parts of network layers: dropout, rotary embedding, normalisation, residuals, softmax."""

from __future__ import annotations

from asc_sched import op

dropout = op("z = where(mask, x * scale, 0)", inputs="x, mask", scalars={"scale": 2.0}, name="dropout")
dropout_backward = op("z = where(mask, grad * scale, 0)", inputs="grad, mask", scalars={"scale": 2.0},
                      name="dropout_backward")  # fmt: skip
bias_dropout_add = op(
    "z = residual + where(mask, (x + bias) * scale, 0)",
    inputs="x, bias, residual, mask",
    scalars={"scale": 2.0},
    name="bias_dropout_add",
)
rope = op(
    "y1 = x1 * cos - x2 * sin; y2 = x2 * cos + x1 * sin", inputs="x1, x2, cos, sin", name="rope"
)
rope_backward = op(
    "x1_grad = y1_grad * cos + y2_grad * sin; x2_grad = y2_grad * cos - y1_grad * sin",
    inputs="y1_grad, y2_grad, cos, sin",
    name="rope_backward",
)
residual_add = op("z = x + residual", inputs="x, residual", name="residual_add")
scale_shift = op("z = x * (1 + scale) + shift", inputs="x, scale, shift", name="scale_shift")
bias_gelu = op("z = gelu(x + bias)", inputs="x, bias", name="bias_gelu")
bias_relu = op("z = relu(x + bias)", inputs="x, bias", name="bias_relu")
bias_silu = op("z = silu(x + bias)", inputs="x, bias", name="bias_silu")
batch_norm = op(
    "z = (x - mean) / sqrt(var + eps) * weight + bias",
    inputs="x, mean, var, weight, bias",
    scalars={"eps": 1e-5},
    name="batch_norm",
)
layer_norm_apply = op(
    "z = (x - mean) * rstd * weight + bias", inputs="x, mean, rstd, weight, bias", name="layer_norm_apply"
)
rms_norm_apply = op("z = x * rstd * weight", inputs="x, rstd, weight", name="rms_norm_apply")
softmax_apply = op("z = exp(x - largest) / total", inputs="x, largest, total", name="softmax_apply")
log_softmax_apply = op("z = x - largest - log_total", inputs="x, largest, log_total", name="log_softmax_apply")
attention_scale_mask = op(
    "z = where(mask, x * scale, -inf)", inputs="x, mask", scalars={"scale": 0.125}, name="attention_scale_mask"
)
alibi = op("z = x * scale + slope * distance", inputs="x, slope, distance", scalars={"scale": 0.125}, name="alibi")
guidance = op(
    "z = unconditional + weight * (conditional - unconditional)",
    inputs="unconditional, conditional",
    scalars={"weight": 7.5},
    name="guidance",
)
normalize_image = op("z = (float32(x) / 255 - mean) / std", inputs="x, mean, std", name="normalize_image")
luminance = op(
    "z = 0.299 * r + 0.587 * g + 0.114 * b", inputs="r, g, b", name="luminance"
)
alpha_blend = op("z = a * alpha + b * (1 - alpha)", inputs="a, b, alpha", name="alpha_blend")
