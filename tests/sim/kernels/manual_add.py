"""z = x + y with static tensors and flags set by hand: two buffers of each tensor, tiles of 512 elements.

The style of pyasc's tutorial on manual synchronisation. total_length is a multiple of 1024."""

import asc

TILE = 512


@asc.jit
def k(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, total_length: int):
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm = asc.GlobalTensor()
    y_gm.set_global_buffer(y)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    x_ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 1024)
    y_ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 4096, 1024)
    z_ub = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, 8192, 1024)
    block_length = total_length // asc.get_block_num()
    start = asc.get_block_idx() * block_length
    asc.set_flag(asc.HardEvent.V_MTE2, 0)
    asc.set_flag(asc.HardEvent.V_MTE2, 1)
    asc.set_flag(asc.HardEvent.MTE3_V, 0)
    asc.set_flag(asc.HardEvent.MTE3_V, 1)
    for tile in range(block_length // TILE):
        half = tile % 2
        at = half * TILE
        asc.wait_flag(asc.HardEvent.V_MTE2, half)
        asc.data_copy(x_ub[at:], x_gm[start + tile * TILE :], TILE)
        asc.data_copy(y_ub[at:], y_gm[start + tile * TILE :], TILE)
        asc.set_flag(asc.HardEvent.MTE2_V, half)
        asc.wait_flag(asc.HardEvent.MTE2_V, half)
        asc.wait_flag(asc.HardEvent.MTE3_V, half)
        asc.add(z_ub[at:], x_ub[at:], y_ub[at:], TILE)
        asc.set_flag(asc.HardEvent.V_MTE2, half)
        asc.set_flag(asc.HardEvent.V_MTE3, half)
        asc.wait_flag(asc.HardEvent.V_MTE3, half)
        asc.data_copy(z_gm[start + tile * TILE :], z_ub[at:], TILE)
        asc.set_flag(asc.HardEvent.MTE3_V, half)
    asc.wait_flag(asc.HardEvent.V_MTE2, 0)
    asc.wait_flag(asc.HardEvent.V_MTE2, 1)
    asc.wait_flag(asc.HardEvent.MTE3_V, 0)
    asc.wait_flag(asc.HardEvent.MTE3_V, 1)
