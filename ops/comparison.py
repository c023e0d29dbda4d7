"""Comparisons, choices and clamps."""

from __future__ import annotations

from asc_sched import op

lt = op("z = x < y", name="lt")
le = op("z = x <= y", name="le")
gt = op("z = x > y", name="gt")
ge = op("z = x >= y", name="ge")
eq = op("z = x == y", name="eq")
ne = op("z = x != y", name="ne")
isnan = op("z = isnan(x)", name="isnan")
isinf = op("z = isinf(x)", name="isinf")
isposinf = op("z = isposinf(x)", name="isposinf")
isneginf = op("z = isneginf(x)", name="isneginf")
isfinite = op("z = isfinite(x)", name="isfinite")
isclose = op("z = isclose(x, y, rtol, atol)", scalars={"rtol": 1e-5, "atol": 1e-8}, name="isclose")
where = op("z = where(condition, x, y)", name="where")
masked_fill = op("z = masked_fill(x, mask, value)", scalars={"value": 0.0}, name="masked_fill")
clamp = op("z = clamp(x, low, high)", scalars={"low": -1.0, "high": 1.0}, name="clamp")
clamp_tensor = op("z = clamp(x, low, high)", name="clamp_tensor")
clamp_min = op("z = clamp_min(x, low)", scalars={"low": 0.0}, name="clamp_min")
clamp_max = op("z = clamp_max(x, high)", scalars={"high": 0.0}, name="clamp_max")
nan_to_num = op("z = nan_to_num(x)", name="nan_to_num")
