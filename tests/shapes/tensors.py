"""Tensors of any layout: what the tests of shapes draw and look at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from tests.road.tensors import numbers

Spec = tuple[tuple[int, ...], tuple[int, ...]]


def specs(tensors: Sequence[torch.Tensor]) -> list[Spec]:
    return [(tuple(t.shape), t.stride()) for t in tensors]


def values(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Reproducible elements: small integers, coin flips, floats of any sign."""
    if dtype is torch.bool:
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, 2, tuple(shape), generator=generator).bool()
    if not dtype.is_floating_point:
        generator = torch.Generator().manual_seed(seed)
        low = 0 if dtype is torch.uint8 else -10
        return torch.randint(low, 11, tuple(shape), generator=generator).to(dtype)
    return numbers(tuple(shape), dtype, seed)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor that broadcasts to `shape`: dimensions of size 1 or missing, permuted, strided, cut, expanded."""
    own = [1 if draw(st.integers(0, 3)) == 0 else n for n in shape]
    own = own[draw(st.integers(0, len(own))) if draw(st.integers(0, 4)) == 0 else 0 :]
    kind = draw(st.sampled_from(("plain", "plain", "permuted", "stepped", "cut", "expanded")))
    order = draw(st.permutations(range(len(own))))
    back = [order.index(d) for d in range(len(own))]
    seed = draw(st.integers(0, 1000))
    if kind in ("plain", "expanded"):
        tensor = values(own, dtype, seed)
    elif kind == "permuted":
        tensor = values([own[d] for d in order], dtype, seed).permute(back)
    elif kind == "stepped":
        tensor = values([2 * n for n in own], dtype, seed)[tuple(slice(n % 2, None, 2) for n in own)]
    else:
        wider = [own[d] + draw(st.integers(0, 2)) for d in order]
        tensor = values(wider, dtype, seed).permute(back)[tuple(slice(0, n) for n in own)]
    if kind == "expanded":
        tensor = tensor.expand(torch.broadcast_shapes(tensor.shape, shape))
    return tensor
