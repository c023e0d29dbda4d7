"""Any legal Python identifier names a tensor, or is refused by its name with the reason."""

from __future__ import annotations

import re
import unicodedata

import pytest
import torch

from asc_sched import Schedule, op
from asc_sched.declare import Op
from asc_sched.errors import DeclarationError
from tests.road.tensors import numbers, same_bits

# sympy's constants and functions, Python's builtins and soft keywords, the generator's own names, C++'s and pyasc's.
AWKWARD = """
E I S N Q O C beta gamma zeta Symbol Max x_local tile buf block_idx block_num in_queue_x out self TILE_NUM asc
x y z x_gm z_gm x_queue z_queue x_buffer tmp0 tmp0_buf pipe params start length tail tile_start tile_length tile_count
total_length block_start block_length unit_length units base_units extra_units longer_blocks block_units full_length
tile_stride pad add_float32 add_float32_copy_in add_float32_compute copy_in compute in_queue in_local
int float double auto void register volatile namespace new delete this operator and_eq int64_t NULL main half
abs max min print len type match case _ __ __name__ __import__ core_num debug stream opt_level insert_sync float32
number GlobalTensor TPipe get_block_idx range True_ lambda_
""".split()
UNICODE = ["μ", "été", "变量", "ﬁ", "ª", "Δx", "x́", "𝐱", "ñ_1"]
RESERVED = "lambda in is class None True False while for def return not and or if yield import with await".split()


def one_input(name: str) -> Op:
    return op(f"z_ = {name} + 1")


@pytest.mark.parametrize("name", [*AWKWARD, *UNICODE])
def test_awkward_names_are_plain_tensors(name: str) -> None:
    x = numbers(77)
    increment = one_input(name)
    # Python reads identifiers in this normal form; the op has the name that it read.
    assert increment.inputs == (unicodedata.normalize("NFKC", name),)
    kernel = increment.compile(77, schedule=Schedule(core_num=2, tile_num=2))
    result = kernel(x)
    assert isinstance(result, torch.Tensor) and same_bits(result, x + 1)


@pytest.mark.parametrize("name", ["out", "backend"])
def test_a_scalar_cant_take_a_keyword_of_the_call(name: str) -> None:
    with pytest.raises(DeclarationError, match=rf"'{name}' can't name a scalar: .* use '{name}_'"):
        op(f"z = x * {name}", scalars=[name])


@pytest.mark.parametrize("name", sorted({*AWKWARD, *UNICODE} - {"out"}))
def test_awkward_names_are_outputs_and_scalars(name: str) -> None:
    x = numbers(9)
    declared = op(f"{name} = q1 * r1", inputs=["q1"], scalars={"r1": 2.0})
    result = declared(x)
    assert declared.outputs == (unicodedata.normalize("NFKC", name),)
    assert isinstance(result, torch.Tensor) and same_bits(result, x * 2.0)
    scaled = op(f"z_ = q1 * {name}", inputs=["q1"], scalars=[name])
    result = scaled(x, **{scaled.scalars[0].name: 3.0})
    assert isinstance(result, torch.Tensor) and same_bits(result, x * 3.0)


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_words_are_refused_by_name(name: str) -> None:
    for text in (f"z = {name} + 1", f"{name} = q + 1"):
        with pytest.raises(DeclarationError, match=rf"'{name}'.*reserved word of Python|'{name}' can't be used"):
            op(text)
    for given in ({"inputs": [name]}, {"scalars": [name]}):
        with pytest.raises(DeclarationError, match=rf"'{name}' is a reserved word of Python .*use '{name}_'"):
            op("z = x + 1", **given)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["pi", "inf", "nan"])
def test_constants_are_refused_by_name_unless_declared_as_inputs(name: str) -> None:
    with pytest.raises(DeclarationError, match=rf"'{name}' is a reserved name, a constant; declare it in inputs="):
        op(f"z = {name} + 1")
    with pytest.raises(DeclarationError, match=rf"'{name}' is a reserved name, a constant here"):
        op(f"{name} = x + 1")
    x = numbers(5)
    result = op(f"z = {name} + 1", inputs=[name])(x)
    assert isinstance(result, torch.Tensor) and same_bits(result, x + 1)


@pytest.mark.parametrize("name", ["x y", "1x", "x-y", "", "x²", 3, None])
def test_what_is_no_identifier_cant_be_declared(name: object) -> None:
    with pytest.raises(DeclarationError, match=re.escape(f"{name!r} can't name an input")):
        op("z = x + 1", inputs=[name])  # type: ignore[list-item]


def test_a_name_is_declared_once() -> None:
    with pytest.raises(DeclarationError, match="'x' is declared twice among the inputs and scalars: x, x"):
        op("z = x + 1", inputs=["x", "x"])
    with pytest.raises(DeclarationError, match="'x' is declared twice among the inputs and scalars: x, y, x"):
        op("z = x + y", inputs=["x", "y"], scalars=["x"])


def test_names_may_be_given_in_one_text() -> None:
    assert op("z = a - b", inputs="b, a").inputs == ("b", "a")
    assert [s.name for s in op("z = a - b", scalars="b").scalars] == ["b"]


def test_an_output_may_have_the_name_of_an_input() -> None:
    x = numbers(100)
    result = op("x = x + 1")(x)
    assert isinstance(result, torch.Tensor) and same_bits(result, x + 1)
    result = op("z = x + z")(x, 2 * x)
    assert isinstance(result, torch.Tensor) and same_bits(result, x + 2 * x)


def test_letters_of_constants_are_variables() -> None:
    """E is a tensor, not 2.718..."""
    values = {"E": 1.0, "A": 10.2, "B": 43.070, "C": 19.41, "D": 0.99}
    declared = op("z = E*A*B*C*D*44/12")
    result = declared(*(torch.tensor([values[n]]) for n in declared.inputs))
    assert isinstance(result, torch.Tensor)
    assert result.item() == pytest.approx(30953.3176, rel=1e-6)


@pytest.mark.parametrize("name", ["a b/c", "double", "1st", "名", "x" * 97, "core_num"])
def test_a_kernels_own_name_is_used_as_it_is_or_refused(name: str) -> None:
    message = rf"name={re.escape(repr(name))} can't name a kernel.*nearest valid: name="
    with pytest.raises(DeclarationError, match=message):
        op("z = x + y").compile(8, name=name)
    assert op("z = x + y").compile(8, name="my_add").name == "my_add"
    assert op("z = x + y").compile(8, name="x").name == "x"


@pytest.mark.parametrize("name", ["a b/c", "double", "../../etc/passwd", "名", "x" * 300, "copy_in", "0", "-"])
def test_an_ops_name_becomes_a_kernel_name_that_every_stage_takes(name: str) -> None:
    x = numbers(8)
    named = op("z = x + y", name=name)
    kernel = named.compile(8)
    assert named.name == name
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,95}", kernel.name)
    result = kernel(x, x)
    assert isinstance(result, torch.Tensor) and same_bits(result, x + x)
