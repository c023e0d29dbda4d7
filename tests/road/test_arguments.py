"""What a call takes, what it refuses, and that nothing is silently wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asc_sched import Schedule, op
from asc_sched.errors import ArgumentError, BackendError, DtypeError, OverlapError, ShapeError
from asc_sched.kernel import Kernel
from asc_sched.run.quick import form_of
from tests.road.tensors import Guarded, numbers, same_bits

ADD = op("z = x + y")
SHAPE = (8, 256)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return ADD.compile(SHAPE, "float32", schedule=Schedule(core_num=3, tile_num=2))


def refused(kernel: Kernel, *tensors: object, error: type[Exception] = ArgumentError, **options: object) -> str:
    with pytest.raises(error) as caught:
        kernel(*tensors, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_the_number_of_tensors_is_checked(kernel: Kernel) -> None:
    x = torch.rand(SHAPE)
    assert refused(kernel, x) == "add takes 2 tensors (x, y), 1 given"
    assert refused(kernel, x, x, x) == "add takes 2 tensors (x, y), 3 given"
    assert refused(kernel) == "add takes 2 tensors (x, y), 0 given"


def test_the_kind_of_tensors_is_checked(kernel: Kernel) -> None:
    x = torch.rand(SHAPE)
    assert refused(kernel, x.numpy(), x) == (
        "add: x must be a torch tensor, not ndarray; use torch.as_tensor(...) or declare it as a runtime scalar"
    )
    assert "y must be a torch tensor, not float" in refused(kernel, x, 2.0)
    assert "x must be a torch tensor, not list" in refused(kernel, [1.0], x)
    assert "x must be a torch tensor, not NoneType" in refused(kernel, None, x)
    assert refused(kernel, x.half(), x) == (
        "add_float32: x is float16, and the kernel was compiled for float32; convert with .to(torch.float32) or "
        "compile for it"
    )
    assert "x has the layout torch.sparse_coo; only strided tensors are taken" in refused(kernel, x.to_sparse(), x)
    assert "x has the dtype torch.complex64" in refused(kernel, x.to(torch.complex64), x)
    negated = torch.conj(torch.complex(x, x)).imag
    assert "x is a view that torch negates when it reads it; pass x.resolve_neg()" in refused(kernel, negated, x)
    plain = torch.complex(x, x).imag
    assert plain.stride() == negated.stride() and form_of([negated], []) != form_of([plain], [])
    assert "x is a Tensor on meta without data" in refused(kernel, x.to("meta"), x)
    with pytest.raises(DtypeError, match=r"x is float64, which vector cores don't have; pass x.float\(\)"):
        ADD(x.double(), x.double())


def test_shapes_are_checked(kernel: Kernel) -> None:
    x = torch.rand(SHAPE)
    assert refused(kernel, x, torch.rand(8, 255), error=ShapeError) == (
        "add: shapes (8, 256) of x and (8, 255) of y don't fit: dimension -1 is 256 and 255; sizes must be equal, or "
        "one of them 1"
    )
    message = "add_float32 was compiled for shape (8, 256), the tensors have (4, 512); compile with shape=None"
    other = torch.rand(4, 512)
    assert message in refused(kernel, other, other, error=ShapeError)


def test_scalars_are_checked() -> None:
    scaled = op("z = x * alpha + k", scalars={"alpha": 2.0, "k": 1}, name="scaled")
    x = torch.rand(10)
    cases = {
        "scaled has no runtime scalar 'beta'; its scalars are alpha, k": {"beta": 1},
        "scaled: alpha must be a number, not str": {"alpha": "2"},
        "scaled: alpha must be a number, not complex": {"alpha": 1j},
        "scaled: alpha=1e+300 is too large for float32": {"alpha": 1e300},
        "scaled: k=1.5 is not a whole number, and it is int32": {"k": 1.5},
        "scaled: k=2147483648 is out of range for int32: -2147483648 to 2147483647": {"k": 2**31},
    }
    for message, scalars in cases.items():
        with pytest.raises(ArgumentError) as caught:
            scaled(x, **scalars)  # type: ignore[arg-type]
        assert message in str(caught.value)
    with pytest.raises(ArgumentError, match="add has no runtime scalar 'alpha'; it has none"):
        ADD(x, x, alpha=1)
    with pytest.raises(ArgumentError, match=r"mul: the runtime scalar 'a' has no default; pass a=\.\.\."):
        op("z = x * a", scalars=["a"])(x)
    one = scaled(x, alpha=torch.tensor(3.0), k=np.int64(2))  # type: ignore[arg-type]
    assert isinstance(one, torch.Tensor) and same_bits(one, x * 3.0 + 2)


# -- memory --------------------------------------------------------------------------------------------------------
def test_results_have_torchs_shape_and_strides() -> None:
    x = numbers((4, 5, 6))
    for view in (x, x.permute(2, 0, 1), x.transpose(0, 2), x.contiguous(memory_format=torch.contiguous_format)):
        result = ADD(view, view)
        expected = view + view
        assert isinstance(result, torch.Tensor)
        assert same_bits(result, expected) and result.stride() == expected.stride()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[::2],
        lambda x: x[:, ::3],
        lambda x: x[1:, 5:],
        lambda x: x[:1].expand(8, 256),
        lambda x: x[:, :1].expand(8, 256),
        lambda x: x.flip(0),
        lambda x: x.unfold(1, 16, 4),
        lambda x: x[3],
        lambda x: x[3, 4],
    ],
)  # fmt: skip
def test_views_of_any_strides_are_right(view) -> None:  # type: ignore[no-untyped-def]
    x, y = view(numbers(SHAPE)), view(numbers(SHAPE, seed=1))
    before = x.clone()
    result = ADD(x, y)
    assert isinstance(result, torch.Tensor) and same_bits(result, x + y)
    assert result.stride() == (x + y).stride()
    assert same_bits(x, before)


def test_memory_around_a_view_is_left_alone(kernel: Kernel) -> None:
    x, y, out = Guarded(numbers(SHAPE)), Guarded(numbers(SHAPE, seed=1)), Guarded(torch.zeros(SHAPE))
    kernel(x.tensor, y.tensor, out=out.tensor)
    assert same_bits(out.tensor, x.tensor + y.tensor)
    assert x.intact and y.intact and out.intact


def test_a_result_goes_into_out(kernel: Kernel) -> None:
    x, y = numbers(SHAPE), numbers(SHAPE, seed=1)
    out = torch.zeros(SHAPE)
    assert kernel(x, y, out=out) is out and same_bits(out, x + y)
    strided = torch.zeros(512, 16)[::2, ::2].t()
    assert kernel(x, y, out=strided) is strided and torch.equal(strided, x + y)
    up, down = torch.zeros(100), torch.zeros(100)
    z = numbers(100)
    assert op("u = x + 1; d = x - 1")(z, out=(up, down)) == (up, down)
    assert same_bits(up, z + 1) and same_bits(down, z - 1)


def test_in_place_is_right(kernel: Kernel) -> None:
    x, y = numbers(SHAPE), numbers(SHAPE, seed=1)
    expected = x + y
    assert kernel(x, y, out=x) is x
    assert same_bits(x, expected)
    expected = x + x
    kernel(x, x, out=x)
    assert same_bits(x, expected)
    z = numbers(100_003)
    expected = torch.relu(z) * 2 - z
    op("z = relu(x) * 2 - x")(z, out=z)
    assert same_bits(z, expected)


def test_out_is_checked(kernel: Kernel) -> None:
    x = torch.rand(SHAPE)
    assert "out= for z has shape (3,), needs (8, 256)" in refused(kernel, x, x, out=torch.rand(3))
    assert "out= for z is torch.float16, needs torch.float32" in refused(kernel, x, x, out=x.half())
    assert "add_float32 has 1 outputs (z), out= has 2" in refused(kernel, x, x, out=[x, x])
    assert "out= for z must be a tensor, not" in refused(kernel, x, x, out="z")


def test_an_out_that_overlaps_is_refused(kernel: Kernel) -> None:
    memory, y = torch.rand(3 * 2048), torch.rand(SHAPE)
    x, shifted = memory[:2048].view(SHAPE), memory[8 : 8 + 2048].view(SHAPE)
    assert refused(kernel, x, y, out=shifted, error=OverlapError) == (
        "add_float32: out= for z overlaps input x in part; pass exactly the same tensor (in place) or memory of its own"
    )
    own = torch.zeros(1, 256).expand(SHAPE)
    assert refused(kernel, x, y, out=own, error=OverlapError) == (
        "add_float32: more than one element of out= for z (shape (8, 256), strides (0, 1)) refers to a single memory "
        "location; write to out.clone() instead"
    )
    a = torch.zeros(100)
    with pytest.raises(OverlapError, match="out= for d overlaps out= for u; outputs need memory of their own"):
        op("u = x + 1; d = x - 1")(torch.rand(100), out=(a, a))


def test_inputs_may_overlap() -> None:
    memory = numbers(2000)
    result = ADD(memory[:1500], memory[500:])
    assert isinstance(result, torch.Tensor) and same_bits(result, memory[:1500] + memory[500:])
    windows = memory.unfold(0, 100, 10)
    result = ADD(windows, windows)
    assert isinstance(result, torch.Tensor) and same_bits(result, windows + windows)


def test_tensors_that_need_a_gradient_are_taken_and_the_result_needs_none() -> None:
    x = torch.rand(10, requires_grad=True)
    result = ADD(x, x)
    assert isinstance(result, torch.Tensor) and not result.requires_grad


def test_an_unknown_backend_is_refused(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(SHAPE)
    assert "unknown backend 'sym'; did you mean 'sim'?" in refused(kernel, x, x, backend="sym", error=BackendError)
    monkeypatch.setenv("ASC_SCHED_BACKEND", "quantum")
    assert "ASC_SCHED_BACKEND='quantum'" in refused(kernel, x, x, error=BackendError)
