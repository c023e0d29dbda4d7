"""Many inputs and outputs: packed into few queues, and refused with numbers where UB is too small."""

from __future__ import annotations

import pytest
import torch

from asc_sched import Schedule, get_target, op
from asc_sched.declare import Op
from asc_sched.errors import QueueLimitError, UbOverflowError
from tests.road.tensors import same_bits
from tests.shapes.running import check
from tests.shapes.tensors import values


def sum_of(number: int) -> Op:
    return op("z = " + " + ".join(f"x{i}" for i in range(number)), name=f"sum{number}")


@pytest.mark.parametrize(("number", "total"), [(40, 780), (128, 8128), (370, 68265)])
def test_many_inputs_are_summed(number: int, total: int) -> None:
    declared = sum_of(number)
    tensors = [torch.full((1000,), float(i)) for i in range(number)]
    kernel = declared.compile(1000)
    result = kernel(*tensors)
    assert isinstance(result, torch.Tensor)
    assert (result == total).all()
    assert len(kernel.plan.in_queues) == 1 and kernel.schedule.pack_inputs
    assert kernel.plan.ub_bytes <= kernel.plan.ub_capacity


def test_an_input_used_twice_counts_once() -> None:
    kernel = op("z = x * x + x").compile(100)
    assert [t.name for t in kernel.plan.inputs] == ["x"]
    assert len(kernel.plan.queues) == 2


def test_forty_inputs_of_several_shapes_and_dtypes() -> None:
    declared = sum_of(40)
    shapes = [(30, 50), (50,), (30, 1), ()]
    dtypes = [torch.float32, torch.float16, torch.int32, torch.int8]
    tensors = [values(shapes[i % 4], dtypes[i % 3 if i % 4 else 0], i) for i in range(40)]
    check(declared, declared(*tensors), *tensors)


@pytest.mark.parametrize("number", [8, 9, 20])
def test_many_outputs(number: int) -> None:
    declared = op("; ".join(f"z{i} = x * {i + 1} + y" for i in range(number)))
    x = values((30, 50), torch.float32)
    for y in (values((30, 50), torch.float32, 1), values((50,), torch.float32, 1), values((30, 1), torch.float32, 1)):
        results = declared(x, y)
        assert isinstance(results, tuple)
        check(declared, results, x, y)
    kernel = declared.compile((30, 50))
    assert len(kernel.plan.out_queues) == (1 if number > 8 else number)
    in_place = x.clone()
    outs = (in_place, *(torch.empty(30, 50) for _ in range(number - 1)))
    expected = declared.reference(x, x)
    declared(in_place, in_place, out=outs)
    assert all(same_bits(a, b) for a, b in zip(outs, expected, strict=True))


def test_packed_outputs_of_several_dtypes() -> None:
    lines = [f"z{i} = {('float16', 'int32', 'float32', 'int8')[i % 4]}(x * {i})" for i in range(12)]
    declared = op("; ".join(lines))
    x = values((13, 33), torch.float32).clamp(-10, 10)
    check(declared, declared(x), x)


def test_more_queues_than_the_chip_has_are_refused_with_what_would_do() -> None:
    declared = sum_of(9)
    with pytest.raises(QueueLimitError, match=r"9 input queues x buffer_num=1 need 9 .* pack_inputs=True"):
        declared.compile(100, schedule=Schedule(buffer_num=1))
    rows = op("z = a + b + c + d + y")
    with pytest.raises(QueueLimitError, match=r"4 input queues x buffer_num=2 and one queue that is filled before"):
        rows.compile([(40, 30)] * 4 + [(30,)], schedule=Schedule(tile_length=32))


@pytest.mark.parametrize("shapes", [1000, [(10, 100)] * 369 + [(100,)]], ids=["flat", "rows"])
def test_what_doesnt_fit_is_refused_with_its_bytes(shapes: object) -> None:
    small = get_target().evolve(ub_bytes=8192)
    with pytest.raises(UbOverflowError) as caught:
        sum_of(370).compile(shapes, target=small)
    text = str(caught.value)
    assert "sum370_float32: the smallest tile, 8 elements, needs 11872 bytes of UB (371 buffers" in text
    assert "1484 bytes per element" in text
    assert "Ascend910B1 has 8 queue buffers per position" in text and "has 8192" in text
    with pytest.raises(UbOverflowError, match="bytes of UB"):
        sum_of(370).compile(1000, target=small, schedule=Schedule(tile_length=64, buffer_num=1, pack_inputs=True))
