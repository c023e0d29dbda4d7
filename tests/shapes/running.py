"""Running kernels with everything around them watched: guarded memory, GM traffic."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from asc_sched.declare import Op
from asc_sched.kernel import Kernel
from asc_sched.run.launch import bind_launch
from asc_sched.run.sim import _array, _number
from asc_sched.sim import SimReport, simulate
from tests.road.tensors import same_bits

PATTERN = 0xA5
GUARD_BYTES = 64


class GuardedLayout:
    """A tensor with any strides in the middle of known memory: gaps between its elements are watched too."""

    def __init__(self, values: torch.Tensor, strides: Sequence[int] | None = None, offset_bytes: int = 0) -> None:
        shape = tuple(values.shape)
        steps = tuple(values.stride() if strides is None else strides)
        size = values.element_size()
        span = 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) if values.numel() else 0
        start = GUARD_BYTES + offset_bytes * size
        self._memory = torch.full((start + span * size + GUARD_BYTES,), PATTERN, dtype=torch.uint8)
        flat = self._memory[start : start + span * size].view(values.dtype)
        self.tensor = torch.as_strided(flat, shape, steps, flat.storage_offset())
        self.tensor.copy_(values)
        mine = torch.zeros(self._memory.numel(), dtype=torch.bool)
        own = torch.as_strided(torch.arange(max(span, 1)), shape, steps).reshape(-1)
        for byte in range(size):
            mine[start + own * size + byte] = True
        self._others = ~mine

    @property
    def intact(self) -> bool:
        """Whether everything that isn't an element of the tensor is as it was."""
        return bool((self._memory[self._others] == PATTERN).all())


def traffic(kernel: Kernel, *tensors: torch.Tensor) -> SimReport:
    """The simulator's report of a kernel on tensors that it takes as they are."""
    args, _, _ = bind_launch(kernel, tensors, None, {})
    plan = kernel.plan
    arrays = [
        _array(t, p.dtype.asc)
        for t, p in zip((*args.inputs, *args.outputs), (*plan.inputs, *plan.outputs), strict=True)
    ]
    sizes = [_number(d, v) for (_, d), v in zip(plan.formulas.arguments, args.sizes, strict=True)]
    return simulate(kernel.asc_ir, [*arrays, *sizes], core_num=args.core_num, target=kernel.target)


def check(op: Op, result: torch.Tensor | tuple[torch.Tensor, ...], *tensors: torch.Tensor) -> None:
    """Equal to torch to the bit, all outputs."""
    results = result if isinstance(result, tuple) else (result,)
    expected = op.reference(*tensors)
    for name, got, want in zip(op.outputs, results, expected, strict=True):
        assert same_bits(got, want), f"{op.name}: {name} of {[(tuple(t.shape), t.stride()) for t in tensors]}"
