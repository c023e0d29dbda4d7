"""`op`: declare an elementwise computation. `Op`: the declaration, ready to be compiled, called, or printed."""

from __future__ import annotations

import hashlib
import keyword
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs

from asc_sched.errors import DeclarationError, DtypeError
from asc_sched.lang.dtypes import FLOAT32, INT32, DType, get_dtype
from asc_sched.lang.graph import Constant, Graph, Scalar
from asc_sched.lang.printer import statements
from asc_sched.lang.text import parse
from asc_sched.lang.trace import trace

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel
    from asc_sched.schedule import Schedule
    from asc_sched.target import Target
    from asc_sched.tune.result import TuneResult

MAX_AUTO_NAME = 48
CALL_KEYWORDS = ("out", "backend")
"""Keyword arguments of a call that are not runtime scalars."""


@attrs.frozen(eq=False, repr=False, slots=False)
class Op:
    """A declared elementwise computation. Call it with tensors, or `compile` it for a size and a schedule."""

    name: str
    graph: Graph
    doc: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.graph.outputs)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return self.graph.scalars

    def __str__(self) -> str:
        return "\n".join(statements(self.graph))

    def __repr__(self) -> str:
        return f"<op {self.name}: {'; '.join(statements(self.graph))[:200]}>"

    def compile(
        self,
        shape: Any = None,
        dtype: Any = "float32",
        *,
        schedule: Schedule | None = None,
        target: str | Target | None = None,
        name: str | None = None,
        precision: str = "exact",
    ) -> Kernel:
        """Generate the kernel and lower it with pyasc.

        `shape` is the tensors' common shape (a tuple or an int), one per input (a list or a mapping by name; they
        broadcast), or None for a kernel of any size. `dtype` is one for all inputs, or a sequence or mapping by name.
        `schedule` defaults to `Schedule.auto`. `precision` "exact" keeps torch's values, "fast" uses the chip's quick
        forms within the bounds of docs/precision.md. Raises subclasses of `AscSchedError`, before anything is written
        where a rule is broken.
        """
        from asc_sched.kernel import compile_kernel

        return compile_kernel(
            self, shape, dtype, schedule=schedule, target=target, name=name, precision=precision
        )

    def __call__(
        self, /, *tensors: torch.Tensor, out: torch.Tensor | Sequence[torch.Tensor] | None = None, **scalars: Constant
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Compute on tensors, with a schedule chosen for them. Results have torch's dtype, shape and strides."""
        from asc_sched.run.call import call_op

        return call_op(self, tensors, out, scalars)

    def tune(self, shape: Any, dtype: Any = "float32", **options: Any) -> TuneResult:
        """Search the best schedule at a size; later calls at that size use it. See `asc_sched.tune.tuner.tune`.

        `options`: `target`, `space`, `backend` (the NPU if there is one, else the model, whose times are simulated),
        `l2`, `budget_s`, `top`.
        """
        from asc_sched.tune.tuner import tune

        return tune(self, shape, dtype, **options)

    def reference(self, *tensors: torch.Tensor, **scalars: Constant) -> tuple[torch.Tensor, ...]:
        """The results by torch on the CPU, one per output: what every kernel of this op is checked against."""
        from asc_sched.lang.infer import infer
        from asc_sched.lang.reference import evaluate

        named = dict(zip(self.inputs, tensors, strict=True))
        typed = infer(
            self.graph,
            {n: get_dtype(t.dtype) for n, t in named.items()},
            frozenset(n for n, t in named.items() if t.dim() == 0),
        )
        results = evaluate(typed, named, self.bind_scalars(scalars))
        return tuple(results[n] for n in self.outputs)

    def input_dtypes(self, dtype: Any) -> dict[str, DType]:
        """`dtype` spelled out per input: one for all, a sequence in order, or a mapping by name."""
        if isinstance(dtype, Mapping):
            unknown = [n for n in dtype if n not in self.inputs]
            missing = [n for n in self.inputs if n not in dtype]
            if unknown or missing:
                raise DtypeError(
                    f"{self.name}: dtypes given for {', '.join(map(str, dtype)) or 'no input'}; "
                    f"inputs are {', '.join(self.inputs)}"
                )
            return {n: get_dtype(dtype[n]) for n in self.inputs}
        if isinstance(dtype, (list, tuple)):
            if len(dtype) != len(self.inputs):
                raise DtypeError(
                    f"{self.name} takes {len(self.inputs)} inputs ({', '.join(self.inputs)}), {len(dtype)} dtypes given"
                )
            return {n: get_dtype(d) for n, d in zip(self.inputs, dtype, strict=True)}
        return dict.fromkeys(self.inputs, get_dtype(dtype))

    def bind_scalars(self, given: Mapping[str, Any]) -> dict[str, Constant]:
        """Values of all runtime scalars, defaults filled in. Raises `ArgumentError` for unknown or missing ones."""
        from asc_sched.run.arguments import bind_scalars

        return bind_scalars(self, given)


@overload
def op(
    declaration: str,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    scalars: Mapping[str, Any] | Sequence[str] = (),
) -> Op: ...
@overload
def op(declaration: Callable[..., Any], *, name: str | None = None) -> Op: ...
@overload
def op(*, name: str | None = None) -> Callable[[Callable[..., Any]], Op]: ...


def op(
    declaration: str | Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    scalars: Mapping[str, Any] | Sequence[str] = (),
) -> Any:
    """Declare an elementwise computation, from text or from a function.

    ``op("z = x + y")``: names assigned and not used again are outputs, the others inputs, in order of appearance or as
    `inputs` lists them. `scalars` names runtime scalars: a list of names (float32), or a mapping from names to a
    default value, a dtype name, or None. ``@op`` on a function traces it: positional parameters are tensors,
    keyword-only ones runtime scalars. `name` defaults to the function's, or is made from the functions used. Raises
    `DeclarationError`, and `DtypeError` for an unknown dtype of a scalar.
    """
    if declaration is None:
        return lambda function: op(function, name=name)
    if isinstance(declaration, str):
        tensors, numbers = _inputs(inputs), _scalars(scalars)
        _check_distinct([*(tensors or ()), *(s.name for s in numbers)])
        graph = _checked_graph(parse(declaration, inputs=tensors, scalars=numbers))
        return Op(_checked(name) or auto_name(graph), graph)
    if not callable(declaration):
        raise DeclarationError(f"op() takes a text or a function, not {type(declaration).__name__}")
    if inputs is not None or scalars:
        raise DeclarationError(
            "inputs= and scalars= go with a text; a function's positional parameters are its inputs, its keyword-only "
            "ones its scalars"
        )
    graph = _checked_graph(trace(declaration))
    own = getattr(declaration, "__name__", "")
    return Op(_checked(name) or (own if own.isidentifier() else auto_name(graph)), graph, declaration.__doc__ or "")


def _checked(name: str | None) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError(f"an op's name must be a non-empty text, not {name!r}")
    return name


def _inputs(inputs: Sequence[str] | None) -> tuple[str, ...] | None:
    if inputs is None:
        return None
    return tuple(_plain("input", n) for n in _names(inputs))


def _scalars(scalars: Mapping[str, Any] | Sequence[str]) -> tuple[Scalar, ...]:
    if not isinstance(scalars, Mapping):
        return tuple(Scalar(_plain("scalar", n), FLOAT32) for n in _names(scalars))
    return tuple(_scalar(_plain("scalar", n), v) for n, v in scalars.items())


def _names(names: Sequence[str]) -> Sequence[str]:
    """Names in a list, or in one text with commas."""
    return [n.strip() for n in names.split(",") if n.strip()] if isinstance(names, str) else names


def _plain(what: str, name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise DeclarationError(f"{name!r} can't name {'an' if what == 'input' else 'a'} {what}; use a plain name")
    if keyword.iskeyword(name):
        raise DeclarationError(
            f"{name!r} is a reserved word of Python and can't name {'an' if what == 'input' else 'a'} {what}; use "
            f"{name + '_'!r}"
        )
    # Python reads identifiers in this form: a declaration's text says "fi" where its author typed the ligature.
    return unicodedata.normalize("NFKC", name)


def _checked_graph(graph: Graph) -> Graph:
    for scalar in graph.scalars:
        if scalar.name in CALL_KEYWORDS:
            raise DeclarationError(
                f"{scalar.name!r} can't name a scalar: it is a keyword argument of every call ({scalar.name}=...); use "
                f"{scalar.name + '_'!r}"
            )
    return graph


def _check_distinct(names: list[str]) -> None:
    twice = [n for n in dict.fromkeys(names) if names.count(n) > 1]
    if twice:
        raise DeclarationError(f"{twice[0]!r} is declared twice among the inputs and scalars: {', '.join(names)}")


def _scalar(name: str, value: Any) -> Scalar:
    if value is None or isinstance(value, float):
        return Scalar(name, FLOAT32, value)
    if isinstance(value, int):
        return Scalar(name, INT32, value)
    try:
        return Scalar(name, get_dtype(value))
    except DtypeError as error:
        raise DtypeError(f"scalar {name!r}: {error}") from None


def auto_name(graph: Graph) -> str:
    """A name from the functions used, in order: ``mul_add``; long ones end in a hash of the declaration."""
    used = [n.attr if n.fn == "cast" else n.fn for n in graph.nodes if n.fn not in ("input", "scalar", "const")]
    name = "_".join(map(str, used)) or "copy"
    if len(name) <= MAX_AUTO_NAME:
        return name
    digest = hashlib.sha256("\n".join(statements(graph)).encode()).hexdigest()[:8]
    return f"{name[: MAX_AUTO_NAME - 9].rstrip('_')}_{digest}"
