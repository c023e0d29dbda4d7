"""The whole road measured: what our side of it costs beside pyasc, how quick importing is, how large a launch can be.

    python benchmarks/road.py [--kernels 200] [--bulk 400] [--size 8192] [--only lowering,bulk,import,simulate]

- Declaration to Ascend C, without a cache, against pyasc's own time for the same source in the same run.
- Kernels per second, two workers lowering while this process generates.
- `import asc_sched` on top of torch and numpy, in fresh processes.
- Simulating add on float16 size x size on 48 cores: seconds, and peak memory in multiples of the three tensors.

Prints each figure with its limit and "ok" or "OVER"; exit code 1 if one is over. On a busy machine compare the
ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from lowering import machine, pyasc_alone

from asc_sched import Schedule, op
from asc_sched.build import lower, lower_many
from asc_sched.build.request import Lowered, LowerRequest
from asc_sched.kernel import generate

UNARY = ("exp", "log", "sqrt", "abs", "rsqrt", "reciprocal", "relu", "-")
BINARY = ("x + y", "x - y", "x * y", "x / y", "maximum(x, y)", "minimum(x, y)")
JOBS = 2


class Figures:
    """What was measured against what was promised."""

    def __init__(self) -> None:
        self.over = 0

    def add(self, what: str, value: float, unit: str, limit: float | None = None, above: bool = False) -> None:
        verdict = ""
        if limit is not None:
            held = value >= limit if above else value <= limit
            self.over += not held
            verdict = f"   {'at least' if above else 'at most'} {limit:g}: {'ok' if held else 'OVER'}"
        print(f"  {what:<58}{value:10.2f} {unit}{verdict}")


def declaration(index: int) -> tuple[str, str, int]:
    """Text, dtype and length of kernel number `index`: 2 to 9 functions of x, y and constants, none like another."""
    rng = random.Random(index)
    expression = rng.choice(BINARY)
    for _ in range(1 + index % 8):
        if rng.random() < 0.5:
            expression = f"{rng.choice(UNARY)}({expression})"
        else:
            expression = f"({expression}) {rng.choice('+-*')} {rng.choice(['x', 'y', f'{rng.uniform(-9, 9):.4f}'])}"
    return f"z = {expression} + {index}.5", ("float32", "float16")[index % 2], 2048 * (1 + index % 40) + index


def schedule(index: int) -> Schedule:
    return Schedule(core_num=8 * (1 + index % 6), tile_num=1 + index % 8, buffer_num=1 + index % 2)


def whole_road(index: int) -> tuple[float, Lowered]:
    """Seconds from the text of a declaration to Ascend C."""
    text, dtype, length = declaration(index)
    start = time.perf_counter()
    kernel = generate(op(text, name=f"kernel_{index}"), length, dtype, schedule=schedule(index))
    lowered = lower(kernel.request, cache=None)
    return time.perf_counter() - start, lowered


def own_time(index: int) -> tuple[float, float, str]:
    """pyasc in this process on the same source: seconds of its decorators, seconds of the rest, Ascend C."""
    text, dtype, length = declaration(index)
    return pyasc_alone(generate(op(text, name=f"kernel_{index}"), length, dtype, schedule=schedule(index)).request)()


def measure_lowering(figures: Figures, count: int) -> None:
    for warm in range(count, count + 10):
        whole_road(warm)
        own_time(warm)
    ours, alone, decorators = [], [], []
    for index in range(count):
        first = whole_road(index) if index % 2 else None
        decorator_s, alone_s, text = own_time(index)
        ours_s, lowered = first or whole_road(index)
        assert lowered.ascendc == text, f"kernel {index}: the road's Ascend C differs from pyasc's own"
        ours.append(ours_s)
        alone.append(alone_s)
        decorators.append(decorator_s)
    print(f"declaration to Ascend C, medians over {count} distinct kernels, no cache:")
    figures.add("pyasc alone: code generation, passes, emission", 1e3 * statistics.median(alone), "ms")
    figures.add("pyasc's decorators, before that", 1e3 * statistics.median(decorators), "ms")
    figures.add("the whole road", 1e3 * statistics.median(ours), "ms")
    ratio = statistics.median(a / b for a, b in zip(ours, alone, strict=True))
    figures.add("the whole road / pyasc alone", ratio, "x ", limit=2.5)


def measure_bulk(figures: Figures, count: int) -> None:
    def requests() -> Iterator[LowerRequest]:
        for index in range(10_000, 10_000 + count):
            text, dtype, length = declaration(index)
            yield generate(op(text, name=f"kernel_{index}"), length, dtype, schedule=schedule(index)).request

    start = time.perf_counter()
    done = sum(isinstance(r, Lowered) for r in lower_many(requests(), JOBS, cache=None))
    assert done == count
    print(f"{count} kernels on {JOBS} workers, their start included:")
    figures.add("declaration to Ascend C", count / (time.perf_counter() - start), "kernels/s")


def fresh_process(code: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


IMPORT = """
import time, torch, numpy
start = time.perf_counter()
import asc_sched
one = time.perf_counter()
from asc_sched import Schedule, op
op("z = x + y"), Schedule()
print(one - start, time.perf_counter() - start)
"""


def measure_import(figures: Figures) -> None:
    times = [fresh_process(IMPORT) for _ in range(5)]
    bare, used = (statistics.median(column) for column in zip(*times, strict=True))
    print("importing, on top of torch and numpy, median of 5 processes:")
    figures.add("import asc_sched", bare, "s", limit=0.5)
    figures.add("... and a first declaration and schedule", used, "s", limit=0.5)


SIMULATE = """
import time, torch
from asc_sched import Schedule, op

def memory(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field)) * 1024

add = op("z = x + y")
small = torch.ones(8192, dtype=torch.float16)
add(small, small)
before = memory("VmRSS")
x, y = (torch.rand({size}, {size}).half() for _ in range(2))
kernel = add.compile(({size}, {size}), "float16", schedule=Schedule(core_num=48, tile_length=8192))
open("/proc/self/clear_refs", "w").write("5")
start, cpu = time.perf_counter(), time.process_time()
z = kernel(x, y)
seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
assert torch.equal(z, x + y)
print(seconds, cpu_seconds, (memory("VmHWM") - before) / (3 * x.nbytes))
"""


def measure_simulation(figures: Figures, size: int) -> None:
    seconds, cpu_seconds, memory = fresh_process(SIMULATE.replace("{size}", str(size)))
    print(f"simulating add float16 {size}x{size} on 48 cores, result checked:")
    figures.add("time", seconds, "s", limit=5)
    figures.add("processor time", cpu_seconds, "s")
    figures.add("peak memory / the three tensors", memory, "x ", limit=2.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--bulk", type=int, default=400)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--only", default="lowering,bulk,import,simulate")
    args = parser.parse_args()
    figures = Figures()
    print(f"machine: {machine()}; load {os.getloadavg()[0]:.1f}")
    steps: dict[str, Callable[[], None]] = {
        "lowering": lambda: measure_lowering(figures, args.kernels),
        "bulk": lambda: measure_bulk(figures, args.bulk),
        "import": lambda: measure_import(figures),
        "simulate": lambda: measure_simulation(figures, args.size),
    }
    for name in args.only.split(","):
        steps[name.strip()]()
    return 1 if figures.over else 0


if __name__ == "__main__":
    sys.exit(main())
