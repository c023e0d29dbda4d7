"""Tiling against plain integer arithmetic, and what a tiling and its proof cost.

    python benchmarks/tiling.py [--count 100000] [--seed 1]

Resolves random (total_length, core_num, tile_num, buffer_num, dtypes, core_split), compares every number with integers
computed apart from the formulas, proves the coverage of each, and prints the differences (zero, or exit 1) and times.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import sys
import time

from asc_sched import Schedule
from asc_sched.errors import CoverageError
from asc_sched.target import TARGETS
from asc_sched.tiling import Tiling, prove_coverage, resolve

ITEMSIZES = {"int8": 1, "float16": 2, "int16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "int64": 8}


def plain(total_length: int, schedule: Schedule, itemsize: int) -> list[int]:
    """Unit, launched cores, tile_length; then start, length, tiles, tail of the first, a middle and the last core."""
    core_num, tiles = schedule.core_num or 1, (schedule.tile_num or 1) * schedule.buffer_num
    line, datablock = 512 // itemsize, 32 // itemsize
    even = schedule.core_split == "even"
    unit = line if even and (total_length + line - 1) // line >= core_num else datablock
    units = (total_length + unit - 1) // unit
    share = (units + core_num - 1) // core_num
    used = min(core_num, units) if even else (units + share - 1) // share
    firsts = [0, used // 2, used - 1]
    bounds = []
    for core in firsts:
        if even:
            low = core * (units // used) + min(core, units % used)
            high = (core + 1) * (units // used) + min(core + 1, units % used)
        else:
            low, high = core * share, min((core + 1) * share, units)
        bounds.append((low * unit, min(high * unit, total_length)))
    longest = bounds[0][1] - bounds[0][0]
    tile = (longest + tiles - 1) // tiles
    tile += -tile % datablock
    numbers = [unit, used, tile]
    for start, stop in bounds:
        count = (stop - start + tile - 1) // tile
        numbers += [start, stop - start, count, stop - start - (count - 1) * tile]
    return numbers


def numbers_of(tiling: Tiling) -> list[int]:
    """The same numbers of a resolved tiling."""
    numbers = [tiling.unit_length, tiling.core_num, tiling.tile_length]
    for core in (0, tiling.core_num // 2, tiling.core_num - 1):
        numbers += [*tiling.block(core), tiling.tile_count(core), tiling.tail(core)]
    return numbers


def random_case(rng: random.Random) -> tuple[int, Schedule, tuple[int, ...], str]:
    """Lengths of every magnitude up to 2**40, often near a power of two; any target, dtypes and split."""
    total_length = max(
        1, rng.choice([rng.randint(1, 2 ** rng.randint(1, 40)), 2 ** rng.randint(0, 40) + rng.randint(-9, 9)])
    )
    target = rng.choice(sorted(TARGETS))
    itemsizes = tuple(ITEMSIZES[dtype] for dtype in rng.choices(sorted(ITEMSIZES), k=rng.randint(1, 5)))
    schedule = Schedule(
        core_num=rng.randint(1, TARGETS[target].vector_cores),
        tile_num=max(rng.randint(1, 2 ** rng.randint(0, 10)), (total_length >> 30) + 1),
        buffer_num=rng.randint(1, 8),
        core_split=rng.choice(["even", "even", "ceil"]),
    )
    return total_length, schedule, itemsizes, target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)

    started = time.perf_counter()
    resolve(Schedule(tile_num=1), total_length=1, itemsizes=(4,))
    first_ms = (time.perf_counter() - started) * 1e3

    differences = unproved = 0
    resolve_us: list[float] = []
    proof_us: list[float] = []
    for _ in range(options.count):
        total_length, schedule, itemsizes, target = random_case(rng)
        t0 = time.perf_counter()
        tiling = resolve(schedule, total_length=total_length, itemsizes=itemsizes, target=target)
        t1 = time.perf_counter()
        try:
            proved = prove_coverage(tiling).ok
        except CoverageError as error:
            proved = False
            print(f"not covered: {schedule!r} on {total_length} elements: {error}")
        t2 = time.perf_counter()
        resolve_us.append((t1 - t0) * 1e6)
        proof_us.append((t2 - t1) * 1e6)
        unproved += not proved
        if numbers_of(tiling) != plain(total_length, schedule, min(itemsizes)):
            differences += 1
            print(f"different: {schedule!r} on {total_length} elements of {itemsizes} bytes")

    print(
        f"machine: {platform.node()} ({platform.processor() or platform.machine()}), Python {platform.python_version()}"
    )
    print(f"cases: {options.count} (seed {options.seed})  differences: {differences}  unproved: {unproved}")
    for name, times in (("resolve", resolve_us), ("proof", proof_us)):
        p99 = statistics.quantiles(times, n=100)[98]
        print(f"{name}: median {statistics.median(times):.1f} us, 99 % {p99:.1f} us, max {max(times):.0f} us")
    print(f"first resolve of a process (imports sympy, derives the formulas): {first_ms:.0f} ms")
    return 1 if differences or unproved else 0


if __name__ == "__main__":
    sys.exit(main())
