"""A vector add in pyasc with local tensors at fixed addresses and flags between the pipes, on numpy arrays."""

import argparse
import logging

import asc
import asc.lib.runtime as rt
import asc.runtime.config as config
import numpy as np

USE_CORE_NUM = 4
TILE_NUM = 4
BUFFER_NUM = 2

logging.basicConfig(level=logging.INFO)


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
    size = length * BUFFER_NUM * x.dtype.sizeof()
    x_local = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, length * BUFFER_NUM)
    y_local = asc.LocalTensor(y.dtype, asc.TPosition.VECIN, size, length * BUFFER_NUM)
    z_local = asc.LocalTensor(z.dtype, asc.TPosition.VECOUT, size + size, length * BUFFER_NUM)
    for i in range(TILE_NUM * BUFFER_NUM):
        buffer = i % BUFFER_NUM
        asc.data_copy(x_local[buffer * length :], x_gm[i * length :], length)
        asc.data_copy(y_local[buffer * length :], y_gm[i * length :], length)
        asc.set_flag(asc.HardEvent.MTE2_V, buffer)
        asc.wait_flag(asc.HardEvent.MTE2_V, buffer)
        asc.add(z_local[buffer * length :], x_local[buffer * length :], y_local[buffer * length :], length)
        asc.set_flag(asc.HardEvent.V_MTE3, buffer)
        asc.wait_flag(asc.HardEvent.V_MTE3, buffer)
        asc.data_copy(z_gm[i * length :], z_local[buffer * length :], length)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, buffer)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, buffer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", type=str, default="Model")
    parser.add_argument("-v", type=str, default=None)
    args = parser.parse_args()
    config.set_platform(config.Backend(args.r), config.Platform(args.v) if args.v is not None else None)
    rng = np.random.default_rng(0)
    x, y = (rng.random(4 * 1024, dtype=np.float32) for _ in range(2))
    z = np.zeros_like(x)
    vadd_kernel[USE_CORE_NUM, rt.current_stream()](x, y, z, x.size // USE_CORE_NUM)
    np.testing.assert_array_equal(z, x + y)
    logging.info("[INFO] Sample add run success.")
