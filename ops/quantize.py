"""Quantisation per tensor, with its scale and zero point as runtime scalars."""

from __future__ import annotations

from asc_sched import op

_SCALE = {"scale": 0.1, "zero_point": 0.0}

quantize_int8 = op("z = int8(clamp(round(x / scale) + zero_point, -128, 127))", scalars=_SCALE, name="quantize_int8")
quantize_uint8 = op("z = uint8(clamp(round(x / scale) + zero_point, 0, 255))", scalars=_SCALE, name="quantize_uint8")
dequantize = op("z = (float32(q) - zero_point) * scale", scalars=_SCALE, name="dequantize")
fake_quantize = op(
    "z = (clamp(round(x / scale) + zero_point, -128, 127) - zero_point) * scale", scalars=_SCALE, name="fake_quantize"
)
requantize = op(
    "z = int8(clamp(round(float32(acc) * scale) + zero_point, -128, 127))", scalars=_SCALE, name="requantize"
)
dequantize_add = op("z = x + float32(q) * scale", inputs="x, q", scalars={"scale": 0.1}, name="dequantize_add")
