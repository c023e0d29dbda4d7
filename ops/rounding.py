"""Rounding and signs."""

from __future__ import annotations

from asc_sched import op

floor = op("z = floor(x)", name="floor")
ceil = op("z = ceil(x)", name="ceil")
round = op("z = round(x)", name="round")
trunc = op("z = trunc(x)", name="trunc")
frac = op("z = frac(x)", name="frac")
sign = op("z = sign(x)", name="sign")
signbit = op("z = signbit(x)", name="signbit")
copysign = op("z = copysign(x, y)", name="copysign")
