"""Tensors that aren't contiguous: right always, copied only where no tile can address them, and then visibly."""

from __future__ import annotations

import logging

import pytest
import torch

from asc_sched import op
from asc_sched.run.launch import bind_launch
from tests.road.tensors import same_bits
from tests.shapes.running import GuardedLayout, check, traffic
from tests.shapes.tensors import values

ADD = op("z = x + y")
INCREMENT = op("z = x + 1")
TWO = op("z = x + 1; w = x * y")


def copies(*tensors: torch.Tensor, out: torch.Tensor | None = None) -> tuple[str, ...]:
    """What a call copies, by the kernel that the call has."""
    from asc_sched.lang.dtypes import get_dtype
    from asc_sched.run.call import _prepared
    from asc_sched.run.layout import spec_of

    declared = INCREMENT if len(tensors) == 1 else ADD
    outs = None if out is None else (spec_of(out),)
    kernel, cores = _prepared(
        declared, tuple(get_dtype(t.dtype) for t in tensors), tuple(map(spec_of, tensors)), outs, None
    )
    return bind_launch(kernel, tensors, out, {}, cores)[0].copies


def right(*tensors: torch.Tensor) -> torch.Tensor:
    """The op's result, which must be torch's in dtype, values, shape and strides."""
    declared, want = (INCREMENT, tensors[0] + 1) if len(tensors) == 1 else (ADD, tensors[0] + tensors[1])
    result = declared(*tensors)
    assert isinstance(result, torch.Tensor)
    assert same_bits(result, want) and result.stride() == want.stride()
    return result


def test_views_of_one_tensor() -> None:
    base = torch.arange(1024, dtype=torch.float16)
    for view in (base[1:], base[::2], base.view(32, 32).t(), base[3:].view(-1)[5:], base.view(4, 8, 32)[:, 1:5, :31]):
        right(view)
    assert base[0] == 0


def test_channels_last() -> None:
    x = values((2, 3, 8, 8), torch.float32).to(memory_format=torch.channels_last)
    assert right(x).is_contiguous(memory_format=torch.channels_last)
    assert copies(x) == () and copies(x, x) == ()
    bias = values((3, 1, 1), torch.float32)
    assert right(x, bias).is_contiguous(memory_format=torch.channels_last)
    assert copies(x, bias) == ()
    right(x, values((2, 3, 8, 8), torch.float32))


def test_a_transposed_result_has_torchs_strides() -> None:
    x = values((3, 3), torch.float32).t()
    assert right(x).stride() == (1, 3)
    assert copies(x) == ()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_rows_with_gaps_are_read_where_they_are(dtype: torch.dtype) -> None:
    base = values((50, 256), dtype)
    for view in (base[:, :128], base[::2], base[:, 64:192], base[10:40:3, :200], base.view(50, 2, 128)[:, 1]):
        right(view)
        assert copies(view) == (), view.stride()
        right(view, values(view.shape[1:], dtype, 1))


def test_rows_with_gaps_move_no_more_bytes_than_they_have() -> None:
    base = values((64, 256), torch.float32)
    view = base[:, :100]
    kernel, _ = _kernel_of(view)
    report = traffic(kernel, view)
    assert report.bytes_read == report.bytes_written == view.numel() * 4


def _kernel_of(*tensors: torch.Tensor):  # type: ignore[no-untyped-def]
    from asc_sched.lang.dtypes import get_dtype
    from asc_sched.run.call import _prepared
    from asc_sched.run.layout import spec_of

    declared = INCREMENT if len(tensors) == 1 else ADD
    return _prepared(declared, tuple(get_dtype(t.dtype) for t in tensors), tuple(map(spec_of, tensors)), None, None)


def test_heads_that_changed_places_are_read_where_they_are() -> None:
    x = values((5, 2, 16, 64), torch.float32).transpose(1, 2)
    y = values((5, 16, 2, 64), torch.float32, 1)
    right(x, y)
    assert copies(x, y) == ()


@pytest.mark.parametrize("make", [
    lambda: (values((512, 2), torch.float32)[:, 0],),
    lambda: (values((32, 32), torch.float32).t(), values((32, 32), torch.float32, 1)),
    lambda: (values((40, 64), torch.float32)[:, :9],),
    lambda: (values((40, 30), torch.float32), values((40, 8), torch.float32, 1)[:, :1]),
], ids=["every second", "one transposed", "narrow rows", "a column of a matrix"])  # fmt: skip
def test_what_no_tile_can_address_is_copied_and_said_once(make, caplog: pytest.LogCaptureFixture) -> None:  # type: ignore[no-untyped-def]
    tensors = make()
    shown = copies(*tensors)
    assert len(shown) == 1 and "is copied to contiguous memory before the launch" in shown[0]
    assert f"strides {tuple(s for s in tensors[-1].stride())}"[:9] in shown[0]
    caplog.set_level(logging.INFO, logger="asc_sched")
    caplog.clear()
    for _ in range(3):
        right(*tensors)
    assert not [r for r in caplog.records if "copied" in r.message], "said when the form of call was first seen"


