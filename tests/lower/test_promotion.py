"""Which dtype a function computes in and gives, and what is rounded to it before: torch is the reference throughout."""

from __future__ import annotations

import math

import pytest
import torch

from asc_sched import op
from asc_sched.errors import DtypeError
from tests.lower.machine import check_op, run_both

NAN, INF = math.nan, math.inf


def test_masks_in_arithmetic_are_zeros_and_ones() -> None:
    with pytest.raises(DtypeError, match="torch says"):
        check_op(op("m = x < 0; z = x * (1 - m) + m * (x * 0.3)"), [torch.tensor([-1.0, 0, 2])])
    x = torch.rand(9)
    ((found, _),) = run_both(op("z = x * (x >= 0)"), x)
    assert torch.equal(found, x)


def test_result_dtypes_are_torchs() -> None:
    from asc_sched.lang.dtypes import DTYPES as known
    from asc_sched.lang.infer import infer

    def result(text: str, zero_dim: str = "", **dtypes: str) -> str:
        typed = infer(op(text).graph, {n: known[d] for n, d in dtypes.items()}, frozenset(zero_dim.split()))
        return str(typed.output_dtypes["z"])

    assert result("z = x * 8.0", x="int32") == "float32"
    assert result("z = x * y", "y", x="float16", y="float32") == "float16"
    assert result("z = x * y", x="float16", y="float32") == "float32"
    assert result("z = x + y", x="bool", y="bool") == "bool"
    assert result("z = x + y", x="uint8", y="int8") == "int16"
    assert result("z = x + y", "y", x="int32", y="int64") == "int32"
    # 1 and 1.0 are different questions, in whichever order they are asked
    assert result("z = where(m, 1, x)", m="bool", x="int32") == "int32"
    assert result("z = where(m, 1.0, x)", m="bool", x="int32") == "float32"
    assert result("z = where(m, True, x)", m="bool", x="bool") == "bool"


def test_a_0d_operand_is_rounded_to_the_tensors_dtype_first() -> None:
    x = torch.tensor([[0, 0, 0.1], [-0.2, 1, -1]], dtype=torch.bfloat16)
    expected = [[-0.10009765625, -0.10009765625, 0], [-0.30078125, 0.8984375, -1.1015625]]
    declared, y = op("z = x + y"), torch.tensor(-0.1)
    for found in (*declared.reference(x, y), declared(x, y)):
        assert isinstance(found, torch.Tensor)
        assert found.tolist() == expected and found.dtype is torch.bfloat16


# What torch rounds to the 16-bit operands' dtype first, and what it doesn't: 0-d factors and divisors on the right.
MIXED = {
    "x + y": torch.add, "x - y": torch.sub, "x * y": torch.mul, "x / y": torch.true_divide, "x < y": torch.lt,
    "x == y": torch.eq, "maximum(x, y)": torch.maximum, "x * (y + y)": lambda x, y: x * (y + y),
    "(x + x) - y": lambda x, y: (x + x) - y,
}  # fmt: skip


@pytest.mark.parametrize("own", ["float32", "float16", "bfloat16", "int8", "int32", "int64"])
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_0d_and_integer_operands_of_16bit_functions_are_what_torch_makes_of_them(half: str, own: str) -> None:
    wide = torch.tensor([154.125, 2049, 70000.3, 0.1, -3.7, 257, 1, 0]).to(getattr(torch, own))
    narrow = torch.tensor([23.375, 0.1, -2048, 3, 154, 256, 2049, 1]).to(getattr(torch, half))
    for text, function in MIXED.items():
        declared = op(f"z = {text}", inputs="x, y")
        pairs = [(wide[i], narrow) for i in range(4)] + [(narrow, wide[i]) for i in range(4)]
        if own not in ("float32", "float16", "bfloat16"):  # 1-d floats of another dtype aren't 16-bit functions
            pairs += [(wide, narrow), (narrow, wide)]
        for x, y in pairs:
            if "x + x" in text and not x.is_floating_point():
                continue  # torch rounds the 16-bit sum once more, here it is rounded at the end
            found, expected = declared(x, y), function(x, y)
            assert isinstance(found, torch.Tensor) and found.dtype is expected.dtype
            assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7)), (text, x, y)


@pytest.mark.parametrize("number", [0.1, 65536, 65536.0, 257, 2049, -70000.5, 1e-40, True])
def test_numbers_in_comparisons_are_rounded_to_the_tensors_dtype(number: float) -> None:
    """Literals and runtime scalars, floats and integers."""
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor([0.1, 0.1001, 0.0999, INF, -INF, 256, 257, 258, 2048, 2050, 65280, 0, 1, NAN]).to(dtype)
        for text, expected in {"==": x == number, "<": x < number, ">=": x >= number}.items():
            ((found, reference),) = run_both(op(f"z = x {text} {number}"), x)
            assert torch.equal(found, expected) and torch.equal(reference, expected), (text, dtype)
            if isinstance(number, bool):
                continue
            declared = op(f"z = x {text} a", scalars={"a": number})
            ((found, reference),) = run_both(declared, x, a=number)
            assert torch.equal(found, expected) and torch.equal(reference, expected), (text, dtype, "a scalar")
        other = torch.tensor(number).to(dtype).expand(len(x))
        expected = torch.logical_and(x, other)
        ((found, reference),) = run_both(op(f"z = logical_and(x, {number})"), x)
        assert torch.equal(found, expected) and torch.equal(reference, expected)


def test_a_number_in_a_comparison_is_rounded_in_the_compiled_kernel_too() -> None:
    x = torch.tensor([0.1, 0.1001, 257, 256], dtype=torch.bfloat16)
    declared = op("z = x == a; w = x < 257", scalars={"a": 0.1})
    z, w = declared(x, a=0.1)
    assert torch.equal(z, x == 0.1) and torch.equal(w, x < 257)
    (z, w) = declared(x.half(), a=0.1)
    assert torch.equal(z, x.half() == 0.1) and torch.equal(w, x.half() < 257)
