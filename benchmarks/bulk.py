"""How fast a library is built: kernels per second on all cores, beside pyasc's own lowering of the same kernels.

    python benchmarks/bulk.py [--kernels 1000] [--jobs 2]

"build" is what `asc-sched build` does, in a process of its own, from an empty folder and without a cache: start,
imports, planning, generating, real lowering, timing on the model, writing, manifest and package. "again" is the same
command when there is nothing to do. "pyasc alone" is pyasc's decorator, code generation, passes and emission of the
very sources that were built, in as many processes as the build has workers, their start included. Memory is the peak
resident size of the parent and of its largest worker, for a quarter of the kernels and for all of them.
"""

from __future__ import annotations

import argparse
import json
import linecache
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DTYPES = ("float32", "float16", "int32", "int16", "bfloat16")
SCHEDULES: tuple[Any, ...] = (
    "auto",
    {"buffer_num": 1, "tile_length": 1024},
    {"core_num": 8, "tile_length": 2048},
    {"core_num": 20, "tile_length": 512, "core_split": "ceil"},
)

BUILD = """
import json, resource, sys
from asc_sched.library import build
report = build(json.loads(sys.argv[1]), sys.argv[2], jobs=int(sys.argv[3]), cache=None)
kib = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([report.kernels, len(report.failures), *kib]))
"""


def declaration(kernels: int) -> dict[str, Any]:
    """A library of at least `kernels` kernels: the catalogue's ops, several dtypes, sizes and schedules."""
    from asc_sched.ops import catalogue

    shapes: list[Any] = ["dynamic"]
    each = len(catalogue()) * len(SCHEDULES) * 2  # two dtypes at least are defined and supported for nearly every op
    while len(shapes) * each < kernels:
        shapes.append(f"{1000 + 24 * len(shapes)}x{len(shapes) * 64}")
    return {
        "name": "bulk", "ops": ["*"], "dtypes": list(DTYPES), "shapes": shapes, "schedules": list(SCHEDULES),
        "gradients": False,
    }  # fmt: skip


def trimmed(spec: dict[str, Any], kernels: int) -> dict[str, Any]:
    """`spec` with as many ops, evenly spread over the catalogue, as make about that many kernels."""
    from asc_sched.library.analysis import Analyst
    from asc_sched.library.declaration import load
    from asc_sched.library.plan import make_plan

    plan = make_plan(load(spec), Analyst())
    counts = {o.name: sum(len(v.kernels) for v in o.variants) for o in plan.operators}
    names = sorted(counts)
    step = max(sum(counts.values()) / kernels, 1.0)
    chosen = [names[int(i * step)] for i in range(int(len(names) / step))]
    return {**spec, "ops": chosen}


def build(spec: dict[str, Any], out: str, jobs: int) -> tuple[float, list[int]]:
    """Seconds of a build in a process of its own, and what it printed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, json.dumps(spec), out, str(jobs)], env=env, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"the build ended with status {done.returncode}: {done.stderr}")
    return seconds, json.loads(done.stdout)


# -- pyasc alone ---------------------------------------------------------------------------------------------------
def pyasc_alone(package: Path, part: int, parts: int) -> int:
    """Lower every `parts`-th kernel of a built package with pyasc's own front end, passes and emission."""
    from asc._C import translation
    from asc.codegen.function_visitor import CodegenOptions
    from asc.codegen.specialization import PlainArgType, PointerArgType, Specialization
    from asc.language.core.dtype import DataType
    from asc.runtime.compiler import CompileOptions, Compiler

    kernels = sorted(json.loads((package / "manifest.json").read_text())["kernels"].items())[part::parts]
    kinds = {"pointer": PointerArgType, "size": PlainArgType, "scalar": PlainArgType}
    for symbol, kernel in kernels:
        source = (package / kernel["files"]["pyasc"]["path"]).read_text()
        linecache.cache[symbol] = (len(source), None, source.splitlines(keepends=True), symbol)
        namespace: dict[str, Any] = {"__name__": symbol}
        exec(compile(source, symbol, "exec"), namespace)
        function = namespace[symbol]
        names = function.fn.__code__.co_varnames
        types = {n: kinds[a["kind"]](DataType(a["carrier"])) for n, a in zip(names, kernel["arguments"], strict=False)}
        module = function._run_codegen(Specialization(types), CodegenOptions())
        compiler = Compiler.__new__(Compiler)  # its constructor wants the device compiler, which isn't used
        compiler.options = CompileOptions()
        compiler.run_passes(module)
        text = translation.ir_to_ascendc(module)
        str(module)  # the ASC-IR is part of what is built
        del linecache.cache[symbol]
        if part == 0 and symbol == kernels[0][0]:
            assert text == (package / kernel["files"]["ascendc"]["path"]).read_text(), f"{symbol}: another text"
    return len(kernels)


def pyasc_rate(package: Path, jobs: int) -> float:
    """Kernels per second of pyasc alone in `jobs` processes."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    start = time.perf_counter()
    processes = [
        subprocess.Popen([sys.executable, __file__, "--part", str(i), "--parts", str(jobs), "--package", str(package)],
                         env=env)
        for i in range(jobs)
    ]  # fmt: skip
    if any(p.wait() for p in processes):
        raise SystemExit("pyasc alone failed")
    count = len(json.loads((package / "manifest.json").read_text())["kernels"])
    return count / (time.perf_counter() - start)


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), platform.machine())
    return f"{platform.node()}, {model}, {len(os.sched_getaffinity(0))} processors, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parts", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--package", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part is not None:
        pyasc_alone(args.package, args.part, args.parts)
        return
    print(f"machine: {machine()}; {args.jobs} workers")
    spec = declaration(args.kernels)
    with tempfile.TemporaryDirectory(prefix="asc_sched-bulk-") as folder:
        _, (small_count, _, *small_kib) = build(trimmed(spec, args.kernels // 4), f"{folder}/quarter", args.jobs)
        whole = trimmed(spec, args.kernels)
        seconds, (count, failed, *kib) = build(whole, f"{folder}/all", args.jobs)
        again, _ = build(whole, f"{folder}/all", args.jobs)
        alone = pyasc_rate(Path(folder, "all", "bulk"), args.jobs)
    rate = count / seconds
    print(f"build: {count} kernels ({failed} failed) in {seconds:.1f} s: {rate:.0f} kernels/s")
    print(f"pyasc alone, the same kernels: {alone:.0f} kernels/s; the build reaches {100 * rate / alone:.0f} % of it")
    print(f"again, nothing to do: {again:.2f} s")
    for number, (parent, worker) in ((small_count, small_kib), (count, kib)):
        print(f"peak memory, {number} kernels: parent {parent / 1024:.0f} MiB, worker {worker / 1024:.0f} MiB")
    wanted = min(100.0, 0.7 * alone)
    print(f"wanted: {wanted:.0f} kernels/s (100, or 70 % of pyasc alone, whichever is less): "
          f"{'reached' if rate >= wanted else 'MISSED'}")  # fmt: skip


if __name__ == "__main__":
    main()
