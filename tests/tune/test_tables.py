"""Tables of tuned schedules: plain, sorted, mergeable, and never believed blindly."""

from __future__ import annotations

from pathlib import Path

import pytest

from asc_sched import Schedule
from asc_sched.errors import TuningError
from asc_sched.tune.tables import Row, from_toml, merge_into, read, to_toml


def _row(op: str = "add", task_us: float = 2.0, **schedule: object) -> Row:
    return Row(op, ("float32", "float32"), ((8, 4), (8, 4)), "model", "hot", task_us, 0.5, Schedule(**schedule))  # type: ignore[arg-type]


def test_round_trip_and_order() -> None:
    rows = [_row("sub", core_num=3), _row("add", tile_length=128, l2_cache="bypass", bank_pad=True)]
    text = to_toml("Ascend910B1", rows)
    assert text == to_toml("Ascend910B1", reversed(rows))
    target, found = from_toml(text, "t")
    assert target == "Ascend910B1" and sorted(found.values(), key=lambda r: r.op) == sorted(rows, key=lambda r: r.op)


def test_merging_keeps_the_faster(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    assert merge_into(file, "Ascend910B1", [_row(task_us=2.0, core_num=1), _row("mul")]) == 2
    assert merge_into(file, "Ascend910B1", [_row(task_us=3.0, core_num=2)]) == 0
    assert merge_into(file, "Ascend910B1", [_row(task_us=1.0, core_num=2)]) == 1
    schedules = {r.op: r.schedule for r in read(file)[1].values()}
    assert schedules == {"add": Schedule(core_num=2), "mul": Schedule()}


def test_a_table_of_another_target_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    merge_into(file, "Ascend910B1", [_row()])
    with pytest.raises(TuningError, match="is a table for Ascend910B1, the schedules are for Ascend910B3"):
        merge_into(file, "Ascend910B3", [_row()])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target = ", "is not TOML"),
        ("", 'target = "..." is missing'),
        ('target = "Ascend910B1"\n[[schedule]]\nop = "add"', "t, entry 1: dtypes is missing"),
        (
            'target = "Ascend910B1"\n[[schedule]]\nop="add"\ndtypes=["float32"]\nshapes=[[3]]\ntask_us=1\ncores=3',
            "t, entry 1: unknown schedule field 'cores'",
        ),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        from_toml(text, "t")
