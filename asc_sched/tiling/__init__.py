"""Exact tiling: a `Schedule`, a size and a chip to which elements each core and tile has, with a proof of coverage.

Importing this package is cheap; sympy is imported when a tiling is first resolved or printed.
"""

from asc_sched.tiling.auto import auto_schedule
from asc_sched.tiling.binding import resolve
from asc_sched.tiling.coverage import Coverage, prove_coverage
from asc_sched.tiling.device import DeviceFormulas, dynamic_formulas, static_formulas
from asc_sched.tiling.symbolic import Alignment, SymbolicTiling, symbolic_tiling
from asc_sched.tiling.types import Tiling

__all__ = [
    "Alignment",
    "Coverage",
    "DeviceFormulas",
    "SymbolicTiling",
    "Tiling",
    "auto_schedule",
    "dynamic_formulas",
    "prove_coverage",
    "resolve",
    "static_formulas",
    "symbolic_tiling",
]
