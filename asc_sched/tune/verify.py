"""A schedule's kernel checked by execution on the simulator, at a size with all its kinds of tiles but few of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import attrs

from asc_sched.build import lower
from asc_sched.errors import AscSchedError
from asc_sched.kernel import Kernel, generate
from asc_sched.run.check import random_inputs
from asc_sched.tune.trial import BackendRunner, check

# Up to this many elements a kernel is run as it is.
WHOLE = 1 << 18
CORES = 2


def verify(kernel: Kernel) -> str:
    """Empty if the results are right, else what is wrong.

    Large problems are checked at a few cores with two whole tiles and a ragged one each; the tiling's coverage is
    proved at the full size when the kernel is planned.
    """
    try:
        small = kernel if _is_small(kernel) else _reduced(kernel)
        with _one_thread():
            return check(small, BackendRunner("sim", "hot"), random_inputs(small))
    except AscSchedError as error:
        return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """torch on one thread: for tensors this small, waking others takes longer than the work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_small(kernel: Kernel) -> bool:
    assert kernel.shapes is not None
    return kernel.shapes.total_length <= WHOLE or any(s != kernel.shapes.output for s in kernel.shapes.inputs)


def _reduced(kernel: Kernel) -> Kernel:
    cores = min(CORES, kernel.schedule.core_num or CORES)
    tile = kernel.plan.tile_length
    length = cores * (2 * tile + tile // 3) + 7
    schedule = attrs.evolve(kernel.schedule, core_num=cores, tile_length=tile, tile_num=None)
    dtypes = list(kernel.typed.input_dtypes.values())
    small = generate(kernel.op, (length,), dtypes, schedule=schedule, target=kernel.target)
    return attrs.evolve(small, lowered=lower(small.request))
