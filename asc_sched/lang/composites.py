"""Functions made of primitives: macros of the language, called in text and traced functions like any other.

Each is written so that nothing overflows inside, and that it is torch's function out to the largest finite input.
Parameters after the first default as torch's do; `alpha` and the like may be numbers or runtime scalars.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import attrs

from asc_sched.errors import DeclarationError


@attrs.frozen
class Composite:
    """A macro: `build` takes expressions and gives one. `required` parameters come first."""

    name: str
    build: Callable[..., Any]
    parameters: tuple[str, ...]
    required: int
    doc: str

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The expression for these arguments. Raises `DeclarationError` for wrong numbers or names of them."""
        unknown = [k for k in keywords if k not in self.parameters]
        if unknown:
            raise DeclarationError(
                f"{self.name}() has no parameter {unknown[0]!r}; it has {', '.join(self.parameters)}"
            )
        twice = [k for k in keywords if k in self.parameters[: len(args)]]
        if twice:
            raise DeclarationError(f"{self.name}() got {twice[0]!r} twice")
        missing = [p for p in self.parameters[: self.required][len(args) :] if p not in keywords]
        if missing or len(args) > len(self.parameters):
            most = len(self.parameters)
            takes = str(most) if most == self.required else f"{self.required} to {most}"
            raise DeclarationError(
                f"{self.name}() takes {takes} argument{'' if takes == '1' else 's'} ({', '.join(self.parameters)}), "
                f"{len(args) + len(keywords)} given"
            )
        return self.build(*args, **keywords)


COMPOSITES: dict[str, Composite] = {}
_ALIASES: dict[str, str] = {}


def find_composite(name: str) -> Composite | None:
    """The macro of that name or alias, or None."""
    return COMPOSITES.get(_ALIASES.get(name, name))


def composite_names() -> list[str]:
    return sorted([*COMPOSITES, *_ALIASES])


