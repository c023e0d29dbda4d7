"""Trigonometric and hyperbolic functions, their inverses, and the error functions."""

from __future__ import annotations

from asc_sched import op

sin = op("z = sin(x)", name="sin")
cos = op("z = cos(x)", name="cos")
tan = op("z = tan(x)", name="tan")
asin = op("z = asin(x)", name="asin")
acos = op("z = acos(x)", name="acos")
atan = op("z = atan(x)", name="atan")
atan2 = op("z = atan2(y, x)", name="atan2")
sinh = op("z = sinh(x)", name="sinh")
cosh = op("z = cosh(x)", name="cosh")
tanh = op("z = tanh(x)", name="tanh")
asinh = op("z = asinh(x)", name="asinh")
acosh = op("z = acosh(x)", name="acosh")
atanh = op("z = atanh(x)", name="atanh")
sinc = op("z = sinc(x)", name="sinc")
erf = op("z = erf(x)", name="erf")
erfc = op("z = erfc(x)", name="erfc")
ndtr = op("z = ndtr(x)", name="ndtr")
