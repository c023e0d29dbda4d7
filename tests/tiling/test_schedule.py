"""A Schedule is checked when it is made, and says what is wrong with the nearest value that works."""

from __future__ import annotations

import inspect
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asc_sched import Schedule
from asc_sched.errors import AscSchedError, CoreNumError, ScheduleError
from asc_sched.tune.space import Space
from tests.tiling.plain import steady

schedules = st.builds(
    lambda tile, **kw: Schedule(**kw, **tile),
    tile=st.one_of(
        st.just({}),
        st.fixed_dictionaries({"tile_num": st.integers(1, 2**31 - 1)}),
        st.fixed_dictionaries({"tile_length": st.integers(1, 2**31 - 1)}),
    ),
    core_num=st.none() | st.integers(1, 65535),
    buffer_num=st.integers(1, 8),
    core_split=st.sampled_from(["even", "ceil"]),
    l2_cache=st.sampled_from(["normal", "bypass"]),
    bank_pad=st.booleans(),
    pack_inputs=st.booleans(),
)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"core_num": 0}, "core_num=0 is out of range: allowed is an integer from 1 to 65535 or None; nearest valid: "
         "core_num=1"),
        ({"core_num": -3}, "core_num=-3 is out of range: allowed is an integer from 1 to 65535 or None; nearest valid: "
         "core_num=1"),
        ({"core_num": 65536}, "core_num=65536 is out of range: allowed is an integer from 1 to 65535 or None; nearest "
         "valid: core_num=65535"),
        ({"core_num": 75264}, "core_num=75264 is out of range: allowed is an integer from 1 to 65535 or None; nearest "
         "valid: core_num=65535"),
        ({"core_num": 8.0}, "core_num=8.0 is not an integer but float: allowed is an integer from 1 to 65535 or None; "
         "nearest valid: core_num=8"),
        ({"core_num": True}, "core_num=True is not an integer but bool: allowed is an integer from 1 to 65535 or None; "
         "nearest valid: core_num=1"),
        ({"core_num": "8"}, "core_num='8' is not an integer but str: allowed is an integer from 1 to 65535 or None; "
         "nearest valid: core_num=8"),
        ({"core_num": [8]}, "core_num=[8] is not an integer but list: allowed is an integer from 1 to 65535 or None"),
        ({"tile_num": 0}, "tile_num=0 is out of range: allowed is an integer from 1 to 2147483647 or None; nearest "
         "valid: tile_num=1"),
        ({"tile_num": 2**31}, "tile_num=2147483648 is out of range: allowed is an integer from 1 to 2147483647 "
         "or None; "
         "nearest valid: tile_num=2147483647"),
        ({"tile_length": 0}, "tile_length=0 is out of range: allowed is an integer from 1 to 2147483647 or "
         "None; nearest "
         "valid: tile_length=1"),
        ({"tile_length": float("nan")}, "tile_length=nan is not an integer but float: allowed is an integer from 1 to "
         "2147483647 or None"),
        ({"tile_length": float("inf")}, "tile_length=inf is not an integer but float: allowed is an integer from 1 to "
         "2147483647 or None; nearest valid: tile_length=2147483647"),
        ({"tile_length": 10**6000}, "tile_length=2**19931 or more is out of range: allowed is an integer from 1 to "
         "2147483647 or None; nearest valid: tile_length=2147483647"),
        ({"buffer_num": 0}, "buffer_num=0 is out of range: allowed is an integer from 1 to 8; nearest valid: "
         "buffer_num=1"),
        ({"buffer_num": 9}, "buffer_num=9 is out of range: allowed is an integer from 1 to 8; nearest valid: "
         "buffer_num=8"),
        ({"buffer_num": None}, "buffer_num=None is not an integer but NoneType: allowed is an integer from 1 to 8"),
        ({"core_split": "evn"}, "core_split='evn' is unknown: allowed is 'even' or 'ceil'; nearest valid: "
         "core_split='even'"),
        ({"core_split": 1}, "core_split=1 is unknown: allowed is 'even' or 'ceil'; nearest valid: core_split='even'"),
        ({"l2_cache": "by-pass"}, "l2_cache='by-pass' is unknown: allowed is 'normal' or 'bypass'; nearest valid: "
         "l2_cache='bypass'"),
        ({"bank_pad": 1}, "bank_pad=1 is not a bool but int: allowed is True or False; nearest valid: bank_pad=True"),
        ({"bank_pad": None}, "bank_pad=None is not a bool but NoneType: allowed is True or False; nearest valid: "
         "bank_pad=False"),
        ({"pack_inputs": "yes"}, "pack_inputs='yes' is not a bool but str: allowed is True or False; nearest valid: "
         "pack_inputs=True"),
        ({"tile_num": 4, "tile_length": 64}, "tile_num=4 and tile_length=64 are both given, and each decides "
         "the tiles: "
         "nearest valid: tile_num=4 or tile_length=64 alone"),
    ],
)  # fmt: skip
def test_a_bad_field_is_refused_with_its_name_value_range_and_nearest_value(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Schedule(**fields)
    assert str(caught.value) == text
    assert isinstance(caught.value, AscSchedError)
    assert isinstance(caught.value, CoreNumError) == ("core_num" in fields)


def test_the_launch_limit_itself_is_allowed() -> None:
    assert Schedule(core_num=65535).core_num == 65535


def test_numpy_numbers_and_bools_become_pythons() -> None:
    schedule = Schedule(core_num=np.int64(8), tile_num=np.uint8(4), buffer_num=np.int32(1), bank_pad=np.True_)
    assert schedule == Schedule(core_num=8, tile_num=4, buffer_num=1, bank_pad=True)
    assert [type(v) for v in schedule.to_dict().values()] == [int, int, int, str, str, bool, bool]
    with pytest.raises(ScheduleError, match=r"core_num=8\.0 is not an integer but float64.*nearest valid: core_num=8"):
        Schedule(core_num=np.float64(8))
    with pytest.raises(ScheduleError, match=r"core_num=.* is not an integer but bool"):
        Schedule(core_num=np.True_)


def test_a_schedule_is_frozen_and_hashable() -> None:
    schedule = Schedule(core_num=8)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        schedule.core_num = 9  # type: ignore[misc]
    assert {schedule: 1}[Schedule(core_num=8)] == 1
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # workers get schedules


def test_repr_shows_only_what_differs_from_the_defaults() -> None:
    assert repr(Schedule()) == "Schedule()"
    assert repr(Schedule(core_num=8, tile_num=8, buffer_num=2)) == "Schedule(core_num=8, tile_num=8)"
    text = "Schedule(core_num=48, tile_length=16256, buffer_num=1, l2_cache='bypass', bank_pad=True)"
    assert repr(eval(text)) == text


@steady
@given(schedules)
def test_repr_and_dict_give_the_schedule_back(schedule: Schedule) -> None:
    assert eval(repr(schedule)) == schedule
    assert Schedule.from_dict(schedule.to_dict()) == schedule
    assert Schedule.from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule
    assert None not in schedule.to_dict().values()


@steady
@given(schedules, schedules)
def test_the_order_is_total_and_agrees_with_equality(a: Schedule, b: Schedule) -> None:
    assert (a < b) + (b < a) + (a == b) == 1
    assert (a.sort_key == b.sort_key) == (a == b)
    assert (a <= b) == (not b < a)


def test_simpler_schedules_come_first() -> None:
    simple_to_elaborate = [
        Schedule(buffer_num=1),
        Schedule(buffer_num=1, core_num=8),
        Schedule(),
        Schedule(core_num=8),
        Schedule(core_num=8, tile_length=8192),
        Schedule(core_num=8, tile_length=1024),
        Schedule(core_num=48),
        Schedule(core_split="ceil"),
        Schedule(l2_cache="bypass"),
        Schedule(bank_pad=True),
        Schedule(pack_inputs=True, buffer_num=1),
    ]
    shuffled = simple_to_elaborate[:]
    random.Random(3).shuffle(shuffled)
    assert sorted(shuffled) == simple_to_elaborate


def test_an_unknown_field_is_refused_by_name_with_its_neighbour() -> None:
    known = "core_num, tile_num, tile_length, buffer_num, core_split, l2_cache, bank_pad, pack_inputs"
    with pytest.raises(ScheduleError) as caught:
        Schedule.from_dict({"tile_len": 64})
    assert (
        str(caught.value)
        == f"unknown schedule field 'tile_len'; did you mean 'tile_length' or 'tile_num'? (known: {known})"
    )
    with pytest.raises(ScheduleError) as caught:
        Schedule.from_dict({"zzz": 64})
    assert str(caught.value) == f"unknown schedule field 'zzz' (known: {known})"
    with pytest.raises(ScheduleError, match="a schedule is read from a mapping of its fields, not from list"):
        Schedule.from_dict([("core_num", 8)])  # type: ignore[arg-type]
    with pytest.raises(CoreNumError, match="core_num=0 is out of range"):
        Schedule.from_dict({"core_num": 0})


@pytest.mark.parametrize(
    ("make", "args", "fields", "text"),
    [
        (Schedule, (), {"tilenum": 8}, "unknown schedule field 'tilenum'; did you mean 'tile_num' or 'tile_length'? ("),
        (Schedule, (8,), {}, "Schedule(8): fields are given by name, as in Schedule(core_num=8) (known: core_num, "),
        (Schedule().evolve, (), {"buffernum": 2}, "unknown schedule field 'buffernum'; did you mean 'buffer_num'? (k"),
        (Space, (), {"tilelength": 8}, "unknown space field 'tilelength'; did you mean 'tile_length' or 'tile_counts'"),
        (Space, ([1],), {}, "Space([1]): fields are given by name, as in Space(core_num=8) (known: core_num, tile_l"),
    ],
)
def test_a_call_with_a_wrong_name_or_none_is_refused_with_the_field_that_was_meant(
    make: Callable[..., object], args: tuple[object, ...], fields: dict[str, object], text: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        make(*args, **fields)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("kind", [Schedule, Space])
def test_the_signature_is_the_fields(kind: type) -> None:
    signature = inspect.signature(kind)
    assert list(signature.parameters) == [f.name for f in attrs.fields(kind)]
    assert {p.kind for p in signature.parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


def test_evolve_changes_fields_and_swaps_one_way_to_cut_tiles_for_the_other() -> None:
    schedule = Schedule(core_num=8, tile_num=4)
    assert schedule.evolve(buffer_num=1) == Schedule(core_num=8, tile_num=4, buffer_num=1)
    assert schedule.evolve(tile_length=64) == Schedule(core_num=8, tile_length=64)
    assert schedule.evolve(tile_length=64).evolve(tile_num=2) == Schedule(core_num=8, tile_num=2)
    with pytest.raises(ScheduleError, match="buffer_num=9"):
        schedule.evolve(buffer_num=9)
