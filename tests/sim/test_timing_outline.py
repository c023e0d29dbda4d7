"""Interpreting many iterations and cores at once gives exactly what interpreting each of them gives."""

from __future__ import annotations

import pytest

from asc_sched.sim import ArraySpec, kernel_outlines, stream
from asc_sched.sim.outline import Repeat, walk
from asc_sched.target import get_target
from tests.sim.timing_support import CASES, HERE, lowered, merged, written_out

TARGET = get_target()
_OWN = HERE / "timing_kernels.py"
_BIG = ArraySpec("float32", 1 << 26)
_HALF = ArraySpec("float16", 1 << 28)
_TQUE = (("tile_length", 8192), ("tiles_per_core", 5), ("total_tiles", 96))
_ADD = (("row_length", 8192), ("rows_per_core", 170), ("longer_cores", 32), ("tile_length", 16256))
_APART = (("inputs_apart", 65536), ("outputs_apart", 32512))
_BLOCKS = (
    ("row_length", 4096), ("rows_per_core", 32), ("tile_rows", 16), ("tile_columns", 256), ("parts", 4), ("passes", 3),
)  # fmt: skip

KERNELS = {
    "queue with a tail on the last core": (
        _OWN, "ragged_queue", "*float32 *float32 int32", (("per_core", 5000), ("tile", 512)), (_BIG, _BIG, 17777), 4,
    ),
    "queue with less than one tile": (
        _OWN, "ragged_queue", "*float32 *float32 int32", (("per_core", 8), ("tile", 512)), (_BIG, _BIG, 20), 3,
    ),
    "grid-stride loop with a branch by residue": (
        _OWN, "grid_stride", "*float32 *float32 int32", (("tile", 1024),), (_BIG, _BIG, 100), 7,
    ),
    "nested loops with a branch over both": (
        _OWN, "nested", "*float32 *float32 int32 int32", (("tile", 256),), (_BIG, _BIG, 6, 5), 3,
    ),
    "tiles of falling length": (_OWN, "shrinking", "*float32 *float32 int32", (), (_BIG, _BIG, 9), 1),
    "flags with buffers by turns": (
        CASES / "add_static.py", "two_buffers", "*float16 *float16 *float16",
        (*_ADD, ("second", 32512), ("third", 131072), *_APART, ("bypass", True)),
        (_HALF, _HALF, _HALF), 48,
    ),
    "flags with one buffer": (
        CASES / "add_static.py", "one_buffer", "*float16 *float16 *float16",
        (*_ADD, ("second", 32768), ("third", 65536)), (_HALF, _HALF, _HALF), 48,
    ),
    "four inputs through queues": (CASES / "tque.py", "add4", "*float16 " * 5, _TQUE, (_HALF,) * 5, 20),
    "strided tiles dealt to cores in two dimensions": (
        CASES / "vector.py", "nd_to_nz", "*float16 *float16", (("column_stride", 145),), (_HALF, _HALF), 48,
    ),
    "repeated passes over parts of rows": (
        CASES / "copies.py", "load_blocks", "*float16", _BLOCKS, (_HALF,), 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_outline_is_the_instruction_stream(name: str) -> None:
    file, entry, args, consts, values, core_num = KERNELS[name]
    text = lowered(file, entry, args, consts)
    groups, _ = kernel_outlines(text, values, core_num=core_num, target=TARGET)
    assert sum(g.cores for g in groups) == core_num
    for core in {0, 1, core_num // 2, core_num - 1}:
        if core < core_num:
            plain = merged(iter(stream(text, values, core=core, core_num=core_num, target=TARGET)))
            assert written_out(groups, core) == plain, f"core {core}"


def test_like_cores_and_tiles_are_interpreted_once() -> None:
    file, entry, args, consts, values, core_num = KERNELS["flags with one buffer"]
    groups, _ = kernel_outlines(lowered(file, entry, args, consts), values, core_num=core_num, target=TARGET)
    assert [(g.start, g.cores) for g in groups] == [(0, 32), (32, 16)]
    for group in groups:
        assert any(isinstance(n, Repeat) for n in group.nodes)
        assert sum(1 for _ in walk(group.nodes)) < 150


def test_a_launch_of_no_cores_has_no_groups() -> None:
    file, entry, args, consts, values, _ = KERNELS["flags with one buffer"]
    groups, sizes = kernel_outlines(lowered(file, entry, args, consts), values, core_num=0, target=TARGET)
    assert groups == ()
    assert sizes == (1 << 28,) * 3
