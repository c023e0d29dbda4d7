"""How fast the simulator is: results, checks and times of published kernels, and of a large launch.

    python benchmarks/simulator.py [--size 8192]

- relu, mul and the sum of four inputs on queues at the sizes of the published runs: executed, checked and timed.
- Add on float16 size x size on 48 cores, called with torch tensors: seconds, peak memory in multiples of the tensors.
- Timing alone of that launch, from the text of its IR, with one and two buffers.

Prints the machine's name, and each figure with its limit and "ok" or "OVER"; exit code 1 if one is over.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from cases.published import Case, cases
from lowering import machine
from road import Figures, measure_simulation

from asc_sched.build import lower
from asc_sched.sim import parse, simulate, time_kernel
from asc_sched.sim.timing import forget

_WANT = {
    "relu": lambda x: np.maximum(x, 0),
    "mul": lambda x, y: x * y,
    "add4": lambda a, b, c, d: ((a + b).astype(np.float16) + c).astype(np.float16) + d,
}


def measure_published(figures: Figures) -> None:
    """Every TQue case: seconds to execute it with all checks and to time it."""
    print("kernels of the published runs, executed, checked and timed (slowest size of each):")
    slowest: dict[str, float] = {}
    for case in (c for c in cases() if c.name.startswith("tque")):
        slowest[case.entry] = max(slowest.get(case.entry, 0.0), _seconds(case))
    for name, seconds in slowest.items():
        figures.add(name, seconds, "s", limit=1)


def _seconds(case: Case) -> float:
    asc_ir = lower(case.request()).asc_ir
    generator = np.random.default_rng(0)
    *inputs, output = (generator.standard_normal(n // 2).astype(np.float16) for n in case.arg_bytes)
    parse.cache_clear()
    forget()
    begin = time.perf_counter()
    simulate(asc_ir, [*inputs, output], core_num=case.cores, target=case.target, outputs=[len(inputs)])
    time_kernel(asc_ir, case.args, core_num=case.cores, target=case.target, l2=case.l2)
    seconds = time.perf_counter() - begin
    np.testing.assert_array_equal(output, _WANT[case.entry](*inputs))
    return seconds


def measure_timing(figures: Figures) -> None:
    """The time model alone on the largest published launches; nothing is kept from one call to the next."""
    print("timing add float16 8192x8192 on 48 cores, from its IR's text, median of 9:")
    for case in (c for c in cases() if c.name in ("add8192_case2", "add8192_case4")):
        asc_ir, times = lower(case.request()).asc_ir, []
        for _ in range(9):
            parse.cache_clear()
            forget()
            begin = time.perf_counter()
            time_kernel(asc_ir, case.args, core_num=case.cores, target=case.target, l2=case.l2)
            times.append(1e3 * (time.perf_counter() - begin))
        figures.add(f"{case.entry}, tiles of {case.consts['tile_length']}", statistics.median(times), "ms", limit=100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8192)
    options = parser.parse_args()
    figures = Figures()
    print(f"machine: {machine()}; load {os.getloadavg()[0]:.1f}")
    measure_published(figures)
    measure_simulation(figures, options.size)
    measure_timing(figures)
    return 1 if figures.over else 0


if __name__ == "__main__":
    sys.exit(main())
