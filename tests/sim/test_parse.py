"""Reading ASC-IR: structure, values, attributes, constants and source lines."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest

from asc_sched.sim import ParseError, parse
from asc_sched.sim.ir import UNKNOWN_LOC, Op, element, walk
from tests.sim.lowering import FILE, asc_ir, line_of

QUEUE = (Path(__file__).parent / "kernels" / "queue_add.py").read_text()
TUTORIAL = (Path(__file__).parent / "kernels" / "tutorial_add.py").read_text()
ADD_ARGS = ("*float32", "*float32", "*float32", "int32")


def ops(text: str, name: str) -> list[Op]:
    return [op for op in walk(parse(text).kernel().body) if op.name == name]


def kernel(body: str, args: str = "x: asc.GlobalAddress, n: int, s: float") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"import asc\n@asc.jit\ndef k({args}):\n{lines}\n"


TENSOR = "t = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)\n"


def lowered(body: str) -> str:
    return asc_ir(kernel(body), ("*float32", "int32", "float32"))


def test_arguments_have_their_source_names_and_kinds() -> None:
    func = parse(asc_ir(QUEUE, ADD_ARGS)).kernel()
    assert [(a.name, a.is_pointer) for a in func.explicit_args] == [
        ("x", True),
        ("y", True),
        ("z", True),
        ("total_length", False),
    ]
    assert [a.kind for a in func.args][-1] == "ffts_addr"
    assert func.name == "k" and func.is_kernel


def test_a_call_site_resolves_to_the_innermost_line() -> None:
    text = asc_ir(TUTORIAL, ADD_ARGS, "tutorial_add")
    (add,) = ops(text, "ascendc.add_l2")
    assert (add.loc.file, add.loc.line) == (FILE, line_of(TUTORIAL, "asc.add(z_local"))
    alloc = ops(text, "ascendc.que_bind.alloc_tensor")
    assert alloc[0].loc.line == line_of(TUTORIAL, "x_local = in_queue_x.alloc_tensor")


def test_text_without_locations_is_read_too() -> None:
    text = asc_ir(QUEUE, ADD_ARGS)
    plain = "\n".join(line.partition(" loc(")[0] for line in text.splitlines() if not line.startswith("#loc"))
    plain = plain.replace('loc("x"', "")
    named = [op.name for op in walk(parse(text).kernel().body)]
    header = next(line for line in text.splitlines() if "func.func" in line)
    bare = header.replace(' loc("x"(#loc1))', "")
    for name in ("y", "z", "total_length"):
        bare = bare.replace(f' loc("{name}"(#loc1))', "")
    bare = bare.replace(' loc("ffts_addr")', "")
    body = [bare if "func.func" in line else line for line in plain.splitlines()]
    found = parse("\n".join(body)).kernel()
    assert [op.name for op in walk(found.body)] == named
    assert all(op.loc is UNKNOWN_LOC for op in walk(found.body))


def test_values_of_sibling_regions_with_one_name_are_distinct() -> None:
    body = TENSOR + "if n > 3:\n    a = n + 1\n    asc.adds(t, t, s, a)\nelse:\n    b = n + 2\n    asc.adds(t, t, s, b)"
    first, second = ops(lowered(body), "ascendc.adds_l2")
    assert first.operands[3] != second.operands[3]


def test_carried_values_and_results_of_loops_and_branches() -> None:
    body = "r = asc.number(0, asc.int32)\nfor i in range(n):\n    r = r + i\n" + TENSOR + "asc.adds(t, t, s, r)"
    text = lowered(body)
    (loop,) = ops(text, "scf.for")
    assert len(loop.operands) == 4 and len(loop.results) == 1 and len(loop.regions[0].args) == 2
    (adds,) = ops(text, "ascendc.adds_l2")
    assert adds.operands[3] == loop.results[0]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("1.5", 1.5),
        ("0.1", 0.1),
        ("float('inf')", math.inf),
        ("-float('inf')", -math.inf),
        ("1e-40", float(np.float32(1e-40))),
    ],
)
def test_float_constants(value: str, want: float) -> None:
    (op,) = ops(lowered(TENSOR + f"asc.duplicate(t, {value}, 64)"), "ascendc.duplicate_l2")
    text = lowered(TENSOR + f"asc.duplicate(t, {value}, 64)")
    constant = next(o for o in ops(text, "arith.constant") if o.results[0] == op.operands[1])
    assert isinstance(constant.attrs["value"], float)
    assert constant.attrs["value"] == pytest.approx(want, rel=1e-6, abs=0)


def test_wide_unsigned_constants_and_attributes() -> None:
    body = TENSOR + "asc.adds(t, t, s, [0xffffffffffffffff, 0], 1, asc.UnaryRepeatParams(1, 1, 8, 8), False)"
    text = lowered(body)
    values = [op.attrs["value"] for op in ops(text, "emitc.constant")]
    assert 2**64 - 1 in values
    (adds,) = ops(text, "ascendc.adds_l1")
    assert "isSetMask" not in adds.attrs
    (params,) = ops(text, "ascendc.construct")
    assert params.attrs["struct"] == "unary_repeat_params" and params.attrs["fields"] == ("ui16", "ui16", "ui8", "ui8")


def test_keywords_and_strings() -> None:
    body = (
        TENSOR
        + 'asc.inline("AscendC::Foo<float, 1>($0, {1, 2}, \\"a : b\\")", [t])\nasc.pipe_barrier(asc.PipeID.PIPE_V)'
    )
    text = lowered(body)
    (verbatim,) = ops(text, "emitasc.verbatim")
    assert verbatim.words == ('AscendC::Foo<float, 1>($0, {1, 2}, "a : b")',) and len(verbatim.operands) == 1
    (barrier,) = ops(text, "ascendc.pipe_barrier")
    assert barrier.words == ("pipe_v",)
    assert ops(lowered("asc.set_flag(asc.HardEvent.MTE2_V, n)"), "ascendc.set_flag")[0].words == ("mte2_v",)


def test_element_types() -> None:
    assert element("!ascendc.local_tensor<*xf16>") == "f16"
    assert element("memref<?xui64, 22>") == "ui64"
    assert element("!ascendc.local_tensor<512xbf16>") == "bf16"
    assert element("i32") == "i32"


def test_reading_is_fast_and_cached() -> None:
    text = asc_ir(TUTORIAL, ADD_ARGS, "tutorial_add")
    times = []
    for i in range(5):
        start = time.perf_counter()
        parse(text + "\n" * (i + 1))
        times.append(time.perf_counter() - start)
    assert min(times) < 0.02
    assert parse(text) is parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no func.func"),
        ("int main() {}", "no func.func"),
        ("func.func @k() attributes {ascendc.global} {\n  ascendc.add_l2 %1, %2 : i32, i32\n}", "%1 is used before"),
        ("func.func @k() attributes {ascendc.global} {\n  return\n", "ends inside a region"),
        ("func.func @k() attributes {ascendc.global} {\n  foo.bar {\n  }\n}", "unknown operation with a region"),
    ],
)
def test_text_that_is_no_asc_ir(text: str, says: str) -> None:
    with pytest.raises(ParseError, match=says):
        parse(text)
