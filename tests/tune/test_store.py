"""Results on disk survive whatever happens to them, and nothing broken is believed."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from asc_sched import Schedule
from asc_sched.tune.keys import Problem
from asc_sched.tune.store import Measurement, Store, Winner

PROBLEM = Problem("add", "family", ((8,), (8,)), 8)
WINNER = Winner("add", ((8,), (8,)), 8, Schedule(core_num=2), 3.5, {"target": "Ascend910B1"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuning.sqlite"


def test_results_are_there_for_the_next_process(path: Path) -> None:
    Store(path).record(PROBLEM, Measurement(Schedule(core_num=1), "ok", 2.5))
    Store(path).record(PROBLEM, Measurement(Schedule(core_num=2), "wrong", None, "it differs"))
    found = Store(path).measurements(PROBLEM)
    assert found[Schedule(core_num=1)].task_us == 2.5 and found[Schedule(core_num=2)].reason == "it differs"
    Store(path).set_winner(PROBLEM, WINNER)
    assert Store(path).winner(PROBLEM) == WINNER
    assert Store(path).forget("add") == 1 and Store(path).winner(PROBLEM) is None


def _write(path: Path, number: int) -> None:
    store = Store(path)
    for i in range(20):
        store.record(PROBLEM, Measurement(Schedule(core_num=number + 1, tile_length=8 * (i + 1)), "ok", 1.0 + i))
    store.set_winner(PROBLEM, WINNER)


def test_many_writers_at_once_lose_nothing(path: Path) -> None:
    processes = [multiprocessing.get_context("fork").Process(target=_write, args=(path, n)) for n in range(16)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(60)
    assert [p.exitcode for p in processes] == [0] * 16
    assert len(Store(path).measurements(PROBLEM)) == 320
    assert Store(path).winner(PROBLEM) == WINNER


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"SQLite format 3\x00" + b"\x00" * 500, b'{"half": '])
def test_a_broken_file_is_set_aside_with_a_warning(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(content)
    store = Store(path)
    assert store.measurements(PROBLEM) == {}
    store.record(PROBLEM, Measurement(Schedule(), "ok", 1.0))
    assert Store(path).measurements(PROBLEM)[Schedule()].task_us == 1.0
    assert len([r for r in caplog.records if "set aside" in r.message]) == 1
    assert [f.read_bytes() for f in path.parent.glob("*corrupt*")] == [content]


def test_an_empty_file_is_a_new_store(path: Path) -> None:
    path.touch()
    Store(path).set_winner(PROBLEM, WINNER)
    assert Store(path).winner(PROBLEM) == WINNER


def test_another_version_is_set_aside(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    assert Store(path).winner(PROBLEM) is None
    assert list(path.parent.glob("*corrupt*"))


@pytest.mark.parametrize(
    ("schedule", "task_us"),
    [('{"core_num": 1}', 0.0), ('{"core_num": 1}', -1.0), ('{"core_num": 0}', 1.0), ('{"colour": 1}', 1.0), ("{", 1.0)],
)
def test_rows_that_make_no_sense_are_skipped(
    path: Path, schedule: str, task_us: float, caplog: pytest.LogCaptureFixture
) -> None:
    Store(path).set_winner(PROBLEM, WINNER)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE winner SET schedule = ?, task_us = ?", (schedule, task_us))
    assert Store(path).winner(PROBLEM) is None
    assert caplog.records


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "no" / "folder" / "t.sqlite")
    store.set_winner(PROBLEM, WINNER)
    store.set_winner(PROBLEM, WINNER)
    assert store.winner(PROBLEM) == WINNER  # in memory
    assert len(caplog.records) == 1
