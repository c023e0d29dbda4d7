"""Which kernel serves a call: by dtypes, then by size and target, then by modelled time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .errors import NoKernelError

Kernel = Mapping[str, Any]


class Variant:
    """The kernels of an operator for one combination of dtypes."""

    def __init__(self, operator: str, data: Mapping[str, Any], kernels: Mapping[str, Kernel]) -> None:
        self.operator = operator
        self.inputs: tuple[str, ...] = tuple(data["inputs"])
        self.outputs: tuple[str, ...] = tuple(data["outputs"])
        self.gradient: Mapping[str, Any] | None = data["gradient"]
        self.no_gradient: str = data["no_gradient"]
        self.missing: tuple[str, ...] = tuple(data["missing"])
        self._itemsize = sum(getattr(torch, d).itemsize for d in (*self.inputs, *self.outputs))
        self._fixed: dict[tuple[str, int], list[Kernel]] = {}
        self._any_size: dict[str, list[Kernel]] = {}
        for name in data["kernels"]:
            kernel = kernels[name]
            if kernel["shape"] is None:
                self._any_size.setdefault(kernel["target"], []).append(kernel)
            else:
                self._fixed.setdefault((kernel["target"], math.prod(kernel["shape"])), []).append(kernel)

    def kernel(self, total_length: int, target: str) -> Kernel:
        """The kernel for `total_length` elements: one built for exactly that many, or else one of any size.

        Of several, the one that is estimated to take the least time; the manifest lists simpler schedules first. Raises
        `NoKernelError` naming what there is.
        """
        found = self._fixed.get((target, total_length)) or self._any_size.get(target)
        if found:
            if len(found) == 1:
                return found[0]
            return min(found, key=lambda k: estimated_us(k, total_length, self._itemsize))
        sizes = sorted(n for t, n in self._fixed if t == target)
        has = f"there are kernels for {', '.join(map(str, sizes))} elements" if sizes else "there is none at all"
        failed = f"; not built: {'; '.join(self.missing)}" if self.missing else ""
        raise NoKernelError(
            f"{self.operator} has no {', '.join(self.inputs)} kernel for {total_length} elements on {target}: "
            f"{has}{failed}"
        )


def estimated_us(kernel: Kernel, total_length: int, itemsize: int) -> float:
    """About how long a launch takes: the time that was modelled for one size, scaled to another.

    `itemsize` is the bytes of one element of all inputs and outputs. inf for a kernel that was never timed.
    """
    modelled = kernel["modelled"]
    if not modelled:
        return math.inf
    known: float = modelled["task_us"]
    return known * _weight(kernel, total_length, itemsize) / _weight(kernel, modelled["total_length"], itemsize)


def _weight(kernel: Kernel, total_length: int, itemsize: int) -> float:
    """Microseconds of launch, cores, bytes and tiles, fitted to the simulator's clock on add, exp and div of 64 to 2^25
    elements on Ascend910B1 under five schedules (mean error 9 %)."""
    tiling = kernel["tiling"]
    cores = min(tiling["core_num"], -(-total_length // tiling["datablock_length"])) or 1
    block_length = -(-total_length // cores)
    tiles = -(-block_length // tiling["tile_length"])
    tile_us = 0.176 if tiling["buffer_num"] == 1 else 0.113
    return float(1.35 + 0.0242 * cores + 6.93e-6 * block_length * itemsize + tile_us * tiles)


def find_variant(operator: str, variants: Mapping[tuple[str, ...], Variant], dtypes: tuple[str, ...]) -> Variant:
    """The variant of these dtypes. Raises `NoKernelError` listing those that there are."""
    found = variants.get(dtypes)
    if found is not None:
        return found
    known = "; ".join(", ".join(v) for v in sorted(variants))
    raise NoKernelError(f"{operator} was not built for ({', '.join(dtypes)}); it was built for: {known}")


def core_num(kernel: Kernel, total_length: int, tilings: Mapping[str, Callable[[int, int], int]]) -> int:
    """Cores to launch: those that have work."""
    tiling = kernel["tiling"]
    if total_length == 0:
        return 0
    return tilings[tiling["formulas"]](total_length, tiling["core_num"])
