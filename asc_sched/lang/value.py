"""Handles for expressions under construction: Python operators and torch functions on them add nodes to the graph."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np

from asc_sched.errors import DeclarationError
from asc_sched.lang.composites import composite_names, find_composite
from asc_sched.lang.dtypes import DType, get_dtype, is_dtype_name
from asc_sched.lang.functions import FUNCTIONS, Function, check_arity, find_function, function_names, unknown_function
from asc_sched.lang.graph import Constant, GraphBuilder

Operand: TypeAlias = "Value | Constant"


class Value:
    """One expression of an op being declared. Made by `@op` for each argument; never by hand.

    Supports Python's arithmetic, comparison and bitwise operators and torch's functions (``torch.exp(x)``).
    """

    __slots__ = ("_builder", "index")
    __array_ufunc__ = None

    def __init__(self, builder: GraphBuilder, index: int) -> None:
        self._builder = builder
        self.index = index

    def to(self, dtype: str | DType) -> Value:
        """The value rounded or converted to `dtype`, as torch's ``Tensor.to``. Never dropped by the compiler."""
        value = cast(self, dtype)
        assert isinstance(value, Value)
        return value

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The language's functions as methods, as tensors have them: ``x.exp()``, ``x.clamp(0, 6)``, ``x.half()``."""
        if find_function(name) is None and find_composite(name) is None and not is_dtype_name(name):
            raise AttributeError(f"{name!r} is no elementwise function of the language (dir(asc_sched.fn) lists them)")
        return partial(apply, name, self)

    def __bool__(self) -> NoReturn:
        raise DeclarationError(
            "the value of an expression isn't known while an op is declared, so `if`, `and`, `or`, `not`, and Python's "
            "max/min can't be used on it; use where(condition, a, b), &, |, ~, maximum(a, b), minimum(a, b)"
        )

    def __float__(self) -> NoReturn:
        raise DeclarationError(
            "an expression has no value while an op is declared, so math functions can't take it; use the language's "
            "own (asc_sched.fn.exp(x)) or torch's (torch.exp(x))"
        )

    __int__ = __index__ = __float__

    def __iter__(self) -> NoReturn:
        raise DeclarationError("an op is elementwise: its arguments can't be iterated or unpacked")

    def __getitem__(self, key: object) -> NoReturn:
        raise DeclarationError("an op is elementwise: its arguments can't be indexed; pass the slice as an argument")

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", str(func)).removeprefix("special_").lstrip("_")  # torch.special, F.threshold
        # torch.nn.functional passes on all of its arguments; in place and out of place are the same here.
        keywords = {k: v for k, v in (kwargs or {}).items() if not (k in ("inplace", "out") and not v)}
        return apply(name, *args, **keywords)


def _is_operand(value: object) -> bool:
    return isinstance(value, (Value, bool, int, float, np.number))


def _binary(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    def forward(self: Value, other: object) -> Any:
        return apply(name, self, other) if _is_operand(other) else NotImplemented

    def reflected(self: Value, other: object) -> Any:
        return apply(name, other, self) if _is_operand(other) else NotImplemented

    return forward, reflected


# Python's operator methods and the function each one stands for.
_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_div", "mod": "remainder",
    "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "shift_left",
    "rshift": "shift_right",
}  # fmt: skip
_COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
_UNARY = {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}

for _method, _name in _BINARY.items():
    _forward, _reflected = _binary(_name)
    setattr(Value, f"__{_method}__", _forward)
    setattr(Value, f"__r{_method}__", _reflected)
for _method, _name in _COMPARE.items():
    setattr(Value, f"__{_method}__", _binary(_name)[0])
for _method, _name in _UNARY.items():
    setattr(Value, f"__{_method}__", lambda self, _name=_name: apply(_name, self))
setattr(Value, "__pos__", lambda self: self)  # noqa: B010


