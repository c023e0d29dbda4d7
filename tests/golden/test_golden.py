"""Three kernels as they are to read, kept word for word. ``python -m tests.golden.test_golden`` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from asc_sched import Schedule, op
from asc_sched.kernel import generate

HERE = Path(__file__).parent
KERNELS = {
    "flat": lambda: generate(op("z = x * y + 1"), 13243, "float32", schedule=Schedule(core_num=8, tile_num=2)),
    "any_size": lambda: generate(op("z = x * y + 1"), None, "float16", schedule=Schedule(tile_length=4096)),
    "rows": lambda: generate(
        op("z = x * s + y"), [(1000, 96), (1000, 1), (96,)], "float32", schedule=Schedule(core_num=8, tile_length=1536)
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_reads_as_before(name: str) -> None:
    kept = (HERE / f"{name}.py.txt").read_text()
    assert KERNELS[name]().source == kept


if __name__ == "__main__":
    for _name, _make in KERNELS.items():
        (HERE / f"{_name}.py.txt").write_text(_make().source)
