"""How exact each function is, in units in the last place (ulp) of float32: stated here, kept by the tests.

The figures are for the chip's instructions as the simulator has them, correctly rounded; a chip's own last-bit errors
in Exp, Ln, Sqrt and Div aren't published, and come on top. torch's own error (up to 1 ulp) is within the figures.
16-bit results are within 1 ulp of torch's float32 result rounded once, except that 2 are allowed.
"""

from __future__ import annotations

#: Functions whose float32 result is torch's, bit for bit.
EXACT = frozenset(
    "add sub mul div neg abs relu leaky_relu maximum minimum fmax fmin where sign signbit copysign floor "
    "ceil round trunc frac finite fmod remainder trunc_div rsqrt reciprocal isnan isinf isfinite isposinf isneginf lt "
    "le gt ge eq ne cast".split()
)

#: Largest distance from torch in float32; functions that aren't named here or in EXACT: 4.
ULP: dict[str, float] = {
    "sqrt": 1, "exp": 1, "exp2": 2, "expm1": 2, "log": 1, "log2": 2, "log10": 2, "log1p": 2,
    "sin": 4, "cos": 4, "tan": 6, "asin": 4, "acos": 3, "atan": 3, "atan2": 3, "sinh": 4, "cosh": 3, "tanh": 4,
    "asinh": 3, "acosh": 4, "atanh": 3, "erf": 2, "erfc": 6, "hypot": 2, "pow": 4, "floor_div": 2,
}  # fmt: skip

#: `precision="fast"`: relative error of a function, whatever its dtype.
FAST_RELATIVE = 2.0**-10

#: What a whole op is checked to, in ulp of its result's dtype, beyond what its sums magnify.
RESULT_ULP = {"float32": 4, "float16": 2, "bfloat16": 2}


def error_ulp(fn: str) -> float:
    """The stated bound of a function in float32."""
    return 0.0 if fn in EXACT else ULP.get(fn, 4.0)
