"""Optimiser steps: parameters and state in, parameters and state out, in one pass over memory.

Bias corrections depend on the step's number, so they are runtime scalars: ``bias1 = 1 - beta1 ** step`` and
``bias2_root = sqrt(1 - beta2 ** step)``.
"""

from __future__ import annotations

from asc_sched import fn, op


@op
def sgd(param, grad, *, lr=0.01, weight_decay=0.0):  # type: ignore[no-untyped-def]
    """torch.optim.SGD without momentum."""
    return {"param_out": param - lr * (grad + weight_decay * param)}


@op
def sgd_momentum(param, grad, momentum_buffer, *, lr=0.01, momentum=0.9, dampening=0.0, weight_decay=0.0):  # type: ignore[no-untyped-def]
    """torch.optim.SGD with momentum."""
    g = grad + weight_decay * param
    buffer = momentum * momentum_buffer + (1 - dampening) * g
    return {"param_out": param - lr * buffer, "momentum_out": buffer}


@op
def sgd_nesterov(param, grad, momentum_buffer, *, lr=0.01, momentum=0.9, weight_decay=0.0):  # type: ignore[no-untyped-def]
    """torch.optim.SGD with Nesterov's momentum."""
    g = grad + weight_decay * param
    buffer = momentum * momentum_buffer + g
    return {"param_out": param - lr * (g + momentum * buffer), "momentum_out": buffer}


@op
def adam(param, grad, exp_avg, exp_avg_sq, *, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0,
         bias1=0.1, bias2_root=0.0316227766):  # type: ignore[no-untyped-def]  # fmt: skip
    """torch.optim.Adam."""
    g = grad + weight_decay * param
    m = exp_avg + (1 - beta1) * (g - exp_avg)
    v = beta2 * exp_avg_sq + (1 - beta2) * g * g
    step = (lr / bias1) * m / (fn.sqrt(v) / bias2_root + eps)
    return {"param_out": param - step, "exp_avg_out": m, "exp_avg_sq_out": v}


@op
def adamw(param, grad, exp_avg, exp_avg_sq, *, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01,
          bias1=0.1, bias2_root=0.0316227766):  # type: ignore[no-untyped-def]  # fmt: skip
    """torch.optim.AdamW."""
    decayed = param * (1 - lr * weight_decay)
    m = exp_avg + (1 - beta1) * (grad - exp_avg)
    v = beta2 * exp_avg_sq + (1 - beta2) * grad * grad
    step = (lr / bias1) * m / (fn.sqrt(v) / bias2_root + eps)
    return {"param_out": decayed - step, "exp_avg_out": m, "exp_avg_sq_out": v}


@op
def rmsprop(param, grad, square_avg, *, lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.0):  # type: ignore[no-untyped-def]
    """torch.optim.RMSprop."""
    g = grad + weight_decay * param
    average = alpha * square_avg + (1 - alpha) * g * g
    return {"param_out": param - lr * g / (fn.sqrt(average) + eps), "square_avg_out": average}


@op
def adagrad(param, grad, state_sum, *, lr=0.01, eps=1e-10, weight_decay=0.0):  # type: ignore[no-untyped-def]
    """torch.optim.Adagrad."""
    g = grad + weight_decay * param
    total = state_sum + g * g
    return {"param_out": param - lr * g / (fn.sqrt(total) + eps), "state_sum_out": total}


@op
def lion(param, grad, exp_avg, *, lr=1e-4, beta1=0.9, beta2=0.99, weight_decay=0.0):  # type: ignore[no-untyped-def]
    """Lion: the sign of the interpolated momentum."""
    update = fn.sign(beta1 * exp_avg + (1 - beta1) * grad)
    return {
        "param_out": param * (1 - lr * weight_decay) - lr * update,
        "exp_avg_out": beta2 * exp_avg + (1 - beta2) * grad,
    }


ema = op("z = decay * average + (1 - decay) * param", inputs="average, param", scalars={"decay": 0.999}, name="ema")
unscale_grad = op(
    "z = grad * inv_scale; overflow = ~isfinite(grad)", scalars={"inv_scale": 1.0}, name="unscale_grad"
)
