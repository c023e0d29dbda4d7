"""A kernel's results against torch on the CPU: the check that every run, tuning candidate and library kernel passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.lang.accuracy import FAST_RELATIVE, RESULT_ULP
from asc_sched.lang.dtypes import DType, get_dtype
from asc_sched.lang.graph import Constant
from asc_sched.lang.infer import TypedGraph
from asc_sched.lang.spread import spread
from asc_sched.run.launch import launch

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel

# Units in the last place that a result may differ by, see docs/precision.md.
TOLERANCE_ULP = RESULT_ULP


@attrs.frozen
class Comparison:
    """One output against its reference. Errors are absolute and relative; `mismatches` are outside the tolerance."""

    elements: int
    max_abs_error: float
    max_rel_error: float
    mismatches: int

    @property
    def ok(self) -> bool:
        return self.mismatches == 0


def random_inputs(kernel: Kernel, seed: int = 0) -> list[torch.Tensor]:
    """Reproducible inputs of the compiled shapes and dtypes: normal numbers, small integers, coin flips."""
    import torch

    assert kernel.shapes is not None
    generator = torch.Generator().manual_seed(seed)
    dtypes = kernel.typed.input_dtypes.values()
    tensors = [_random(d, s, generator) for d, s in zip(dtypes, kernel.shapes.inputs, strict=True)]
    if not any(n.fn in _RAISING for n in kernel.typed.graph.nodes):
        return tensors
    return [t if d.is_float or d.name == "bool" else t + (t == 0) for d, t in zip(dtypes, tensors, strict=True)]


# Functions that raise in torch where an integer divisor is 0: inputs for them are without zeros.
_RAISING = frozenset({"floor_div", "trunc_div", "remainder", "fmod"})


def _random(dtype: DType, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    import torch

    if dtype.is_float:
        return torch.randn(shape, generator=generator).to(dtype.torch)
    if dtype.name == "bool":
        return torch.randint(0, 2, shape, generator=generator).bool()
    low = 0 if dtype.name == "uint8" else -100
    return torch.randint(low, 101, shape, generator=generator).to(dtype.torch)


def compare(
    result: torch.Tensor, expected: torch.Tensor, allowed: Callable[[], torch.Tensor] | None = None
) -> Comparison:
    """Within the tolerance in units in the last place; NaN equals NaN; integers and bools exactly.

    `allowed` gives absolute tolerances beyond that (`allowances`); it is asked only where something differs by more.
    """
    import torch

    dtype = get_dtype(expected.dtype)
    if not expected.numel():
        return Comparison(0, 0.0, 0.0, 0)
    if not dtype.is_float:
        wrong = result != expected
        gap = (result.to(torch.float64) - expected.to(torch.float64)).abs()
        relative = gap / expected.to(torch.float64).abs().clamp(min=1)
        return Comparison(expected.numel(), float(gap.max()), float(relative.max()), int(wrong.sum()))
    return _compare_floats(result, expected, TOLERANCE_ULP[dtype.name], allowed)


def _compare_floats(
    result: torch.Tensor, expected: torch.Tensor, ulp: int, allowed: Callable[[], torch.Tensor] | None
) -> Comparison:
    import torch

    a, b = result.to(torch.float64), expected.to(torch.float64)
    same = (result == expected) | (result.isnan() & expected.isnan())
    gap = torch.where(same, torch.zeros_like(a), (a - b).abs())
    info = torch.finfo(expected.dtype)
    exponent = torch.floor(torch.log2(b.abs().clamp(min=info.tiny)))
    spacing = torch.exp2(exponent) * info.eps
    wrong = ~same & ~(gap <= ulp * spacing)
    if allowed is not None and bool(wrong.any()):
        wrong &= ~(gap <= ulp * spacing + allowed())
    relative = torch.where(same, torch.zeros_like(gap), gap / b.abs().clamp(min=info.tiny))
    return Comparison(expected.numel(), float(gap.max()), float(relative.max()), int(wrong.sum()))


def allowances(
    typed: TypedGraph, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, Constant], precision: str = "exact"
) -> Callable[[str], Callable[[], torch.Tensor] | None]:
    """For each float output, how far the functions' stated errors may move it: twice that, for torch's are as large."""
    computed: dict[str, torch.Tensor] = {}

    def of(name: str) -> Callable[[], torch.Tensor] | None:
        if not typed.output_dtypes[name].is_float:
            return None

        def value() -> torch.Tensor:
            if not computed:
                relative = FAST_RELATIVE if precision == "fast" else None
                computed.update(spread(typed, tensors, scalars, relative=relative))
            return 2 * computed[name]

        return value

    return of


def check_kernel(
    kernel: Kernel, *, scalars: Mapping[str, Constant] | None = None, seed: int = 0, backend: str | None = None
) -> dict[str, Any]:
    """Run on random inputs and compare; everything `asc-sched run` reports, as JSON-ready values."""
    given = dict(scalars or {})
    inputs = random_inputs(kernel, seed)
    given |= {s.name: 1.5 for s in kernel.op.scalars if s.default is None and s.name not in given}
    results = launch(kernel, inputs, None, given, backend)
    results = results if isinstance(results, tuple) else (results,)
    expected = kernel.op.reference(*inputs, **given)
    names = kernel.op.outputs
    tensors = dict(zip(kernel.op.inputs, inputs, strict=True))
    allowed = allowances(kernel.typed, tensors, kernel.op.bind_scalars(given), kernel.precision)
    compared = {n: compare(r, e, allowed(n)) for n, r, e in zip(names, results, expected, strict=True)}
    return _report(kernel, compared, backend)


def _report(kernel: Kernel, compared: Mapping[str, Comparison], backend: str | None) -> dict[str, Any]:
    from asc_sched.run.backend import get_backend

    assert kernel.tiling is not None
    t = kernel.tiling
    return {
        "ok": all(c.ok for c in compared.values()),
        "kernel": kernel.name,
        "expression": str(kernel.op),
        "target": kernel.target.name,
        "backend": get_backend(backend).name,
        "schedule": kernel.schedule.to_dict(),
        "schedule_repr": repr(kernel.schedule),
        "tiling": {
            "total_length": t.total_length,
            "core_num": t.core_num,
            "block_length": t.block_length,
            "tile_length": t.tile_length,
            "tile_count": t.max_tile_count,
            "tail": t.tail(t.core_num - 1) if t.core_num else 0,
        },
        "tiling_text": str(t),
        "ub_bytes": kernel.plan.ub_bytes,
        "ub_capacity": kernel.plan.ub_capacity,
        "cores": t.core_num,
        "elements": sum(c.elements for c in compared.values()),
        "max_abs_error": max(c.max_abs_error for c in compared.values()),
        "max_rel_error": max(c.max_rel_error for c in compared.values()),
        "outputs": {n: attrs.asdict(c) for n, c in compared.items()},
    }
