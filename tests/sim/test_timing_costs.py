"""Costs of vector instructions, their bank conflicts, and that each constant says where it is from."""

from __future__ import annotations

import pytest

from asc_sched.sim.instructions import ADV, BASIC
from asc_sched.target import TARGETS
from asc_sched.target.costs import COSTS, cost_of, ideal_cycles, vector_cycles
from asc_sched.target.timing import TimingConstants

FLOATS = ("float", "float")
DENSE = (1, 8)


def test_every_instruction_of_the_simulator_has_a_cost() -> None:
    names = {i.name for i in (*BASIC.values(), *ADV.values())}
    assert names - set(COSTS) == set()


def test_every_cost_and_constant_names_its_source() -> None:
    assert all(c.source for rows in COSTS.values() for c in rows.values())
    assert all(unit and source for _, _, unit, source, _ in TimingConstants.describe())


@pytest.mark.parametrize(
    ("first", "second", "result", "cycles"),
    [
        (0, 0x10100, 0x20000, 86),
        (0, 0x4000, 0x10000, 150),
        (0, 0x10000, 0x14100, 150),
        (0, 0x10100, 0x4000, 86),
        (0, 0x10100, 0x4020, 135),
        (0, 0x10100, 0x10100, 86),
    ],
)
def test_add_costs_what_its_addresses_make_it(first: int, second: int, result: int, cycles: int) -> None:
    places = (result, first, second)
    for form in ((None, None), (64, (DENSE,) * 3)):
        assert vector_cycles("Add", "float", FLOATS, 4096, places, *form) == pytest.approx(cycles, abs=0.5)


@pytest.mark.parametrize(("block", "cycles"), [(144, 8), (145, 1), (72, 4), (2, 1)])
def test_strided_writes_take_as_long_as_their_busiest_bank_group(block: int, cycles: int) -> None:
    got = vector_cycles("Copy", "half", ("half",), 144 * 128, (73728, 0), 144, ((block, 1), DENSE))
    startup = cost_of("Copy", "half", "half").startup
    assert got == startup + 144 * cycles


@pytest.mark.parametrize(
    ("name", "slope", "startup"),
    [
        ("Add", 2.11, 24), ("Mul", 2.3, 25), ("Max", 2.01, 23), ("Muls", 1.0, 26), ("Maxs", 1.0, 23), ("Relu", 1.0, 23),
        ("LeakyRelu", 1.03, 26), ("Exp", 2.0, 31), ("Ln", 2.0, 33), ("Div", 4.03, 31), ("Rsqrt", 1.07, 24),
    ],
)  # fmt: skip
def test_fp32_costs_agree_with_a_second_published_calibration(name: str, slope: float, startup: float) -> None:
    """pto-isa's 910B3 calibration, of which these rows were not (all) made; 64 repeats."""
    sources = 2 if slope > 1.9 and name in ("Add", "Mul", "Max", "Div") else 1
    got = vector_cycles(name, "float", ("float",) * sources, 4096, (131072, 0, 16384)[: sources + 1])
    assert got == pytest.approx(slope * 64 + startup, rel=0.13)


def test_repeats_follow_the_widest_operand() -> None:
    widen = vector_cycles("Cast", "float", ("half",), 6400, (65536, 0))
    same = vector_cycles("Cast", "half", ("int16_t",), 6400, (65536, 0))
    assert widen - 20 == 2 * (same - 20) == 100


def test_half_precision_exp_runs_at_the_float_rate_per_element() -> None:
    half = vector_cycles("Exp", "half", ("half",), 8192, (65536, 0))
    single = vector_cycles("Exp", "float", ("float",), 8192, (65536, 0))
    assert half == single == 28 + 8192 / 32


def test_a_count_that_is_no_whole_repeat_costs_extra() -> None:
    whole = vector_cycles("Muls", "float", ("float",), 128, (65536, 0))
    part = vector_cycles("Muls", "float", ("float",), 127, (65536, 0))
    assert part == whole + 16


def test_ideal_cycles_have_no_startup_and_no_conflicts() -> None:
    assert ideal_cycles("Add", "float", FLOATS, 4096) == 64
    assert ideal_cycles("Tanh", "float", ("float",), 1000) == pytest.approx(157.0)


def test_every_soc_has_what_timing_needs() -> None:
    assert len(TARGETS) == 12
    for target in TARGETS.values():
        assert 0.5e12 < target.hbm_bytes_per_s < target.l2_bytes_per_s < 1e13
        assert 1000 <= target.clock_mhz <= 2000
