"""`out=` is an input: as if the results were made aside, and what can't be is refused as torch does."""

from __future__ import annotations

import pytest
import torch

from asc_sched import Schedule, op, ops
from asc_sched.errors import OverlapError
from tests.lower.values import op_inputs
from tests.road.tensors import same_bits
from tests.shapes.running import GuardedLayout
from tests.shapes.tensors import values

ADD = op("z = x + y")
SILU = op("z = x / (1 + exp(-x))")
GATED = op("z = x * sigmoid(x) + y * tanh(x); w = x - y")
LAYOUTS = [
    ((64, 64), None),
    ((64, 64), (1, 64)),
    ((40, 48), (96, 1)),
    ((40, 48), (100, 2)),
    ((3, 40, 48), (1920, 48, 1)),
    ((1000,), None),
    ((1000,), (3,)),
]


def aside(declared, *tensors: torch.Tensor, **more):  # type: ignore[no-untyped-def]
    result = declared(*(t.clone() for t in tensors), **more)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize(("shape", "strides"), LAYOUTS, ids=str)
def test_in_place_is_as_out_of_place(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    other = values(shape, torch.float32, 1)
    row, column = values(shape[-1:], torch.float32, 2), values((*shape[:-1], 1), torch.float32, 3)
    for y in (other, row, column, torch.tensor(1.5)):
        x = GuardedLayout(values(shape, torch.float32), strides)
        (expected,) = aside(ADD, x.tensor, y)
        assert ADD(x.tensor, y, out=x.tensor) is x.tensor
        assert same_bits(x.tensor, expected)
        assert x.intact


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16], ids=str)
def test_an_activation_in_place_is_applied_once(dtype: torch.dtype) -> None:
    x = torch.full((64, 64), -0.5, dtype=dtype)
    (expected,) = aside(SILU, x)
    SILU(x, out=x)
    assert same_bits(x, expected)
    if dtype is torch.float16:
        assert (x == -0.188720703125).all()


def test_every_input_may_be_the_output() -> None:
    for number in range(2):
        tensors = [values((40, 48), torch.float32), values((40, 48), torch.float32, 1)]
        expected = aside(GATED, *tensors)
        others = torch.empty(40, 48)
        outs = (tensors[number], others)
        GATED(*tensors, out=outs)
        assert all(same_bits(a, b) for a, b in zip(outs, expected, strict=True))
    tensors = [values((40, 48), torch.float32), values((40, 48), torch.float32, 1)]
    expected = aside(GATED, *tensors)
    GATED(*tensors, out=(tensors[1], tensors[0]))
    assert same_bits(tensors[1], expected[0]) and same_bits(tensors[0], expected[1])


@pytest.mark.parametrize("schedule", [
    Schedule(core_num=1, tile_length=64, buffer_num=2), Schedule(core_num=5, tile_length=32),
    Schedule(core_num=3, tile_num=2, bank_pad=True), Schedule(pack_inputs=True),
], ids=repr)  # fmt: skip
def test_in_place_under_every_schedule(schedule: Schedule) -> None:
    whole, row, column = [(40, 48), (40, 48)], [(40, 48), (48,)], [(40, 48), (40, 1)]
    for shapes in (whole, row, column, [(41, 43), (43,)], [(3, 7000), (7000,)]):
        x, y = values(shapes[0], torch.float32), values(shapes[1], torch.float32, 1)
        kernel = ADD.compile(shapes, schedule=schedule)
        expected = x + y
        guarded = GuardedLayout(x)
        kernel(guarded.tensor, y, out=guarded.tensor)
        assert same_bits(guarded.tensor, expected) and guarded.intact


@pytest.mark.parametrize("family", ops.FAMILIES)
def test_every_op_of_the_catalogue_works_in_place(family: str) -> None:
    """Each input of a result's dtype serves as `out=`; several tiles and cores, one of them partly filled."""
    generator = torch.Generator().manual_seed(4)
    for name in (n for n in ops.catalogue() if ops.family_of(n) == family):
        declared = ops.get(name)
        dtype = "int32" if name.startswith(("bitwise", "gcd", "logical")) else "float32"
        tensors = op_inputs(declared, dtype, 2111, generator)
        expected = aside(declared, *tensors)
        for k, x in enumerate(tensors):
            if expected[0].dtype is not x.dtype:
                continue
            copies = [t.clone() for t in tensors]
            outs = (copies[k], *(torch.empty_like(e) for e in expected[1:]))
            declared(*copies, out=outs if len(outs) > 1 else outs[0])
            assert all(same_bits(a, b) for a, b in zip(outs, expected, strict=True)), (name, declared.inputs[k])
            others = [t for i, t in enumerate(copies) if i != k]
            before = [t for i, t in enumerate(tensors) if i != k]
            assert all(same_bits(a, b) for a, b in zip(others, before, strict=True)), name


# -- what overlaps -------------------------------------------------------------------------------------------------
def test_an_output_that_overlaps_itself_is_refused_as_torch_does() -> None:
    cos = op("z = abs(x)")
    out = torch.tensor(0.785).expand(3)
    with pytest.raises(OverlapError, match=r"more than one element of out= for z .* a single memory location"):
        cos(out, out=out)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.abs(out, out=out)
    assert out[0] == 0.785


def test_an_output_that_overlaps_an_input_in_part_is_refused_as_torch_does() -> None:
    base = torch.arange(101.0)
    with pytest.raises(OverlapError, match="out= for z overlaps input x in part"):
        ADD(base[:100], torch.ones(100), out=base[1:])
    with pytest.raises(RuntimeError):
        torch.add(base[:100], torch.ones(100), out=base[1:])
    matrix = torch.arange(12.0).view(3, 4)
    with pytest.raises(OverlapError, match="out= for z overlaps input y in part"):
        ADD(matrix, matrix[0], out=matrix)
    with pytest.raises(RuntimeError):
        torch.add(matrix, matrix[0], out=matrix)
    with pytest.raises(OverlapError, match="out= for w overlaps out= for z"):
        GATED(matrix.clone(), matrix.clone(), out=(matrix, matrix))
    assert torch.equal(base, torch.arange(101.0)) and torch.equal(matrix, torch.arange(12.0).view(3, 4))


def test_inputs_that_interleave_with_the_output_are_read_before_it_is_written() -> None:
    """torch doesn't find these; here they are as if the result were made aside."""
    matrix = values((40, 48), torch.float32)
    expected = matrix + matrix[:, :1]
    ADD(matrix, matrix[:, :1], out=matrix)
    assert same_bits(matrix, expected)
    wide = values((40, 100), torch.float32)
    before = wide.clone()
    ADD(wide[:, :64], torch.ones(64), out=wide[:, 20:84])
    assert same_bits(wide[:, 20:84], before[:, :64] + 1)
    assert same_bits(wide[:, :20], before[:, :20]) and same_bits(wide[:, 84:], before[:, 84:])
