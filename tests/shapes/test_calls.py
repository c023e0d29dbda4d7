"""Calls: one kernel for all sizes of a layout, and the weaker 0-d inputs of torch's promotion."""

from __future__ import annotations

import pytest
import torch

from asc_sched import build, op
from asc_sched.declare import Op
from asc_sched.errors import DtypeError
from asc_sched.run.call import _kernel, _prepared
from tests.road.tensors import same_bits
from tests.shapes.running import check
from tests.shapes.tensors import values


class Lowerings:
    """Counts the kernels that go to pyasc (or its cache)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        real = build.lower

        def lower(*args: object, **more: object) -> object:
            self.number += 1
            return real(*args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(build, "lower", lower)


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> Lowerings:
    return Lowerings(monkeypatch)


def test_one_kernel_serves_all_sizes(lowerings: Lowerings) -> None:
    declared = op("z = x * y + 7")
    for length in (1, 5, 33, 1000, 13243, 2, 0, 5):
        x, y = values((length,), torch.float32), values((length,), torch.float32, 1)
        check(declared, declared(x, y), x, y)
    for shape in ((3, 4), (7, 11, 2), (2, 3, 4, 5)):
        x, y = values(shape, torch.float32), values(shape, torch.float32, 1)
        check(declared, declared(x, y), x, y)
        check(declared, declared(x.transpose(0, -1), y.transpose(0, -1)), x.transpose(0, -1), y.transpose(0, -1))
    assert lowerings.number == 1


@pytest.mark.parametrize("other", [(24,), (None, 1)], ids=["row", "column"])
def test_one_kernel_serves_any_number_of_rows(other: tuple[int | None, ...], lowerings: Lowerings) -> None:
    declared = op("z = x * y + 8")
    for rows in (2, 3, 100, 5000, 9):
        shape = tuple(rows if n is None else n for n in other)
        x, y = values((rows, 24), torch.float32), values(shape, torch.float32, 1)
        check(declared, declared(x, y), x, y)
    assert lowerings.number == 1


def test_one_kernel_serves_any_number_of_batches(lowerings: Lowerings) -> None:
    declared = op("z = x * y + 9")
    for batches in (2, 3, 50):
        x, y = values((batches, 300, 64), torch.float32), values((batches, 1, 64), torch.float32, 1)
        check(declared, declared(x, y), x, y)
    assert lowerings.number == 1


def test_a_scalar_and_a_tensor_share_a_kernel_at_any_size(lowerings: Lowerings) -> None:
    declared = op("z = x * y + 10")
    for length in (2, 33, 1000):
        x, y = values((length,), torch.float32), torch.tensor(2.5)
        check(declared, declared(x, y), x, y)
    assert lowerings.number == 1


def test_kinds_of_calls_that_differ_have_kernels_that_differ() -> None:
    declared = op("z = x + y * 11")
    x, y = values((40, 30), torch.float32), values((40, 30), torch.float32, 1)
    made = _kernel.cache_info().misses
    pairs = [(x, y), (x, y[0]), (x, y[:, :1]), (x, y[0, 0]), (x.half(), y.half()), (x, y.half())]
    for pair in (*pairs, (x[:, :20], y[:, :20])):
        check(declared, declared(*pair), *pair)
    assert _kernel.cache_info().misses - made == 7


def test_a_repeated_call_looks_nothing_up_again() -> None:
    declared = op("z = x - y * 12")
    x, y = values((40, 30), torch.float32), values((30,), torch.float32, 1)
    declared(x, y)
    before = _prepared.cache_info()
    for _ in range(3):
        declared(x, y)
    after = _prepared.cache_info()
    assert after.hits == before.hits + 3 and after.misses == before.misses


def test_rows_too_long_for_a_tile_have_a_kernel_of_their_own_size() -> None:
    declared = op("z = x + y * 13")
    for rows in (2, 3):
        x, y = values((rows, 40000), torch.float32), values((40000,), torch.float32, 1)
        check(declared, declared(x, y), x, y)


def test_small_calls_launch_few_cores() -> None:
    from asc_sched.lang.dtypes import get_dtype
    from asc_sched.run.launch import bind_launch
    from asc_sched.run.layout import spec_of

    declared = op("z = x + y * 14")
    cores = {}
    for length in (8, 10_000, 10_000_000):
        x = torch.empty(length)
        kernel, number = _prepared(declared, (get_dtype(x.dtype),) * 2, (spec_of(x),) * 2, None, None)
        cores[length] = bind_launch(kernel, [x, x], None, {}, number)[0].core_num
    assert cores[8] == 1 and 1 < cores[10_000] < 30 and cores[10_000_000] > 30


# -- 0-d inputs in torch's promotion -------------------------------------------------------------------------------
ADD = op("z = x + y")


def summed(x: torch.Tensor, y: torch.Tensor, declared: Op = ADD) -> torch.Tensor:
    result = declared(x, y)
    assert isinstance(result, torch.Tensor)
    return result


@pytest.mark.parametrize("wide", [torch.float64, torch.float32], ids=str)
def test_a_wide_scalar_is_rounded_to_the_tensors_dtype_first(wide: torch.dtype) -> None:
    x = torch.tensor([[0, 0, 0.1], [-0.2, 1, -1]], dtype=torch.bfloat16)
    result = summed(x, torch.tensor(-0.1, dtype=wide))
    assert result.dtype is torch.bfloat16
    assert result.tolist() == [[-0.10009765625, -0.10009765625, 0], [-0.30078125, 0.8984375, -1.1015625]]
    half = values((100,), torch.float16)
    for scalar in (0.1, 1 / 3, 12345.678):
        y = torch.tensor(scalar, dtype=wide)
        assert same_bits(summed(half, y), half + y)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.int32, torch.float32), (torch.float16, torch.float32), (torch.int32, torch.int64),
        (torch.uint8, torch.int8), (torch.bool, torch.bool), (torch.float32, torch.int64), (torch.int8, torch.float16),
    ],
    ids=str,
)  # fmt: skip
def test_dtypes_of_results_are_torchs(x: torch.dtype, y: torch.dtype) -> None:
    a, b = values((20,), x), values((20,), y, 1)
    if torch.result_type(a, b) is not torch.int64:
        assert same_bits(summed(a, b), a + b)
    assert same_bits(summed(a, b[0]), a + b[0])


def test_float64_is_refused_by_name() -> None:
    for pair in (
        (torch.zeros(3, dtype=torch.float64), torch.zeros(3)),
        (torch.zeros(3, dtype=torch.int32), torch.tensor(1.0, dtype=torch.float64)),
        (torch.tensor(1.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)),
    ):
        with pytest.raises(DtypeError, match=r"add: [xy] is float64, which vector cores don't have; pass [xy]\.float"):
            ADD(*pair)
