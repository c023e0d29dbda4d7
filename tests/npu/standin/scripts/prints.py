"""A kernel that prints, one whose control flow reads a tensor, and a call that pyasc packs badly."""

import logging

import asc
import asc.lib.runtime as rt
import asc.runtime.config as config
import numpy as np

logging.basicConfig(level=logging.INFO)


@asc.jit
def printing(x: asc.GlobalAddress, n: int):
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    pipe = asc.TPipe()
    queue = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(que=queue, num=1, len=256)
    local = queue.alloc_tensor(x.dtype)
    asc.data_copy(local, x_gm, n)
    queue.enque(local)
    local = queue.deque(x.dtype)
    asc.printf("n is %d", n)
    queue.free_tensor(local)


@asc.jit
def scalars(x: asc.GlobalAddress, m: int, n: int):
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)


if __name__ == "__main__":
    config.set_platform(config.Backend.Model, config.Platform.Ascend910B1)
    x = np.arange(64, dtype=np.float32)
    printing[2, rt.current_stream()](x, 64)
    logging.info("printed")
    scalars[1, rt.current_stream()](x, 1, np.int64(2))
