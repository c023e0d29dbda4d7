"""What an op's result must be: its graph evaluated by torch on the CPU.

The contract: 16-bit floating-point values are widened to float32 at the inputs, every function is evaluated in
float32, and the result is rounded once, at the output or at an explicit cast. Every other dtype is torch's, step by
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from asc_sched.errors import ArgumentError
from asc_sched.lang.accuracy import error_ulp
from asc_sched.lang.dtypes import BOOL, DType
from asc_sched.lang.functions import FUNCTIONS
from asc_sched.lang.graph import Constant, Node
from asc_sched.lang.infer import Type, TypedGraph, as_tensors

if TYPE_CHECKING:
    import torch


def evaluate(
    typed: TypedGraph, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, Constant]
) -> dict[str, torch.Tensor]:
    """The outputs by name, broadcast as torch does. `scalars` are rounded to their declared dtype first."""
    return _Evaluation(typed, tensors, scalars).run()


def spread(
    typed: TypedGraph,
    tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, Constant],
    *,
    relative: float | None = None,
    samples: int = 8,
) -> dict[str, torch.Tensor]:
    """How far float outputs move when every function is off by its own error: absolute, in float64.

    Sums that cancel magnify errors that no implementation can avoid. The graph is evaluated in float64, once as it is
    and `samples` times with results multiplied by 1 +- the function's stated error (`lang/accuracy.py`, or `relative`
    for all functions): once upwards everywhere, then with signs at random but reproducible. Exact functions err only
    where their arguments do. The largest difference counts.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    exact = _Evaluation(typed, tensors, scalars, wide=True).run()
    moved = {name: torch.zeros_like(value) for name, value in exact.items() if value.is_floating_point()}
    for i in range(samples):
        noise = _Noise(generator if i else None, relative)
        sample = _Evaluation(typed, tensors, scalars, wide=True, noise=noise).run()
        for name, largest in moved.items():
            gap = (sample[name] - exact[name]).abs()
            gap = torch.where(gap.isnan(), torch.full_like(gap, float("inf")), gap)
            same = (sample[name] == exact[name]) | (sample[name].isnan() & exact[name].isnan())
            moved[name] = torch.maximum(largest, torch.where(same, torch.zeros_like(gap), gap))
    return moved


class _Noise:
    """Relative errors to put on results, and which nodes have some. Without a generator all of them are upwards."""

    def __init__(self, generator: torch.Generator | None, relative: float | None) -> None:
        self.generator = generator
        self.relative = relative
        self.noisy: set[int] = set()

    def apply(self, index: int, node: Node, value: torch.Tensor) -> torch.Tensor:
        import torch

        size = error_ulp(node.fn) * 2.0**-23 if self.relative is None else self.relative
        if not size and not self.noisy.isdisjoint(node.args):
            size = 2.0**-24
        if not size:
            return value
        self.noisy.add(index)
        if self.generator is None:
            return value * (1 + size) + size * 2.0**-126
        signs = torch.randint(0, 2, value.shape, generator=self.generator) * 2 - 1
        return value * (1 + size * signs) + signs * (size * 2.0**-126)  # subnormal numbers have fewer bits


class _Evaluation:
    """One walk over the graph. `wide`: floats are float64, and rounded only where the user rounds."""

    def __init__(
        self,
        typed: TypedGraph,
        tensors: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Constant],
        wide: bool = False,
        noise: _Noise | None = None,
    ) -> None:
        self.typed = typed
        self.tensors = tensors
        self.scalars = scalars
        self.wide = wide
        self.noise = noise
        self.values: list[Any] = []

    def run(self) -> dict[str, torch.Tensor]:
        import torch

        last_use = _last_uses(self.typed)
        with torch.no_grad():
            for i, node in enumerate(self.typed.graph.nodes):
                self.values.append(self._value(i, node, self.typed.types[i]))
                for a in set(node.args):
                    if last_use[a] == i:
                        self.values[a] = None
            shape = torch.broadcast_shapes(*(t.shape for t in self.tensors.values()))  # type: ignore[no-untyped-call]
            outputs = self.typed.graph.outputs
            return {o.name: self._finish(self.values[o.node], self.typed.types[o.node].dtype, shape) for o in outputs}

    def _finish(self, value: Any, dtype: DType, shape: Any) -> torch.Tensor:
        import torch

        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        tensor = tensor.to(torch.float64 if self.wide and dtype.is_float else dtype.torch)
        return tensor.broadcast_to(shape).clone(memory_format=torch.contiguous_format)

    def _value(self, index: int, node: Node, type_: Type) -> Any:
        import torch

        if node.fn == "const":
            return node.attr
        if node.fn == "scalar":
            return torch.tensor(self.scalars[str(node.attr)]).to(type_.dtype.torch).item()
        if node.fn == "input":
            return self._widen(self.tensors[str(node.attr)].to(type_.dtype.torch), type_.dtype)
        if node.fn == "cast":
            value = self.values[node.args[0]]
            tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
            return self._widen(tensor.to(type_.dtype.torch), type_.dtype)
        return self._function(index, node, type_)

    def _function(self, index: int, node: Node, type_: Type) -> torch.Tensor:
        import torch

        dtype, function = type_.dtype, FUNCTIONS[node.fn]
        args = [self._argument(a, type_) for a in node.args]
        if not any(isinstance(a, torch.Tensor) for a in args):
            args[0] = torch.tensor(args[0])
        if function.own_dtype:
            return self._widen(function.torch(*(a.to(dtype.torch) for a in args)), dtype)
        if self.wide and dtype.is_float:
            args = [a.double() if isinstance(a, torch.Tensor) and a.dtype is not torch.bool else a for a in args]
        try:
            result: torch.Tensor = function.torch(*as_tensors(torch, node.fn, args))
        except RuntimeError as error:
            raise ArgumentError(f"{node.fn} of these tensors: torch says {str(error).splitlines()[0]!r}") from None
        if dtype.is_float and self.wide:
            return result.double() if self.noise is None else self.noise.apply(index, node, result.double())
        return result if dtype.is_half else result.to(dtype.torch)

    def _argument(self, index: int, type_: Type) -> Any:
        """torch rounds what weighs less to the operands' dtype first: 0-d tensors, and numbers in comparisons."""
        import torch

        value, own = self.values[index], self.typed.types[index]
        operands = type_.operands
        if operands is None or not operands.is_half or own.dtype is operands or not own.dtype.is_float:
            return value
        if own.is_number and type_.dtype is BOOL:
            return torch.as_tensor(value).to(operands.torch).item()
        if own.zero_dim and not own.is_number:
            return self._widen(value.to(operands.torch), operands)
        return value

    def _widen(self, tensor: torch.Tensor, dtype: DType) -> torch.Tensor:
        if self.wide and dtype.is_float:
            return tensor.double()
        return tensor.float() if dtype.is_half else tensor


def _last_uses(typed: TypedGraph) -> list[int]:
    last = [-1] * len(typed.graph.nodes)
    for i, node in enumerate(typed.graph.nodes):
        for a in node.args:
            last[a] = i
    for output in typed.graph.outputs:
        last[output.node] = len(last)
    return last
