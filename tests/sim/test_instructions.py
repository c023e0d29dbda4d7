"""Every vector instruction, lowered by the real pyasc and executed: its results against numpy or torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from asc_sched.sim import errors
from tests.sim.lowering import compute

RNG = np.random.default_rng(20)
N = 100
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 65504.0, 1e-7, 2.5, -2.5]


def values(dtype: str, count: int = N, positive: bool = False) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind == "f":
        found = RNG.standard_normal(count) * 4
        return (np.abs(found) + 0.1 if positive else found).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, count, dtype, endpoint=True)


def same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got, want)


def half_of(fn: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return fn(*(a.astype(np.float64) for a in arrays)).astype(arrays[0].dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int16", "int32"])
@pytest.mark.parametrize(
    ("call", "fn"),
    [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)],
)
def test_binary_arithmetic(call: str, fn: Callable[..., Any], dtype: str) -> None:
    a, b = values(dtype), values(dtype)
    if np.dtype(dtype).kind == "f":
        a[:11], b[5:16] = SPECIAL, SPECIAL
    with np.errstate(all="ignore"):
        want = fn(a, b)
    same(compute(f"asc.{call}(z, a, b, n)", [a, b], dtype), want)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_division_and_roots_are_rounded_once(dtype: str) -> None:
    a, b = values(dtype), values(dtype)
    a[:11], b[3:14] = SPECIAL, SPECIAL
    with np.errstate(all="ignore"):
        same(compute("asc.div(z, a, b, n)", [a, b], dtype), a / b)
        same(compute("asc.sqrt(z, a, n)", [a], dtype), np.sqrt(a))
        same(compute("asc.rsqrt(z, a, n)", [a], dtype), half_of(lambda x: 1 / np.sqrt(x), a))
        same(compute("asc.reciprocal(z, a, n)", [a], dtype), half_of(lambda x: 1 / x, a))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_exp_ln_abs(dtype: str) -> None:
    a = values(dtype)
    a[:11] = SPECIAL
    same(compute("asc.exp(z, a, n)", [a], dtype), half_of(np.exp, a))
    same(compute("asc.ln(z, a, n)", [a], dtype), half_of(np.log, a))
    same(compute("asc.abs(z, a, n)", [a], dtype), np.abs(a))


def test_max_and_min_propagate_nan_from_either_side_and_order_zeros() -> None:
    a = np.array([np.nan, 1, np.nan, -0.0, 0.0, 0.0], np.float32)
    b = np.array([1, np.nan, np.nan, 0.0, -0.0, 0.0], np.float32)
    top, low = compute("asc.max(z, a, b, n)", [a, b], "float32"), compute("asc.min(z, a, b, n)", [a, b], "float32")
    assert np.isnan(top[:3]).all() and np.isnan(low[:3]).all()
    assert np.signbit(top[3:]).tolist() == [False, False, False]
    assert np.signbit(low[3:]).tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_relu(dtype: str) -> None:
    a = values(dtype)
    if dtype != "int32":
        a[:11] = SPECIAL
    got = compute("asc.relu(z, a, n)", [a], dtype)
    same(got, np.maximum(a, 0))
    if dtype != "int32":
        assert not np.signbit(got[1])  # relu(-0.0) is +0.0
        assert np.isnan(got[4])


def test_leaky_relu_also_with_a_slope_above_one() -> None:
    a = values("float32")
    same(compute("asc.leaky_relu(z, a, 0.1, n)", [a], "float32"), np.where(a < 0, a * np.float32(0.1), a))
    same(compute("asc.leaky_relu(z, a, 2.0, n)", [a], "float32"), np.where(a < 0, a * np.float32(2), a))


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_bits(dtype: str) -> None:
    a, b = values(dtype), values(dtype)
    same(compute("asc.bitwise_and(z, a, b, n)", [a, b], dtype), a & b)
    same(compute("asc.bitwise_or(z, a, b, n)", [a, b], dtype), a | b)
    same(compute("asc.bitwise_not(z, a, n)", [a], dtype), ~a)
    same(compute("asc.adv.xor(z, a, b, n)", [a, b], dtype), a ^ b)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "uint32"])
def test_shifts(dtype: str) -> None:
    a = values(dtype)
    same(compute("asc.shift_left(z, a, 3, n)", [a], dtype), a << 3)
    same(compute("asc.shift_right(z, a, 3, n)", [a], dtype), a >> 3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int16", "int32"])
def test_scalar_operands(dtype: str) -> None:
    a = values(dtype)
    two = np.dtype(dtype).type(2)
    with np.errstate(all="ignore"):
        same(compute("asc.adds(z, a, 2, n)", [a], dtype), a + two)
        same(compute("asc.muls(z, a, 2, n)", [a], dtype), a * two)
    same(compute("asc.maxs(z, a, 2, n)", [a], dtype), np.maximum(a, two))
    same(compute("asc.mins(z, a, 2, n)", [a], dtype), np.minimum(a, two))


def test_runtime_scalars_are_converted_to_the_sources_dtype() -> None:
    a, h = values("float32"), values("float16")
    same(compute("asc.muls(z, a, s0, n)", [a], "float32", scalars=[1.5]), a * np.float32(1.5))
    same(compute("asc.adds(z, a, s0, n)", [h], "float16", scalars=[0.1]), h + np.float16(0.1))
    i = values("int32")
    same(compute("asc.adds(z, a, s0, n)", [i], "int32", scalars=[-7]), i - 7)


def test_a_float_constant_on_an_int32_tensor_is_truncated_as_pyasc_does() -> None:
    a = values("int32")
    same(compute("asc.muls(z, a, 1.5, n)", [a], "int32"), a)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_multiply_add_family_rounds_once(dtype: str) -> None:
    a, b, c = values(dtype), values(dtype), values(dtype)
    copy = "asc.adds(z, c, 0.0, n)\n"

    def fused(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
        return (x.astype(np.float64) * y + w).astype(dtype)

    same(compute(copy + "asc.mul_add_dst(z, a, b, n)", [a, b, c], dtype), fused(a, b, c))
    same(compute(copy + "asc.fused_mul_add(z, a, b, n)", [a, b, c], dtype), fused(a, c, b))
    same(compute(copy + "asc.fused_mul_add_relu(z, a, b, n)", [a, b, c], dtype), np.maximum(fused(a, c, b), 0))
    two = np.full(N, 2.5, dtype)
    same(compute(copy + "asc.axpy(z, a, 2.5, n)", [a, b, c], dtype), fused(a, two, c))


def test_axpy_accumulates_half_into_float() -> None:
    a, c = values("float16"), values("float32")
    got = compute("asc.adds(z, b, 0.0, n)\nasc.axpy(z, a, 1.5, n)", [a, c], "float32")
    same(got, (a.astype(np.float64) * 1.5 + c).astype(np.float32))


def test_add_and_sub_with_relu() -> None:
    a, b = values("float16"), values("float16")
    same(compute("asc.add_relu(z, a, b, n)", [a, b], "float16"), np.maximum(a + b, np.float16(0)))
    same(compute("asc.sub_relu(z, a, b, n)", [a, b], "float16"), np.maximum(a - b, np.float16(0)))
    i, j = values("int16"), values("int16")
    same(compute("asc.add_relu(z, a, b, n)", [i, j], "int16"), np.maximum(i + j, 0).astype(np.int16))


def test_combined_conversions_saturate() -> None:
    a = np.array([300.0, -300.0, 2.5, 3.5, np.nan, 1.25] * 16, np.float16)
    one = np.ones_like(a)
    want = [127, -128, 2, 4, 0, 1] * 16
    same(compute("asc.mul_cast(z, a, b, n)", [a, one], "int8"), np.array(want, np.int8))
    zero = np.zeros_like(a)
    same(compute("asc.add_relu_cast(z, a, b, n)", [a, zero], "int8"), np.array([127, 0, 2, 4, 0, 1] * 16, np.int8))
    f = values("float32")
    got = compute("asc.sub_relu_cast(z, a, b, n)", [f, np.zeros_like(f)], "float16")
    same(got, np.maximum(f, 0).astype(np.float16))


# -- Cast --------------------------------------------------------------------------------------------------------
EDGES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6, 3e9, -3e9, np.nan, np.inf, -np.inf, 127.5, -128.5], np.float32)
INT_MAX, INT_MIN = 2**31 - 1, -(2**31)


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("RINT", [0, 2, 2, 0, -2, 2, -3, INT_MAX, INT_MIN, 0, INT_MAX, INT_MIN, 128, -128]),
        ("FLOOR", [0, 1, 2, -1, -2, 2, -3, INT_MAX, INT_MIN, 0, INT_MAX, INT_MIN, 127, -129]),
        ("CEIL", [1, 2, 3, 0, -1, 3, -2, INT_MAX, INT_MIN, 0, INT_MAX, INT_MIN, 128, -128]),
        ("ROUND", [1, 2, 3, -1, -2, 2, -3, INT_MAX, INT_MIN, 0, INT_MAX, INT_MIN, 128, -129]),
        ("TRUNC", [0, 1, 2, 0, -1, 2, -2, INT_MAX, INT_MIN, 0, INT_MAX, INT_MIN, 127, -128]),
    ],
)
def test_float_to_int32_by_round_mode_with_saturation(mode: str, want: list[int]) -> None:
    assert compute(f"asc.cast(z, a, asc.RoundMode.CAST_{mode}, n)", [EDGES], "int32").tolist() == want


def test_half_to_int8_and_uint8_saturate() -> None:
    a = np.array([127.4, 128, 300, -128.6, -300, 2.5, np.nan, -1.0], np.float16)
    cast = "asc.cast(z, a, asc.RoundMode.CAST_NONE, n)"
    assert compute(cast, [a], "int8").tolist() == [127, 127, 127, -128, -128, 2, 0, -1]
    assert compute(cast, [a], "uint8").tolist() == [127, 128, 255, 0, 0, 2, 0, 0]


def test_float_to_half_modes_at_a_tie_and_at_overflow() -> None:
    tie = np.float32(1 + 2.0**-11)  # half way between 1 and the next half
    a = np.array([tie, -tie, 65519.0, 65520.0, 1e6, -1e6], np.float32)
    up = 1 + 2.0**-10
    inf, top = np.inf, 65504.0
    for mode, want in {
        "RINT": [1, -1, top, inf, inf, -inf],
        "FLOOR": [1, -up, top, top, top, -inf],
        "CEIL": [up, -1, inf, inf, inf, -top],
        "ROUND": [up, -up, top, inf, inf, -inf],
        "TRUNC": [1, -1, top, top, top, -top],
        "ODD": [up, -up, top, top, top, -top],
        "NONE": [1, -1, top, inf, inf, -inf],
    }.items():
        got = compute(f"asc.cast(z, a, asc.RoundMode.CAST_{mode}, n)", [a], "float16")
        assert got.tolist() == want, mode


@pytest.mark.parametrize("mode", ["RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"])
def test_float_to_float_rounds_to_whole_numbers(mode: str) -> None:
    a = np.array([0.5, 1.5, -0.5, -2.5, 2.3, np.inf, np.nan], np.float32)
    fn = {"RINT": np.rint, "FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}.get(mode)
    want = fn(a) if fn else np.array([1, 2, -1, -3, 2, np.inf, np.nan], np.float32)
    same(compute(f"asc.cast(z, a, asc.RoundMode.CAST_{mode}, n)", [a], "float32"), want)


@pytest.mark.parametrize(
    ("src", "dst", "mode"),
    [
        ("int8", "float16", "NONE"),
        ("uint8", "float16", "NONE"),
        ("int16", "float16", "RINT"),
        ("int16", "float32", "NONE"),
        ("float16", "float32", "NONE"),
        ("int32", "float32", "NONE"),
        ("int32", "int64", "NONE"),
        ("int64", "float32", "RINT"),
    ],
)
def test_widening_casts(src: str, dst: str, mode: str) -> None:
    a = values(src)
    same(compute(f"asc.cast(z, a, asc.RoundMode.CAST_{mode}, n)", [a], dst), a.astype(dst))


@pytest.mark.parametrize(("src", "dst"), [("int32", "int16"), ("int64", "int32")])
def test_narrowing_integers_saturate(src: str, dst: str) -> None:
    a = values(src)
    info = np.iinfo(dst)
    same(compute("asc.cast(z, a, asc.RoundMode.CAST_NONE, n)", [a], dst), np.clip(a, info.min, info.max).astype(dst))


def test_int32_to_half_needs_and_uses_the_scale() -> None:
    a = np.arange(-50, 50, dtype=np.int32)
    scaled = "asc.set_deq_scale(0.5)\n"
    want = (a * 0.5).astype(np.float16)
    same(compute(scaled + "asc.cast(z, a, asc.RoundMode.CAST_RINT, n)", [a], "float16"), want)
    same(compute(scaled + "asc.cast_deq(z, a, n)", [a], "float16"), want)
    same(compute(scaled + "asc.add_deq_relu(z, a, a, n)", [a], "float16"), np.maximum(a, 0).astype(np.float16))
    with pytest.raises(errors.UnsupportedError, match="needs set_deq_scale before"):
        compute("asc.cast(z, a, asc.RoundMode.CAST_RINT, n)", [a], "float16")


# -- Compare and Select ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("mode", "fn"),
    [
        ("LT", np.less),
        ("GT", np.greater),
        ("EQ", np.equal),
        ("LE", np.less_equal),
        ("GE", np.greater_equal),
        ("NE", np.not_equal),
    ],
)
def test_compare_gives_bits_and_select_chooses_by_them(mode: str, fn: Callable[..., Any], dtype: str) -> None:
    a, b = values(dtype), values(dtype)
    a[:11], b[4:15] = SPECIAL, SPECIAL
    b[20:30] = a[20:30]
    body = f"""
    asc.compare(t, a, b, asc.CMPMODE.{mode}, 128)
    asc.select(z, t, a, b, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, n)
    """
    same(compute(body, [a, b], dtype), np.where(fn(a, b), a, b))


def test_compare_bits_are_little_endian() -> None:
    a = values("float32", 128)
    got = compute("asc.compare(z, a, b, asc.CMPMODE.GT, 128)", [a, np.zeros_like(a)], "uint8", 16)
    same(got, np.packbits(a > 0, bitorder="little"))


def test_compare_with_a_scalar_and_select_with_a_scalar() -> None:
    a = values("float32")
    body = """
    asc.compare_scalar(t, a, 0.5, asc.CMPMODE.GE, 128)
    asc.select(z, t, a, -1.0, asc.SelMode.VSEL_TENSOR_SCALAR_MODE, n)
    """
    same(compute(body, [a], "float32"), np.where(a >= 0.5, a, np.float32(-1)))


def test_compare_of_int32_is_equality_only() -> None:
    a = np.arange(128, dtype=np.int32)
    got = compute("asc.compare(z, a, b, asc.CMPMODE.EQ, 128)", [a, a // 2 * 2], "uint8", 16)
    same(got, np.full(16, 0x55, np.uint8))
    with pytest.raises(errors.UnsupportedError, match=r"Compare \(uint8_t, int32_t, int32_t\) has no mode LT"):
        compute("asc.compare(z, a, b, asc.CMPMODE.LT, 128)", [a, a], "uint8", 16)


def test_select_in_mode_0_uses_one_repeats_bits_for_all() -> None:
    a, b = values("float32", 192), values("float32", 192)
    body = """
    asc.compare(t, a, b, asc.CMPMODE.LT, 64)
    asc.select(z, t, a, b, asc.SelMode.VSEL_CMPMASK_SPR, n)
    """
    want = np.where(np.tile(a[:64] < b[:64], 3), a, b)
    same(compute(body, [a, b], "float32"), want)


# -- mask and repeat forms ---------------------------------------------------------------------------------------
def test_mask_and_repeat_form_touches_only_its_lanes() -> None:
    a, b = values("float32", 256), values("float32", 256)
    body = """
    asc.duplicate(z, 7.0, n)
    asc.add(z, a, b, 20, 3, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))
    """
    want = np.full(256, 7, np.float32)
    for start in (0, 64, 128):
        want[start : start + 20] = (a + b)[start : start + 20]
    same(compute(body, [a, b], "float32"), want)


def test_mask_list_form_takes_single_lanes() -> None:
    a = values("float16", 256)
    body = """
    asc.duplicate(z, 7.0, n)
    asc.exp(z, a, [0x5, 0x8000000000000000], 2, asc.UnaryRepeatParams(1, 1, 8, 8))
    """
    want = np.full(256, 7, np.float16)
    for lane in (0, 2, 127, 128, 130, 255):
        want[lane] = np.exp(a[lane].astype(np.float64)).astype(np.float16)
    same(compute(body, [a], "float16"), want)


def test_strides_between_blocks_and_repeats() -> None:
    a = values("float32", 256)
    body = """
    asc.duplicate(z, 0.0, n)
    asc.adds(z, a, 1.0, 64, 2, asc.UnaryRepeatParams(1, 2, 8, 16))
    """
    blocks = a.reshape(32, 8)
    want = np.zeros((32, 8), np.float32)
    want[:8], want[8:16] = blocks[0:16:2] + 1, blocks[16:32:2] + 1
    same(compute(body, [a], "float32"), want.reshape(-1))


def test_a_repeat_stride_of_zero_accumulates_repeat_by_repeat() -> None:
    a = values("float32", 256)
    body = """
    asc.duplicate(z, 0.0, n)
    asc.add(z, z, a, 64, 4, asc.BinaryRepeatParams(1, 1, 1, 0, 0, 8))
    """
    total = np.zeros(64, np.float32)
    for repeat in range(4):
        total = total + a[repeat * 64 : repeat * 64 + 64]
    same(compute(body, [a], "float32")[:64], total)


def test_cast_compare_and_select_in_mask_form() -> None:
    a, b = values("float32", 128), values("float32", 128)
    cast = """
    asc.duplicate(z, 0.0, n)
    asc.cast(z, a, asc.RoundMode.CAST_NONE, 64, 2, asc.UnaryRepeatParams(1, 1, 4, 8))
    """
    same(compute(cast, [a], "float16"), a.astype(np.float16))
    body = """
    asc.compare(t, a, b, asc.CMPMODE.LT, 64, 2, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))
    asc.select(z, t, a, b, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, 64, 2, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))
    """
    same(compute(body, [a, b], "float32"), np.minimum(a, b))


def test_comparison_register() -> None:
    a, b = values("float32", 128), values("float32", 128)
    body = """
    asc.compare(a, b, asc.CMPMODE.LT, 64, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))
    asc.select(z, a, b, 2, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))
    """
    same(compute(body, [a, b], "float32"), np.where(np.tile(a[:64] < b[:64], 2), a, b))


def test_counter_mode_counts_elements_in_all() -> None:
    a = values("float32", 192)
    body = """
    asc.duplicate(z, 0.0, n)
    asc.set_mask_count()
    asc.set_vector_mask(150, dtype=asc.float32, mode=asc.MaskMode.COUNTER)
    asc.adds(z, a, 1.0, 1, 1, asc.UnaryRepeatParams(1, 1, 8, 8), False)
    asc.set_mask_norm()
    asc.reset_mask()
    """
    want = np.zeros(192, np.float32)
    want[:150] = a[:150] + 1
    same(compute(body, [a], "float32"), want)


def test_copy_duplicate_brcb() -> None:
    a = values("float32", 128)
    same(compute("asc.copy(z, a, 64, 2, asc.CopyRepeatParams(1, 1, 8, 8))", [a], "float32"), a)
    same(compute("asc.duplicate(z, 2.5, n)", [a], "float32"), np.full(128, 2.5, np.float32))
    got = compute("asc.brcb(z, a, 2, asc.BrcbRepeatParams(1, 8))", [a], "float32")
    same(got, np.repeat(a[:16], 8))


def test_gather_by_byte_offsets() -> None:
    a = values("float32", 64)
    index = RNG.permutation(64).astype(np.uint32) * 4
    same(compute("asc.gather(z, a, b, 0, n)", [a, index], "float32"), a[index // 4])
    got = compute("asc.gather(z, a, b, 0, 64, 1, 8)", [a, index], "float32")
    same(got, a[index // 4])


def test_gatherb_moves_blocks() -> None:
    a = values("uint32", 64)
    order = RNG.permutation(8)
    offsets = np.zeros(64, np.uint32)
    offsets[:8] = order * 32
    got = compute("asc.gatherb(z, a, b, 1, asc.GatherRepeatParams(1, 8))", [a, offsets], "uint32")
    same(got, a.reshape(8, 8)[order].reshape(-1))


def test_data_copy_within_ub() -> None:
    a = values("float32", 64)
    same(compute("asc.data_copy(z, a, n)", [a], "float32"), a)


# -- adv ---------------------------------------------------------------------------------------------------------
ADV = (
    "acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc floor frac lgamma log round sign sin sinh tan "
    "tanh trunc"
)


@pytest.mark.parametrize("name", ADV.split())
def test_adv_functions_agree_with_torch_to_the_last_bit_or_two(name: str) -> None:
    a = (RNG.random(N) * (0.9 if name in ("acos", "asin", "atanh") else 3) + 0.05).astype(np.float32)
    if name == "acosh":
        a += 1
    function = {"lgamma": "special.gammaln", "digamma": "special.digamma"}.get(name, name)
    fn: Any = torch
    for part in function.split("."):
        fn = getattr(fn, part)
    want = fn(torch.from_numpy(a).double()).numpy()
    body = f"asc.adv.{name}(z, a, n)" if name == "log" else f"asc.adv.{name}(z, a, n, t)"
    got = compute(body, [a], "float32")
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)
    half = compute(body, [a.astype(np.float16)], "float16")
    want = fn(torch.from_numpy(a.astype(np.float16)).double()).numpy().astype(np.float16)
    same(half, want)


def test_adv_power_xor_axpy_exp() -> None:
    a, b = values("float32", positive=True), values("float32")
    want = np.power(a.astype(np.float64), b).astype(np.float32)
    same(compute("asc.adv.power(z, a, b, n, t)", [a, b], "float32"), want)
    i = np.array([2, -3, 0, 1, -1, 7], np.int32)
    e = np.array([10, 3, 0, -5, -3, 12], np.int32)
    powers = np.array([1024, -27, 1, 1, -1, 7**12], np.int64).astype(np.int32)  # 7 ** 12 wraps
    same(compute("asc.adv.power(z, a, b, n, t)", [i, e], "int32"), powers)
    c = values("float32")
    got = compute("asc.adds(z, b, 0.0, n)\nasc.adv.axpy(z, a, 2.0, n, t)", [a, c], "float32")
    same(got, (a.astype(np.float64) * 2 + c).astype(np.float32))
    same(compute("asc.adv.exp(z, a, n, 3, t)", [b], "float32"), np.exp(b.astype(np.float64)).astype(np.float32))


def test_adv_without_count_takes_the_whole_tensor() -> None:
    a = values("float32", 64)
    body = "u = z_buf.get(asc.float32, 64)\nv = a_buf.get(asc.float32, 64)\nasc.adv.tanh(u, v)"
    np.testing.assert_allclose(compute(body, [a], "float32"), np.tanh(a), rtol=1e-6)


# -- asc.inline --------------------------------------------------------------------------------------------------
def test_inline_bfloat16_casts_both_ways() -> None:
    a = values("float32")
    bits = a.astype(ml_dtypes.bfloat16).view(np.uint16)
    widen = (
        'asc.inline("AscendC::Cast<float, bfloat16_t>($0, $1.ReinterpretCast<bfloat16_t>(), '
        'AscendC::RoundMode::CAST_NONE, $2)", [z, a, n])'
    )
    same(compute(widen, [bits], "float32"), bits.view(ml_dtypes.bfloat16).astype(np.float32))
    narrow = (
        'asc.inline("AscendC::Cast<bfloat16_t, float>($0.ReinterpretCast<bfloat16_t>(), $1, '
        'AscendC::RoundMode::CAST_RINT, $2)", [z, a, n])'
    )
    same(compute(narrow, [a], "uint16"), bits)


def test_inline_calls_of_other_forms() -> None:
    a, b = values("float32"), values("float32")
    same(compute('asc.inline("AscendC::Add($0, $1, $2, $3)", [z, a, b, n])', [a, b], "float32"), a + b)
    same(compute('asc.inline("Muls<float>($0, $1, 2.5f, $2);", [z, a, n])', [a], "float32"), a * np.float32(2.5))
    got = compute('asc.inline("AscendC::Sigmoid<float>($0, $1, $2, $3)", [z, a, t, n])', [a], "float32")
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-a.astype(np.float64))), rtol=1e-7)
    repeat = 'asc.inline("AscendC::Add($0, $1, $2, 64, 2, {1, 1, 1, 8, 8, 8})", [z, a, b])'
    c, d = values("float32", 128), values("float32", 128)
    same(compute(repeat, [c, d], "float32"), c + d)
    sliced = 'asc.inline("AscendC::Adds($0, $1[8], (float)1, 64)", [z, a])'
    same(compute(sliced, [c], "float32", 64), c[8:72] + 1)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("AscendC::Gelu<float>($0, $1, $2)", "Gelu isn't an instruction that it knows"),
        ("uint32_t foo = 3", "it isn't a single call"),
        ("AscendC::Add($0, $1)", "2 tensors"),
        ("AscendC::Adds($0, $1, foo, $2)", "argument `foo`"),
        ("AscendC::Adds<half>($0, $1, 1, $2)", "template types half"),
    ],
)
def test_inline_code_that_is_not_understood_is_an_error_naming_it(code: str, why: str) -> None:
    a = values("float32")
    with pytest.raises(errors.UnknownOperationError) as e:
        compute(f'asc.inline("{code}", [z, a, n])', [a], "float32")
    assert why in str(e.value) and code in str(e.value) and str(e.value).startswith("kernel_under_test.py:")


# -- what A2 doesn't have ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "dtypes", "says"),
    [
        ("asc.exp(z, a, n)", ("int32", "int32"), "Exp (int32_t, int32_t) doesn't exist on A2"),
        ("asc.duplicate(z, 1, n)", ("int8", "int8"), "Duplicate (int8_t) doesn't exist on A2"),
        ("asc.adds(z, a, 1, n)", ("int8", "int8"), "Adds (int8_t, int8_t) doesn't exist on A2"),
        ("asc.cast(z, a, asc.RoundMode.CAST_NONE, n)", ("int8", "int32"), "Cast (int32_t, int8_t) doesn't exist"),
        ("asc.cast(z, a, asc.RoundMode.CAST_RINT, n)", ("float32", "uint16"), "Cast (uint16_t, float) doesn't exist"),
        ("asc.cast(z, a, asc.RoundMode.CAST_RINT, n)", ("int8", "float16"), "has no mode CAST_RINT on A2"),
        ("asc.cast(z, a, asc.RoundMode.CAST_NONE, n)", ("float32", "int32"), "has no mode CAST_NONE on A2"),
        ("asc.adv.floor(z, a)", ("float32", "float32"), "Floor exists in C++ only with a count"),
        ("asc.adv.log(z, a, n, t)", ("float32", "float32"), "Log exists in C++ only without a temporary buffer"),
        ("asc.adv.tanh(z, a, n)", ("int32", "int32"), "Tanh (int32_t, int32_t) doesn't exist on A2"),
        ("asc.shift_left(z, a, 1, n)", ("float32", "float32"), "ShiftLeft (float, float) doesn't exist on A2"),
    ],
)
def test_calls_that_pyasc_accepts_and_a2_lacks_are_named(body: str, dtypes: tuple[str, str], says: str) -> None:
    a = np.ones(64, dtypes[0])
    with pytest.raises(errors.UnsupportedError) as e:
        compute(body, [a], dtypes[1])
    assert says in str(e.value) and "kernel_under_test.py:" in str(e.value)
