"""Kernels with awkward scalar code, for the timing tests: each is lowered by the real pyasc."""

import asc


@asc.jit
def ragged_queue(
    x: asc.GlobalAddress, z: asc.GlobalAddress, total: int, per_core: asc.ConstExpr[int], tile: asc.ConstExpr[int]
):
    core = asc.get_block_idx()
    start = core * per_core
    left = total - start
    block = asc.number(per_core, asc.int32) if left > per_core else left
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que=x_queue, num=3, len=tile * 4)
    pipe.init_buffer(que=z_queue, num=2, len=tile * 4)
    tiles = asc.ceildiv(block, tile)
    for i in range(tiles):
        length = asc.number(tile, asc.int32) if i < tiles - 1 else block - i * tile
        at = asc.number(1, asc.int64) * start + i * tile
        params = asc.DataCopyExtParams(1, length * 4, 0, 0, 0)
        x_in = x_queue.alloc_tensor(asc.float32)
        asc.data_copy_pad(x_in, x_gm[at:], params, asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0))
        x_queue.enque(x_in)
        x_local = x_queue.deque(asc.float32)
        z_local = z_queue.alloc_tensor(asc.float32)
        asc.abs(z_local, x_local, length)
        z_queue.enque(z_local)
        x_queue.free_tensor(x_local)
        z_out = z_queue.deque(asc.float32)
        asc.data_copy_pad(z_gm[at:], z_out, params)
        z_queue.free_tensor(z_out)


@asc.jit
def grid_stride(x: asc.GlobalAddress, z: asc.GlobalAddress, tiles: int, tile: asc.ConstExpr[int]):
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    local = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, tile)
    for i in range(asc.get_block_idx(), tiles, asc.get_block_num()):
        at = asc.number(tile, asc.int64) * i
        asc.data_copy(local, x_gm[at:], tile)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        if i % 3 == 0:
            asc.exp(local, local, tile)
        else:
            asc.abs(local, local, tile)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(z_gm[at:], local, tile)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)


@asc.jit
def nested(x: asc.GlobalAddress, z: asc.GlobalAddress, rows: int, columns: int, tile: asc.ConstExpr[int]):
    core = asc.get_block_idx()
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    scale = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 65536, tile)
    local = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, tile)
    for row in range(rows):
        for column in range(columns):
            at = asc.number(1, asc.int64) * (core * rows + row) * columns * tile + column * tile
            asc.data_copy(scale, x_gm[column * tile :], tile)
            asc.data_copy(local, x_gm[at:], tile)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
            if row < column:
                asc.muls(local, local, 2.0, tile)
            asc.mul(local, local, scale, tile)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
            asc.data_copy(z_gm[at:], local, tile)
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)


@asc.jit
def shrinking(x: asc.GlobalAddress, z: asc.GlobalAddress, tiles: int):
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    local = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 4096)
    for i in range(tiles):
        length = (tiles - i) * 64
        asc.data_copy(local, x_gm[i * 4096 :], length)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.relu(local, local, length)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(z_gm[i * 4096 :], local, length)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
