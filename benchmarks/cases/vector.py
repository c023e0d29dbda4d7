"""Kernels of vector instructions: Adds at chosen UB addresses, and a reordering with strided Copy instructions."""

import asc


@asc.jit
def add_at(
    first: asc.ConstExpr[int],
    second: asc.ConstExpr[int],
    result: asc.ConstExpr[int],
    block_stride: asc.ConstExpr[int],
    repeat_stride: asc.ConstExpr[int],
    times: asc.ConstExpr[int],
):
    """`times` Adds of 64 repeats of floats; the strides are those of the first source, in 32-byte blocks."""
    x = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, first, 4096)
    y = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, second, 4096)
    z = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, result, 4096)
    params = asc.BinaryRepeatParams(1, block_stride, 1, 8, repeat_stride, 8)
    for _i in range(times):
        asc.add(z, x, y, 64, 64, params)


@asc.jit
def nd_to_nz(
    x: asc.GlobalAddress,
    z: asc.GlobalAddress,
    column_stride: asc.ConstExpr[int],
):
    """An 8192 x 8192 half matrix into blocks of 16 columns: tiles of 144 x 128, 6 x 8 cores, two buffers by turns.

    Form of asc-devkit's bank_conflict_nd2nz sample. `column_stride`: rows between two column blocks in UB.
    """
    core = asc.get_block_idx()
    row_part = core // 8
    row_tiles = 10 if row_part < 3 else asc.number(9, asc.int32)
    first_tile = row_part * 10 if row_part < 3 else row_part * 9 + 3
    first_column = (core % 8) * 8
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    copy_params = asc.CopyRepeatParams(column_stride, 1, 1, 8)
    asc.set_flag(asc.HardEvent.V_MTE2, 0)
    asc.set_flag(asc.HardEvent.V_MTE2, 1)
    asc.set_flag(asc.HardEvent.MTE3_V, 0)
    asc.set_flag(asc.HardEvent.MTE3_V, 1)
    for tile_row in range(row_tiles):
        row = (first_tile + tile_row) * 144
        height = 144 if row + 144 <= 8192 else 8192 - row
        for tile_column in range(8):
            turn = tile_column % 2
            column = (first_column + tile_column) * 128
            nd = asc.LocalTensor(asc.float16, asc.TPosition.VECIN, turn * 36864, 18432)
            nz = asc.LocalTensor(asc.float16, asc.TPosition.VECOUT, 73728 + turn * 37120, 18560)
            asc.wait_flag(asc.HardEvent.V_MTE2, turn)
            at = asc.number(8192, asc.int64) * row + column
            asc.data_copy(nd, x_gm[at:], repeat_params=asc.DataCopyParams(height, 8, 504, 0))
            asc.set_flag(asc.HardEvent.MTE2_V, turn)
            asc.wait_flag(asc.HardEvent.MTE2_V, turn)
            asc.wait_flag(asc.HardEvent.MTE3_V, turn)
            asc.copy(nz, nd, 128, height, copy_params)
            asc.set_flag(asc.HardEvent.V_MTE2, turn)
            asc.set_flag(asc.HardEvent.V_MTE3, turn)
            asc.wait_flag(asc.HardEvent.V_MTE3, turn)
            to = asc.number(16, asc.int64) * (row + (column // 16) * 8192)
            params = asc.DataCopyParams(8, height, column_stride - height, 8192 - height)
            asc.data_copy(z_gm[to:], nz, repeat_params=params)
            asc.set_flag(asc.HardEvent.MTE3_V, turn)
    asc.wait_flag(asc.HardEvent.V_MTE2, 0)
    asc.wait_flag(asc.HardEvent.V_MTE2, 1)
    asc.wait_flag(asc.HardEvent.MTE3_V, 0)
    asc.wait_flag(asc.HardEvent.MTE3_V, 1)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
