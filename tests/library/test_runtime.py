"""The runtime that libraries carry along, by itself: layout, the choice of kernels, numbers of cores."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asc_sched import Schedule, get_target
from asc_sched.library.manifest import formulas
from asc_sched.library.runtime.choice import Variant, estimated_us, find_variant
from asc_sched.library.runtime.errors import NoKernelError
from asc_sched.library.runtime.layout import flat, result_layout
from asc_sched.tiling import Alignment, resolve
from asc_sched.tiling.exact import to_python

_B = torch.rand(4, 6, 5, 3)
TENSORS = [
    _B, _B.transpose(1, 3), _B.to(memory_format=torch.channels_last), _B[:, ::2], _B.permute(3, 1, 2, 0),
    torch.rand(1, 6, 1, 3).expand(4, 6, 5, 3), torch.rand(6, 1, 1), torch.rand(()), torch.rand(4, 6, 5, 3, 2)[..., 0],
    torch.rand(4, 1, 5, 3), _B[:0], torch.rand(4, 0, 5, 3).transpose(0, 1), torch.rand(4, 0, 5, 3).transpose(0, 3),
    torch.rand(1, 3, 1, 2).transpose(1, 3), torch.rand(1, 1), torch.rand(5, 5).t(),
    torch.rand(4, 6, 1, 1).to(memory_format=torch.channels_last),
]  # fmt: skip
TORCHS = {1: torch.neg, 2: torch.add, 3: torch.addcmul}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_are_laid_out_as_torchs(count: int) -> None:
    compared = 0
    for tensors in itertools.product(TENSORS, repeat=count):
        try:
            expected = TORCHS[count](*tensors)
        except RuntimeError:
            continue
        shape, strides = result_layout(tensors)
        made = torch.empty_strided(shape, strides)
        assert (made.shape, made.stride()) == (expected.shape, expected.stride()), [t.stride() for t in tensors]
        if made.numel():
            assert flat(made, shape, strides).data_ptr() == made.data_ptr()
        compared += 1
    assert compared >= 17 ** min(count, 2) // 4


def test_shapes_that_do_not_fit_raise_torchs_error() -> None:
    with pytest.raises(RuntimeError):
        result_layout([torch.rand(2), torch.rand(3)])


@given(
    st.integers(1, 1 << 40), st.integers(1, 48), st.sampled_from(["even", "ceil"]), st.sampled_from([1, 2, 4, 8])
)
def test_printed_formulas_give_the_cores_of_the_resolved_tiling(
    total_length: int, core_num: int, split: str, itemsize: int
) -> None:
    target = get_target()
    schedule = Schedule(core_num=core_num, tile_length=1024, core_split=split)
    if total_length > 2**31 * 1024:
        return
    expected = resolve(schedule, total_length=total_length, itemsizes=(itemsize,), target=target).core_num
    align = Alignment.of((itemsize,), target)
    tiling = {"core_split": split, "line_length": align.line_length, "datablock_length": align.datablock_length}
    names: dict[str, Any] = {"total_length": total_length, "core_num": core_num, "min": min, "max": max}
    for name, expression in formulas(tiling).formulas.items():
        names[name] = eval(to_python(expression), {}, names)
        if name == "used_cores":
            break
    assert names["used_cores"] == expected


# -- the choice of a kernel ----------------------------------------------------------------------------------------
def kernel(symbol: str, shape: list[int] | None, core_num: int, tile_length: int, task_us: float) -> dict[str, Any]:
    return {
        "symbol": symbol, "shape": shape, "target": "Ascend910B1",
        "modelled": {"total_length": 1 << 20, "task_us": task_us},
        "tiling": {"core_num": core_num, "tile_length": tile_length, "buffer_num": 2, "datablock_length": 8},
    }  # fmt: skip


def variant(*kernels: dict[str, Any], missing: tuple[str, ...] = ()) -> Variant:
    data = {
        "inputs": ["float32", "float32"], "outputs": ["float32"], "kernels": [k["symbol"] for k in kernels],
        "gradient": None, "no_gradient": "", "missing": missing,
    }  # fmt: skip
    return Variant("lib::add", data, {k["symbol"]: k for k in kernels})


def test_a_kernel_of_exactly_the_size_comes_before_one_of_any_size() -> None:
    chosen = variant(kernel("any", None, 48, 8192, 5.0), kernel("fixed", [8, 16], 4, 32, 2.0))
    assert chosen.kernel(128, "Ascend910B1")["symbol"] == "fixed"
    assert chosen.kernel(127, "Ascend910B1")["symbol"] == "any"


def test_of_several_schedules_the_one_that_is_estimated_quickest_is_taken() -> None:
    few, many = kernel("few", None, 1, 1024, 150.0), kernel("many", None, 48, 8192, 5.0)
    chosen = variant(few, many)
    assert chosen.kernel(8, "Ascend910B1")["symbol"] == "few"
    assert chosen.kernel(1 << 24, "Ascend910B1")["symbol"] == "many"
    assert estimated_us(few, 1 << 20, 12) == pytest.approx(150.0)


def test_estimates_pick_what_the_model_itself_would() -> None:
    import numpy as np

    from asc_sched import op
    from asc_sched.kernel import compile_kernel
    from asc_sched.sim import ArraySpec, parse, time_kernel

    schedules = [Schedule(core_num=4, tile_length=1024), Schedule(core_num=20, tile_length=512), Schedule()]
    kernels = [compile_kernel(op("z = x + y"), None, "float32", schedule=s) for s in schedules]
    modules = [parse(k.asc_ir) for k in kernels]

    def modelled(index: int, total_length: int) -> float:
        made = kernels[index]
        args = [ArraySpec("float32", total_length * 4)] * 3
        cores = made.tiling_for(total_length).core_num
        return time_kernel(modules[index], [*args, np.int64(total_length)], core_num=cores, target=made.target).task_us

    timed = 15 << 16
    described = [
        kernel(str(i), None, s.core_num or 48, k.plan.tile_length, modelled(i, timed))
        | {"modelled": {"total_length": timed, "task_us": modelled(i, timed)}}
        for i, (s, k) in enumerate(zip(schedules, kernels, strict=True))
    ]
    chosen = variant(*described)
    for total_length in (64, 4096, 50_000, 1 << 18, 1 << 22):
        times = [modelled(i, total_length) for i in range(3)]
        assert times[int(chosen.kernel(total_length, "Ascend910B1")["symbol"])] <= 1.1 * min(times)


def test_what_there_is_no_kernel_for_is_told_with_what_there_is() -> None:
    chosen = variant(kernel("fixed", [8, 16], 4, 32, 2.0), missing=("add_any: UbOverflowError: too much",))
    with pytest.raises(NoKernelError) as caught:
        chosen.kernel(5, "Ascend910B1")
    assert "lib::add has no float32, float32 kernel for 5 elements on Ascend910B1" in str(caught.value)
    assert "there are kernels for 128 elements; not built: add_any: UbOverflowError: too much" in str(caught.value)
    with pytest.raises(NoKernelError, match="there is none at all"):
        chosen.kernel(128, "Ascend910B3")
    with pytest.raises(NoKernelError, match=r"was not built for \(int8\); it was built for: float32, float32"):
        find_variant("lib::add", {("float32", "float32"): chosen}, ("int8",))
