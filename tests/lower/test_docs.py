"""The generated pages say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from asc_sched import ops
from asc_sched.report.op_table import bounds_table, cell, table_text

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_bounds_is_the_table_that_tests_use() -> None:
    text = (DOCS / "precision.md").read_text(encoding="utf-8")
    found = text.split("<!-- bounds: begin -->")[1].split("<!-- bounds: end -->")[0].strip()
    assert found == bounds_table().strip()


@pytest.mark.parametrize("name", "add gelu where pow to_int8 adam floor_divide bitwise_xor rope".split())
def test_rows_of_the_op_table_are_what_lowering_gives(name: str) -> None:
    from asc_sched.lang.dtypes import DTYPES

    row = f"| `{name}` | {' | '.join(str(cell(name, d)) for d in DTYPES)} |"
    assert row in (DOCS / "ops.md").read_text(encoding="utf-8").splitlines()


def test_the_op_table_has_every_op() -> None:
    text = (DOCS / "ops.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in ops.catalogue())


@pytest.mark.nightly
def test_the_whole_op_table_is_up_to_date() -> None:
    assert (DOCS / "ops.md").read_text(encoding="utf-8") == table_text()
