"""Results on disk survive whatever happens to them, and nothing broken is believed."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pytest

from asc_sched import Schedule
from asc_sched.errors import TuningError
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


def _garbage_then_write(path: Path, number: int) -> None:
    Store(path).set_winner(attrs.evolve(PROBLEM, shapes=((number + 1,),)), attrs.evolve(WINNER, task_us=1.0 + number))


def test_a_broken_file_is_set_aside_once_by_many_processes(path: Path) -> None:
    path.write_bytes(b"garbage" * 1000)
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_garbage_then_write, args=(path, n)) for n in range(8)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(60)
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1
    assert len(Store(path).winners()) == 8


def test_what_was_committed_last_is_set_aside_too(path: Path) -> None:
    """After a kill it lies in the write-ahead log beside the file."""
    writer = Store(path)
    writer.set_winner(PROBLEM, WINNER)
    writer._open().execute("PRAGMA user_version")  # the connection stays open: nothing is checkpointed
    assert path.with_name(path.name + "-wal").stat().st_size > 0
    reader = Store(path)
    reader.winners()
    reader._set_aside("a test")
    (aside,) = (p for p in path.parent.glob("*.corrupt-*") if not p.name.endswith(("-wal", "-shm")))
    assert [w.task_us for w in Store(aside).winners()] == [WINNER.task_us]


@pytest.mark.parametrize("us", [float("nan"), float("inf"), 0.0, -3.0, True, None])
def test_what_is_no_time_is_refused_and_harms_nothing(path: Path, us: Any) -> None:
    Store(path).set_winner(PROBLEM, WINNER)
    with pytest.raises(TuningError, match="is not a time in microseconds"):
        Store(path).set_winner(PROBLEM, attrs.evolve(WINNER, task_us=us))
    with pytest.raises(TuningError, match="is not a time in microseconds"):
        Store(path).record(PROBLEM, Measurement(Schedule(core_num=1), "ok", us))
    assert Store(path).winner(PROBLEM) == WINNER
    assert not list(path.parent.glob("*.corrupt-*"))


def test_one_store_serves_several_threads(path: Path) -> None:
    store = Store(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.record(PROBLEM, Measurement(Schedule(core_num=n + 1), "ok", 1.0)), range(40)))
    assert len(Store(path).measurements(PROBLEM)) == 40


def test_what_can_only_be_read_is_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Store(path).set_winner(PROBLEM, WINNER)
    path.chmod(0o400)
    if os.access(path, os.W_OK):  # as root everything can be written: the connection is made to think so
        with mock.patch("os.access", return_value=False):
            assert Store(path).winner(PROBLEM) == WINNER
    else:
        assert Store(path).winner(PROBLEM) == WINNER
    assert not caplog.records


def test_reading_does_not_wait_for_a_writer(path: Path) -> None:
    Store(path).set_winner(PROBLEM, WINNER)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        assert Store(path).winner(PROBLEM) == WINNER
        assert time.monotonic() - started < 20  # the wait would be 30 s


@pytest.mark.parametrize(
    "change",
    [
        "shapes = '[[Infinity]]'", "shapes = 'x'", "details = '{\"dtypes\": 5}'", "task_us = -1.0",
        "details = CAST(x'fffe00' AS TEXT)", "schedule = '{\"cores\": 3}'",
    ],
)  # fmt: skip
def test_rows_that_others_broke_are_skipped(path: Path, change: str, caplog: pytest.LogCaptureFixture) -> None:
    Store(path).set_winner(PROBLEM, WINNER)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"UPDATE winner SET {change}")
    assert Store(path).winner(PROBLEM) is None and Store(path).winners() == []
    assert "ignored" in caplog.text


def test_tables_of_another_program_are_set_aside(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE winner (name TEXT)")
        other.execute("PRAGMA user_version=1")
    assert Store(path).winners() == []
    Store(path).set_winner(PROBLEM, WINNER)
    assert Store(path).winner(PROBLEM) == WINNER
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1


def test_winners_of_another_version_are_not_listed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr("asc_sched.tune.store.generator_version", lambda: "0.0.1+old")
        Store(path).set_winner(PROBLEM, WINNER)
    assert Store(path).winners() == []
