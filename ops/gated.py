"""Gated linear units on two inputs: the value and its gate."""

from __future__ import annotations

from asc_sched import op

glu = op("z = glu(x, gate)", name="glu")
bilinear = op("z = x * gate", name="bilinear")
swiglu = op("z = swiglu(x, gate)", name="swiglu")
geglu = op("z = geglu(x, gate)", name="geglu")
geglu_tanh = op("z = gelu_tanh(x) * gate", name="geglu_tanh")
reglu = op("z = reglu(x, gate)", name="reglu")
quick_geglu = op("z = quick_gelu(x) * gate", name="quick_geglu")
clipped_swiglu = op(
    """
    x_ = clamp_max(x, limit)
    gate_ = clamp(gate, -limit, limit)
    z = (gate_ + 1) * x_ / (1 + exp(-alpha * x_))
    """,
    inputs="x, gate",
    scalars={"alpha": 1.702, "limit": 7.0},
    name="clipped_swiglu",
)
