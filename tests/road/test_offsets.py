"""Offsets beyond 2**31: the kernels' own instruction stream, without tensors of that size."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from asc_sched import Schedule, op
from asc_sched.errors import ShapeError
from asc_sched.kernel import Kernel
from asc_sched.sim import ArraySpec, stream
from asc_sched.sim.stream import Copy, Pipe

COPY = op("z = x + 1")
LARGE = 3_270_680_000


def stores(kernel: Kernel, length: int, core: int) -> list[tuple[int, int]]:
    """(first, last) element of every copy of one core to the output."""
    tiling = kernel.tiling_for(length)
    sizes = [np.int64(length)] if kernel.tiling is None else []
    itemsize = kernel.itemsizes[0]
    arrays = [ArraySpec(kernel.plan.inputs[0].dtype.asc, itemsize * length)] * 2
    records = stream(kernel.asc_ir, [*arrays, *sizes], core=core, core_num=tiling.core_num, target=kernel.target)
    copies = [r for r in records if isinstance(r, Copy) and r.pipe is Pipe.MTE3]
    return [(c.gm.offset // itemsize, (c.gm.offset + c.gm.nbytes) // itemsize - 1) for c in copies]


@pytest.mark.parametrize("core_split", ["even", "ceil"])
@pytest.mark.parametrize("shape", [LARGE, None], ids=["static", "any size"])
def test_the_last_core_ends_at_the_last_element(shape: int | None, core_split: str) -> None:
    kernel = COPY.compile(shape, "float16", schedule=Schedule(core_num=48, tile_length=16384, core_split=core_split))
    tiles = stores(kernel, LARGE, 47)
    assert tiles[-1][1] == 3_270_679_999  # -1 024 287 297 in 32 bits
    assert all(after[0] == before[1] + 1 for before, after in pairwise(tiles))
    assert tiles[0][0] == kernel.tiling_for(LARGE).block(47)[0]


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("length", [2**31 + 33, 2**32 + 1], ids=lambda n: f"{n:,}")
def test_beyond_the_32_bit_limits_the_last_core_stores_its_block(length: int, dtype: str) -> None:
    """Offsets in elements pass 2**31, those in bytes 2**32."""
    schedule = Schedule(core_num=48, tile_length=8192)
    for kernel in (COPY.compile(length, dtype, schedule=schedule), COPY.compile(None, dtype, schedule=schedule)):
        tiling = kernel.tiling_for(length)
        start, count = tiling.block(47)
        tiles = stores(kernel, length, 47)
        assert (tiles[0][0], tiles[-1][1]) == (start, length - 1) == (start, start + count - 1)


def test_no_32_bit_value_addresses_global_memory() -> None:
    """In the emitted C++ every index into a GlobalTensor is an int64_t."""
    for shape in (LARGE, 13243, None):
        code = COPY.compile(shape, "float16", schedule=Schedule(tile_length=4096)).ascendc
        tensors = set(re.findall(r"AscendC::GlobalTensor<\w+> (\w+);", code))
        indices = [i for name, i in re.findall(r"= (\w+)\[(\w+)\];", code) if name in tensors]
        assert len(indices) == 2
        for index in indices:
            assert re.search(rf"\bint64_t {index} =", code), f"{index} isn't an int64_t"


def test_a_length_whose_bytes_int64_cant_count_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"total_length=4611686018427387904 is out of range: allowed is 0 to 23058430"):
        COPY.compile(2**62)
