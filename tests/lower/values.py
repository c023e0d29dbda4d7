"""Inputs for sweeps: every 16-bit float, special and random float32, integers with their edges."""

from __future__ import annotations

import math

import torch

from asc_sched import Op
from asc_sched.lang.accuracy import RESULT_ULP

DTYPES = ("float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")
FLOATS = DTYPES[:3]
INTEGERS = DTYPES[3:8]

SPECIAL = (
    0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 1.5, 2.0, 2.5, -2.0, 3.0, -8.0, 1 / 3, 10.0, 100.0,
    -100.0, 88.72, 88.8, -103.9, -104.0, 127.99, 128.0, -149.0, -150.0, 1e10, -1e10, 3.4e38, -3.4e38, 1.2e-38, 1e-42,
    -1e-42, 1e-45, 16777215.0, 16777216.0, 4095.9, 4096.1, 65504.0,
)  # fmt: skip


def torch_dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    assert isinstance(found, torch.dtype)
    return found


def all_16bit(dtype: str) -> torch.Tensor:
    """Every value of a 16-bit float: 65,536, NaNs included."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(torch_dtype(dtype))


def float32_values(count: int, seed: int = 0) -> torch.Tensor:
    """Special values, any finite bit patterns, numbers around 1 and around 100, and a dense stretch."""
    g = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(2**31), 2**31 - 1, (count,), generator=g).to(torch.int32).view(torch.float32)
    bits = torch.where(bits.isfinite(), bits, torch.ones_like(bits))
    scaled = torch.randn(count, generator=g) * torch.exp2(torch.randint(-12, 12, (count,), generator=g).float())
    return torch.cat([torch.tensor(SPECIAL), bits, scaled, torch.linspace(-10, 10, count)])


def integers(dtype: str, count: int, seed: int = 0) -> torch.Tensor:
    """Edges, and numbers of every size."""
    g, kind = torch.Generator().manual_seed(seed), torch_dtype(dtype)
    info = torch.iinfo(kind)
    edges = torch.tensor([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 10, 100], dtype=torch.int64)
    signed = edges if info.min == 0 else torch.cat([edges, -edges[4:]])
    numbers = torch.randint(info.min, info.max, (count,), generator=g, dtype=torch.int64)
    shifts = torch.randint(0, info.bits - 1, (count,), generator=g)
    return torch.cat([signed, numbers >> shifts]).to(kind)


def pairs(dtype: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two integer tensors: every pair of edges (all pairs of 8-bit numbers), then random ones."""
    kind = torch_dtype(dtype)
    info = torch.iinfo(kind)
    if info.bits == 8:
        every = torch.arange(info.min, info.max + 1)
    else:
        every = integers(dtype, 0).long()
        half = 1 << (info.bits // 2)
        every = torch.cat([every, torch.tensor([half, -half])])
    a, b = torch.meshgrid(every, every, indexing="ij")
    x, y = integers(dtype, count, 1), integers(dtype, count, 2)
    return torch.cat([a.reshape(-1).to(kind), x]), torch.cat([b.reshape(-1).to(kind), y])


def random_tensor(dtype: str, count: int, g: torch.Generator) -> torch.Tensor:
    """Ordinary numbers, with special ones among floats and edges among integers."""
    kind = torch_dtype(dtype)
    if dtype == "bool":
        return torch.randint(0, 2, (count,), generator=g).bool()
    if kind.is_floating_point:
        x = torch.randn(count, generator=g) * torch.exp2(torch.randint(-3, 4, (count,), generator=g).float())
        special = torch.tensor((0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -3.0, 3.0, 100.0, -100.0))
    else:
        info = torch.iinfo(kind)
        x = torch.randint(max(info.min, -300), min(info.max, 300), (count,), generator=g)
        special = torch.tensor((info.min, info.max, 0, 1))
    x[: len(special)] = special
    return x[torch.randperm(count, generator=g)].to(kind)


def op_inputs(op: Op, dtype: str, count: int, g: torch.Generator) -> list[torch.Tensor]:
    """Tensors for an op of the catalogue: masks are bools, quantised values int8, divisors not 0 among integers."""
    own = {"mask": "bool", "condition": "bool", "q": "int8", "acc": "int32"}
    tensors = [random_tensor(own.get(n, dtype), count, g) for n in op.inputs]
    divides = any(word in op.name for word in ("div", "remainder", "fmod"))
    if divides and dtype in INTEGERS:
        tensors[1:] = [torch.where(t == 0, torch.full_like(t, 3), t) for t in tensors[1:]]
    if op.name == "gcd" and dtype in INTEGERS:  # torch's overflows on the smallest number, which has no magnitude
        tensors = [t.clamp(min=torch.iinfo(t.dtype).min + 1) for t in tensors]
    return tensors


def distance(result: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """How far results are off, in units in the last place of the expected value; equal NaNs are 0 apart."""
    a, b = result.double(), expected.double()
    info = torch.finfo(expected.dtype)
    spacing = torch.exp2(torch.floor(torch.log2(b.abs().clamp(min=info.tiny)))) * info.eps
    same = (result == expected) | (result.isnan() & expected.isnan())
    found = torch.where(same, torch.zeros_like(a), (a - b).abs() / spacing)
    return torch.where(found.isnan(), torch.full_like(found, math.inf), found)


def limit(dtype: torch.dtype) -> float:
    """The tolerance for a whole op's result."""
    return RESULT_ULP.get(str(dtype).removeprefix("torch."), 0)