def apply(name: str, *args: Any, **keywords: Any) -> Any:
    """The function `name` of `args`: a new expression, or a number when every argument is a number."""
    if is_dtype_name(name) and len(args) == 1:
        return cast(args[0], name)
    macro = find_composite(name)
    if macro is not None:
        return macro(*(a if a is None or isinstance(a, str) else _operand(name, a) for a in args), **keywords)
    function = find_function(name)
    if function is None:
        raise unknown_function(name, known_names())
    if keywords:
        function, args = _torch_keywords(function, args, keywords)
    if function.optional and len(args) < function.arity:
        first = len(function.optional) - (function.arity - len(args))
        args = (*args, *(keywords.pop(k, default) for k, default in function.optional[max(first, 0) :]))
    if keywords:
        raise DeclarationError(f"{name}() takes positional arguments only, not {', '.join(keywords)}=")
    check_arity(name, function.arity, len(args))
    operands = [_operand(name, a) for a in args]
    builder = next((a._builder for a in operands if isinstance(a, Value)), None)
    if builder is None:
        return fold(function.name, operands)
    return Value(builder, builder.add(function.name, tuple(_node(builder, a) for a in operands)))


_ROUNDING = {None: "div", "floor": "floor_div", "trunc": "trunc_div"}


def _torch_keywords(
    function: Function, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Function, tuple[Any, ...]]:
    """What torch's keywords of arithmetic mean (they are taken out): ``div(rounding_mode=)``, ``add(alpha=)``."""
    if function.name == "div" and "rounding_mode" in keywords:
        mode = keywords.pop("rounding_mode")
        if mode not in _ROUNDING:
            raise DeclarationError(f"div() has the rounding modes None, 'floor' and 'trunc', not {mode!r}")
        return FUNCTIONS[_ROUNDING[mode]], args
    if function.name in ("add", "sub") and "alpha" in keywords and len(args) == 2:
        return function, (args[0], apply("mul", args[1], keywords.pop("alpha")))
    return function, args


def cast(value: Any, dtype: str | DType) -> Any:
    """`value` converted to `dtype` by torch's rules. A number stays a number, rounded to the dtype."""
    target = get_dtype(dtype)
    operand = _operand("cast", value)
    if not isinstance(operand, Value):
        import torch

        return torch.tensor(operand).to(target.torch).item()
    return Value(operand._builder, operand._builder.add("cast", (operand.index,), target.name))


# What Python computes itself before a traced function's operands reach us: text declarations do the same.
_PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floor_div": operator.floordiv, "remainder": operator.mod, "pow": operator.pow, "neg": operator.neg,
    "abs": operator.abs, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor, "bitwise_not": operator.invert, "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}  # fmt: skip
MAX_CONSTANT_BITS = 4096


def _check_size(name: str, operands: Sequence[Any]) -> None:
    """Refuses integer powers and shifts that would fill the memory: no element type has a use for them."""
    if name not in ("pow", "shift_left") or not all(isinstance(o, int) for o in operands):
        return
    base, exponent = operands
    bits = (abs(base) - 1).bit_length() * exponent if name == "pow" else base.bit_length() + exponent
    if base and bits > MAX_CONSTANT_BITS:
        raise OverflowError(f"it has about {bits} bits, more than {MAX_CONSTANT_BITS}")


def fold(name: str, operands: Sequence[Any]) -> Constant:
    """A function of constants only: Python's own operators where there is one, torch in float64 for the rest."""
    python = _PYTHON.get(name)
    try:
        _check_size(name, operands)
        if python is not None:
            result = python(*operands)
        else:
            import torch

            wide = [torch.tensor(o, dtype=torch.float64 if isinstance(o, float) else None) for o in operands]
            result = FUNCTIONS[name].torch(*wide).item()
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        shown = ", ".join(map(reprlib.repr, operands))
        raise DeclarationError(f"constant {name}({shown}) has no value: {error}") from None
    if not isinstance(result, (bool, int, float)):
        shown = ", ".join(map(reprlib.repr, operands))
        raise DeclarationError(f"constant {name}({shown}) is {result!r}, which is not a real number")
    return result


def known_names() -> list[str]:
    """The names that can be called in a declaration."""
    return sorted([*function_names(), *composite_names()])


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, Value):
        return value
    if isinstance(value, (np.bool_, np.number)):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value
    raise DeclarationError(
        f"{name}() takes expressions and numbers, not {type(value).__name__}; tensors are the op's arguments"
    )


def _node(builder: GraphBuilder, operand: Any) -> int:
    if isinstance(operand, Value):
        if operand._builder is not builder:
            raise DeclarationError("an expression of one op can't be used in another; declare it in the same function")
        return operand.index
    return builder.add("const", (), operand)