def test_a_copy_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="asc_sched")
    declared = op("z = x - 3")
    view = values((77, 2), torch.float32)[:, 0]
    for _ in range(3):
        declared(view)
    found = [r.message for r in caplog.records if "copied" in r.message]
    assert found == [
        "sub_float32: x (strides (2,) over (77,), outermost dimension first) is copied to contiguous memory before "
        "the launch"
    ]


def test_a_kernel_says_what_it_was_planned_to_copy() -> None:
    kernel, _ = _kernel_of(values((40, 30), torch.float32), values((40, 8), torch.float32, 1)[:, :1])
    assert kernel.plan.copies == ("y (put together)",)
    assert "copied before the launch\n  y (put together)" in str(kernel.plan)


def test_expanded_tensors_are_broadcast_not_copied() -> None:
    column = values((40, 1), torch.float32).expand(40, 30)
    right(column, values((40, 30), torch.float32))
    assert copies(column, values((40, 30), torch.float32)) == ()
    alone = values((4, 1), torch.float32).expand(4, 3)
    doubled = op("z = x * 2")(alone)
    assert isinstance(doubled, torch.Tensor)
    assert doubled.stride() == (3, 1) and torch.equal(doubled, alone * 2)


def test_windows_that_overlap_are_copied() -> None:
    windows = torch.arange(100.0).unfold(0, 70, 3)
    right(windows)
    assert copies(windows)


def test_a_compiled_kernel_takes_other_layouts_by_copy() -> None:
    kernel = ADD.compile([(40, 30), (30,)])
    stepped, cut = values((40, 60), torch.float32)[:, ::2], values((40, 64), torch.float32)[:, :30]
    for x in (values((30, 40), torch.float32).t(), stepped, cut):
        y = values((60,), torch.float32)[::2]
        check(ADD, kernel(x, y), x, y)
        check(ADD, kernel(x, y[:1].expand(30)), x, y[:1].expand(30))
    flat = ADD.compile((40, 30))
    x, y = values((40, 30), torch.float32), values((30,), torch.float32).expand(40, 30)
    check(ADD, flat(x, y), x, y)
    any_size = ADD.compile()
    args, _, _ = bind_launch(any_size, [x, values((30,), torch.float32)], None, {})
    assert args.copies == (
        "y (strides (0, 1) over (40, 30), outermost dimension first) is expanded to every element before the launch",
    )


# -- out -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("strides", [(96, 1), (50, 1), (1, 40), (130, 2), (1, 41)], ids=str)
def test_out_of_any_strides_is_written_in_its_own_places(strides: tuple[int, int]) -> None:
    column = values((40, 1), torch.float32).expand(40, 48)
    for x in (values((40, 48), torch.float32), values((48, 40), torch.float32).t(), column):
        out = GuardedLayout(torch.zeros(40, 48), strides, offset_bytes=1)
        given = out.tensor
        assert INCREMENT(x, out=given) is given
        check(INCREMENT, given, x)
        assert out.intact


def test_rows_of_out_with_gaps_are_written_where_they_are() -> None:
    out = torch.zeros(40, 96)[:, :48]
    assert copies(values((40, 48), torch.float32), out=out) == ()
    scattered = torch.zeros(40, 96)[:, ::2]
    (shown,) = copies(values((40, 48), torch.float32), out=scattered)
    assert "is written after the launch, from a result of its own" in shown


def test_two_outputs_of_two_layouts() -> None:
    x, y = values((20, 64), torch.float32), values((20, 64), torch.float32, 1)
    first, second = GuardedLayout(torch.zeros(20, 64), (100, 1)), GuardedLayout(torch.zeros(20, 64), (1, 20))
    TWO(x, y, out=(first.tensor, second.tensor))
    check(TWO, (first.tensor, second.tensor), x, y)
    assert first.intact and second.intact


def test_an_offset_of_any_number_of_bytes() -> None:
    for offset in range(1, 9):
        x = GuardedLayout(values((33, 7), torch.float16), offset_bytes=offset)
        out = GuardedLayout(torch.zeros(33, 7, dtype=torch.float16), offset_bytes=3 * offset)
        row = GuardedLayout(values((7,), torch.float16, 1), offset_bytes=offset)
        ADD(x.tensor, row.tensor, out=out.tensor)
        check(ADD, out.tensor, x.tensor, row.tensor)
        assert x.intact and row.intact and out.intact
