"""What no schedule beats, and that cores together never draw more than the chip has."""

from __future__ import annotations

import random

import pytest
from asc_sched.ops import catalogue

from asc_sched.schedule import Schedule
from asc_sched.sim.affine import Var
from asc_sched.sim.bursts import Part, burst
from asc_sched.sim.compiled import Op
from asc_sched.sim.engine import Clock
from asc_sched.sim.launch import Launch
from asc_sched.sim.outline import CoreGroup, Repeat
from asc_sched.sim.profile import Timing
from asc_sched.sim.share import MixedShare, Rate
from asc_sched.sim.stream import Loc
from asc_sched.target import get_target
from asc_sched.target.timing import TIMING
from asc_sched.tiling import resolve
from asc_sched.tune.model import Model
from asc_sched.tune.sketch import Sketch
from asc_sched.tune.tuner import task_of
from tests.sim.test_timing_engine import MTE2, MTE3, V, add, flag, load, store

TARGET = get_target("Ascend910B1")
SIZE = (8192, 8192)
AT = Loc("k.py", 1)


def timed(name: str, dtype: str, schedule: Schedule) -> Timing:
    return Model(task_of(catalogue()[name], SIZE, dtype, TARGET, "hot")).exact(schedule)


def launched(name: str, dtype: str, schedule: Schedule) -> Launch:
    task = task_of(catalogue()[name], SIZE, dtype, TARGET, "hot")
    model = Model(task)
    tiling = resolve(schedule, total_length=task.total_length, itemsizes=model.itemsizes, target=TARGET)
    sketch = model._judge.sketch  # type: ignore[union-attr]
    assert isinstance(sketch, Sketch)
    return Launch([sketch.longest(tiling)], [task.total_length * s for s in model.itemsizes], TARGET, "hot", TIMING)


def test_reads_alone_are_bound_by_what_hbm_reaches() -> None:
    timing = timed("add", "float16", Schedule(core_num=48, tile_length=16384, l2_cache="bypass"))
    wire = 1 + TIMING.line_overhead_bytes / TARGET.gm_line_bytes
    rate = TARGET.hbm_bytes_per_s * TIMING.hbm_read_efficiency / wire / (1 + TIMING.hbm_spread)
    assert 1.45e12 < rate < 1.56e12  # what published runs reach
    assert timing.bound_us == timing.roofline_us == pytest.approx(2 * 2 * 8192**2 / rate * 1e6)
    assert timing.bound_by == "HBM bandwidth"


@pytest.mark.parametrize(("name", "dtype"), [("relu", "float32"), ("adamw", "float16"), ("to_int64", "float16")])
def test_the_bound_hardly_depends_on_the_schedule_and_no_schedule_beats_it(name: str, dtype: str) -> None:
    schedules = [
        Schedule(core_num=cores, tile_length=tile, buffer_num=buffers, l2_cache=l2)
        for cores in (28, 40, 48) for tile in (2048, 3584) for buffers in (1, 2) for l2 in ("normal", "bypass")
    ]  # fmt: skip
    timings = [timed(name, dtype, s) for s in schedules]
    bounds = [t.bound_us for t in timings]
    assert max(bounds) < 1.005 * min(bounds)
    assert all(t.share_of_bound < 1 for t in timings)


def test_a_vector_bound_counts_one_start_per_tile() -> None:
    short, long = (timed("erf", "float32", Schedule(core_num=48, tile_length=n)) for n in (1024, 4096))
    assert short.bound_by == long.bound_by == "vector throughput"
    assert short.bound_us == pytest.approx(long.bound_us, rel=0.01)


@pytest.mark.parametrize(("name", "dtype"), [("relu", "float32"), ("geglu_tanh", "float16"), ("erf", "float32")])
def test_the_roofline_is_the_bound_of_tiles_without_end(name: str, dtype: str) -> None:
    short, long = (timed(name, dtype, Schedule(core_num=48, tile_length=n)) for n in (1024, 4096))
    assert short.roofline_us == pytest.approx(long.roofline_us, rel=1e-3)
    assert long.roofline_us < long.bound_us < 1.2 * long.roofline_us


@pytest.mark.parametrize("cores", [36, 40, 44, 48])
@pytest.mark.parametrize("tile", [3328, 3584, 4096, 4352])
def test_all_cores_together_draw_no_more_than_hbm_has(cores: int, tile: int) -> None:
    """Loads and stores of these fall into one rhythm or another, by the bandwidth they get."""
    schedule = Schedule(core_num=cores, tile_length=tile, l2_cache="bypass", pack_inputs=True)
    for name in ("adamw", "sgd_momentum"):
        launch = launched(name, "float16", schedule)
        runs = launch.run()
        drawn = sum(r.clock.hbm.busy / r.end * r.shares.hbm_read.rates[0] * r.group.cores for r in runs)
        has = TARGET.hbm_bytes_per_s * TIMING.hbm_read_efficiency / (TARGET.clock_mhz * 1e6)
        assert drawn < 1.006 * has


def test_write_backs_between_two_loads_turn_hbm_once() -> None:
    share = MixedShare(Rate((1.0,)), Rate((1.0,)), 100.0)
    share.write_back(0, 60)
    share.write_back(0, 60)
    share.write_back(0, 60)
    assert share.take(0, 10) == 3 * 60 + 100 + 10
    share.write_back(share.free, 60)
    assert share.take(share.free, 10) == 3 * 60 + 100 + 10 + 60 + 60 + 10


# -- bursts of vector instructions ----------------------------------------------------------------------------------
def _vector(cycles: float) -> Op:
    def op(c: Clock) -> None:
        c.scalar(1, "issue", AT)
        c.vector(cycles, "Add", AT)

    return op


def _scalar(cycles: float) -> Op:
    return lambda c: c.scalar(cycles, "scalar", AT)


@pytest.mark.parametrize("seed", range(30))
def test_a_burst_takes_as_long_as_its_parts_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    parts = []
    for _ in range(rng.randint(2, 8)):
        cycles = float(rng.choice((1, 5, 40, 200)))
        parts.append(Part(_vector(cycles), 1, cycles) if rng.random() < 0.7 else Part(_scalar(cycles), cycles))
    launch = Launch([CoreGroup(0, 1, (add(64),))], [4096] * 4, TARGET, "hot", TIMING)
    together, apart = (launch.clock(launch.shares(())) for _ in range(2))
    busy_until = float(rng.choice((0, 100, 1000)))
    for c in (together, apart):
        c.v.free = c.v.done = busy_until
        c.s = 20.0
    burst(parts)(together)
    for part in parts:
        part.op(apart)
    assert together._state() == pytest.approx(apart._state())
    assert together.s_slack == apart.s_slack


def test_a_loop_of_bursts_is_the_same_executed_and_added_up() -> None:
    body = (load(16384), flag("set", MTE2, V), flag("wait", MTE2, V), add(), add(), add(), flag("set", V, MTE3),
            flag("wait", V, MTE3), store(16384))  # fmt: skip
    loop = Repeat(Var("i", (), 0, 99), 100, body, True, 1)
    launch = Launch([CoreGroup(0, 48, (loop,))], [1 << 24] * 4, TARGET, "hot", TIMING)
    skipped, executed = (launch.run(skip)[0].end for skip in (True, False))
    assert skipped == pytest.approx(executed, rel=1e-6)
