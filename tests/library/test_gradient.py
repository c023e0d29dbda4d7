"""Derivatives: the derived graph, evaluated by torch, against torch's own autograd of the same expression."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asc_sched import op
from asc_sched.lang.dtypes import DTYPES
from asc_sched.lang.functions import FUNCTIONS
from asc_sched.lang.infer import TypedGraph, infer, weak_tensor
from asc_sched.library import gradient as gradient_module
from asc_sched.library.gradient import Gradient, NotDifferentiable, derive

#: Where functions have corners, poles and ties.
SPECIAL = [-3.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 2.0, 7.0]


def typed_of(text: str, dtypes: str | dict[str, str] = "float32", **kwargs: Any) -> TypedGraph:
    declared = op(text, **kwargs)
    return infer(declared.graph, declared.input_dtypes(dtypes))


def run(typed: TypedGraph, tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The graph by torch, every step with autograd."""
    values: list[Any] = []
    for node in typed.graph.nodes:
        args = [values[a] for a in node.args]
        if node.fn == "input":
            values.append(tensors[str(node.attr)])
        elif node.fn == "scalar":
            values.append(scalars[str(node.attr)])
        elif node.fn == "const":
            values.append(node.attr)
        elif node.fn == "cast":
            values.append(args[0].to(DTYPES[str(node.attr)].torch))
        else:
            if FUNCTIONS[node.fn].tensors_only:
                like = next(a for a in args if isinstance(a, torch.Tensor))
                args = [a if isinstance(a, torch.Tensor) else weak_tensor(a, like) for a in args]
            if not any(isinstance(a, torch.Tensor) for a in args):
                args[0] = torch.tensor(args[0])
            values.append(FUNCTIONS[node.fn].torch(*args))
    return {o.name: values[o.node] for o in typed.graph.outputs}


def ours(typed: TypedGraph, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], grads: dict[str, Any]) -> Any:
    found: Gradient = derive(typed)
    computed: dict[str, torch.Tensor] = {}
    if found.typed is not None:
        given_ = {n: tensors[n] for n in found.saved} | {name: grads[o] for o, name in found.gradients}
        assert tuple(given_) == found.typed.graph.inputs
        computed = run(found.typed, given_, scalars)
    kinds = {
        "kernel": lambda g: computed[g.source], "same": lambda g: grads[g.source],
        "zero": lambda g: torch.zeros_like(tensors[g.input]),
    }  # fmt: skip
    return {g.input: kinds[g.kind](g) for g in found.inputs}


def theirs(typed: TypedGraph, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], grads: dict[str, Any]) -> Any:
    leaves = {n: t.clone().requires_grad_(t.is_floating_point()) for n, t in tensors.items()}
    outputs = run(typed, leaves, scalars)
    live = [o for o in outputs if outputs[o].requires_grad]
    torch.autograd.backward([outputs[o] for o in live], [grads[o] for o in live])
    wanted = {n: t for n, t in leaves.items() if t.requires_grad}
    return {n: torch.zeros_like(t) if t.grad is None else t.grad for n, t in wanted.items()}


def compare(text: str, *, values: Any = None, dtypes: Any = "float32", **kwargs: Any) -> None:
    typed = typed_of(text, dtypes, **kwargs)
    points = torch.tensor(SPECIAL if values is None else values)
    count = len(typed.graph.inputs)
    grid = torch.cartesian_prod(*[points] * count).reshape(-1, count) if count > 1 else points[:, None]
    tensors = {
        n: (grid[:, i] > 0 if d.name == "bool" else grid[:, i].to(d.torch))
        for i, (n, d) in enumerate(typed.input_dtypes.items())
    }
    generator = torch.Generator().manual_seed(1)
    grads = {
        o: torch.randn(len(grid), generator=generator).to(d.torch) for o, d in typed.output_dtypes.items() if d.is_float
    }
    scalars = {s.name: 1.5 for s in typed.graph.scalars}
    mine, torchs = ours(typed, tensors, scalars, grads), theirs(typed, tensors, scalars, grads)
    assert mine.keys() == torchs.keys()
    for name, expected in torchs.items():
        assert mine[name].dtype == expected.dtype
        # Where torch's own chain of products is 0 * inf, ours may be the 0.
        settled = torch.where(expected.isnan() & (mine[name] == 0), torch.zeros_like(expected), expected)
        torch.testing.assert_close(mine[name], settled, rtol=2e-6, atol=1e-6, equal_nan=True)


SAMPLES = {
    "where": "z = where(x > y, x, y * 2)", "pow": "z = x ** y", "remainder": "z = x % y", "neg": "z = -x",
}  # fmt: skip


def differentiable() -> list[str]:
    return sorted(f for f in gradient_module._RULES if f in FUNCTIONS)


@pytest.mark.parametrize("name", differentiable())
def test_every_rule_agrees_with_torch_also_at_corners_poles_and_ties(name: str) -> None:
    arguments = ", ".join(["x", "y", "w"][: FUNCTIONS[name].arity])
    compare(SAMPLES.get(name, f"z = {name}({arguments})"))


