"""Gradients of activations and losses: ``grad`` is what arrives, ``x`` the input or ``y`` the result of the forward."""

from __future__ import annotations

from asc_sched import fn, op

relu_backward = op("z = where(x > 0, grad, 0)", inputs="grad, x", name="relu_backward")
leaky_relu_backward = op(
    "z = where(x > 0, grad, grad * negative_slope)",
    inputs="grad, x",
    scalars={"negative_slope": 0.01},
    name="leaky_relu_backward",
)
sigmoid_backward = op("z = grad * (1 - y) * y", inputs="grad, y", name="sigmoid_backward")
tanh_backward = op("z = grad * (1 - y * y)", inputs="grad, y", name="tanh_backward")
silu_backward = op("s = sigmoid(x); z = grad * s * (1 + x * (1 - s))", inputs="grad, x", name="silu_backward")
hardswish_backward = op(
    "z = where(x <= -3, 0, where(x < 3, grad * (x / 3 + 0.5), grad))", inputs="grad, x", name="hardswish_backward"
)
hardsigmoid_backward = op("z = where((x > -3) & (x < 3), grad / 6, 0)", inputs="grad, x", name="hardsigmoid_backward")
hardtanh_backward = op(
    "z = where((x <= min_val) | (x >= max_val), 0, grad)",
    inputs="grad, x",
    scalars={"min_val": -1.0, "max_val": 1.0},
    name="hardtanh_backward",
)
elu_backward = op(
    "z = where(x <= 0, grad * alpha * exp(x), grad)", inputs="grad, x", scalars={"alpha": 1.0}, name="elu_backward"
)
softplus_backward = op("z = grad * sigmoid(x)", inputs="grad, x", name="softplus_backward")
threshold_backward = op(
    "z = where(x <= threshold_, 0, grad)", inputs="grad, x", scalars={"threshold_": 0.0}, name="threshold_backward"
)
mse_loss_backward = op("z = 2 * (x - target) * grad", inputs="grad, x, target", name="mse_loss_backward")
l1_loss_backward = op("z = sign(x - target) * grad", inputs="grad, x, target", name="l1_loss_backward")


@op
def gelu_backward(grad, x):  # type: ignore[no-untyped-def]
    """The distribution function plus x times its density."""
    return grad * (fn.ndtr(x) + x * (0.3989422804014327 * fn.exp(-0.5 * x * x)))


@op
def gelu_tanh_backward(grad, x):  # type: ignore[no-untyped-def]
    """Of x sigmoid(2u): s + x s (1 - s) 2u'."""
    square = x * x
    s = fn.sigmoid(x * (1.5957691216057308 + 0.07135481282553557 * square))
    return grad * (s + x * s * (1 - s) * (1.5957691216057308 + 0.2140644384766067 * square))


@op
def swiglu_backward(grad, x, gate):  # type: ignore[no-untyped-def]
    """Gradients of silu(x) * gate by x and by gate."""
    s = fn.sigmoid(x)
    silu = x * s
    return {"x_grad": grad * gate * (s + silu * (1 - s)), "gate_grad": grad * silu}
