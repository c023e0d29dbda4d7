"""What a launch costs on the host: pyasc's launcher and ours, on the same kernel, tensors and (stand-in) runtime.

    python benchmarks/launch_cost.py [--calls 2000] [--json]

The runtime is the stand-in of the tests, which takes launches without running them, so that only the host's work is
timed: from the call in Python to the return of rtKernelLaunch (pyasc's launcher also waits for the stream, which has
nothing to do here). Rounds of both alternate; the median round counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 9
INSIDE = "ASC_SCHED_LAUNCH_COST"


def outside(argv: list[str]) -> None:
    """Build the stand-in and run this file again with it in the place of CANN."""
    repo = Path(__file__).resolve().parents[1]
    sys.path.insert(0, str(repo))
    from tests.npu.standin import build, have_compiler

    if not have_compiler():
        print("skipped: no C++ compiler (g++ or clang++) on PATH, the stand-in for CANN can't be built")
        return
    with tempfile.TemporaryDirectory() as folder:
        env = build(Path(folder)).home.merged(os.environ)
        env |= {
            INSIDE: "1", "ASC_SCHED_TWIN_LAUNCH": "skip", "ASC_SCHED_CACHE_DIR": f"{folder}/cache",
            "PYTHONPATH": os.pathsep.join([str(repo), str(repo / "tests/npu/standin/modules")]),
        }  # fmt: skip
        sys.exit(os.spawnve(os.P_WAIT, sys.executable, [sys.executable, __file__, *argv], env))


def per_call_us(call: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def measure(calls: int) -> dict[str, float]:
    """Host microseconds per call, by what is called."""
    import ctypes

    import torch
    import torch_npu

    from asc_sched import op
    from asc_sched.run.backend import get_backend
    from asc_sched.run.jit import jit_function
    from asc_sched.run.launch import bind_launch

    add = op("z = x + y", name="add")
    kernel = add.compile((8, 2048), "float32")
    x, y = (torch_npu.to_npu(torch.rand(8, 2048)) for _ in range(2))
    z = torch_npu.empty((8, 2048))
    backend: Any = get_backend("npu")
    kernel(x, y, out=z)
    args, _, _ = bind_launch(kernel, (x, y), z, {})
    stream = torch_npu.npu.current_stream().npu_stream
    runtime = backend.runtime_for(kernel)
    launcher = backend.launcher(kernel, runtime)
    pyasc_kernel, handle = jit_function(kernel.source, kernel.name), ctypes.c_void_p(stream)
    pyasc_kernel[args.core_num, handle](x, y, z)
    values = tuple(t.data_ptr() for t in (x, y, z))
    ways: dict[str, Callable[[], Any]] = {
        "pyasc: kernel[core_num, stream](x, y, z)": lambda: pyasc_kernel[args.core_num, handle](x, y, z),
        "ours: launcher(core_num, stream, addresses)": lambda: launcher(args.core_num, stream, values),
        "ours: backend.run(kernel, args), current stream": lambda: backend.run(kernel, args),
        "ours: kernel(x, y, out=z), all of torch's rules": lambda: kernel(x, y, out=z),
    }
    # From here on the tensors are only asked for what they are. The stand-in's answer in Python, which real NPU tensors
    # don't do, so that is turned off for both.
    torch_npu.NpuTensor.__torch_function__ = torch._C._disabled_torch_function_impl
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, call in ways.items():
            rounds[name].append(per_call_us(call, max(1, calls // ROUNDS)))
    return {name: statistics.median(times) for name, times in rounds.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not os.environ.get(INSIDE):
        outside(sys.argv[1:])
        return
    figures = measure(options.calls)
    base = next(iter(figures.values()))
    if options.json:
        print(json.dumps({"us_per_call": figures, "share_of_pyasc": {n: t / base for n, t in figures.items()}}))
        return
    for name, us in figures.items():
        print(f"{name:<50} {us:9.2f} us per call {us / base:8.3f} of pyasc's")


if __name__ == "__main__":
    main()
