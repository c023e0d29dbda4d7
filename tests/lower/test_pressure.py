"""The order of steps that needs least UB: the same steps, each after its sources, never in more temporaries."""

from __future__ import annotations

import itertools

import pytest
from asc_sched.ops import catalogue

from asc_sched.errors import AscSchedError
from asc_sched.lower import lower_op
from asc_sched.lower.allocate import Kind, allocate, done_with
from asc_sched.lower.pressure import eased
from asc_sched.lower.spaces import TileProgram
from asc_sched.schedule import Schedule
from asc_sched.tune.tuner import task_of
from tests.lower.programs import TARGET, written

DTYPES = ("float16", "float32", "bfloat16", "int32")


def _temp_bits(program: TileProgram) -> int:
    return sum(s.bits for s in allocate(program).temps)


def _catalogue() -> list[tuple[str, str]]:
    return [(name, dtype) for name, dtype in itertools.product(sorted(catalogue()), DTYPES)]


def test_the_order_is_one_of_the_same_steps_and_never_needs_more() -> None:
    looked_at = better = 0
    for name, dtype in _catalogue():
        try:
            program = written(name, dtype)
        except AscSchedError:  # torch has no such op on that dtype
            continue
        found, allocation = eased(program)
        looked_at += 1
        better += _temp_bits(found) < _temp_bits(program)
        assert sorted(map(id, found.body)) == sorted(map(id, program.body)), (name, dtype)
        known = {r for _, r in (*found.loads, *found.once)} | {s.dst for s in (*found.setup, *found.prologue)}
        for step in found.body:
            assert known.issuperset(step.srcs), (name, dtype)
            known.add(step.dst)
        assert sum(s.bits for s in allocation.temps) <= _temp_bits(program), (name, dtype)
    assert looked_at > 500
    assert better > 100


@pytest.mark.parametrize(("name", "dtype", "temps"), [("adamw", "float16", 3), ("hypot", "float32", 2)])
def test_large_expressions_need_few_temporaries(name: str, dtype: str, temps: int) -> None:
    typed = task_of(catalogue()[name], (8192, 8192), dtype, TARGET, "hot").typed
    assert len(lower_op(typed).allocation.temps) == temps < len(allocate(written(name, dtype)).temps)


def test_what_a_tile_is_done_with_first_is_loaded_first() -> None:
    program, allocation = eased(written("adamw", "float16"))
    done = done_with(program, allocation)
    ends = [done[slot] for slot in allocation.of_kind(Kind.IN)]
    assert ends == sorted(ends)
    assert ends[0] < len(program.body) // 2
    assert [allocation.slots[s].name for s in allocation.of_kind(Kind.IN)] == [n for n, _ in program.loads]


def test_a_buffer_is_freed_after_its_last_use_and_before_the_end() -> None:
    schedule = Schedule(core_num=48, tile_length=4096)
    source = catalogue()["adamw"].compile(shape=(8192, 8192), dtype="float16", target=TARGET, schedule=schedule).source
    body = source[source.index("_compute(") : source.index("_copy_out(")].splitlines()
    freed = next(i for i, line in enumerate(body) if "grad_queue.free_tensor(" in line)
    assert not any("grad_local" in line for line in body[freed + 1 :])
    assert sum("asc." in line for line in body[freed:]) > 1
