"""`asc-sched tuned`: lists, tables and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from asc_sched.tune.store import ENV_STORE
from tests.cli.conftest import Ran

Run = Callable[..., Ran]
ENTRY = '[[schedule]]\nop = "add"\ndtypes = ["float32", "float32"]\nshapes = [[32], [32]]\n'


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "tuning.sqlite"))


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], str]:
    def write(entries: str) -> str:
        file = tmp_path / "mine.toml"
        file.write_text(f'target = "Ascend910B1"\n{entries}')
        return str(file)

    return write


def test_an_import_says_what_it_took(asc_sched: Run, table: Callable[[str], str]) -> None:
    file = table(f"{ENTRY}task_us = 2.0\n{ENTRY}task_us = 3.0\n")
    ran = asc_sched("tuned", "import", file)
    assert ran.out == (
        "1 of 2 schedules for Ascend910B1 taken: 1 new, 0 faster than what was stored; 1 left out as no faster\n"
    )
    ran = asc_sched("tuned", "import", table(f"{ENTRY}task_us = 1.0\n"))
    assert "taken: 0 new, 1 faster" in ran.out


def test_nothing_is_imported_from_a_file_with_a_mistake(asc_sched: Run, table: Callable[[str], str]) -> None:
    file = table(f"{ENTRY}task_us = 2.0\n{ENTRY}task_us = nan\n")
    ran = asc_sched("tuned", "import", file)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {file}, entry 2 (add): task_us=nan is not a time in microseconds\n"
    assert asc_sched("tuned", "list", "--json").json == []


def test_forgetting_what_isnt_there_fails_with_the_nearest(asc_sched: Run, table: Callable[[str], str]) -> None:
    asc_sched("tuned", "import", table(f"{ENTRY}task_us = 2.0\n"))
    ran = asc_sched("tuned", "forget", "addd")
    assert (ran.code, ran.out, ran.err) == (1, "", "nothing is tuned for 'addd'; did you mean 'add'?\n")
    ran = asc_sched("tuned", "forget", "add")
    assert (ran.code, ran.out) == (0, "1 tuned schedules forgotten\n")
    ran = asc_sched("tuned", "forget", "add")
    assert ran.code == 1 and "nothing is tuned for 'add'; see asc-sched tuned list" in ran.err


def test_the_list_shows_a_cold_l2(asc_sched: Run, table: Callable[[str], str]) -> None:
    asc_sched("tuned", "import", table(f'{ENTRY}task_us = 2.0\n{ENTRY}task_us = 3.0\nl2 = "cold"\n'))
    lines = asc_sched("tuned", "list").out.splitlines()
    assert sorted(" cold " in line for line in lines) == [False, True]


def test_an_export_goes_to_a_regular_file(asc_sched: Run, table: Callable[[str], str], tmp_path: Path) -> None:
    asc_sched("tuned", "import", table(f"{ENTRY}task_us = 2.0\n"))
    ran = asc_sched("tuned", "export", "/dev/full")
    assert ran.code == 2 and "/dev/full is not a regular file" in ran.err
    ran = asc_sched("tuned", "export", str(tmp_path))
    assert ran.code == 2 and "is a directory" in ran.err
    ran = asc_sched("tuned", "export", str(tmp_path / "new.toml"))
    assert (ran.code, ran.out) == (0, f"1 of 1 schedules were new or faster in {tmp_path / 'new.toml'}\n")
    assert "1 left out as no faster" in asc_sched("tuned", "import", str(tmp_path / "new.toml")).out


def test_an_export_for_no_target_is_told_with_the_nearest(asc_sched: Run, tmp_path: Path) -> None:
    ran = asc_sched("tuned", "export", str(tmp_path / "new.toml"), "--target", "Ascend910B")
    assert ran.code == 2 and "unknown target 'Ascend910B'; nearest: Ascend910B" in ran.err


def test_an_export_leaves_out_ops_that_no_import_takes(asc_sched: Run, tmp_path: Path) -> None:
    asc_sched("tune", "y = x + x * 3.5", "--shape", "64", "--space", "plain")
    ran = asc_sched("tuned", "export", str(tmp_path / "new.toml"))
    assert ran.code == 2 and "; 1 of ops that the catalogue doesn't have left out" in ran.err
