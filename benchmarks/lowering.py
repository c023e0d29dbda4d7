"""What the worker costs on top of pyasc itself: per kernel side by side in one run, then kernels per second.

    python benchmarks/lowering.py [--kernels 200] [--jobs 2]

"pyasc alone" is its code generation, passes and emission for a function that is decorated already, in this process.
"lower()" is the whole way from text to text without a cache: message to the worker, module executed there, `@asc.jit`,
code generation, passes, emission, message back. Every kernel is new to both; which goes first alternates.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import linecache
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asc_sched.build import ArgType, LowerRequest, lower, lower_many
from asc_sched.build.request import LOWERING_FORMAT

UNARY = ("exp", "ln", "sqrt", "abs", "rsqrt", "reciprocal", "relu")
BINARY = ("add", "sub", "mul", "max", "min", "div")
ALPHABET = len(UNARY) + len(BINARY)


def kernel_source(index: int) -> tuple[str, str]:
    """Name and text of kernel number `index`: a queue kernel of 2 to 7 vector instructions, none like another."""
    name = f"kernel_{index}"
    dtype, tile_length = ("float32", "float16")[index % 2], 256 + 64 * (index % 50)
    calls, digits = [], index
    for _ in range(2 + index % 6):
        digits, pick = divmod(digits * 31 + 7, ALPHABET)
        call = (UNARY + BINARY)[pick]
        sources = "a, b" if call in BINARY else "b"
        calls.append(f"        asc.{call}(c, {sources}, {tile_length})\n")
    size = {"float32": 4, "float16": 2}[dtype] * tile_length
    return name, HEAD.format(name=name, dtype=dtype, size=size, tile_length=tile_length) + "".join(calls) + TAIL.format(
        tile_length=tile_length, dtype=dtype
    )


HEAD = """import asc


@asc.jit
def {name}(x, y, z, total_length):
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    in_y = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, 2, {size})
    pipe.init_buffer(in_y, 2, {size})
    pipe.init_buffer(out_z, 2, {size})
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm = asc.GlobalTensor()
    y_gm.set_global_buffer(y)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    tile_num = total_length // {tile_length}
    for i in range(asc.get_block_idx(), tile_num, asc.get_block_num()):
        offset = asc.number({tile_length}, asc.int64) * i
        copy_x = in_x.alloc_tensor(asc.{dtype})
        copy_y = in_y.alloc_tensor(asc.{dtype})
        asc.data_copy(copy_x, x_gm[offset:], {tile_length})
        asc.data_copy(copy_y, y_gm[offset:], {tile_length})
        in_x.enque(copy_x)
        in_y.enque(copy_y)
        a = in_x.deque(asc.{dtype})
        b = in_y.deque(asc.{dtype})
        c = out_z.alloc_tensor(asc.{dtype})
"""
TAIL = """        out_z.enque(c)
        in_x.free_tensor(a)
        in_y.free_tensor(b)
        done = out_z.deque(asc.{dtype})
        asc.data_copy(z_gm[offset:], done, {tile_length})
        out_z.free_tensor(done)
