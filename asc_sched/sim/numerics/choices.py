"""What the public documentation leaves open about A2's vector unit, decided in one place, with the reason.

Generated kernels may rely on these; whoever finds a measurement that says otherwise changes them here and nowhere else.
Documented are: A2's default floating-point mode is Inf/NaN mode, which "follows IEEE 754" (`aclrtFloatOverflowMode`,
`set_device_sat_mode`), so overflow gives infinity and NaN stays NaN; and the rounding modes and integer saturation of
`Cast`. Not documented are the last-bit errors of Exp, Ln, Sqrt, Rsqrt, Reciprocal, Div and of the adv functions: here
they are computed in double precision and rounded once. Hardware differs from that in the last bits, and public reports
put Rsqrt and Reciprocal at a relative error of some 1e-3; a kernel that needs more should divide.
"""

from __future__ import annotations

#: Max, Min, Maxs, Mins, Relu and their relatives give NaN when an operand is NaN. The vendor's own Maximum and Minimum
#: for A2 must agree with torch, which propagates NaN, and Inf/NaN mode is the mode that keeps NaN.
MAX_MIN_PROPAGATE_NAN = True

#: Max(-0.0, +0.0) is +0.0 and Min(-0.0, +0.0) is -0.0, as IEEE 754-2019 `maximum` and `minimum` have it; so Relu(-0.0)
#: is +0.0 (torch on the CPU keeps -0.0).
MAX_MIN_ORDER_ZEROS = True

#: MulAddDst, FusedMulAdd and Axpy round once, after the addition (the instructions are called fused); a float16 Axpy or
#: MulAddDst into float32 has an exact product anyway.
MULTIPLY_ADD_ROUNDS_ONCE = True

#: LeakyRelu(x, s) is x for x >= 0 and x * s below, also for s > 1 (not max(x, x * s)).
LEAKY_RELU_BY_SIGN = True

#: Float to integer: NaN becomes 0, infinities saturate. (Saturation itself is documented, NaN isn't for A2.)
NAN_TO_INTEGER = 0
