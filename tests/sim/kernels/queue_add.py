"""z = x + y with queues and a byte-exact tail: tiles of 512 elements, double buffers, any total_length."""

import asc

TILE = 512


@asc.jit
def k(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, total_length: int):
    block_length = asc.ceildiv(asc.ceildiv(total_length, asc.get_block_num()), 8) * 8
    start = asc.get_block_idx() * block_length
    length = total_length - start if total_length - start < block_length else block_length
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm = asc.GlobalTensor()
    y_gm.set_global_buffer(y)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    x_queue = asc.TQue(asc.TPosition.VECIN, 1)
    y_queue = asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que=x_queue, num=2, len=TILE * 4)
    pipe.init_buffer(que=y_queue, num=2, len=TILE * 4)
    pipe.init_buffer(que=z_queue, num=2, len=TILE * 4)
    for tile in range(asc.ceildiv(length, TILE)):
        left = length - tile * TILE
        count = left if left < TILE else asc.number(TILE, asc.int32)
        at = start + tile * TILE
        params = asc.DataCopyExtParams(1, count * 4, 0, 0, 0)
        x_ub = x_queue.alloc_tensor(asc.float32)
        asc.data_copy_pad(x_ub, x_gm[at:], params, asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0))
        x_queue.enque(x_ub)
        y_ub = y_queue.alloc_tensor(asc.float32)
        asc.data_copy_pad(y_ub, y_gm[at:], params, asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0))
        y_queue.enque(y_ub)
        x_in = x_queue.deque(asc.float32)
        y_in = y_queue.deque(asc.float32)
        z_ub = z_queue.alloc_tensor(asc.float32)
        asc.add(z_ub, x_in, y_in, count)
        z_queue.enque(z_ub)
        x_queue.free_tensor(x_in)
        y_queue.free_tensor(y_in)
        z_out = z_queue.deque(asc.float32)
        asc.data_copy_pad(z_gm[at:], z_out, params)
        z_queue.free_tensor(z_out)
