"""Casts to every dtype, and by a scale."""

from __future__ import annotations

from asc_sched import op

to_float32 = op("z = float32(x)", name="to_float32")
to_float16 = op("z = float16(x)", name="to_float16")
to_bfloat16 = op("z = bfloat16(x)", name="to_bfloat16")
to_int8 = op("z = int8(x)", name="to_int8")
to_int16 = op("z = int16(x)", name="to_int16")
to_int32 = op("z = int32(x)", name="to_int32")
to_int64 = op("z = int64(x)", name="to_int64")
to_uint8 = op("z = uint8(x)", name="to_uint8")
to_bool = op("z = bool(x)", name="to_bool")
round_trip_float16 = op("z = float32(float16(x))", name="round_trip_float16")
round_trip_bfloat16 = op("z = float32(bfloat16(x))", name="round_trip_bfloat16")
