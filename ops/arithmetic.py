"""Arithmetic: one declaration per operator, as a user would write it."""

from __future__ import annotations

from asc_sched import op

add = op("z = x + y", name="add")
sub = op("z = x - y", name="sub")
mul = op("z = x * y", name="mul")
div = op("z = x / y", name="div")
neg = op("z = -x", name="neg")
abs = op("z = abs(x)", name="abs")
reciprocal = op("z = 1 / x", name="reciprocal")
square = op("z = x * x", name="square")
maximum = op("z = maximum(x, y)", name="maximum")
minimum = op("z = minimum(x, y)", name="minimum")
exp = op("z = exp(x)", name="exp")
log = op("z = log(x)", name="log")
sqrt = op("z = sqrt(x)", name="sqrt")
rsqrt = op("z = rsqrt(x)", name="rsqrt")
relu = op("z = relu(x)", name="relu")
axpby = op("z = alpha * x + beta * y", scalars={"alpha": 1.0, "beta": 1.0}, name="axpby")
