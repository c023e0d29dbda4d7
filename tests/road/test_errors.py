"""Each refusal names the rule, the numbers and the nearest valid value, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from asc_sched import Schedule, op, ops
from asc_sched.errors import (
    AscSchedError,
    CoreNumError,
    DeclarationError,
    DtypeError,
    QueueLimitError,
    ScheduleError,
    ShapeError,
    TargetError,
    TileLengthError,
    UbOverflowError,
)

ADD = op("z = x + y")
NINE = op("z = a + b + c + d + e + f + g + h + i", name="nine")
TEN_OUT = op("; ".join(f"z{i} = x + {i}" for i in range(10)), name="ten")

Case = tuple[Callable[[], Any], type[AscSchedError], str]
CASES: dict[str, Case] = {
    "unknown dtype": (
        lambda: ADD.compile(8, "flaot32"),
        DtypeError,
        "unknown dtype 'flaot32'; did you mean 'float32'? known: float32, float16, bfloat16, int8, uint8, int16, "
        "int32, int64, bool",
    ),
    "float64": (lambda: ADD.compile(8, torch.float64), DtypeError, "unknown dtype 'float64'; did you mean 'float32'?"),
    "no dtype": (lambda: ADD.compile(8, None), DtypeError, "unknown dtype 'None'; known: float32"),
    "too few dtypes": (
        lambda: ADD.compile(8, ["float32"]),
        DtypeError,
        "add takes 2 inputs (x, y), 1 dtypes given",
    ),
    "dtypes of other inputs": (
        lambda: ADD.compile(8, {"x": "int32", "q": "int32"}),
        DtypeError,
        "add: dtypes given for x, q; inputs are x, y",
    ),
    "shapes that don't fit": (
        lambda: ADD.compile([(8, 8), (8, 9)]),
        ShapeError,
        "add: shapes (8, 8) of x and (8, 9) of y don't fit: dimension -1 is 8 and 9; sizes must be equal, or one of "
        "them 1",
    ),
    "too few shapes": (lambda: ADD.compile([(8, 8)]), ShapeError, "add takes 2 inputs (x, y), 1 shapes given"),
    "shapes of other inputs": (lambda: ADD.compile({"x": 8}), ShapeError, "add: shapes for x; inputs are x, y"),
    "a shape as text": (lambda: ADD.compile("8x8"), ShapeError, "shape '8x8' must be integers, such as (8, 2048)"),
    "a negative size": (lambda: ADD.compile((8, -1)), ShapeError, "shape (8, -1) has a negative dimension"),
    "over the UB": (
        lambda: ADD.compile(2**20, schedule=Schedule(core_num=1, tile_num=1)),
        UbOverflowError,
        "add_float32: tile_length=524288 needs 12582912 bytes of UB (x: 2 x 2097152 = 4194304, y: 2 x 2097152 = "
        "4194304, z: 2 x 2097152 = 4194304), and Ascend910B1 has 196608; the largest tile_length that fits at "
        "buffer_num=2 is 8192; nearest valid: tile_length=8192 or tile_num=64",
    ),
    "more cores than the target has": (
        lambda: ADD.compile(8, schedule=Schedule(core_num=49)),
        CoreNumError,
        "core_num=49 is more than the 48 vector cores of Ascend910B1 (the launcher itself takes at most 65535); "
        "nearest valid: core_num=48",
    ),
    "more cores than a smaller target has": (
        lambda: ADD.compile(8, schedule=Schedule(core_num=48), target="Ascend910B4"),
        CoreNumError,
        "core_num=48 is more than the 40 vector cores of Ascend910B4",
    ),
    "no core": (
        lambda: Schedule(core_num=0),
        CoreNumError,
        "core_num=0 is out of range: allowed is an integer from 1 to 65535 or None; nearest valid: core_num=1",
    ),
    "tile_num 0": (
        lambda: Schedule(tile_num=0),
        ScheduleError,
        "tile_num=0 is out of range: allowed is an integer from 1 to 2147483647 or None; nearest valid: tile_num=1",
    ),
    "a fraction of a tile": (
        lambda: Schedule(tile_num=2.5),  # type: ignore[arg-type]
        ScheduleError,
        "tile_num=2.5 is not an integer but float: allowed is an integer from 1 to 2147483647 or None",
    ),
    "a tile that is no multiple of 32 bytes": (
        lambda: ADD.compile(100, "float16", schedule=Schedule(tile_length=24)),
        TileLengthError,
        "tile_length=24 is not a multiple of 16 elements (32 bytes of the smallest item, which has 2); nearest valid: "
        "tile_length=16 or 32",
    ),
    "both ways to cut tiles": (
        lambda: Schedule(tile_num=2, tile_length=64),
        ScheduleError,
        "tile_num=2 and tile_length=64 are both given, and each decides the tiles",
    ),
    "an unknown split": (
        lambda: Schedule(core_split="evn"),
        ScheduleError,
        "core_split='evn' is unknown: allowed is 'even' or 'ceil'; nearest valid: core_split='even'",
    ),
    "too many input buffers": (
        lambda: NINE.compile(100, schedule=Schedule(tile_length=64)),
        QueueLimitError,
        "nine_float32: 9 input queues x buffer_num=2 need 18 VECIN queue buffers; Ascend910B1 has 8 per position; "
        "nearest valid: pack_inputs=True",
    ),
    "an unknown target": (
        lambda: ADD.compile(8, target="Ascend910B7"),
        TargetError,
        "unknown target 'Ascend910B7'; nearest: Ascend910B4, Ascend910B3, Ascend910B2; known: Ascend910B1, ",
    ),
    "no target at all": (lambda: ADD.compile(8, target=3), TargetError, "unknown target 3; known: Ascend910B1"),  # type: ignore[arg-type]
    "an unknown function": (
        lambda: op("z = sqr(x)"),
        DeclarationError,
        "'z = sqr(x)', line 1, column 5: unknown function 'sqr'; did you mean sqrt",
    ),
    "an unknown op": (
        lambda: ops.get("ad"),
        DeclarationError,
        "no op 'ad' in the catalogue; did you mean ",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_each_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a kernel was lowered")

    monkeypatch.setattr("asc_sched.build.lower", never)
    call, error, text = CASES[name]
    with pytest.raises(AscSchedError) as caught:
        call()
    assert type(caught.value) is error
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_refusal_calls_valid_is() -> None:
    assert ADD.compile(2**20, schedule=Schedule(core_num=1, tile_num=64)).plan.ub_bytes <= 196608
    assert ADD.compile(2**20, schedule=Schedule(core_num=1, tile_length=8192)).plan.ub_bytes == 196608
    assert NINE.compile(100, schedule=Schedule(tile_length=64, pack_inputs=True)).plan.ub_bytes <= 196608
    assert ADD.compile(100, "float16", schedule=Schedule(tile_length=16)).tiling_for(100).tile_length == 16


def test_more_outputs_than_queue_buffers_are_refused_or_packed() -> None:
    with pytest.raises(
        QueueLimitError,
        match=r"10 output queues x buffer_num=1 need 10 VECOUT queue buffers; .* nearest valid: pack_inputs=True",
    ):
        TEN_OUT.compile(100, schedule=Schedule(buffer_num=1))
    kernel = TEN_OUT.compile(100)
    assert kernel.schedule.pack_inputs
    assert len(kernel.plan.out_queues) == 1


def test_every_error_is_one_of_ours_and_of_a_builtin_kind() -> None:
    import asc_sched.errors as module

    classes = [c for c in vars(module).values() if isinstance(c, type) and c is not AscSchedError]
    for cls in classes:
        assert issubclass(cls, AscSchedError)
        assert issubclass(cls, (ValueError, TypeError, RuntimeError, OSError)), cls
        assert cls.__doc__
