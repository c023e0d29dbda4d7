"""Differential fuzz: random ops, shapes that broadcast, layouts, dtypes and schedules, against torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st

from asc_sched import Schedule, op
from asc_sched.errors import DtypeError, UbOverflowError
from tests.road.tensors import same_bits
from tests.shapes.running import GuardedLayout
from tests.shapes.tensors import layouts

# Exact on any schedule and in any dtype, so that results are compared to the bit.
OPS = [
    op("z = x + y"),
    op("z = x * y - x"),
    op("z = where(x < y, x, y)"),
    op("z = maximum(x, y); w = x - y"),
    op("z = x * y + w"),
    op("z = where(x < y, w, x); v = x + w"),
    op("z = (x + y) * (w + 1)"),
]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.uint8, torch.int64]
SIZES = st.sampled_from((1, 2, 3, 5, 7, 8, 16, 17, 33))


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    shape = draw(st.lists(SIZES, max_size=4))
    if shape and draw(st.integers(0, 3)) == 0:
        shape[draw(st.integers(0, len(shape) - 1))] = draw(st.sampled_from((64, 100, 513, 1000, 4096)))
    while torch.Size(shape).numel() > 60_000:
        shape.remove(max(shape))
    return tuple(shape)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule | None:
    if draw(st.booleans()):
        return None
    tiles = draw(st.sampled_from(({}, {"tile_length": 32}, {"tile_length": 96}, {"tile_length": 2048}, {"tile_num": 1},
                                  {"tile_num": 3})))  # fmt: skip
    return Schedule(
        core_num=draw(st.sampled_from((None, 1, 2, 7, 48))),
        buffer_num=draw(st.integers(1, 2)),
        core_split=draw(st.sampled_from(("even", "ceil"))),
        bank_pad=draw(st.booleans()),
        pack_inputs=draw(st.booleans()),
        **tiles,
    )


def check_any_call(data: st.DataObject) -> None:
    declared = data.draw(st.sampled_from(OPS))
    shape = data.draw(shapes())
    dtype = data.draw(st.sampled_from(DTYPES))
    mixed = data.draw(st.booleans())
    dtypes = [data.draw(st.sampled_from(DTYPES)) if mixed else dtype for _ in declared.inputs]
    tensors = [data.draw(layouts(shape, d)) for d in dtypes]
    schedule = data.draw(schedules())
    note(f"{declared}\n{[(tuple(t.shape), t.stride(), t.dtype) for t in tensors]}\n{schedule!r}")
    guarded = [GuardedLayout(t) if 0 not in t.stride() else None for t in tensors]
    given_tensors = [t if g is None else g.tensor for t, g in zip(tensors, guarded, strict=True)]
    try:
        expected = declared.reference(*tensors)
        outs = [GuardedLayout(torch.zeros_like(e), _strides(data, e)) for e in expected]
        out = tuple(o.tensor for o in outs) if data.draw(st.booleans()) else None
        if schedule is None:
            found = declared(*given_tensors, out=out)
        else:
            kernel = declared.compile([tuple(t.shape) for t in tensors], dtypes, schedule=schedule)
            found = kernel(*given_tensors, out=out)
    except (DtypeError, UbOverflowError):  # not available on the chip; a tile that the schedule asked for
        return
    results = found if isinstance(found, tuple) else (found,)
    assert all(same_bits(a, b) for a, b in zip(results, expected, strict=True))
    assert all(g is None or g.intact for g in guarded) and all(o.intact for o in outs)
    assert all(same_bits(a, b) for a, b in zip(given_tensors, tensors, strict=True)), "inputs are as they were"


def _strides(data: st.DataObject, like: torch.Tensor) -> tuple[int, ...]:
    """Of an output: contiguous, in another order of dimensions, or with gaps."""
    order = data.draw(st.permutations(range(like.dim())))
    wider = data.draw(st.sampled_from((0, 0, 3)))
    steps, step = [0] * like.dim(), data.draw(st.sampled_from((1, 1, 1, 2)))
    for dim in order:
        steps[dim] = step
        step *= like.shape[dim] + wider
    return tuple(steps)


@settings(max_examples=45)
@given(st.data())
def test_any_call_is_right_to_the_bit(data: st.DataObject) -> None:
    check_any_call(data)


@pytest.mark.nightly
@settings(max_examples=2000)
@given(st.data())
def test_any_call_is_right_to_the_bit_many_times(data: st.DataObject) -> None:
    check_any_call(data)