@pytest.mark.parametrize(
    "text",
    [
        "z = x + y", "z = x - y", "z = 2 - x", "z = x * x * x", "z = x / (1 + x * x)", "z = 1 / y",
        "z = exp(x) * exp(-x)",
        "z = relu(x) * y", "z = maximum(x, 0.5)", "z = minimum(x, y) + maximum(x, y)", "z = abs(x - y)",
        "z = where(x > 0, x, 0.1 * x)", "z = where(x == y, x * y, x - y)", "z = x ** -1",
        "z = x ** 2 + x ** 3 - x ** 0",
        "z = x ** 0.5", "z = 2 ** x", "z = 0.0 ** x", "z = (-2) ** x", "t = x * y; s = t + x; d = t - y",
        "z = x; w = x", "z = float32(float16(x)) * y", "z = sqrt(abs(x)) * rsqrt(abs(y))", "z = x * (x > 0)",
    ],
)  # fmt: skip
def test_expressions_agree_with_torch(text: str) -> None:
    compare(text)


def test_runtime_scalars_are_numbers_in_the_derivative() -> None:
    compare("z = a * x + b * y / a", scalars=["a", "b"])
    compare("z = x ** a", scalars=["a"], values=[0.5, 1.0, 2.0])


def test_inputs_of_other_dtypes_get_gradients_of_their_own_dtype() -> None:
    compare("z = x * y", dtypes={"x": "float16", "y": "float32"}, values=[-2.0, 0.5, 1.0])
    compare("z = x * y", dtypes={"x": "int32", "y": "float32"}, values=[-2.0, 1.0, 3.0])
    compare("z = where(c, x, y)", dtypes={"c": "bool", "x": "float32", "y": "float32"})


def test_sums_and_copies_need_no_kernel() -> None:
    found = derive(typed_of("z = x + y"))
    assert found.typed is None
    assert [(g.input, g.kind, g.source) for g in found.inputs] == [("x", "same", "z"), ("y", "same", "z")]


def test_what_does_not_depend_on_an_input_has_zeros() -> None:
    found = derive(typed_of("z = x * 2.0", inputs=["x", "unused"]))
    assert [(g.input, g.kind) for g in found.inputs] == [("x", "kernel"), ("unused", "zero")]


def test_only_the_inputs_that_the_derivative_reads_are_saved() -> None:
    assert derive(typed_of("z = x * y + w")).saved == ("x", "y")
    assert derive(typed_of("z = exp(x) + w")).saved == ("x",)


def test_gradients_have_names_of_their_own() -> None:
    found = derive(typed_of("z = x * grad_z * x_grad"))
    assert found.gradients == (("z", "grad_z_"),)
    assert [g.source for g in found.inputs] == ["x_grad_", "grad_z_grad", "x_grad_grad"]


FAR = [-1e4, -200.0, -100.0, -90.0, -20.0, -13.0, -2.5, -0.5, 0.5, 2.5, 13.0, 20.5, 90.0, 100.0, 200.0, 1e4]


@pytest.mark.parametrize(
    ("text", "torchs"),
    [
        ("z = sigmoid(x)", torch.sigmoid),
        ("z = silu(x)", torch.nn.functional.silu),
        ("z = gelu(x)", torch.nn.functional.gelu),
        ("z = gelu_tanh(x)", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        ("z = mish(x)", torch.nn.functional.mish),
        ("z = softplus(x)", torch.nn.functional.softplus),
        ("z = elu(x)", torch.nn.functional.elu),
        ("z = selu(x)", torch.nn.functional.selu),
        ("z = celu(x)", torch.nn.functional.celu),
        ("z = logsigmoid(x)", torch.nn.functional.logsigmoid),
        ("z = hardswish(x)", torch.nn.functional.hardswish),
        ("z = softsign(x)", torch.nn.functional.softsign),
        ("z = tanhshrink(x)", torch.nn.functional.tanhshrink),
    ],
)
def test_activations_have_torchs_gradients_far_out_too(text: str, torchs: Any) -> None:
    x = torch.tensor(FAR, requires_grad=True)
    torchs(x).sum().backward()
    assert x.grad is not None
    typed = typed_of(text)
    mine = ours(typed, {"x": torch.tensor(FAR)}, {}, {"z": torch.ones(len(FAR))})["x"]
    torch.testing.assert_close(mine, x.grad, rtol=2e-5, atol=1e-6)


def test_a_branch_that_is_not_taken_has_no_part_in_the_gradient() -> None:
    typed = typed_of("z = where(x > 0, log(x), x * y)")
    x, y = torch.tensor([0.0, -1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
    mine = ours(typed, {"x": x, "y": y}, {}, {"z": torch.ones(3)})
    assert mine["x"].tolist() == [3.0, 4.0, 0.5]
    assert mine["y"].tolist() == [0.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "dtypes", "told"),
    [
        ("z = x // y", "float32", "floor_div has no derivative"),
        ("z = x * (x // y)", "float32", "floor_div has no derivative"),
        ("z = x > y", "float32", "no floating-point output"),
        ("z = x + y", "int32", "no floating-point input"),
        ("z = float32(x)", "int32", "no floating-point input"),
    ],
)
def test_what_has_no_derivative_says_why(text: str, dtypes: str, told: str) -> None:
    with pytest.raises(NotDifferentiable, match=told):
        derive(typed_of(text, dtypes))


_LEAVES = st.sampled_from(["x", "y", "0.5", "2", "-1.5"])
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("{}({})".format, st.sampled_from(["exp", "relu", "abs", "-"]), st.builds("({} / 4)".format, inner)),
        st.builds("{}({}, {})".format, st.sampled_from(["maximum", "minimum"]), inner, inner),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS)
def test_random_expressions_agree_with_torch(text: str) -> None:
    values = [-1.25, -0.5, 0.0, 0.75, 1.5]
    typed = typed_of(f"z = ({text}) * x + y * 0.0")
    compare(f"z = ({text}) * x + y * 0.0", values=values)
    assert len(typed.graph.inputs) == 2