"""


def request_for(index: int) -> LowerRequest:
    name, source = kernel_source(index)
    dtype = "float32" if index % 2 == 0 else "float16"
    pointer = ArgType("pointer", dtype)
    return LowerRequest(source=source, entry=name, arg_types=(pointer, pointer, pointer, ArgType("scalar", "int32")))


def pyasc_alone(request: LowerRequest) -> Callable[[], tuple[float, float, str]]:
    """A call that lowers with pyasc in this process: (seconds of the decorator, seconds of the rest, Ascend C)."""
    from asc._C import translation
    from asc.codegen.function_visitor import CodegenOptions
    from asc.codegen.specialization import PlainArgType, PointerArgType, Specialization
    from asc.language.core.dtype import DataType
    from asc.runtime.compiler import CompileOptions, Compiler

    def run() -> tuple[float, float, str]:
        lines = request.source.splitlines(keepends=True)
        linecache.cache[request.pseudo_file] = (len(request.source), None, lines, request.pseudo_file)
        namespace: dict[str, Any] = {"__name__": request.entry}
        start = time.perf_counter()
        exec(compile(request.source, request.pseudo_file, "exec"), namespace)
        fn = namespace[request.entry]
        decorated = time.perf_counter()
        kinds = {"pointer": PointerArgType, "scalar": PlainArgType}
        names = inspect.signature(fn.fn).parameters
        types = {n: kinds[a.kind](DataType(a.dtype)) for n, a in zip(names, request.arg_types, strict=True)}
        module = fn._run_codegen(Specialization(types), CodegenOptions())
        compiler = Compiler.__new__(Compiler)  # its constructor wants the device compiler, which this stage doesn't use
        compiler.options = CompileOptions()
        compiler.run_passes(module)
        text = translation.ir_to_ascendc(module)
        str(module)  # lower() returns the ASC-IR too
        return decorated - start, time.perf_counter() - decorated, text

    return run


def compare(count: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds per kernel: decorator, pyasc alone, lower(); checks that the texts agree."""
    decorator, alone, ours = [], [], []
    for warm in (10**6, 10**6 + 1):
        pyasc_alone(request_for(warm))()
        lower(request_for(warm), cache=None)
    gc.collect()
    for index in range(count):
        request = request_for(index)
        run = pyasc_alone(request)

        def measure(request: LowerRequest = request) -> tuple[float, str]:
            start = time.perf_counter()
            text = lower(request, cache=None).ascendc
            return time.perf_counter() - start, text

        first = measure() if index % 2 else None
        decorate_s, alone_s, text = run()
        ours_s, our_text = first or measure()
        assert text == our_text, f"kernel {index}: the worker's Ascend C differs from pyasc's own"
        decorator.append(decorate_s)
        alone.append(alone_s)
        ours.append(ours_s)
    return decorator, alone, ours


def throughput(count: int, jobs: int) -> float:
    """Kernels per second of `lower_many`; the start of the workers is in the time."""
    start = time.perf_counter()
    done = sum(1 for _ in lower_many((request_for(10_000 + i) for i in range(count)), jobs, cache=None))
    assert done == count
    return count / (time.perf_counter() - start)


def plain_throughput(count: int, jobs: int) -> float:
    """Kernels per second of pyasc itself in `jobs` plain processes that share nothing, each with its part of the same
    kernels; start included."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import lowering; lowering.plain_share(*map(int, sys.argv[2:]))"
    command = [sys.executable, "-c", code, str(Path(__file__).resolve().parent)]
    start = time.perf_counter()
    parts = [subprocess.Popen([*command, str(job), str(jobs), str(count)]) for job in range(jobs)]
    codes = [part.wait() for part in parts]
    assert codes == [0] * jobs
    return count / (time.perf_counter() - start)


def plain_share(job: int, jobs: int, count: int) -> None:
    """Every `jobs`-th of `count` kernels, from `job` on, with pyasc in this process."""
    for index in range(job, count, jobs):
        pyasc_alone(request_for(10_000 + index))()


def machine() -> str:
    """Host name, processor, processors in use."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return f"{platform.node()}, {model}, {len(os.sched_getaffinity(0))} processors, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--bulk", type=int, default=1000, help="kernels for the throughput figure")
    args = parser.parse_args()
    print(f"machine: {machine()}; lowering format {LOWERING_FORMAT}")
    decorator, alone, ours = (statistics.median(times) * 1e3 for times in compare(args.kernels))
    print(f"median over {args.kernels} distinct kernels, no cache:")
    print(f"  pyasc alone (codegen, passes, emission)   {alone:7.2f} ms")
    print(f"  pyasc's decorator and module, before that {decorator:7.2f} ms")
    print(f"  lower(), text to text                     {ours:7.2f} ms   {ours / alone:.2f} x pyasc alone")
    ours_rate, plain_rate = throughput(args.bulk, args.jobs), plain_throughput(args.bulk, args.jobs)
    print(f"{args.bulk} kernels from source to Ascend C, {args.jobs} processes, start included:")
    print(f"  pyasc alone   {plain_rate:6.0f} kernels/s")
    print(f"  lower_many    {ours_rate:6.0f} kernels/s   {ours_rate / plain_rate:.2f} x pyasc alone")


if __name__ == "__main__":
    main()
