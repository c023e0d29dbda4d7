"""Tables of tuned schedules: plain, sorted, mergeable, and never believed blindly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asc_sched import Schedule
from asc_sched.errors import TuningError
from asc_sched.tune.intake import Taken, take
from asc_sched.tune.store import Store
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
    schedules = {r.op: r.schedule for r in read(file)[1]}
    assert schedules == {"add": Schedule(core_num=2), "mul": Schedule()}


def test_a_table_of_another_target_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    merge_into(file, "Ascend910B1", [_row()])
    with pytest.raises(TuningError, match="is a table for Ascend910B1, the schedules are for Ascend910B3"):
        merge_into(file, "Ascend910B3", [_row()])


TOP = 'target = "Ascend910B1"\n'


def _entry(**fields: str) -> str:
    """One entry as text; fields replace those of a good one."""
    good = {"op": '"add"', "dtypes": '["float32", "float32"]', "shapes": "[[8, 4], [8, 4]]", "task_us": "2.0"}
    return "[[schedule]]\n" + "".join(f"{name} = {value}\n" for name, value in (good | fields).items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target = ", "t is not TOML"),
        (f"{TOP}x = {'9' * 5000}", "t is not TOML"),
        ("", 't: target = "..." is missing'),
        ('target = "Ascend910B"', "t: unknown target 'Ascend910B'; nearest: Ascend910B"),
        (TOP + "[[schedules]]\n", "t: unknown 'schedules' at the top; did you mean 'schedule'?"),
        (TOP + "[schedule]\n", "t: expected [[schedule]] entries"),
        (TOP + '[[schedule]]\nop = "add"', "t, entry 1 (add): dtypes is missing"),
        (TOP + _entry(cores="3"), "t, entry 1 (add): unknown schedule field 'cores'"),
        (TOP + _entry() + _entry() + _entry(task_us="nan"), "t, entry 3 (add): task_us=nan is not a time in microsec"),
        (TOP + _entry(shapes=f"[[{'8, ' * 500}-1], [8]]"), "(add): shapes=[[" + "8, " * 32 + "8,...: expected a list"),
        (TOP + _entry(task_us=f"0x{'f' * 5000}"), "(add): task_us=<int with too many digits> is not a time"),
        (TOP + _entry(op="3"), "t, entry 1: op=3 is not an op's name"),
        *((TOP + _entry(task_us=us), f"(add): task_us={shown} is not a time in microseconds") for us, shown in (
            ("inf", "inf"), ("0", "0"), ("-1.5", "-1.5"), ("true", "True"), ("1e400", "inf"), ('"2"', "'2'"))),
        (TOP + _entry(share_of_bound="nan"), "(add): share_of_bound=nan is not a share"),
        (TOP + _entry(backend='"modle"'), "(add): backend='modle' is unknown (supported: model, camodel, npu); did"),
        (TOP + _entry(l2='"warm"'), "(add): l2='warm' is unknown (supported: hot, cold)"),
        (TOP + _entry(core_num="49"), "(add): core_num=49: Ascend910B1 has 48 cores"),
        (TOP + _entry(core_num="0"), "(add): core_num=0 is out of range"),
        *((TOP + _entry(shapes=shapes), "(add): shapes=") for shapes in (
            '["8x4", "8x4"]', "[[8.0], [8.0]]", "[[true], [true]]", "[[-8], [-8]]", "[[1e400], [1e400]]", "[]", "8",
            f"[[{2**62}, 8], [1]]", f"[[0x{'f' * 5000}], [1]]", f"[[{2**70}], [1]]")),
        *((TOP + _entry(dtypes=dtypes), "(add): dtypes=") for dtypes in (
            '"float32"', "[]", "[1, 2]", '["float23", "float32"]')),
        (TOP + _entry(dtypes='["float32"]'), "(add): dtypes and shapes: 1 dtypes for 2 shapes"),
    ],
)  # fmt: skip
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(TuningError, match=re.escape(message)):
        from_toml(text, "t")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (_entry(op='"addd"'), "entry 2 (addd): op='addd' is not in the catalogue; did you mean 'add'?"),
        (_entry(shapes="[[8, 4], [8, 3]]"), "entry 2 (add): add: shapes (8, 4) of x and (8, 3) of y don't fit"),
        (
            _entry(dtypes='["float32"]', shapes="[[8]]"),
            "entry 2 (add): dtypes and shapes are of 1 inputs, and add takes",
        ),
        (_entry(shapes=f"[[{2**40}, 1], [1, {2**40}]]"), "entry 2 (add): shapes=[[1099511627776, 1], [1, 109951162777"),
        (_entry(task_us="-2"), "entry 2 (add): task_us=-2 is not a time"),
        (_entry(op='"bitwise_and"'), "entry 2 (bitwise_and): "),
    ],
)
def test_a_file_is_taken_whole_or_not_at_all(bad: str, message: str, tmp_path: Path) -> None:
    file, store = tmp_path / "mine.toml", Store(tmp_path / "tuning.sqlite")
    file.write_text(TOP + _entry() + bad)
    with pytest.raises(TuningError, match=re.escape(f"mine.toml, {message}")):
        take(file, store)
    assert store.winners() == []


def test_an_import_keeps_the_faster(tmp_path: Path) -> None:
    file, store = tmp_path / "mine.toml", Store(tmp_path / "tuning.sqlite")

    def given(*entries: str) -> Taken:
        file.write_text(TOP + "".join(entries))
        return take(file, store)[1]

    # One run of elements, whatever its shape: all of these are one problem.
    entries = [_entry(task_us="3.0", core_num="1"), _entry(core_num="2"), _entry(shapes="[[32], [32]]", task_us="2.5")]
    assert given(*entries) == Taken(1, 0, 2)
    assert given(_entry(task_us="2.5", core_num="3")) == Taken(0, 0, 1)
    assert [w.schedule for w in store.winners()] == [Schedule(core_num=2)]
    assert given(_entry(task_us="1.5", core_num="4"), _entry(op='"sub"')) == Taken(1, 1, 0)
    assert [(w.op, w.schedule, w.task_us) for w in store.winners()] == [
        ("add", Schedule(core_num=4), 1.5), ("sub", Schedule(), 2.0),
    ]  # fmt: skip


def test_rows_without_a_time_are_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "t.toml"
    file.write_text(TOP + _entry(task_us="nan") + _entry(op='"sub"', task_us="-1") + _entry(op='"mul"', core_num="2"))
    assert merge_into(file, "Ascend910B1", [_row(core_num=5)]) == 1
    assert {r.op: r.schedule.core_num for r in read(file)[1]} == {"add": 5, "mul": 2}
    assert len(caplog.records) == 2


def test_what_is_no_regular_file_of_ones_own_is_not_exported_to(tmp_path: Path) -> None:
    for name, kind in (("/dev/full", "not a regular file"), ("/dev/stdout", "a stream"), (str(tmp_path), "a folder")):
        with pytest.raises(TuningError, match=f"{name} is {kind}; a table is merged into a regular file"):
            merge_into(Path(name), "Ascend910B1", [_row()])
    file = tmp_path / "kept.toml"
    file.write_text(TOP)
    file.chmod(0o444)
    with pytest.raises(TuningError, match=r"kept\.toml is write-protected"):
        merge_into(file, "Ascend910B1", [_row()])
    assert file.read_text() == TOP


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TuningError, match=r"t\.toml is not UTF-8 text"):
        read(file)
