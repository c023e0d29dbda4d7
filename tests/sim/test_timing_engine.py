"""The clock of one core: order between pipes, overlap of copies, skipping of steady iterations."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asc_sched.sim.affine import Var
from asc_sched.sim.launch import Launch
from asc_sched.sim.outline import CoreGroup, Node, Repeat
from asc_sched.sim.share import MixedShare, Rate, Share
from asc_sched.sim.stream import Barrier, Compute, Copy, Flag, GmSpan, Loc, Pipe, QueueOp, ScalarWork, UbSpan
from asc_sched.target import get_target
from asc_sched.target.timing import TIMING

TARGET = get_target()
AT = Loc("k.py", 1)
V, MTE2, MTE3 = Pipe.V, Pipe.MTE2, Pipe.MTE3


def load(nbytes: int, arg: int = 0, addr: int = 0, offset: int = 0) -> Copy:
    return Copy(MTE2, "DataCopy", UbSpan(addr, nbytes, "float"), GmSpan(arg, offset, nbytes), 1, nbytes, 0, AT)


def store(nbytes: int, arg: int = 1, addr: int = 131072) -> Copy:
    return Copy(MTE3, "DataCopy", UbSpan(addr, nbytes, "float"), GmSpan(arg, 0, nbytes), 1, nbytes, 0, AT)


def add(count: int = 4096) -> Compute:
    spans = [UbSpan(a, count * 4, "float") for a in (131072, 0, 65792)]
    return Compute("Add", spans[0], (spans[1], spans[2]), count, AT)


def flag(kind: str, src: Pipe, dst: Pipe, event: int = 0) -> Flag:
    return Flag(kind, src, dst, event, AT)


def launch(nodes: list[Node], cores: int = 1, l2: str = "hot", nbytes: int = 1 << 20, **changes: Any) -> Launch:
    target = TARGET.evolve(**changes)
    return Launch([CoreGroup(0, cores, tuple(nodes))], [nbytes] * 4, target, l2, TIMING)


def cycles(nodes: list[Node], **how: Any) -> float:
    return launch(nodes, **how).run()[0].end


def test_pipes_without_order_between_them_overlap() -> None:
    alone = cycles([load(16384)])
    assert cycles([load(16384), add()]) < alone + 20


def test_a_flag_makes_the_second_pipe_wait() -> None:
    both = cycles([load(16384), flag("set", MTE2, V), flag("wait", MTE2, V), add()])
    assert both == pytest.approx(cycles([load(16384)]) + 86, abs=5)


def test_queue_operations_order_pipes_like_flags() -> None:
    def op(kind: str, position: str = "VECIN") -> QueueOp:
        return QueueOp(kind, 0, position, 0, AT)

    ordered = cycles([op("alloc"), load(65536), op("enque"), op("deque"), add(), op("free"), op("alloc"), load(65536)])
    loads = cycles([load(65536)])
    assert ordered > 2 * loads + 86 - saved(1)


def test_latency_of_loads_in_a_row_is_hidden_and_a_flag_exposes_it() -> None:
    one = cycles([load(16384)])
    two = cycles([load(16384), load(16384)])
    split = cycles([load(16384), flag("set", MTE2, V), load(16384), flag("wait", MTE2, V)])
    wire = 16384 * (1 + TIMING.line_overhead_bytes / 512)
    assert two - one == pytest.approx(wire / TIMING.load_bytes_per_cycle + TIMING.copy_gap_cycles, abs=1)
    assert split > 2 * one - saved(1)


def saved(loads: int) -> float:
    """What loads that wait in the queue save of their latency, in cycles, and some for the issue of the first."""
    return loads * TIMING.load_queued_ns * TARGET.clock_mhz / 1000 + 10


def test_a_load_that_waits_in_the_queue_has_a_shorter_latency() -> None:
    after = [flag("set", MTE2, V), load(16384), flag("wait", MTE2, V)]
    queued = cycles([load(16384), *after])
    idle = cycles([load(16384), Barrier(None, AT), *after])
    assert idle - queued == pytest.approx(saved(1) - TIMING.copy_sync_cycles, abs=12)


def test_flags_take_time_on_copy_pipes() -> None:
    pair = [flag("set", MTE2, V), flag("wait", MTE2, V)]
    back = [flag("set", V, MTE2), flag("wait", V, MTE2)]
    tile = [load(16384), *pair, *back]
    times = [cycles(tile * n) for n in (4, 8)]
    plain = cycles([load(16384), Barrier(MTE2, AT)] * 8) - cycles([load(16384), Barrier(MTE2, AT)] * 4)
    assert times[1] - times[0] == pytest.approx(plain + 4 * TIMING.copy_sync_cycles, abs=4)


def test_a_barrier_of_all_pipes_serialises() -> None:
    parts = [load(8192), add(), store(8192)]
    serial = [n for p in parts for n in (p, Barrier(None, AT))]
    assert cycles(serial) == pytest.approx(sum(cycles([p]) for p in parts), rel=0.15)
    assert cycles(parts) < 0.8 * cycles(serial)


def test_scalar_code_holds_up_what_it_issues() -> None:
    assert cycles([ScalarWork(5000, AT), add()]) == pytest.approx(5000 + 86, abs=5)


def test_a_miss_takes_longer_than_a_hit() -> None:
    assert cycles([load(16384)], l2="cold") > 1.25 * cycles([load(16384)])


def test_misses_of_two_tensors_are_one_after_the_other() -> None:
    same = cycles([load(8192), load(8192, offset=8192)], l2="cold")
    other = cycles([load(8192), load(8192, arg=1)], l2="cold")
    assert other > same + 100


def test_cores_share_hbm() -> None:
    work: list[Node] = [load(65536, offset=i * 65536) for i in range(20)]
    few = cycles(work, cores=2, l2="cold", nbytes=1 << 30)
    many = cycles(work, cores=48, l2="cold", nbytes=1 << 30)
    assert many > 2 * few


def test_many_cores_reach_the_bandwidth_that_the_constants_say() -> None:
    work: list[Node] = [load(131072, offset=i * 131072) for i in range(40)]
    one = launch(work, cores=48, l2="cold", nbytes=1 << 30)
    rate = 48 * 40 * 131072 / ((one.run()[0].end - one.start_cycles) / TARGET.clock_mhz * 1e-6)
    wire = 512 / (512 + TIMING.line_overhead_bytes)
    assert rate == pytest.approx(TARGET.hbm_bytes_per_s * TIMING.hbm_read_efficiency * wire, rel=0.01)


def test_cores_that_go_on_alone_get_the_bandwidth_of_those_that_ended() -> None:
    var = Var("loop", ((0,), 0, 1), 0, 99)
    long = CoreGroup(0, 24, (Repeat(var, 100, (load(65536),)),))
    short = CoreGroup(24, 24, (Repeat(var, 20, (load(65536),)),))
    kwargs = ([1 << 34] * 4, TARGET, "cold", TIMING)
    together = {r.group.start: r.end for r in Launch([long, short], *kwargs).run()}
    alone = Launch([long], *kwargs).run()[0].end
    full = Launch([attrs_cores(long, 48)], *kwargs).run()[0].end
    assert together[24] < together[0]
    assert alone < together[0] < full
    # 20 tiles at half of the rate, 80 at all of it
    assert together[0] == pytest.approx(0.2 * full + 0.8 * alone, rel=0.03)


def attrs_cores(group: CoreGroup, cores: int) -> CoreGroup:
    return CoreGroup(group.start, cores, group.nodes)


def test_stores_that_fit_l2_are_not_written_back() -> None:
    work: list[Node] = [store(65536) for _ in range(10)]
    assert launch(work, cores=48, nbytes=1 << 24).run()[0].clock.hbm_bytes == 0
    kept = launch([load(65536, arg=2), *work], cores=48, nbytes=1 << 27, l2_bytes=1 << 20)
    assert kept.run()[0].clock.hbm_bytes > 0


def _body(rng: random.Random) -> tuple[Node, ...]:
    """One tile of a random but well-formed kernel."""
    nodes: list[Node] = [ScalarWork(rng.randint(1, 400), AT)]
    buffer = rng.randint(1, 3)
    size = rng.choice((256, 4096, 16384, 32768))
    for b in range(buffer):
        nodes.append(QueueOp("alloc", 0, "VECIN", b, AT))
        nodes += [load(size, arg=a) for a in range(rng.randint(1, 2))]
        nodes.append(QueueOp("enque", 0, "VECIN", b, AT))
        nodes.append(QueueOp("deque", 0, "VECIN", b, AT))
        nodes.append(QueueOp("alloc", 1, "VECOUT", b, AT))
        nodes += [add(rng.choice((64, 2048, 8192))) for _ in range(rng.randint(1, 4))]
        nodes.append(QueueOp("free", 0, "VECIN", b, AT))
        nodes.append(QueueOp("enque", 1, "VECOUT", b, AT))
        nodes.append(QueueOp("deque", 1, "VECOUT", b, AT))
        nodes.append(store(size, addr=rng.choice((0, 131072))))
        nodes.append(QueueOp("free", 1, "VECOUT", b, AT))
        if rng.random() < 0.3:
            nodes.append(Barrier(rng.choice((None, MTE2, V)), AT))
    return tuple(nodes)


@pytest.mark.parametrize("seed", range(40))
def test_skipping_steady_iterations_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    inner = Repeat(Var("loop", ((1,), 0, 1), 0, 19), rng.randint(2, 20), _body(rng))
    outer = Repeat(Var("loop", ((0,), 0, 1), 0, 99), rng.randint(3, 100), (*_body(rng), inner))
    groups = [
        CoreGroup(0, rng.randint(1, 40), (Repeat(Var("loop", ((0,), 0, 1), 0, 299), 300, _body(rng)),)),
        CoreGroup(40, 8, (outer, *_body(rng))),
    ]
    l2 = rng.choice(("hot", "cold"))
    one = Launch(groups, [1 << rng.choice((20, 28, 32))] * 4, TARGET, l2, TIMING)
    fast, slow = one.run(skip=True), one.run(skip=False)
    for a, b in zip(fast, slow, strict=True):
        assert a.end == pytest.approx(b.end, rel=1e-7)
        for pipe in (V, MTE2, MTE3):
            assert a.clock.lane(pipe).busy == pytest.approx(b.clock.lane(pipe).busy, rel=1e-6)
        assert a.clock.s_busy == pytest.approx(b.clock.s_busy, rel=1e-9)
        assert a.clock.hbm_bytes == pytest.approx(b.clock.hbm_bytes, rel=1e-9)


def test_skipping_makes_long_loops_cheap() -> None:
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    var = Var("loop", ((0,), 0, 1), 0, 10**7 - 1)
    one = launch([Repeat(var, 10**7, _body(random.Random(1)))])
    clock = one.clock(one.shares([]), count)
    clock.run(one.steps[0])
    assert clock.end > 1e8
    assert steps < 2000


def test_rate_steps_are_integrated() -> None:
    rate = Rate((10.0, 20.0, 40.0), (100.0, 200.0))
    assert rate.finish(0, 500) == 50
    assert rate.finish(50, 1000) == pytest.approx(100 + 500 / 20)
    assert rate.finish(0, 1000 + 2000 + 400) == pytest.approx(210)
    assert rate.finish(500, 400) == 510


def test_a_share_serves_in_order() -> None:
    share = Share(Rate((2.0,)))
    assert share.take(10, 20) == 20
    assert share.take(0, 20) == 30


def test_write_backs_hold_up_a_load_under_way() -> None:
    share = MixedShare(Rate((2.0,)), Rate((1.0,)), 5.0)
    share.write_back(30, 10)
    assert share.take(0, 40) == 20  # over before the write-back begins
    assert share.take(20, 40) == 20 + 20 + 10 + 5


def test_turning_to_writing_costs_at_most_as_much_as_is_written() -> None:
    share = MixedShare(Rate((2.0,)), Rate((1.0,)), 5.0)
    share.write_back(0, 3)
    assert share.take(1, 2) == 6 + 1


def tiles(count: int, pause: int) -> list[Node]:
    """Tiles that each load 32 KB from HBM past L2 and compute for `pause` cycles."""
    one = [Copy(MTE2, "DataCopy", UbSpan(0, 32768, "float"), GmSpan(0, 0, 32768, True), 1, 32768, 0, AT)]
    body = (*one, flag("set", MTE2, V), flag("wait", MTE2, V), add(pause * 64), flag("set", V, MTE2),
            flag("wait", V, MTE2))  # fmt: skip
    return [Repeat(Var("loop", ((0,), 0, 1), 0, count - 1), count, body)]


def test_short_pauses_of_many_cores_leave_no_bandwidth_unused() -> None:
    """Cores get out of step over many tiles: while one computes, others load."""
    time = {n: launch(tiles(n, 200), cores=48, nbytes=1 << 30).run()[0].end for n in (1, 2, 200, 400)}
    wire = 32768 * (1 + TIMING.line_overhead_bytes / 512)
    rate = TARGET.hbm_bytes_per_s * TIMING.hbm_read_efficiency / (TARGET.clock_mhz * 1e6)
    assert (time[400] - time[200]) / 200 == pytest.approx(48 * wire / rate, rel=0.04)
    assert time[2] - time[1] > 1.05 * 48 * wire / rate  # still in step


def test_cores_that_compute_most_of_the_time_dont_wait_for_each_other() -> None:
    alone = launch(tiles(400, 20000), cores=1, nbytes=1 << 30).run()[0].end
    many = launch(tiles(400, 20000), cores=48, nbytes=1 << 30).run()[0].end
    assert alone <= many < 1.02 * alone


def test_no_more_goes_through_l2_than_it_serves() -> None:
    body = (load(16384), store(16384), Barrier(None, AT))
    nodes = [Repeat(Var("loop", ((0,), 0, 1), 0, 999), 1000, body)]
    narrow = launch(nodes, cores=48, l2_mixed_bytes_per_s=1e12).run()[0]
    rate = 48 * 1000 * 2 * 16384 / (narrow.end / TARGET.clock_mhz * 1e-6)
    assert rate == pytest.approx(1e12, rel=0.02)


def test_a_first_launch_waits_for_its_instructions() -> None:
    hot, cold = (launch([add()], l2=l2).run()[0] for l2 in ("hot", "cold"))
    assert cold.end - hot.end == pytest.approx(TIMING.cold_start_us * TARGET.clock_mhz, abs=TIMING.vector_init_cycles)
    assert cold.clock.s_busy == hot.clock.s_busy
