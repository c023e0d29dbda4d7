"""Hand-written kernels that the tests of the build room lower."""

from __future__ import annotations

from asc_sched.build import ArgType, LowerRequest

F32, F16, I32 = ArgType("pointer", "float32"), ArgType("pointer", "float16"), ArgType("scalar", "int32")

EXP = """import asc

TILE = 256


@asc.jit
def load(queue, gm, offset, tile_length: asc.ConstExpr[int]):
    tile = queue.alloc_tensor(asc.float32)
    asc.data_copy(tile, gm[offset:], tile_length)
    queue.enque(tile)


@asc.jit
def exp_kernel(x, z, tile_num):
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, 2, 4 * TILE)
    pipe.init_buffer(out_z, 2, 4 * TILE)
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    for i in range(tile_num):
        load(in_x, x_gm, i * TILE, TILE)
        a = in_x.deque(asc.float32)
        b = out_z.alloc_tensor(asc.float32)
        asc.exp(b, a, TILE)
        out_z.enque(b)
        in_x.free_tensor(a)
        c = out_z.deque(asc.float32)
        asc.data_copy(z_gm[i * TILE:], c, TILE)
        out_z.free_tensor(c)
"""

# A bare alias of the loop variable takes pyasc 1.1.1 down.
CRASH = """import asc


@asc.jit
def crash_kernel(x, n):
    last = n
    for i in range(n):
        last = i
    g = asc.GlobalTensor()
    g.set_global_buffer(x)
    g.set_value(0, last)
"""

# Three loop-carried scalars: their order in pyasc's output follows the process's hash seed.
CARRIED = """import asc


@asc.jit
def carried(x, n):
    g = asc.GlobalTensor()
    g.set_global_buffer(x)
    alpha = asc.number(0, asc.int32)
    beta = asc.number(1, asc.int32)
    gamma = asc.number(2, asc.int32)
    for i in range(n):
        alpha = alpha + i
        beta = beta + alpha
        gamma = gamma + beta
    g.set_value(0, alpha + beta + gamma)
"""

HANG = """import asc
import time

time.sleep(600)


@asc.jit
def hang_kernel(x):
    pass
"""


def exp_request(**changes: object) -> LowerRequest:
    fields = {"source": EXP, "entry": "exp_kernel", "arg_types": (F32, F32, I32)} | changes
    return LowerRequest(**fields)  # type: ignore[arg-type]


def crash_request() -> LowerRequest:
    return LowerRequest(source=CRASH, entry="crash_kernel", arg_types=(ArgType("pointer", "int32"), I32))


def tiny(name: str, body: str, args: str = "x, n", types: tuple[ArgType, ...] = (F32, I32)) -> LowerRequest:
    """A one-function module: `body` is its lines, already without indentation."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return LowerRequest(source=f"import asc\n\n\n@asc.jit\ndef {name}({args}):\n{lines}", entry=name, arg_types=types)


def nth(index: int) -> LowerRequest:
    """A kernel that differs from all with another index."""
    return tiny(f"fill_{index}", f"g = asc.GlobalTensor()\ng.set_global_buffer(x)\ng.set_value(0, n + {index})", "x, n",
                (ArgType("pointer", "int32"), I32))  # fmt: skip
