"""`Affine` answers like ints do, or asks for a cut."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched.sim.affine import Affine, Undecided, Var, make

_BINARY = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
_QUESTIONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def value(expression: int | Affine, point: dict[Var, int]) -> int:
    if isinstance(expression, int):
        return expression
    return expression.const + sum(c * point[v] for v, c in expression.terms)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[int | Affine, dict[Var, tuple[int, int]]]:
    variables = [
        Var("loop", ((i,), 0, 1), lo, lo + draw(st.integers(0, 12)))
        for i, lo in enumerate(draw(st.lists(st.integers(-3, 5), min_size=1, max_size=2)))
    ]
    terms = tuple((v, draw(st.integers(-9, 9).filter(bool))) for v in variables)
    return make(draw(st.integers(-50, 50)), terms), {v: (v.lo, v.hi) for v in variables}


@given(expressions(), expressions(), st.integers(-20, 20).filter(bool), st.data())
@settings(max_examples=300, deadline=None)
def test_an_answer_holds_over_the_whole_range(
    first: tuple[Affine, dict[Var, tuple[int, int]]],
    second: tuple[Affine, dict[Var, tuple[int, int]]],
    number: int,
    data: st.DataObject,
) -> None:
    (a, ranges), (b, more) = first, second
    ranges = ranges | more
    right = data.draw(st.sampled_from([b, number]))
    op = data.draw(st.sampled_from(_BINARY + _QUESTIONS))
    try:
        got = op(a, right)
    except Undecided as question:
        assert question.var in ranges
        if question.cut is not None:
            lo, hi = ranges[question.var]
            assert lo < question.cut <= hi
        return
    for _ in range(5):
        point = {v: data.draw(st.integers(lo, hi)) for v, (lo, hi) in ranges.items()}
        want = op(value(a, point), value(right, point))
        assert (got if isinstance(got, bool) else value(got, point)) == want


@given(st.integers(-5, 5).filter(bool), st.integers(-20, 20), st.integers(-60, 60))
def test_a_cut_is_where_the_answer_changes(step: int, const: int, limit: int) -> None:
    var = Var("loop", ((0,), 0, 1), 0, 30)
    try:
        _ = Affine(const, ((var, step),)) < limit
    except Undecided as question:
        assert question.cut is not None
        at = [const + step * i < limit for i in (question.cut - 1, question.cut)]
        assert at[0] != at[1]


def test_a_remainder_asks_for_residues() -> None:
    var = Var("loop", ((0,), 0, 1), 0, 30)
    with pytest.raises(Undecided) as asked:
        _ = Affine(3, ((var, 1),)) % 4
    assert (asked.value.var, asked.value.modulus) == (var, 4)
    assert Affine(3, ((var, 8),)) % 4 == 3


def test_it_is_never_silently_a_number() -> None:
    var = Var("loop", ((0,), 0, 1), 0, 30)
    for use in (int, float, range, [1, 2].__getitem__):
        with pytest.raises(Undecided):
            use(Affine(0, ((var, 1),)))  # type: ignore[operator]
