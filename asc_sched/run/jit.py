"""A generated kernel through pyasc's whole road: its JIT, its cache, its launcher (``kernel[core_num, stream](...)``).

The kernel's source is given to Python under a name that `inspect` finds it by. pyasc compiles in this process; the same
source has been lowered in a worker before, so what crashes pyasc doesn't come this far.
"""

from __future__ import annotations

import hashlib
import linecache
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from asc_sched.errors import BackendError

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs
    from asc_sched.run.runtime import Runtime


def run_jit(kernel: Kernel, args: LaunchArgs, runtime: Runtime, stream: Any) -> None:
    """Launch on `args` with pyasc's launcher, which copies CPU tensors and waits for the kernel."""
    from asc_sched.run.runtime import explain

    function = jit_function(kernel.source, kernel.name)
    planned = (*kernel.plan.inputs, *kernel.plan.outputs)
    tensors = [_as(t, p.dtype.asc) for t, p in zip((*args.inputs, *args.outputs), planned, strict=True)]
    sizes = [_number(d, v) for (_, d), v in zip(kernel.plan.formulas.arguments, args.sizes, strict=True)]
    scalars = [_number(s.carrier, v) for s, v in zip(kernel.plan.scalars, args.scalars, strict=True)]
    try:
        function[args.core_num, stream](*tensors, *sizes, *scalars)
    except RuntimeError as err:
        raise BackendError(f"{kernel.name}: {explain(err, runtime.model, runtime.cann)}") from err


@lru_cache(maxsize=256)
def jit_function(source: str, name: str) -> Any:
    """The `@asc.jit` function `name` of a module given as text."""
    filename = f"<asc_sched {name} {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return namespace[name]


def _as(tensor: torch.Tensor, asc_type: str) -> torch.Tensor:
    """The tensor's memory under the kernel's pointer type (bfloat16 is carried as int16, bool as uint8)."""
    import torch

    dtype = getattr(torch, asc_type)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def _number(dtype: str, value: Any) -> Any:
    import numpy as np

    return np.dtype(dtype).type(value)
