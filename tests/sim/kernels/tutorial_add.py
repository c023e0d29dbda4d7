"""z = x + y in the shape that pyasc's tutorials give a kernel.

Queues of depth 2, ceil split over the cores, a block cut into TILE_NUM x BUFFER_NUM tiles by integer division, plain
data_copy. Right when everything divides evenly."""

import asc

TILE_NUM = 8
BUFFER_NUM = 2


@asc.jit
def copy_in(x_gm, y_gm, in_queue_x, in_queue_y, progress, tile_length):
    x_local = in_queue_x.alloc_tensor(asc.float32)
    y_local = in_queue_y.alloc_tensor(asc.float32)
    asc.data_copy(x_local, x_gm[progress * tile_length :], tile_length)
    asc.data_copy(y_local, y_gm[progress * tile_length :], tile_length)
    in_queue_x.enque(x_local)
    in_queue_y.enque(y_local)


@asc.jit
def compute(in_queue_x, in_queue_y, out_queue_z, tile_length):
    x_local = in_queue_x.deque(asc.float32)
    y_local = in_queue_y.deque(asc.float32)
    z_local = out_queue_z.alloc_tensor(asc.float32)
    asc.add(z_local, x_local, y_local, tile_length)
    out_queue_z.enque(z_local)
    in_queue_x.free_tensor(x_local)
    in_queue_y.free_tensor(y_local)


@asc.jit
def copy_out(z_gm, out_queue_z, progress, tile_length):
    z_local = out_queue_z.deque(asc.float32)
    asc.data_copy(z_gm[progress * tile_length :], z_local, tile_length)
    out_queue_z.free_tensor(z_local)


@asc.jit
def tutorial_add(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, total_length: int):
    block_length = asc.ceildiv(total_length, asc.get_block_num())
    tile_length = block_length // TILE_NUM // BUFFER_NUM
    offset = asc.get_block_idx() * block_length
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + offset)
    y_gm = asc.GlobalTensor()
    y_gm.set_global_buffer(y + offset)
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z + offset)
    pipe = asc.TPipe()
    in_queue_x = asc.TQue(asc.TPosition.VECIN, 2)
    in_queue_y = asc.TQue(asc.TPosition.VECIN, 2)
    out_queue_z = asc.TQue(asc.TPosition.VECOUT, 2)
    pipe.init_buffer(que=in_queue_x, num=BUFFER_NUM, len=tile_length * 4)
    pipe.init_buffer(que=in_queue_y, num=BUFFER_NUM, len=tile_length * 4)
    pipe.init_buffer(que=out_queue_z, num=BUFFER_NUM, len=tile_length * 4)
    for progress in range(TILE_NUM * BUFFER_NUM):
        copy_in(x_gm, y_gm, in_queue_x, in_queue_y, progress, tile_length)
        compute(in_queue_x, in_queue_y, out_queue_z, tile_length)
        copy_out(z_gm, out_queue_z, progress, tile_length)
