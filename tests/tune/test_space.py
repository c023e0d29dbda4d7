"""Spaces as users declare them: values, restrictions, files; and what is left of them for a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asc_sched.schedules import DEFAULT_SPACE, PLAIN_SPACE, TARGET_SPACES
from click.testing import CliRunner

from asc_sched import Schedule, get_target, op
from asc_sched.cli import group
from asc_sched.errors import ScheduleError, TuningError
from asc_sched.target import TARGETS
from asc_sched.tune.candidates import Candidates
from asc_sched.tune.model import Model
from asc_sched.tune.space import Space, default_space, read_space, space_of
from asc_sched.tune.store import ENV_STORE
from asc_sched.tune.tuner import task_of


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_STORE, str(tmp_path / "tuning.sqlite"))


def _candidates(space: Space) -> Candidates:
    return Candidates(space, Model(task_of(op("z = x + y"), (1 << 20,), "float32", get_target("Ascend910B1"), "hot")))


def test_every_target_has_a_space() -> None:
    assert set(TARGET_SPACES) == set(TARGETS)
    assert default_space("Ascend910B3") is TARGET_SPACES["Ascend910B3"]
    assert default_space("of my own") is DEFAULT_SPACE


def test_values_and_restrictions_bound_the_search() -> None:
    space = Space(
        core_num=(8, 16, 48, 1000), tile_length=(1000, 2048, 4096, 1 << 20), buffer_num=2, l2_cache="normal",
        restrictions={"long tiles on few cores": lambda s: s.core_num == 8 or s.tile_length == 2048},
    )  # fmt: skip
    found = _candidates(space)
    kept = set(found.all())
    assert {(s.core_num, s.tile_length) for s in kept} == {
        (8, 1000), (8, 2048), (8, 4096), (16, 2048), (48, 2048),
    }  # fmt: skip
    assert {s.buffer_num for s in kept} == {2} and {s.l2_cache for s in kept} == {"normal"}
    assert set(found.pruned) == {"CoreNumError", "UbOverflowError", "restriction: long tiles on few cores"}


def test_the_rules_choice_counts_only_if_it_is_in_the_space() -> None:
    assert _candidates(Space()).starts() != []
    assert _candidates(Space(tile_length=(2048,))).starts() == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"buffer_num": ()}, r"Space\(buffer_num=\(\)\) is empty; give at least one value"),
        ({"core_num": (0,)}, "core_num=0"),
        ({"tile_counts": (0,)}, r"Space\(tile_counts=\(0,\)\): allowed are integers of 1 or more"),
        ({"min_copy_bytes": "big"}, r"Space\(min_copy_bytes='big'\): allowed are integers of 1 or more"),
        ({"l2_cache": "never"}, "l2_cache='never' is unknown"),
        ({"restrictions": [len]}, r"Space\(restrictions=...\) is a mapping of names to conditions, .* not list"),
        ({"restrictions": None}, r"Space\(restrictions=...\) is a mapping of names to conditions, .* not NoneType"),
        ({"restrictions": {"short": 3}}, r"Space\(restrictions=...\): 'short' is 3, not a condition"),
        ({"restrictions": {3: bool}}, r"Space\(restrictions=...\): the name 3 is not a str"),
    ],
)
def test_values_that_no_schedule_has_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Space(**fields)  # type: ignore[arg-type]


def test_a_space_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text('core_num = [8, 48]\nbuffer_num = 2\nl2_cache = ["normal", "bypass"]\nbank_pad = false\n')
    wanted = Space(core_num=(8, 48), buffer_num=2, l2_cache=("normal", "bypass"), bank_pad=False)
    assert read_space(file) == wanted
    result = CliRunner().invoke(group, ["tune", "add", "--shape", "4096", "--space", str(file), "--top", "1"])
    assert result.exit_code == 0 and "core_num=8" in result.stdout


def test_a_restriction_that_raises_is_named_with_its_schedule() -> None:
    space = Space(tile_length=1000, buffer_num=2, restrictions={"a third": lambda s: (s.core_num or 0) % 0 == 0})
    with pytest.raises(TuningError, match=r"restriction 'a third' raised ZeroDivisionError for Schedule\(.*core_num="):
        list(_candidates(space).all())


def test_what_a_space_may_be() -> None:
    assert space_of(None, "Ascend910B3") is space_of("default", "Ascend910B3") is default_space("Ascend910B3")
    assert space_of("plain", "Ascend910B1") is PLAIN_SPACE
    assert space_of(PLAIN_SPACE, "Ascend910B1") is PLAIN_SPACE
    assert space_of([Schedule(core_num=1)], "Ascend910B1") == (Schedule(core_num=1),)
    assert space_of([], "Ascend910B1") == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            Schedule(core_num=3),
            r"a Space or a list of Schedule; for this schedule alone: space=\[Schedule\(core_num=3\)\]",
        ),
        ("plian", r"unknown space 'plian'; did you mean 'plain'\? \(known: default, plain"),
        (3, "space= takes a Space or a list of Schedule, not int"),
        ({"core_num": 3}, "space= takes a Space or a list of Schedule, not dict"),
        ([None], "space= takes a Space or a list of Schedule, and element 0 of the list is None"),
        ([Schedule(), {"core_num": 3}], "and element 1 of the list is of type dict"),
    ],
)
def test_what_no_space_is(value: Any, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        space_of(value, "Ascend910B1")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TuningError, match=r"few\.toml is not UTF-8 text"):
        read_space(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "few.toml: No such file or directory"),
        ("core_num = ", "few.toml is not TOML"),
        ("cores = 8", "few.toml: unknown space field 'cores'"),
        ("core_num = 1.5", "few.toml: core_num=1.5 is not an integer"),
        ("restrictions = 1", r"few.toml: restrictions are conditions in Python; pass a Space to Op.tune\(space=...\)"),
    ],
)
def test_mistakes_in_a_file_are_named(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TuningError, match=message):
        read_space(file)


def test_long_tiles_off_whole_lines_are_in_the_default_space_where_buffers_arent_padded() -> None:
    """Their buffers start in different bank groups."""
    candidates = _candidates(default_space("Ascend910B1"))
    plain = next(v for v in candidates.variants if not v.bank_pad and v.buffer_num == 2)
    padded = next(v for v in candidates.variants if v.bank_pad and v.buffer_num == 2)
    line = candidates.model.align.line_length
    assert {t % line for t in candidates.tiles(plain, 8)} == {0, line // 4, line // 2, line * 3 // 4}
    assert {t % line for t in candidates.tiles(padded, 8)} == {0}
    assert list(candidates.tiles(plain, 8)) == sorted(candidates.tiles(plain, 8), reverse=True)
