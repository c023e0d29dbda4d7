"""Names of operators, kernels and files: distinct, capped, clean, the same in any order."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asc_sched import Schedule
from asc_sched.errors import LibraryError
from asc_sched.library import Library
from asc_sched.library.analysis import Analyst
from asc_sched.library.names import MAX_SYMBOL, spread, symbol, torch_name
from asc_sched.library.plan import Plan, make_plan


def plan(*ops: Any, **fields: Any) -> Plan:
    return make_plan(Library("mylib", ops=list(ops), **fields), Analyst())


def symbols(made: Plan) -> list[str]:
    return [k.symbol for k in made.kernels]


def test_a_kernels_name_tells_it_from_every_other() -> None:
    made = plan(
        {"name": "to_half", "expr": "z = float16(x) * s", "scalars": ["s"], "dtypes": ["int8", "float16"]},
        {"name": "add2", "expr": "z = x + y"},
        shapes=["dynamic", "8x2048", "16x1024"],
        schedules=["auto", {"core_num": 4, "tile_length": 512}, {"core_num": 4, "tile_length": 1024}],
        targets=["Ascend910B1", "Ascend910B4-1"],
    )
    names = symbols(made)
    assert len(names) == len({n.casefold() for n in names}) == len(list(made.kernels))
    assert "to_half_int8_any_auto_Ascend910B1" in names
    assert "to_half_float16_any_auto_Ascend910B1" in names
    assert "add2_float32_8x2048_auto_Ascend910B4_1" in names


@pytest.mark.parametrize(
    "names", [("a-b", "a_b"), ("a b", "a_b"), ("a.b", "a b"), ("é", "ue9"), ("1x", "_1x"), ("lambda", "op_lambda")]
)
def test_names_that_would_become_one_are_refused_with_the_pair(names: tuple[str, str]) -> None:
    with pytest.raises(LibraryError) as caught:
        plan({"name": names[0], "expr": "z = x + y"}, {"name": names[1], "expr": "z = x - y"})
    assert all(repr(n) in str(caught.value) for n in names)
    assert "give one of them another name" in str(caught.value)


def test_two_ops_of_one_name_are_refused_and_the_same_op_twice_is_one() -> None:
    with pytest.raises(LibraryError, match=r"'f' is declared twice, by ops\[0\] and by ops\[1\]"):
        plan({"name": "f", "expr": "z = x + y"}, {"name": "f", "expr": "z = x - y"})
    assert len(plan("add", "add").operators) == len(plan("add").operators)


def test_an_operator_called_like_a_derivative_is_refused() -> None:
    with pytest.raises(LibraryError, match=r"'sq_vjp' \(declared\).*'sq_vjp' \(a derivative\)"):
        plan({"name": "sq", "expr": "z = x * x"}, {"name": "sq_vjp", "expr": "z = x + 1"})


def test_names_that_differ_in_case_only_get_files_that_differ() -> None:
    made = plan({"name": "Add", "expr": "z = x - y"}, {"name": "add", "expr": "z = x + y"}, gradients=False)
    assert [o.torch_name for o in made.operators] == ["Add", "add"]
    names = symbols(made)
    assert len({n.casefold() for n in names}) == 2
    assert all(re.fullmatch(r"[Aa]dd_float32_any_auto_Ascend910B1_[0-9a-f]{12}", n) for n in names)


def test_long_names_are_capped_with_a_hash_and_stay_distinct() -> None:
    long, other = "n" * 300, "n" * 299 + "m"
    cjk = "昇" * 100
    auto = "z = " + " + ".join(["exp(x)", "log(x)", "sqrt(x)", "abs(x)"] * 10)
    made = plan(
        {"name": long, "expr": "z = x + y"}, {"name": other, "expr": "z = x - y"}, {"name": cjk, "expr": "z = x"},
        {"expr": auto}, gradients=False, shapes=["123456789x123456789x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1"],
    )  # fmt: skip
    names = symbols(made)
    assert len(set(names)) == 4
    assert all(n.isascii() and n.isidentifier() and len(n) <= MAX_SYMBOL for n in names)
    operators = [o.torch_name for o in made.operators]
    assert len(set(operators)) == 4
    assert all(n.isascii() and n.isidentifier() and len(n) <= MAX_SYMBOL for n in operators)


def test_names_of_arguments_are_what_torchs_schemas_take() -> None:
    made = plan(
        {"name": "odd", "expr": "z = out + Tensor * élan + ue9lan + self", "scalars": ["ue9lan"]}, gradients=False
    )
    (operator,) = made.operators
    assert operator.schema == "odd(Tensor out_, Tensor Tensor_, Tensor ue9lan, Tensor self, *, float ue9lan_) -> Tensor"


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.text(min_size=1, max_size=40).filter(str.strip))
def test_any_text_makes_an_identifier(one: str, two: str) -> None:
    for name in (one, two):
        usable = torch_name(name)
        assert usable.isascii()
        assert usable.isidentifier()
        assert len(usable) <= MAX_SYMBOL


@given(st.lists(st.sampled_from(["a", "A", "b", "B", "ab", "aB"]), unique=True), st.randoms())
def test_spreading_names_does_not_depend_on_their_order(names: list[str], random: Any) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)
    one = dict(zip(names, spread(names, names), strict=True))
    two = dict(zip(shuffled, spread(shuffled, shuffled), strict=True))
    assert one == two
    assert len({n.casefold() for n in one.values()}) == len(names)


def test_fixed_schedules_have_names_of_their_own() -> None:
    one, two = Schedule(core_num=4), Schedule(core_num=5)
    made = {symbol("f", ("float32",), None, s, "Ascend910B1") for s in ("auto", "tuned", one, two)}
    assert len(made) == 4
