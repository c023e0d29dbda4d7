"""Add of two matrices with static tensors and flags: one buffer, or two used in turn.

Form of asc-devkit's add_high_performance sample: rows split evenly over the cores, a core's rows copied in pieces of
`tile_length` elements. `second` is the byte address of y in UB (x is at 0), `third` that of z.
"""

import asc


@asc.jit
def by_elements(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    tiles: asc.ConstExpr[int],
    tile_length: asc.ConstExpr[int],
    second: asc.ConstExpr[int],
    third: asc.ConstExpr[int],
):
    """Scalar code adds element by element."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    x_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, 0, tile_length)
    y_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, second, tile_length)
    z_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, third, tile_length)
    for i in range(tiles):
        at = asc.number(tile_length, asc.int64) * i
        asc.data_copy(x_local, x_gm[at:], tile_length)
        asc.data_copy(y_local, y_gm[at:], tile_length)
        asc.set_flag(asc.HardEvent.MTE2_S, 0)
        asc.wait_flag(asc.HardEvent.MTE2_S, 0)
        for j in range(tile_length):
            total = x_local.get_value(j).cast(asc.float32) + y_local.get_value(j).cast(asc.float32)
            z_local.set_value(j, total.cast(asc.float16))
        asc.set_flag(asc.HardEvent.S_MTE3, 0)
        asc.wait_flag(asc.HardEvent.S_MTE3, 0)
        asc.data_copy(z_gm[at:], z_local, tile_length)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)


@asc.jit
def one_buffer(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    row_length: asc.ConstExpr[int],
    rows_per_core: asc.ConstExpr[int],
    longer_cores: asc.ConstExpr[int],
    tile_length: asc.ConstExpr[int],
    second: asc.ConstExpr[int],
    third: asc.ConstExpr[int],
):
    core = asc.get_block_idx()
    rows = rows_per_core + 1 if core < longer_cores else asc.number(rows_per_core, asc.int32)
    first_row = core * (rows_per_core + 1) if core < longer_cores else core * rows_per_core + longer_cores
    start = asc.number(row_length, asc.int64) * first_row
    block_length = rows * row_length
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    x_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, 0, tile_length)
    y_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, second, tile_length)
    z_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, third, tile_length)
    tiles = asc.ceildiv(block_length, tile_length)
    for i in range(tiles):
        at = start + asc.number(tile_length, asc.int64) * i
        rest = block_length - i * tile_length
        length = asc.number(tile_length, asc.int32) if rest > tile_length else rest
        if i != 0:
            asc.wait_flag(asc.HardEvent.V_MTE2, 0)
        asc.data_copy(x_local, x_gm[at:], length)
        asc.data_copy(y_local, y_gm[at:], length)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        if i != 0:
            asc.wait_flag(asc.HardEvent.MTE3_V, 0)
        asc.add(z_local, x_local, y_local, length)
        if i != tiles - 1:
            asc.set_flag(asc.HardEvent.V_MTE2, 0)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(z_gm[at:], z_local, length)
        if i != tiles - 1:
            asc.set_flag(asc.HardEvent.MTE3_V, 0)


@asc.jit
def two_buffers(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    row_length: asc.ConstExpr[int],
    rows_per_core: asc.ConstExpr[int],
    longer_cores: asc.ConstExpr[int],
    tile_length: asc.ConstExpr[int],
    second: asc.ConstExpr[int],
    third: asc.ConstExpr[int],
    inputs_apart: asc.ConstExpr[int],
    outputs_apart: asc.ConstExpr[int],
    bypass: asc.ConstExpr[bool],
):
    core = asc.get_block_idx()
    rows = rows_per_core + 1 if core < longer_cores else asc.number(rows_per_core, asc.int32)
    first_row = core * (rows_per_core + 1) if core < longer_cores else core * rows_per_core + longer_cores
    start = asc.number(row_length, asc.int64) * first_row
    block_length = rows * row_length
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    if bypass:
        # pyasc emits CACHE_MODE_DISABLE for CACHE_MODE_NORMAL and the other way round.
        x_gm.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_NORMAL)
        y_gm.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_NORMAL)
    asc.set_flag(asc.HardEvent.V_MTE2, 0)
    asc.set_flag(asc.HardEvent.V_MTE2, 1)
    asc.set_flag(asc.HardEvent.MTE3_V, 0)
    asc.set_flag(asc.HardEvent.MTE3_V, 1)
    for i in range(asc.ceildiv(block_length, tile_length)):
        at = start + asc.number(tile_length, asc.int64) * i
        rest = block_length - i * tile_length
        length = asc.number(tile_length, asc.int32) if rest > tile_length else rest
        turn = i % 2
        x_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, turn * inputs_apart, tile_length)
        y_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, turn * inputs_apart + second, tile_length)
        z_local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, turn * outputs_apart + third, tile_length)
        asc.wait_flag(asc.HardEvent.V_MTE2, turn)
        asc.data_copy(x_local, x_gm[at:], length)
        asc.data_copy(y_local, y_gm[at:], length)
        asc.set_flag(asc.HardEvent.MTE2_V, turn)
        asc.wait_flag(asc.HardEvent.MTE2_V, turn)
        asc.wait_flag(asc.HardEvent.MTE3_V, turn)
        asc.add(z_local, x_local, y_local, length)
        asc.set_flag(asc.HardEvent.V_MTE2, turn)
        asc.set_flag(asc.HardEvent.V_MTE3, turn)
        asc.wait_flag(asc.HardEvent.V_MTE3, turn)
        asc.data_copy(z_gm[at:], z_local, length)
        asc.set_flag(asc.HardEvent.MTE3_V, turn)
    asc.wait_flag(asc.HardEvent.V_MTE2, 0)
    asc.wait_flag(asc.HardEvent.V_MTE2, 1)
    asc.wait_flag(asc.HardEvent.MTE3_V, 0)
    asc.wait_flag(asc.HardEvent.MTE3_V, 1)