def composite(*aliases: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a macro of the language."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.rstrip("_")
        parameters = inspect.signature(function).parameters
        required = sum(p.default is p.empty for p in parameters.values())
        doc = (function.__doc__ or "").strip()
        COMPOSITES[name] = Composite(name, function, tuple(parameters), required, doc)
        _ALIASES.update(dict.fromkeys(aliases, name))
        return function

    return register


def _call(name: str, *args: Any) -> Any:
    from asc_sched.lang.value import apply

    return apply(name, *args)


class _Functions:
    """The language's functions as attributes: f.exp(x)."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args: _call(name, *args)


f = _Functions()


# -- arithmetic ----------------------------------------------------------------------------------------------------
@composite()
def square(x: Any) -> Any:
    """x * x."""
    return x * x


@composite()
def positive(x: Any) -> Any:
    """x itself."""
    return x


@composite("clip")
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """x between two bounds, each of which may be left out; NaN stays."""
    if min is None and max is None:
        raise DeclarationError("clamp() takes at least one bound: clamp(x, min, max), clamp_min(x, min)")
    low = x if min is None else f.maximum(x, min)
    return low if max is None else f.minimum(low, max)


@composite()
def clamp_min(x: Any, min: Any) -> Any:
    """The larger of x and the bound; NaN stays."""
    return f.maximum(x, min)


@composite()
def clamp_max(x: Any, max: Any) -> Any:
    """The smaller of x and the bound; NaN stays."""
    return f.minimum(x, max)


@composite()
def rsub(x: Any, other: Any) -> Any:
    """other - x."""
    return other - x


@composite()
def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    """x + value * a * b."""
    return x + (a if _is_one(value) else value * a) * b


@composite()
def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    """x + value * a / b."""
    return x + (a if _is_one(value) else value * a) / b


def _is_one(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == 1


@composite()
def lerp(start: Any, end: Any, weight: Any) -> Any:
    """start + weight * (end - start), counted from the nearer end, as torch does."""
    if isinstance(weight, (int, float)):
        near = abs(weight) < 0.5
        return start + weight * (end - start) if near else end - (end - start) * (1 - weight)
    gap = end - start
    return f.where(f.abs(weight) < 0.5, start + weight * gap, end - gap * (1 - weight))


@composite()
def ldexp(x: Any, exponent: Any) -> Any:
    """x * 2 ** exponent."""
    return x * f.exp2(exponent)


@composite()
def deg2rad(x: Any) -> Any:
    """Degrees to radians."""
    return x * (math.pi / 180)


@composite()
def rad2deg(x: Any) -> Any:
    """Radians to degrees."""
    return x * (180 / math.pi)


@composite()
def heaviside(x: Any, values: Any) -> Any:
    """0 below zero and for NaN, 1 above, `values` at zero."""
    above = x > 0
    return f.where(x == 0, values, f.where(above, f.sign(x), above))


@composite()
def isclose(x: Any, y: Any, rtol: Any = 1e-5, atol: Any = 1e-8) -> Any:
    """Whether |x - y| <= atol + rtol |y|; infinities are close to themselves alone."""
    return (x == y) | (f.isfinite(x - y) & (f.abs(x - y) <= atol + rtol * f.abs(y)))


# -- exponentials and special functions ----------------------------------------------------------------------------
@composite("expit")
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + f.exp(-x))


@composite("log_sigmoid")
def logsigmoid(x: Any) -> Any:
    """log(sigmoid(x))."""
    return f.where(x < 0, x, 0) - f.log1p(f.exp(-f.abs(x)))  # NaN is in the second term


@composite()
def logit(x: Any, eps: Any = None) -> Any:
    """log(x / (1 - x)), for x clamped to [eps, 1 - eps] if eps is given."""
    if eps is not None:
        x = clamp(x, eps, 1 - eps)
    return f.log(x / (1 - x))


@composite()
def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)); equal infinities are themselves."""
    larger, apart = _larger_and_apart(x, y)
    return larger + f.log1p(f.exp(-apart))


@composite()
def logaddexp2(x: Any, y: Any) -> Any:
    """log2(2 ** x + 2 ** y)."""
    larger, apart = _larger_and_apart(x, y)
    return larger + f.log1p(f.exp2(-apart)) * (1 / math.log(2))


def _larger_and_apart(x: Any, y: Any) -> tuple[Any, Any]:
    """The larger of two and |x - y|, which is 0 for equal infinities and NaN if either is; the former needn't be."""
    return f.where(x < y, y, x), f.abs(f.where(x != y, x - y, 0))


@composite()
def xlogy(x: Any, y: Any) -> Any:
    """x * log(y), and 0 where x is 0 and y a number."""
    return f.where(f.isnan(y), y, f.where(x == 0, 0, x * f.log(y)))


@composite()
def xlog1py(x: Any, y: Any) -> Any:
    """x * log1p(y), and 0 where x is 0 and y a number."""
    return f.where(f.isnan(y), y, f.where(x == 0, 0, x * f.log1p(y)))


@composite()
def entr(x: Any) -> Any:
    """-x log(x): 0 at 0, -inf below."""
    return f.where(x == 0, 0, f.where(x < 0, -math.inf, -x * f.log(x)))


@composite()
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at 0."""
    scaled = x * math.pi
    return f.where(x == 0, 1, f.sin(scaled) / scaled)


@composite()
def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    return 0.5 * f.erfc(x * -math.sqrt(0.5))


# -- activations -----------------------------------------------------------------------------------------------------
@composite("swish")
def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    return x / (1 + f.exp(-x))


@composite()
def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the normal distribution function: by erfc, which doesn't cancel; or torch's tanh form."""
    if approximate == "tanh":
        return gelu_tanh(x)
    if approximate != "none":
        raise DeclarationError(f"gelu() has the forms 'none' and 'tanh', not {approximate!r}")
    return 0.5 * x * f.erfc(x * -math.sqrt(0.5))


@composite()
def gelu_tanh(x: Any) -> Any:
    """x (1 + tanh(u)) / 2 = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    scale = -2 * math.sqrt(2 / math.pi)
    return x / (1 + f.exp(x * (scale + (scale * 0.044715) * (x * x))))


@composite()
def quick_gelu(x: Any) -> Any:
    """x * sigmoid(1.702 x)."""
    return x / (1 + f.exp(-1.702 * x))


@composite()
def mish(x: Any) -> Any:
    """x * tanh(softplus(x)) = x n / (n + 2), n = w (w + 2), w = exp(x); from 20 on that is x."""
    w = f.exp(f.minimum(x, 20.0))
    n = w * (w + 2)
    return x * (n / (n + 2))


@composite()
def softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    scaled = x if _is_one(beta) else x * beta
    soft = f.log1p(f.exp(scaled))
    return f.where(scaled > threshold, x, soft if _is_one(beta) else soft / beta)


@composite()
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (1 + f.abs(x))


@composite()
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x above 0, alpha * expm1(x) below."""
    low = f.expm1(x)
    return f.where(x > 0, x, low if _is_one(alpha) else alpha * low)


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@composite()
def selu(x: Any) -> Any:
    """Scaled elu with its own constants."""
    return f.where(x > 0, SELU_SCALE * x, (SELU_SCALE * SELU_ALPHA) * f.expm1(x))


@composite()
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x above 0, alpha * expm1(x / alpha) below."""
    low = f.expm1(x) if _is_one(alpha) else alpha * f.expm1(x / alpha)
    return f.where(x > 0, x, low)


@composite()
def prelu(x: Any, weight: Any) -> Any:
    """x above 0, weight * x below."""
    return f.where(x > 0, x, weight * x)


@composite()
def relu6(x: Any) -> Any:
    """relu(x), at most 6."""
    return clamp(x, 0, 6)


@composite()
def hardtanh(x: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """x between two bounds."""
    return clamp(x, min_val, max_val)


@composite()
def hardsigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    return clamp(x + 3, 0, 6) / 6


@composite()
def hardswish(x: Any) -> Any:
    """x * relu6(x + 3) / 6."""
    return x * clamp(x + 3, 0, 6) / 6


@composite()
def tanhshrink(x: Any) -> Any:
    """x - tanh(x)."""
    return x - f.tanh(x)


@composite()
def softshrink(x: Any, lambd: Any = 0.5) -> Any:
    """x moved towards 0 by lambd, and 0 within; NaN stays."""
    return f.where(x > lambd, x - lambd, f.where(x < -lambd, x + lambd, x * 0))


@composite()
def hardshrink(x: Any, lambd: Any = 0.5) -> Any:
    """x, and 0 where |x| <= lambd."""
    return f.where(f.abs(x) <= lambd, 0, x)


@composite()
def threshold(x: Any, threshold: Any, value: Any) -> Any:
    """x above the threshold, else the value; NaN stays."""
    return f.where(x <= threshold, value, x)


@composite()
def softcap(x: Any, cap: Any) -> Any:
    """cap * tanh(x / cap)."""
    return cap * f.tanh(x / cap)


# -- gated forms -----------------------------------------------------------------------------------------------------
@composite()
def glu(x: Any, gate: Any) -> Any:
    """x * sigmoid(gate)."""
    return x / (1 + f.exp(-gate))


@composite()
def swiglu(x: Any, gate: Any) -> Any:
    """silu(x) * gate."""
    return silu(x) * gate


@composite()
def geglu(x: Any, gate: Any) -> Any:
    """gelu(x) * gate."""
    return gelu(x) * gate


@composite()
def reglu(x: Any, gate: Any) -> Any:
    """relu(x) * gate."""
    return f.relu(x) * gate


# -- choices ---------------------------------------------------------------------------------------------------------
@composite()
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`value` where the mask is set, else x."""
    return f.where(mask, value, x)


@composite()
def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """NaN replaced by a number (0), infinities by numbers (the dtype's largest and smallest)."""
    if posinf is None and neginf is None and nan in (None, 0):
        return f.finite(x)
    result = f.where(f.isnan(x), 0.0 if nan is None else nan, x)
    plain = f.finite(x)
    result = f.where(x == math.inf, plain if posinf is None else posinf, result)
    return f.where(x == -math.inf, plain if neginf is None else neginf, result)
