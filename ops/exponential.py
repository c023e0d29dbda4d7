"""Exponentials, logarithms and what is made of them."""

from __future__ import annotations

from asc_sched import op

exp = op("z = exp(x)", name="exp")
exp2 = op("z = exp2(x)", name="exp2")
expm1 = op("z = expm1(x)", name="expm1")
log = op("z = log(x)", name="log")
log2 = op("z = log2(x)", name="log2")
log10 = op("z = log10(x)", name="log10")
log1p = op("z = log1p(x)", name="log1p")
logaddexp = op("z = logaddexp(x, y)", name="logaddexp")
logaddexp2 = op("z = logaddexp2(x, y)", name="logaddexp2")
xlogy = op("z = xlogy(x, y)", name="xlogy")
xlog1py = op("z = xlog1py(x, y)", name="xlog1py")
logit = op("z = logit(x)", name="logit")
sigmoid = op("z = sigmoid(x)", name="sigmoid")
entr = op("z = entr(x)", name="entr")
