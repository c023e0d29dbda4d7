"""Candidates are checked by execution at a size of their own kind: as many kinds of tiles, few of each."""

from __future__ import annotations

import attrs
import pytest

from asc_sched import Schedule, get_target, op, ops
from asc_sched.kernel import compile_kernel, generate
from asc_sched.tune.verify import WHOLE, reduced, verify

CHIP = get_target("Ascend910B1")
CASES = [
    ("add", [(8192, 8192), (8192,)], "float16", {"core_num": 48, "tile_length": 16384}),
    ("add", [(8192, 8192), (8192,)], "float16", {"core_num": 48, "tile_length": 2048, "l2_cache": "bypass"}),
    ("bias_silu", [(1021, 1031), (1031,)], "float32", {"core_num": 40, "tile_length": 3096}),
    ("mul", [(4096, 4096), (4096, 1)], "bfloat16", {"core_num": 48, "tile_length": 8192}),
    ("add", [(64, 1, 512), (1, 128, 512)], "float32", {"core_num": 48, "tile_length": 7680}),
    ("add", [(64, 1, 5, 512), (1, 128, 5, 1)], "float32", {"core_num": 40, "tile_length": 8192}),
    ("add", [(1 << 22,), ()], "float32", {"core_num": 40, "tile_length": 8192}),
    ("add", [(1000003, 3), (3,)], "int8", {"core_num": 48, "tile_length": 15744}),
    ("add", [(16, 70001), (70001,)], "float32", {"core_num": 48, "tile_length": 4096}),
    ("add", [(16, 1, 30, 700), (16, 30, 30, 1)], "float32", {"core_num": 48, "tile_length": 7744}),
]


@pytest.mark.parametrize(("name", "shape", "dtype", "knobs"), CASES)
def test_a_large_kernel_is_checked_at_a_small_size_of_its_kind(
    name: str, shape: object, dtype: str, knobs: dict[str, object]
) -> None:
    kernel = generate(ops.get(name), shape, dtype, schedule=Schedule(**knobs), target=CHIP)  # type: ignore[arg-type]
    small = reduced(kernel)
    assert small is not None and small.shapes is not None and small.tiling is not None
    assert small.shapes.total_length <= WHOLE
    assert small.plan.tile_rows == kernel.plan.tile_rows
    assert small.plan.form.column_tile == kernel.plan.form.column_tile
    assert small.plan.compute.statements == kernel.plan.compute.statements or small.plan.form.cut
    assert small.tiling.core_num == 2 and small.tiling.max_tile_count >= 3
    assert verify(kernel) == ""


def test_a_block_of_one_tile_stays_one_tile() -> None:
    schedule = Schedule(core_num=48, tile_length=16384)
    kernel = generate(ops.get("add"), [(960, 512), (512,)], "float16", schedule=schedule, target=CHIP)
    small = reduced(kernel)
    assert small is not None and small.tiling is not None
    assert small.plan.tile_rows == kernel.plan.tile_rows == 20


def test_a_wrong_result_at_a_broadcast_shape_is_found() -> None:
    shape = [(4096, 512), (512,)]
    schedule = Schedule(core_num=48, tile_length=4096)
    right = compile_kernel(op("z = x + y"), shape, "float32", schedule=schedule)
    wrong = attrs.evolve(right, op=op("z = x - y"))
    assert verify(right) == "" and "differ" in verify(wrong)
