"""Declarations as Python functions: called once with expressions for arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from asc_sched.errors import AscSchedError, DeclarationError, DtypeError
from asc_sched.lang.dtypes import FLOAT32, INT32, DType, get_dtype
from asc_sched.lang.graph import Graph, GraphBuilder, Output, Scalar
from asc_sched.lang.value import Value


def trace(function: Callable[..., Any]) -> Graph:
    """The graph that `function` computes.

    Positional parameters are tensors; keyword-only ones are runtime scalars, of their annotation (`float`, `int`, or a
    dtype name such as ``"float16"``) with their default. The function returns one expression (output ``z``), a tuple
    (``z0, z1, ...``) or a mapping from names to expressions. Raises `DeclarationError`.
    """
    builder = GraphBuilder()
    inputs, scalars = _parameters(function)
    values = [Value(builder, builder.add("input", (), name)) for name in inputs]
    keywords = {s.name: Value(builder, builder.add("scalar", (), s.name)) for s in scalars}
    try:
        result = function(*values, **keywords)
    except AscSchedError:
        raise
    except Exception as error:
        raise DeclarationError(
            f"tracing {_name(function)}() failed: {type(error).__name__}: {error}; a declaration may use operators, "
            "asc_sched.fn and torch functions on its arguments"
        ) from error
    outputs = tuple(Output(n, _index(function, builder, v)) for n, v in _results(function, result).items())
    return builder.finish(inputs, scalars, outputs)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "op")


def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[Scalar, ...]]:
    inputs: list[str] = []
    scalars: list[Scalar] = []
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise DeclarationError(f"{_name(function)}(): *{p.name} can't be declared; name every tensor")
        if p.kind is p.KEYWORD_ONLY:
            scalars.append(_scalar(p))
        elif p.default is not p.empty:
            raise DeclarationError(
                f"{_name(function)}(): tensor {p.name!r} has a default; make it keyword-only for a runtime scalar: "
                f"def {_name(function)}(..., *, {p.name}={p.default!r})"
            )
        else:
            inputs.append(p.name)
    if not inputs:
        raise DeclarationError(f"{_name(function)}() takes no tensor; an op needs at least one positional parameter")
    return tuple(inputs), tuple(scalars)


def _scalar(parameter: inspect.Parameter) -> Scalar:
    default = None if parameter.default is parameter.empty else parameter.default
    try:
        dtype = _scalar_dtype(parameter.annotation, default)
    except DtypeError as error:
        raise DtypeError(f"scalar {parameter.name!r}: {error}") from None
    if default is not None and not isinstance(default, (bool, int, float)):
        raise DeclarationError(f"scalar {parameter.name!r} has the default {default!r}, which is not a number")
    return Scalar(parameter.name, dtype, default)


def _scalar_dtype(annotation: Any, default: Any) -> DType:
    if isinstance(annotation, str):  # with `from __future__ import annotations`, "float16" keeps its quotes
        annotation = annotation.strip("'\"")
    if annotation in (float, "float"):
        return FLOAT32
    if annotation in (int, "int"):
        return INT32
    if annotation is inspect.Parameter.empty:
        return INT32 if isinstance(default, int) else FLOAT32
    return get_dtype(annotation)


def _results(function: Callable[..., Any], result: Any) -> dict[str, Any]:
    if isinstance(result, Mapping):
        named = dict(result)
    elif isinstance(result, tuple):
        fields = getattr(result, "_fields", None) or [f"z{i}" for i in range(len(result))]
        named = dict(zip(fields, result, strict=True))
    else:
        named = {"z": result}
    if not named or not all(isinstance(n, str) and n.isidentifier() for n in named):
        raise DeclarationError(f"{_name(function)}() must return an expression, a tuple, or a dict with names as keys")
    return named


def _index(function: Callable[..., Any], builder: GraphBuilder, value: Any) -> int:
    if isinstance(value, Value):
        return value.index
    if isinstance(value, (bool, int, float)):
        return builder.add("const", (), value)
    raise DeclarationError(f"{_name(function)}() returned {type(value).__name__}; expected an expression")
