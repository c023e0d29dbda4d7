"""The whole road for real: pyasc compiles what was generated, the simulator runs what it compiled, torch agrees."""

from __future__ import annotations

import time
from functools import lru_cache

import pytest
import torch

from asc_sched import op, ops
from asc_sched.errors import DtypeError
from asc_sched.kernel import generate
from asc_sched.lang.dtypes import DTYPES
from asc_sched.lang.infer import infer
from asc_sched.lower.legalize import legalize
from asc_sched.run.check import check_kernel
from asc_sched.target.instructions import INSTRUCTIONS

_OWN = {"mask": "bool", "condition": "bool", "q": "int8", "acc": "int32"}


def _dtypes(name: str, dtype: str) -> dict[str, str]:
    return {n: _OWN.get(n, dtype) for n in ops.get(name).inputs}


@lru_cache(maxsize=1)
def rows_by_case() -> dict[tuple[str, str, str], frozenset[tuple[str, ...]]]:
    """The instruction rows that each op of the catalogue uses, on each dtype and precision."""
    found = {}
    for name, declared in ops.catalogue().items():
        for dtype in DTYPES:
            try:
                typed = infer(declared.graph, {n: DTYPES[d] for n, d in _dtypes(name, dtype).items()})
                programs = {p: legalize(typed, p) for p in ("exact", "fast")}
            except DtypeError:
                continue
            for precision, program in programs.items():
                rows = ((s.instruction.name, *s.instruction.signature) for s in program.steps)
                found[name, dtype, precision] = frozenset(rows)
    return found


# Few ops that use every row of the instruction table between them; the first test keeps that true.
COVER = (
    ("logaddexp2", "int64"), ("pow", "int8"), ("isclose", "uint8"), ("fake_quantize", "bfloat16"),
    ("heaviside", "bool"), ("heaviside", "int32"), ("maximum", "float16"), ("pow", "float32"), ("logical_xor", "bool"),
    ("bitwise_xor", "int8"),
    ("bitwise_xor", "uint8"), ("copysign", "float16"), ("sign", "int16"),
    ("bitwise_xor", "int16"), ("bitwise_xor", "int32"), ("bitwise_and", "int64"),
    ("mse_loss_backward", "int32"), ("add", "int16"), ("add", "float16"), ("sub", "float16"), ("div", "float16"),
    ("positive", "bfloat16"), ("positive", "int8"), ("positive", "uint8"), ("sqrt", "float32"), ("sqrt", "float16"),
    ("minimum", "int16"), ("minimum", "int32"), ("leaky_relu", "float32"), ("to_int16", "int32"), ("abs", "float16"),
    ("floor_divide", "int64"), ("bitwise_left_shift", "int64"), ("gcd", "int8"), ("mul", "float16"), ("sin", "float32"),
    ("gelu", "bfloat16"), ("nan_to_num", "float16"), ("where", "int8"), ("adamw", "float16"), ("erf", "float32"),
)  # fmt: skip
FAST = (
    ("sigmoid_focal_loss", "float16"), ("clamp_tensor", "float32"), ("clamp_tensor", "float16"), ("rsqrt", "float32"),
    ("rsqrt", "float16"), ("log", "float16"), ("to_int16", "float32"), ("relu", "float32"), ("relu", "float16"),
    ("leaky_relu", "float16"), ("bias_relu", "float32"), ("bias_relu", "float16"), ("hinge_embedding_loss", "float16"),
    ("clamp", "float32"), ("clamp", "float16"), ("reciprocal", "float32"), ("reciprocal", "float16"),
)  # fmt: skip
CASES = [(*c, "exact") for c in COVER] + [(*c, "fast") for c in FAST]


def test_the_cases_use_every_row_of_the_instruction_table() -> None:
    known = rows_by_case()
    used = frozenset().union(*(known[c] for c in CASES))
    rows = {(i.name, *i.signature) for i in INSTRUCTIONS}
    assert not rows - frozenset().union(*known.values()), "rows that nothing uses"
    assert not rows - used, "rows that no case of this module runs"


