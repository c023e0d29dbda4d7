"""Layouts: torch's strides of results without torch, and dimensions collapsed to the fewest."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched.lower.geometry import (
    Arrangement,
    collapse,
    compact_strides,
    contiguous_arrangement,
    dense_strides,
)
from asc_sched.run.torch_strides import contiguous, is_dense, result_spec
from tests.shapes.tensors import layouts, specs


def torch_result(*tensors: torch.Tensor) -> torch.Tensor:
    functions = {1: torch.neg, 2: torch.add, 3: torch.addcmul}
    return functions[len(tensors)](*tensors)


@settings(max_examples=400)
@given(st.data())
def test_results_have_the_strides_that_torch_gives_them(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 4), max_size=5).map(tuple))
    tensors = [data.draw(layouts(shape, torch.float32)) for _ in range(data.draw(st.integers(1, 3)))]
    result = torch_result(*tensors)
    assert result_spec(specs(tensors)) == (tuple(result.shape), result.stride())


@pytest.mark.parametrize(
    ("shape", "memory_format"),
    [
        ((2, 3, 4, 5), torch.channels_last),
        ((1, 3, 1, 5), torch.channels_last),
        ((2, 3, 2, 4, 5), torch.channels_last_3d),
    ],
)
def test_channels_last_stays(shape: tuple[int, ...], memory_format: torch.memory_format) -> None:
    x = torch.empty(shape).to(memory_format=memory_format)
    for others in ([], [x], [torch.empty(shape[1], *[1] * (len(shape) - 2))], [torch.empty(shape)]):
        result = torch_result(x, *others)
        assert result_spec(specs([x, *others])) == (tuple(result.shape), result.stride())


def test_dense_is_whatever_order_the_dimensions_have() -> None:
    assert is_dense((3, 4), (4, 1)) and is_dense((3, 4), (1, 3)) and is_dense((3, 1, 4), (4, 99, 1))
    assert not is_dense((3, 4), (5, 1)) and not is_dense((3, 4), (0, 1)) and not is_dense((3, 4), (1, 1))


# -- collapsing ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "inputs", "sizes", "strides"),
    [
        ((4, 5, 6), [(4, 5, 6), (4, 5, 6)], (120,), ((1,), (1,))),
        ((4, 5, 6), [(4, 5, 6), (6,)], (20, 6), ((6, 1), (0, 1))),
        ((4, 5, 6), [(4, 5, 6), (5, 6)], (4, 30), ((30, 1), (0, 1))),
        ((4, 5, 6), [(4, 5, 6), (4, 5, 1)], (20, 6), ((6, 1), (1, 0))),
        ((4, 5, 6), [(4, 5, 6), (4, 1, 1)], (4, 30), ((30, 1), (1, 0))),
        ((4, 5, 6), [(4, 5, 6), (5, 1)], (4, 5, 6), ((30, 6, 1), (0, 1, 0))),
        ((4, 5, 6), [(4, 5, 6), (4, 1, 6)], (4, 5, 6), ((30, 6, 1), (6, 0, 1))),
        ((4, 5, 6), [(4, 5, 6), ()], (120,), ((1,), (0,))),
        ((4, 5, 6), [(4, 1, 1), (5, 6)], (4, 30), ((1, 0), (0, 1))),
        ((1, 5, 1), [(1, 5, 1), (5, 1)], (5,), ((1,), (1,))),
        ((1, 1), [(1, 1), ()], (1,), ((1,), (1,))),
        ((), [(), ()], (1,), ((1,), (1,))),
        ((3, 0, 5), [(3, 0, 5), (5,)], (0,), ((1,), (1,))),
    ],
    ids=str,
)
def test_dimensions_collapse_to_the_fewest(
    shape: tuple[int, ...], inputs: list[tuple[int, ...]], sizes: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> None:
    geometry = contiguous_arrangement(shape, inputs, 1).geometry
    assert geometry.sizes == sizes
    assert geometry.strides[:2] == strides
    assert geometry.strides[2] == dense_strides(sizes)


@settings(max_examples=200)
@given(st.data())
def test_a_collapsed_geometry_has_the_same_elements_in_the_same_order(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), max_size=4).map(tuple))
    tensors = [data.draw(layouts(shape, torch.float32)).expand(shape) for _ in range(2)]
    geometry = collapse(shape, [t.stride() for t in tensors], 2)
    assert geometry.total_length == math.prod(shape)
    if geometry.total_length == 1:
        return
    for tensor, strides in zip(tensors, geometry.strides, strict=True):
        wide = tensor.broadcast_to(shape).contiguous().reshape(-1)
        again = torch.as_strided(tensor, geometry.sizes, strides).reshape(-1)
        assert torch.equal(wide, again)
    for d in range(geometry.rank - 1):
        joined = all(s[d] == s[d + 1] * geometry.sizes[d + 1] for s in geometry.strides)
        assert not joined, "two neighbours are one run in every tensor"


@settings(max_examples=150)
@given(st.data())
def test_compact_strides_are_those_of_the_tensor_made_contiguous(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=4).map(tuple))
    own = tuple(n if data.draw(st.booleans()) else 1 for n in shape)
    strides = torch.empty(own).expand(shape).stride()
    scattered = tuple(7 * s for s in strides)
    assert compact_strides(shape, scattered) == strides
    assert contiguous(own) == torch.empty(own).stride()


def test_a_copy_that_changes_nothing_expands() -> None:
    laid = Arrangement((4, 5), ((1, 0), (5, 1)), 1)
    assert laid.with_copy(0, expand=False).strides[0] == (5, 1)
    assert laid.with_copy(0, expand=False).is_expanded(0)
    spread = Arrangement((4, 5), ((2, 0), (5, 1)), 1)
    assert spread.with_copy(0, expand=False).strides[0] == (1, 0)
    assert spread.with_copy(0, expand=True).strides[0] == (5, 1)
    assert spread.with_copy(0, expand=True).copied == {0}
