"""UB by live range: no register is overwritten while it is needed, and no buffer is there that isn't."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import op, ops
from asc_sched.declare import Op
from asc_sched.lang.dtypes import DTYPES
from asc_sched.lang.infer import infer
from asc_sched.lower.allocate import Allocation, Kind, allocate
from asc_sched.lower.form import Form, choose_form
from asc_sched.lower.geometry import contiguous_arrangement
from asc_sched.lower.planner import lower_op, select
from asc_sched.lower.pressure import eased
from asc_sched.lower.program import Step
from asc_sched.lower.spaces import CannotSpreadError, TileProgram, place
from asc_sched.target.instructions import CARRIER_BITS
from tests.lower.programs import written

CATALOGUE: dict[str, Op] = dict(ops.catalogue())


def flat(declared: Op, dtype: str) -> tuple[TileProgram, Allocation]:
    lowered = lower_op(infer(declared.graph, dict.fromkeys(declared.inputs, DTYPES[dtype])))
    return lowered.program, lowered.allocation


def bits(program: TileProgram, register: int) -> int:
    return CARRIER_BITS[program.registers[register]]


def check(program: TileProgram, allocation: Allocation) -> None:
    """Run the buffers: every source must still be what was put there, and large enough."""
    holds: dict[int, int] = {}
    for name, register in (*program.loads, *program.once):
        home = allocation.home[register]
        assert home is not None and allocation.slots[home].name == name
        holds[home] = register
    phases = [("before", s) for s in (*program.setup, *program.prologue)] + [("tile", s) for s in program.body]
    kept = {r for s in program.body for r in s.srcs} & {s.dst for s in (*program.setup, *program.prologue)}
    for _ in range(2):  # the tiles' loop comes round again: what was prepared must still be there
        for phase, step in phases:
            sources = [allocation.home[s] for s in step.srcs]
            for register, home in zip(step.srcs, sources, strict=True):
                assert home is not None and holds.get(home) == register, f"{step} reads what is gone"
            home = allocation.home[step.dst]
            assert home is not None
            slot = allocation.slots[home]
            assert slot.bits >= bits(program, step.dst)
            assert slot.extent == program.extents[step.dst] or slot.kind is not Kind.TEMP
            if home in sources:
                assert isinstance(step, Step) and step.instruction.in_place
                assert bits(program, step.srcs[sources.index(home)]) == bits(program, step.dst)
            assert phase == "tile" or slot.kind is Kind.TEMP
            assert holds.get(home) not in kept or phase == "before", "what the tiles read is overwritten"
            holds[home] = step.dst
        for _, register in program.loads:  # the next tile's inputs
            home = allocation.home[register]
            assert home is not None
            holds[home] = register
        phases = [p for p in phases if p[0] == "tile"]
    stores = {allocation.home[r]: r for _, r in program.stores}
    for home, register in stores.items():
        assert home is not None and allocation.slots[home].kind is Kind.OUT and bits(program, register)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_no_op_of_the_catalogue_loses_a_value(dtype: str) -> None:
    checked = 0
    for declared in CATALOGUE.values():
        try:
            program, allocation = flat(declared, dtype)
        except TypeError:  # not defined, or not available, for the dtype
            continue
        check(program, allocation)
        checked += 1
    assert checked > 50


@settings(max_examples=200)
@given(st.data())
def test_no_broadcast_kernel_loses_a_value(data: st.DataObject) -> None:
    declared = CATALOGUE[data.draw(st.sampled_from(sorted(CATALOGUE)))]
    shape = (6, 5, 40)
    shapes = [tuple(1 if data.draw(st.booleans()) else n for n in shape) for _ in declared.inputs]
    shapes[0] = shape
    dtypes = {n: DTYPES[data.draw(st.sampled_from(("float32", "float16", "int8", "bool")))] for n in declared.inputs}
    try:
        typed = infer(declared.graph, dtypes)
        program = select(typed, frozenset(), "exact")
    except TypeError:
        return
    sizes = tuple(d.itemsize for d in (*typed.input_dtypes.values(), *typed.output_dtypes.values()))
    geometry = contiguous_arrangement(shape, shapes, len(typed.output_dtypes)).geometry
    form = choose_form(geometry, sizes, data.draw(st.sampled_from((64, 512, 4096))))
    if not isinstance(form, Form):
        return
    try:
        placed = place(program, form, (*typed.input_dtypes, *typed.output_dtypes))
    except CannotSpreadError:
        return
    check(placed, allocate(placed))


@pytest.mark.parametrize("length", [1, 2, 10, 1000])
@pytest.mark.parametrize(("dtype", "temps"), [("float32", []), ("float16", [32]), ("int32", [])])
def test_a_chain_of_any_length_has_the_buffers_of_one_step(length: int, dtype: str, temps: list[int]) -> None:
    lines = [f"t{i} = {f't{i - 1}' if i else 'x'} * 3 + 2" for i in range(length)]
    _, allocation = flat(op("\n".join([*lines, f"z = t{length - 1} * 3"])), dtype)
    assert [s.bits for s in allocation.temps] == temps
    assert len(allocation.slots) == 2 + len(temps)


def test_a_wide_value_isnt_kept_out_of_a_buffer_by_a_narrow_one() -> None:
    program, allocation = eased(written("maximum", "int64"))
    check(program, allocation)
    assert sum(s.bits for s in allocation.temps) <= 160


def test_the_widest_moment_decides() -> None:
    """Eight products that are all needed at the end, after a thousand steps."""
    lines = [f"p{i} = x * {i + 2}" for i in range(8)]
    lines += [f"q{i} = {f'q{i - 1}' if i else 'x'} * 3 + 1" for i in range(1000)]
    declared = op("\n".join([*lines, "z = q999 + " + " + ".join(f"p{i}" for i in range(8))]))
    _, allocation = flat(declared, "float32")
    assert len(allocation.temps) <= 8
