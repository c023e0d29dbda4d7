"""Which kernel serves a call: by dtypes, then by size and target, then by modelled time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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

        Of several, the one with the least modelled time; the manifest lists simpler schedules first. Raises
        `NoKernelError` naming what there is.
        """
        found = self._fixed.get((target, total_length)) or self._any_size.get(target)
        if found:
            return found[0] if len(found) == 1 else min(found, key=lambda k: modelled_us(k, total_length))
        sizes = sorted(n for t, n in self._fixed if t == target)
        has = f"there are kernels for {', '.join(map(str, sizes))} elements" if sizes else "there is none at all"
        failed = f"; not built: {'; '.join(self.missing)}" if self.missing else ""
        raise NoKernelError(
            f"{self.operator} has no {', '.join(self.inputs)} kernel for {total_length} elements on {target}: "
            f"{has}{failed}"
        )


def modelled_us(kernel: Kernel, total_length: int) -> float:
    """The modelled time at the size nearest to `total_length` (by ratio) among those that were timed; inf if none."""
    times: Sequence[Sequence[float]] = kernel["modelled_us"]
    if not times:
        return math.inf
    wanted = math.log2(max(total_length, 1))
    return min(times, key=lambda t: (abs(math.log2(max(t[0], 1)) - wanted), t[0]))[1]


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