@pytest.mark.parametrize(("name", "dtype", "precision"), CASES)
def test_pyasc_compiles_and_the_simulator_agrees_with_torch(name: str, dtype: str, precision: str) -> None:
    kernel = ops.get(name).compile(301, _dtypes(name, dtype), precision=precision)
    assert check_kernel(kernel)["ok"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(ops.catalogue()))
def test_every_op_of_the_catalogue_on_every_dtype(name: str) -> None:
    for case in rows_by_case():
        if case[0] == name:
            report = check_kernel(ops.get(name).compile(1111, _dtypes(name, case[1]), precision=case[2]))
            assert report["ok"] or case in FAST_LIMITS, case


# What docs/precision.md says of precision="fast" in float16: its range, and steps that a quotient may miss by one.
FAST_LIMITS = [
    (name, "float16", "fast") for name in ("adagrad", "gaussian_nll_loss", "quantize_int8", "quantize_uint8")
]


def test_fast_quantisation_is_off_by_one_step_at_most() -> None:
    kernel = ops.get("quantize_int8").compile(1111, "float16", precision="fast")
    x = torch.randn(1111).half()
    (expected,) = kernel.op.reference(x)
    assert (kernel(x).int() - expected.int()).abs().max() <= 1


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_unary_op_on_every_16bit_value_through_the_simulator(dtype: str) -> None:
    from asc_sched.run.check import allowances, compare
    from tests.lower.test_sweep import UNARY_OPS, _comparable
    from tests.lower.values import all_16bit

    for name in UNARY_OPS:
        declared, x = ops.get(name), _comparable(name, all_16bit(dtype))
        kernel = declared.compile(len(x), dtype)
        results = kernel(x)
        results = results if isinstance(results, tuple) else (results,)
        allowed = allowances(kernel.typed, {declared.inputs[0]: x}, declared.bind_scalars({}))
        for output, found, expected in zip(declared.outputs, results, declared.reference(x), strict=True):
            assert compare(found, expected, allowed(output)).ok, (name, output)


# -- UB and text -----------------------------------------------------------------------------------------------------
def test_a_long_chain_uses_the_buffers_of_its_width() -> None:
    chain = "\n".join(["t0 = x", *(f"t{i + 1} = t{i} * 1.0 + {i % 7}" for i in range(1000)), "z = t1000"])
    plan = generate(op(chain), 4096, "float32").plan
    assert plan.ub_bytes_per_element <= 8 and not plan.temps


def test_a_thousand_nodes_compile_in_seconds_and_are_right() -> None:
    steps = [f"t{i + 1} = {'maximum' if i % 3 else 'minimum'}(t{i} * 1.5 + x, {i % 11 - 5})" for i in range(330)]
    declared = op("\n".join(["t0 = x", *steps, "z = t330"]))
    assert len(declared.graph.nodes) > 1000
    start = time.monotonic()
    kernel = declared.compile(301, "float32")
    assert time.monotonic() - start < 30, "some 3 s on two cores at 2 GHz"
    x = torch.linspace(-4, 4, 301)
    assert torch.equal(kernel(x), declared.reference(x)[0])


def test_select_leaves_its_reserve_and_compares_work_on_whole_repeats() -> None:
    kernel = op("z = where(x > y, x, y)").compile(777, "float32")
    assert kernel.plan.ub_reserve == 8192
    assert all(q.buffer_bytes % 256 == 0 for q in kernel.plan.queues)
    assert "// 64 * 64" in kernel.source
    x, y = torch.randn(777), torch.randn(777)
    assert torch.equal(kernel(x, y), torch.where(x > y, x, y))


def test_constants_are_made_again_rather_than_kept() -> None:
    declared = ops.get("floor_divide")
    program = legalize(infer(declared.graph, dict.fromkeys(declared.inputs, DTYPES["int64"])))
    made = [(s.instruction.name, s.imm) for s in program.steps if not s.srcs]
    assert len(made) > len(set(made))


@pytest.mark.parametrize("text", ["z = exp(x)", "z = gelu(x)", "a = x + y; b = x - y"])
def test_text_is_the_same_every_time(text: str) -> None:
    dtype = "bfloat16"
    assert generate(op(text), 1000, dtype).source == generate(op(text), 1000, dtype).source
