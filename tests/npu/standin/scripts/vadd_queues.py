"""A vector add in pyasc with a pipe and queues, as the framework tutorial has it."""

import argparse
import logging

import asc
import asc.lib.runtime as rt
import asc.runtime.config as config
import torch

USE_CORE_NUM = 8
TILE_NUM = 8
BUFFER_NUM = 2

logging.basicConfig(level=logging.INFO)


@asc.jit
def copy_in(i: int, x_gm: asc.GlobalTensor, y_gm: asc.GlobalTensor, x_queue: asc.TQue, y_queue: asc.TQue, length: int):
    x_local = x_queue.alloc_tensor(x_gm.dtype)
    y_local = y_queue.alloc_tensor(y_gm.dtype)
    asc.data_copy(x_local, x_gm[i * length :], length)
    asc.data_copy(y_local, y_gm[i * length :], length)
    x_queue.enque(x_local)
    y_queue.enque(y_local)


@asc.jit
def compute(z_gm: asc.GlobalTensor, x_queue: asc.TQue, y_queue: asc.TQue, z_queue: asc.TQue, length: int):
    x_local = x_queue.deque(z_gm.dtype)
    y_local = y_queue.deque(z_gm.dtype)
    z_local = z_queue.alloc_tensor(z_gm.dtype)
    asc.add(z_local, x_local, y_local, length)
    z_queue.enque(z_local)
    x_queue.free_tensor(x_local)
    y_queue.free_tensor(y_local)


@asc.jit
def copy_out(i: int, z_gm: asc.GlobalTensor, z_queue: asc.TQue, length: int):
    z_local = z_queue.deque(z_gm.dtype)
    asc.data_copy(z_gm[i * length :], z_local, length)
    z_queue.free_tensor(z_local)


@asc.jit
def vadd_kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, block_length: int):
    offset = asc.get_block_idx() * block_length
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + offset, block_length)
    y_gm.set_global_buffer(y + offset, block_length)
    z_gm.set_global_buffer(z + offset, block_length)
    length = block_length // TILE_NUM // BUFFER_NUM
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, BUFFER_NUM)
    y_queue = asc.TQue(asc.TPosition.VECIN, BUFFER_NUM)
    z_queue = asc.TQue(asc.TPosition.VECOUT, BUFFER_NUM)
    pipe.init_buffer(que=x_queue, num=BUFFER_NUM, len=length * x.dtype.sizeof())
    pipe.init_buffer(que=y_queue, num=BUFFER_NUM, len=length * y.dtype.sizeof())
    pipe.init_buffer(que=z_queue, num=BUFFER_NUM, len=length * z.dtype.sizeof())
    for i in range(TILE_NUM * BUFFER_NUM):
        copy_in(i, x_gm, y_gm, x_queue, y_queue, length)
        compute(z_gm, x_queue, y_queue, z_queue, length)
        copy_out(i, z_gm, z_queue, length)


def vadd_launch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.zeros_like(x)
    vadd_kernel[USE_CORE_NUM, rt.current_stream()](x, y, z, x.numel() // USE_CORE_NUM)
    return z


def vadd_custom(backend, platform) -> None:
    config.set_platform(backend, platform)
    device = "npu" if backend == config.Backend.NPU else "cpu"
    x = torch.rand(8 * 2048, dtype=torch.float32, device=device)
    y = torch.rand(8 * 2048, dtype=torch.float32, device=device)
    z = vadd_launch(x, y)
    assert torch.allclose(z, x + y)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", type=str, default="Model", help="backend")
    parser.add_argument("-v", type=str, default=None, help="platform")
    args = parser.parse_args()
    if args.r not in config.Backend.__members__:
        raise ValueError(f"Unsupported backend, supported: {list(config.Backend.__members__)}")
    platform = config.Platform(args.v) if args.v is not None else None
    logging.info("[INFO] start process sample add_framework.")
    vadd_custom(config.Backend(args.r), platform)
    logging.info("[INFO] Sample add_framework run success.")
