"""Activations, by torch.nn.functional's names."""

from __future__ import annotations

from asc_sched import op

relu = op("z = relu(x)", name="relu")
relu6 = op("z = relu6(x)", name="relu6")
leaky_relu = op("z = leaky_relu(x, negative_slope)", scalars={"negative_slope": 0.01}, name="leaky_relu")
prelu = op("z = leaky_relu(x, weight)", scalars={"weight": 0.25}, name="prelu")
prelu_tensor = op("z = prelu(x, weight)", name="prelu_tensor")
elu = op("z = elu(x, alpha)", scalars={"alpha": 1.0}, name="elu")
selu = op("z = selu(x)", name="selu")
celu = op("z = celu(x, alpha)", scalars={"alpha": 1.0}, name="celu")
gelu = op("z = gelu(x)", name="gelu")
gelu_tanh = op("z = gelu_tanh(x)", name="gelu_tanh")
quick_gelu = op("z = quick_gelu(x)", name="quick_gelu")
silu = op("z = silu(x)", name="silu")
mish = op("z = mish(x)", name="mish")
logsigmoid = op("z = logsigmoid(x)", name="logsigmoid")
hardsigmoid = op("z = hardsigmoid(x)", name="hardsigmoid")
hardswish = op("z = hardswish(x)", name="hardswish")
hardtanh = op("z = hardtanh(x, min_val, max_val)", scalars={"min_val": -1.0, "max_val": 1.0}, name="hardtanh")
hardshrink = op("z = hardshrink(x, lambd)", scalars={"lambd": 0.5}, name="hardshrink")
softshrink = op("z = softshrink(x, lambd)", scalars={"lambd": 0.5}, name="softshrink")
tanhshrink = op("z = tanhshrink(x)", name="tanhshrink")
softplus = op("z = softplus(x)", name="softplus")
softsign = op("z = softsign(x)", name="softsign")
threshold = op("z = threshold(x, threshold_, value)", scalars={"threshold_": 0.0, "value": 0.0}, name="threshold")
softcap = op("z = softcap(x, cap)", scalars={"cap": 30.0}, name="softcap")
squared_relu = op("z = square(relu(x))", name="squared_relu")
