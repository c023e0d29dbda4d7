"""How far an op's results may be off: what its functions' stated errors become on their way to the outputs.

Sums that cancel magnify errors that no implementation can avoid: near the zero of ``logaddexp`` the last bits of a
logarithm are the leading digits of the result, in torch as here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from asc_sched.lang.accuracy import error_ulp
from asc_sched.lang.dtypes import FLOAT16
from asc_sched.lang.graph import Constant
from asc_sched.lang.infer import TypedGraph
from asc_sched.lang.reference import evaluate_wide

if TYPE_CHECKING:
    import torch

#: Errors are followed one by one in graphs of up to this many inexact functions, in groups of several beyond.
GROUPS = 32


@attrs.frozen
class _Error:
    """A function's error: relative to its value, and what is left of it near 0, where numbers are subnormal."""

    relative: float
    least: float


def spread(
    typed: TypedGraph,
    tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, Constant],
    *,
    relative: float | None = None,
) -> dict[str, torch.Tensor]:
    """How far the float outputs may be off, to first order: absolute, in float64.

    The graph is evaluated in float64, as it is and then with the value of one function after the other moved up and
    down by its stated error (`lang/accuracy.py`, or `relative` for all functions). What these move the outputs by adds
    up. Exact functions round what reaches them inexact.
    """
    import torch

    errors = _errors(typed, relative)
    exact = evaluate_wide(typed, tensors, scalars)
    total = {name: torch.zeros_like(value) for name, value in exact.items() if value.is_floating_point()}
    for group in _groups(sorted(errors)):
        largest = {name: torch.zeros_like(value) for name, value in total.items()}
        for direction in (1.0, -1.0):
            moved = evaluate_wide(typed, tensors, scalars, _Moved(errors, group, direction))
            for name in largest:
                largest[name] = torch.maximum(largest[name], _gap(moved[name], exact[name]))
        for name, value in largest.items():
            total[name] += value
    return total


def _errors(typed: TypedGraph, relative: float | None) -> dict[int, _Error]:
    """The float functions that err, by their node's index."""
    found: dict[int, _Error] = {}
    reached: set[int] = set()
    for i, (node, type_) in enumerate(zip(typed.graph.nodes, typed.types, strict=True)):
        if not reached.isdisjoint(node.args):
            reached.add(i)
        if not type_.dtype.is_float or node.fn in ("input", "scalar", "const", "cast"):
            continue
        size = error_ulp(node.fn) * 2.0**-23 if relative is None else relative
        if not size and i in reached:
            size = 2.0**-24
        if size:
            reached.add(i)
            narrow = relative is not None and type_.dtype is FLOAT16  # the fast forms compute in float16 itself
            found[i] = _Error(size, 2.0**-24 if narrow else size * 2.0**-126)
    return found


def _groups(indices: list[int]) -> list[frozenset[int]]:
    """Neighbours, whose errors may cancel, are in different groups."""
    return [frozenset(indices[k::GROUPS]) for k in range(min(GROUPS, len(indices)))]


class _Moved:
    """Moves the values of a group's functions; those of several in one group by signs at random, but reproducible."""

    def __init__(self, errors: Mapping[int, _Error], group: frozenset[int], direction: float) -> None:
        import torch

        self.errors, self.group, self.direction = errors, group, direction
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, index: int, value: torch.Tensor) -> torch.Tensor:
        import torch

        if index not in self.group:
            return value
        error, sign = self.errors[index], torch.tensor(self.direction, dtype=torch.float64)
        if len(self.group) > 1:
            sign = sign * (torch.randint(0, 2, value.shape, generator=self.generator) * 2 - 1)
        return value * (1 + error.relative * sign) + sign * torch.full_like(value, error.least).copysign(value)


def _gap(moved: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    import torch

    gap = (moved - exact).abs()
    same = (moved == exact) | (moved.isnan() & exact.isnan())
    return torch.where(same, torch.zeros_like(gap), torch.where(gap.isnan(), torch.full_like(gap, float("inf")), gap))
