"""The operators as torch sees them: layout, tracing, gradients, registration."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from asc_sched.library import build
from tests.library.programs import environment

OPCHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")

LAYOUTS = {
    "contiguous": lambda: torch.randn(3, 5),
    "transposed": lambda: torch.randn(4, 3).t(),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "empty": lambda: torch.randn(0, 3),
    "0-d": lambda: torch.randn(()),
    "strided": lambda: torch.randn(6, 4)[::2, 1:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck_passes_for_every_layout(tiny: Any, layout: str) -> None:
    x = LAYOUTS[layout]().requires_grad_()
    result = torch.library.opcheck(torch.ops.tinylib.square.default, (x,))
    assert result == dict.fromkeys(OPCHECKS, "SUCCESS")


def test_opcheck_passes_with_scalars_broadcasting_and_several_outputs(tiny: Any) -> None:
    x, y = torch.randn(4, 1, requires_grad=True), torch.randn(3, requires_grad=True)
    for op, args, kwargs in (
        (torch.ops.tinylib.scaled.default, (x,), {"a": 2.5}),
        (torch.ops.tinylib.pair.default, (x, y), {}),
        (torch.ops.tinylib.choose.default, (torch.tensor([True, False, True]), x, y), {}),
    ):
        assert set(torch.library.opcheck(op, args, kwargs).values()) == {"SUCCESS"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_have_torchs_values_shapes_and_strides(tiny: Any, layout: str) -> None:
    x = LAYOUTS[layout]()
    result, expected = tiny.square(x), torch.square(x)
    assert torch.equal(result, expected)
    assert result.stride() == expected.stride()
    if x.dim():
        y = torch.randn(x.shape[-1])
        result, expected = tiny.product(x, y), x * y
        assert torch.equal(result, expected)
        assert result.stride() == expected.stride()


def test_results_are_tensors_of_their_own(tiny: Any) -> None:
    x = torch.randn(5)
    assert tiny.copied(x).data_ptr() != x.data_ptr()
    assert torch.equal(tiny.copied(x), x)
    s, d = tiny.pair(x, x)
    assert len({s.data_ptr(), d.data_ptr(), x.data_ptr()}) == 3


def test_views_leave_their_neighbours_alone(tiny: Any) -> None:
    base = torch.arange(64, dtype=torch.float16)
    before = base.clone()
    for view in (base[1:], base[::2], base.view(8, 8).t(), base[:1].expand(5)):
        assert torch.equal(tiny.square(view), view * view)
    assert torch.equal(base, before)


def test_scalars_are_keywords_rounded_to_their_dtype_with_their_defaults(tiny: Any) -> None:
    x = torch.tensor([1.0, 2.0])
    assert tiny.scaled(x).tolist() == [1.5, 2.5]
    assert tiny.scaled(x, a=0.1, b=0.0).tolist() == (x * torch.tensor(0.1)).tolist()
    with pytest.raises(RuntimeError, match="scaled"):
        tiny.scaled(x, c=1.0)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda t: t.product(torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)),
         r"product was not built for \(float64, float64\); it was built for: float16, float16; float32, float32"),
        (lambda t: t.product(torch.ones(2), torch.ones(2).half()), r"was not built for \(float32, float16\)"),
        (lambda t: t.mixed(torch.ones(2).half(), torch.ones(())), "a 0-d tensor weighs less"),
        (lambda t: t.product(torch.ones(2), torch.ones(3)), "must match|not broadcastable|broadcast"),
    ],
)  # fmt: skip
def test_what_was_not_built_is_told_with_what_was(tiny: Any, call: Any, told: str) -> None:
    with pytest.raises((TypeError, RuntimeError, ValueError), match=told):
        call(tiny)


# -- traced --------------------------------------------------------------------------------------------------------
def test_a_compiled_function_has_no_graph_breaks_and_few_recompilations(tiny: Any) -> None:
    graphs: list[Any] = []

    def counting(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.tinylib.scaled(torch.ops.tinylib.product(x, y) + 1, a=2.0).sum(0)

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counting)
    for rows in (3, 5, 8, 13, 21):
        x, y = torch.randn(rows, 4), torch.randn(4)
        torch.testing.assert_close(compiled(x, y), function(x, y))
    assert len(graphs) <= 2


def test_compiled_gradients_are_those_of_eager(tiny: Any) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.tinylib.product(torch.ops.tinylib.square(x), y)

    x = torch.randn(4, 3).t().requires_grad_()
    y = torch.randn(4, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for run in (compiled, function):
        run(x, y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    torch.testing.assert_close(x.grad, 2 * (2 * x * y).detach())
    torch.testing.assert_close(y.grad, 2 * (x * x).sum(0).detach())


@pytest.mark.nightly
def test_inductor_compiles_what_is_around_the_operators(tiny: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tinylib.square(x.t() * 2).t() + 1

    torch._dynamo.reset()
    x = torch.randn(6, 5).t()
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(x), function(x))


def test_export_keeps_the_operator_with_a_dynamic_size(tiny: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.tinylib.square(x) + 1

    rows = torch.export.Dim("rows")
    exported = torch.export.export(Model(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: rows}})
    assert any("tinylib.square" in str(n.target) for n in exported.graph.nodes)
    x = torch.randn(7, 4)
    torch.testing.assert_close(exported.module()(x), x * x + 1)


def test_fake_tensors_give_fake_results_and_run_nothing(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    operators = sys.modules["tinylib._runtime.operators"]

    def refuse(*_: object) -> None:
        raise AssertionError("a kernel was launched for tensors without data")

    monkeypatch.setattr(operators, "run", refuse)
    with FakeTensorMode():
        result = torch.ops.tinylib.positive(torch.empty(3, 4).t())
    assert (result.shape, result.stride(), result.dtype) == ((4, 3), (1, 4), torch.bool)
    meta = torch.ops.tinylib.product(torch.empty(3, 1, device="meta"), torch.empty(4, device="meta"))
    assert (meta.shape, meta.device.type) == ((3, 4), "meta")


# -- gradients -----------------------------------------------------------------------------------------------------
def test_gradients_may_have_any_strides(tiny: Any) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    square = tiny.square
    (torch.cat([square(x), square(x)], 1) * torch.arange(8.0).view(2, 4)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[4, 16], [60, 96]]
    y = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    square(y).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [2, 4, 6]


@pytest.mark.parametrize("name", ["product", "square", "scaled", "pair", "choose", "copied"])
def test_gradients_are_torchs_for_broadcast_and_transposed_inputs(tiny: Any, name: str) -> None:
    torchs: dict[str, Any] = {
        "product": lambda x, y: x * y, "square": lambda x: x * x, "scaled": lambda x: 1.0 * x + 0.5,
        "pair": lambda x, y: (x + y, x - y), "choose": lambda x, y: torch.where(y > 0, x, y),
        "copied": lambda x: x.clone(),
    }  # fmt: skip
    run = {n: getattr(tiny, n) for n in torchs} | {"choose": lambda x, y: tiny.choose(y > 0, x, y)}
    results = []
    for function in (run[name], torchs[name]):
        torch.manual_seed(0)
        leaves = [torch.randn(4, 3).t().requires_grad_(), torch.randn(4, requires_grad=True)]
        leaves = leaves[: function.__code__.co_argcount] if hasattr(function, "__code__") else leaves
        leaves = leaves[:1] if name in ("square", "scaled", "copied") else leaves
        outputs = function(*leaves)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        sum(((i + 2) * o * o).sum() for i, o in enumerate(outputs)).backward()
        results.append([leaf.grad for leaf in leaves])
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected)


def test_gradients_are_computed_for_the_inputs_that_want_one(tiny: Any) -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    tiny.product(x, y).sum().backward()
    assert torch.equal(x.grad, y)  # type: ignore[arg-type]
    assert y.grad is None
    number, other = torch.tensor([2, 3], dtype=torch.int32), torch.randn(2, requires_grad=True)
    tiny.mixed(number, other).sum().backward()
    assert other.grad is not None
    assert other.grad.tolist() == [2.0, 3.0]


def test_half_gradients_are_rounded_once(tiny: Any) -> None:
    x = torch.randn(65).half().requires_grad_()
    g = torch.randn(65).half()
    tiny.square(x).backward(g)
    assert x.grad is not None
    gx = g.float() * x.detach().float()
    assert torch.equal(x.grad, (gx + gx).half())


def test_an_operator_without_a_derivative_raises_torchs_own_error_in_backward(tiny: Any) -> None:
    x = torch.randn(3, requires_grad=True)
    result = tiny.halved(x)
    with pytest.raises(RuntimeError, match=r"no autograd formula was registered for \(float32\): floor_div has no der"):
        result.sum().backward()
    with torch.no_grad():
        assert not tiny.halved(x).requires_grad
    assert tiny.halved(torch.tensor([7, -7], dtype=torch.int32)).tolist() == [3, -4]
    assert not tiny.positive(x).requires_grad


def test_second_derivatives_are_refused_not_wrong(tiny: Any) -> None:
    x = torch.randn(3, requires_grad=True)
    (first,) = torch.autograd.grad(tiny.square(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        first.sum().backward()


# -- registration --------------------------------------------------------------------------------------------------
def test_loading_again_and_in_a_forked_child_is_fine(tiny: Any) -> None:
    before = tiny.square
    again = importlib.reload(tiny)
    assert again.square(torch.tensor([3.0])).tolist() == [9.0]
    assert again._library is tiny._library
    assert before(torch.tensor([3.0])).tolist() == [9.0]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            importlib.reload(tiny)
            os.write(write, bytes([int(tiny.square(torch.tensor([3.0])).item())]))
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 1) == b"\t"
    os.close(read)
    os.waitpid(child, 0)


CLASH = """
import importlib, sys, torch
{before}
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    for name in [n for n in sys.modules if n.partition(".")[0] == "clash"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    import clash
    print(clash.f(torch.tensor([3.0])).tolist())
"""


def run_clash(*folders: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CLASH.format(before=before), *map(str, folders)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)


def test_two_libraries_with_one_operator_are_an_error_that_names_both(tmp_path: Path) -> None:
    for name, expr in (("one", "z = x + 1"), ("two", "z = x + 2"), ("three", "z = x + 1")):
        spec = {"name": "clash", "ops": [{"name": "f", "expr": expr}], "gradients": False}
        assert build(spec, tmp_path / name).ok
    done = run_clash(tmp_path / "one", tmp_path / "three", tmp_path / "two")
    assert done.stdout.splitlines() == ["[4.0]", "[4.0]"]  # the same library from another folder is no clash
    last = done.stderr.splitlines()[-1]
    assert "two libraries define torch.ops.clash.f" in last
    assert str(tmp_path / "one" / "clash") in last
    assert str(tmp_path / "two" / "clash") in last


def test_an_operator_that_something_else_has_defined_is_an_error(tmp_path: Path) -> None:
    spec = {"name": "clash", "ops": [{"name": "f", "expr": "z = x + 1"}], "gradients": False}
    assert build(spec, tmp_path / "one").ok
    other = 'torch.library.custom_op("clash::f", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")'
    done = run_clash(tmp_path / "one", before=other)
    assert "torch.ops.clash.f is defined already, by something else" in done.stderr.splitlines()[-1]
