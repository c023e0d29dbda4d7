"""relu, mul and the sum of four inputs with TPipe and TQue: two buffers per queue, data_copy_pad, tiles of 8192 halves.

Form of the published msprof runs: tiles dealt out to the cores in blocks of `tiles_per_core`, the last core may have
fewer. Tiles are whole.
"""

import asc


@asc.jit
def relu(
    x: asc.GlobalAddress,
    z: asc.GlobalAddress,
    tile_length: asc.ConstExpr[int],
    tiles_per_core: asc.ConstExpr[int],
    total_tiles: asc.ConstExpr[int],
):
    core = asc.get_block_idx()
    first_tile = core * tiles_per_core
    left = total_tiles - first_tile
    tiles = asc.number(tiles_per_core, asc.int32) if left > tiles_per_core else left
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que=x_queue, num=2, len=tile_length * 2)
    pipe.init_buffer(que=z_queue, num=2, len=tile_length * 2)
    params = asc.DataCopyExtParams(1, tile_length * 2, 0, 0, 0)
    pad = asc.DataCopyPadExtParams(asc.float16, False, 0, 0, 0)
    for i in range(tiles):
        at = asc.number(tile_length, asc.int64) * (first_tile + i)
        x_in = x_queue.alloc_tensor(asc.float16)
        asc.data_copy_pad(x_in, x_gm[at:], params, pad)
        x_queue.enque(x_in)
        x_local = x_queue.deque(asc.float16)
        z_local = z_queue.alloc_tensor(asc.float16)
        asc.relu(z_local, x_local, tile_length)
        z_queue.enque(z_local)
        x_queue.free_tensor(x_local)
        z_out = z_queue.deque(asc.float16)
        asc.data_copy_pad(z_gm[at:], z_out, params)
        z_queue.free_tensor(z_out)


@asc.jit
def mul(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    tile_length: asc.ConstExpr[int],
    tiles_per_core: asc.ConstExpr[int],
    total_tiles: asc.ConstExpr[int],
):
    core = asc.get_block_idx()
    first_tile = core * tiles_per_core
    left = total_tiles - first_tile
    tiles = asc.number(tiles_per_core, asc.int32) if left > tiles_per_core else left
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 1)
    y_queue = asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que=x_queue, num=2, len=tile_length * 2)
    pipe.init_buffer(que=y_queue, num=2, len=tile_length * 2)
    pipe.init_buffer(que=z_queue, num=2, len=tile_length * 2)
    params = asc.DataCopyExtParams(1, tile_length * 2, 0, 0, 0)
    pad = asc.DataCopyPadExtParams(asc.float16, False, 0, 0, 0)
    for i in range(tiles):
        at = asc.number(tile_length, asc.int64) * (first_tile + i)
        x_in = x_queue.alloc_tensor(asc.float16)
        y_in = y_queue.alloc_tensor(asc.float16)
        asc.data_copy_pad(x_in, x_gm[at:], params, pad)
        asc.data_copy_pad(y_in, y_gm[at:], params, pad)
        x_queue.enque(x_in)
        y_queue.enque(y_in)
        x_local = x_queue.deque(asc.float16)
        y_local = y_queue.deque(asc.float16)
        z_local = z_queue.alloc_tensor(asc.float16)
        asc.mul(z_local, x_local, y_local, tile_length)
        z_queue.enque(z_local)
        x_queue.free_tensor(x_local)
        y_queue.free_tensor(y_local)
        z_out = z_queue.deque(asc.float16)
        asc.data_copy_pad(z_gm[at:], z_out, params)
        z_queue.free_tensor(z_out)


@asc.jit
def add4(
    x1: asc.GlobalAddress,
    x2: asc.GlobalAddress,
    x3: asc.GlobalAddress,
    x4: asc.GlobalAddress,
    z: asc.GlobalAddress,
    tile_length: asc.ConstExpr[int],
    tiles_per_core: asc.ConstExpr[int],
    total_tiles: asc.ConstExpr[int],
):
    core = asc.get_block_idx()
    first_tile = core * tiles_per_core
    left = total_tiles - first_tile
    tiles = asc.number(tiles_per_core, asc.int32) if left > tiles_per_core else left
    x1_gm = asc.GlobalTensor()
    x2_gm = asc.GlobalTensor()
    x3_gm = asc.GlobalTensor()
    x4_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x1_gm.set_global_buffer(x1)
    x2_gm.set_global_buffer(x2)
    x3_gm.set_global_buffer(x3)
    x4_gm.set_global_buffer(x4)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    x1_queue = asc.TQue(asc.TPosition.VECIN, 1)
    x2_queue = asc.TQue(asc.TPosition.VECIN, 1)
    x3_queue = asc.TQue(asc.TPosition.VECIN, 1)
    x4_queue = asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que=x1_queue, num=2, len=tile_length * 2)
    pipe.init_buffer(que=x2_queue, num=2, len=tile_length * 2)
    pipe.init_buffer(que=x3_queue, num=2, len=tile_length * 2)
    pipe.init_buffer(que=x4_queue, num=2, len=tile_length * 2)
    pipe.init_buffer(que=z_queue, num=2, len=tile_length * 2)
    params = asc.DataCopyExtParams(1, tile_length * 2, 0, 0, 0)
    pad = asc.DataCopyPadExtParams(asc.float16, False, 0, 0, 0)
    for i in range(tiles):
        at = asc.number(tile_length, asc.int64) * (first_tile + i)
        in1 = x1_queue.alloc_tensor(asc.float16)
        in2 = x2_queue.alloc_tensor(asc.float16)
        in3 = x3_queue.alloc_tensor(asc.float16)
        in4 = x4_queue.alloc_tensor(asc.float16)
        asc.data_copy_pad(in1, x1_gm[at:], params, pad)
        asc.data_copy_pad(in2, x2_gm[at:], params, pad)
        asc.data_copy_pad(in3, x3_gm[at:], params, pad)
        asc.data_copy_pad(in4, x4_gm[at:], params, pad)
        x1_queue.enque(in1)
        x2_queue.enque(in2)
        x3_queue.enque(in3)
        x4_queue.enque(in4)
        local1 = x1_queue.deque(asc.float16)
        local2 = x2_queue.deque(asc.float16)
        local3 = x3_queue.deque(asc.float16)
        local4 = x4_queue.deque(asc.float16)
        z_local = z_queue.alloc_tensor(asc.float16)
        asc.add(z_local, local1, local2, tile_length)
        asc.add(z_local, z_local, local3, tile_length)
        asc.add(z_local, z_local, local4, tile_length)
        z_queue.enque(z_local)
        x1_queue.free_tensor(local1)
        x2_queue.free_tensor(local2)
        x3_queue.free_tensor(local3)
        x4_queue.free_tensor(local4)
        z_out = z_queue.deque(asc.float16)
        asc.data_copy_pad(z_gm[at:], z_out, params)
        z_queue.free_tensor(z_out)
