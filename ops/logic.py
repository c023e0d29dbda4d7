"""Logic, bits and shifts."""

from __future__ import annotations

from asc_sched import op

logical_and = op("z = logical_and(x, y)", name="logical_and")
logical_or = op("z = logical_or(x, y)", name="logical_or")
logical_xor = op("z = logical_xor(x, y)", name="logical_xor")
logical_not = op("z = logical_not(x)", name="logical_not")
bitwise_and = op("z = x & y", name="bitwise_and")
bitwise_or = op("z = x | y", name="bitwise_or")
bitwise_xor = op("z = x ^ y", name="bitwise_xor")
bitwise_not = op("z = ~x", name="bitwise_not")
bitwise_left_shift = op("z = x << y", name="bitwise_left_shift")
bitwise_right_shift = op("z = x >> y", name="bitwise_right_shift")
