"""The generated pages say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from asc_sched import Schedule, ops
from asc_sched.kernel import generate
from asc_sched.report.op_table import bounds_table, input_dtypes, table_text
from asc_sched.target import TARGETS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_bounds_is_the_table_that_tests_use() -> None:
    text = (DOCS / "precision.md").read_text(encoding="utf-8")
    found = text.split("<!-- bounds: begin -->")[1].split("<!-- bounds: end -->")[0].strip()
    assert found == bounds_table().strip()


def test_the_op_table_is_what_lowering_gives() -> None:
    """Every op on every dtype: its cycles, its detour, or why it is refused."""
    assert (DOCS / "ops.md").read_text(encoding="utf-8") == table_text()


@pytest.mark.parametrize("name", ["add", "gelu", "floor_divide", "where", "adamw", "to_int8"])
def test_the_op_table_holds_for_every_chip(name: str) -> None:
    """The text of a kernel is the same for all of them, but for the name of the chip."""
    schedule = Schedule(core_num=8, tile_length=256)
    for dtype in ("float32", "bfloat16", "int8", "int64"):
        given = input_dtypes(ops.get(name), dtype)
        kernels = {t: generate(ops.get(name), 9999, given, schedule=schedule, target=t) for t in TARGETS}
        texts = {kernel.source.replace(t, "CHIP") for t, kernel in kernels.items()}
        assert len(texts) == 1, (name, dtype)
