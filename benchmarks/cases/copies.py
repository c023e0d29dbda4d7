"""Kernels that only copy: blocks of a matrix from GM to UB, and single copies of one size, one after the other."""

import asc


@asc.jit
def load_blocks(
    x: asc.GlobalAddress,
    row_length: asc.ConstExpr[int],
    rows_per_core: asc.ConstExpr[int],
    tile_rows: asc.ConstExpr[int],
    tile_columns: asc.ConstExpr[int],
    parts: asc.ConstExpr[int],
    passes: asc.ConstExpr[int],
):
    """A core's rows in tiles of `tile_rows` x `tile_columns`; each of `parts` column ranges is read `passes` times."""
    core = asc.get_block_idx()
    first_row = core * rows_per_core
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, 0, tile_rows * tile_columns)
    pad = asc.DataCopyPadExtParams(asc.float16, False, 0, 0, 0)
    part_length = row_length // parts
    for part in range(parts):
        for _pass in range(passes):
            for row in range(rows_per_core // tile_rows):
                for column in range(asc.ceildiv(part_length, tile_columns)):
                    rest = part_length - column * tile_columns
                    columns = asc.number(tile_columns, asc.int32) if rest > tile_columns else rest
                    at = asc.number(row_length, asc.int64) * (first_row + row * tile_rows)
                    at = at + part * part_length + column * tile_columns
                    params = asc.DataCopyExtParams(tile_rows, columns * 2, (row_length - columns) * 2, 0, 0)
                    asc.data_copy_pad(local, x_gm[at:], params, pad)


@asc.jit
def load_one_by_one(x: asc.GlobalAddress, copy_length: int, copies: int):
    """`copies` loads of `copy_length` halves; each ends before the next begins."""
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, 0, copy_length)
    for i in range(copies):
        asc.data_copy(local, x_gm[asc.number(1, asc.int64) * copy_length * i :], copy_length)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)


@asc.jit
def store_one_by_one(z: asc.GlobalAddress, copy_length: int, copies: int):
    """`copies` stores of `copy_length` halves; each ends before the next begins."""
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, 0, copy_length)
    for i in range(copies):
        asc.data_copy(z_gm[asc.number(1, asc.int64) * copy_length * i :], local, copy_length)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)


@asc.jit
def load_everything(x: asc.GlobalAddress, rotate: asc.ConstExpr[bool]):
    """Every core reads the whole 6144 x 512 matrix past L2, in blocks of 128 rows; rotated, each starts at its own."""
    core = asc.get_block_idx()
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    # pyasc emits CACHE_MODE_DISABLE for CACHE_MODE_NORMAL and the other way round.
    x_gm.set_l2_cache_hint(asc.CacheMode.CACHE_MODE_NORMAL)
    local = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, 0, 8192)
    params = asc.DataCopyExtParams(128, 128, 896, 0, 0)
    pad = asc.DataCopyPadExtParams(asc.float16, False, 0, 0, 0)
    for i in range(48):
        block = (i + core) % 48 if rotate else i
        for column in range(8):
            asc.data_copy_pad(local, x_gm[block * 65536 + column * 64 :], params, pad)
