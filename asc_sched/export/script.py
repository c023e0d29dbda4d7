"""A kernel as a stand-alone pyasc script: kernel, launch function, ``-r``/``-v`` arguments, check against torch."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any

from asc_sched.errors import ShapeError
from asc_sched.export.render import render, snake
from asc_sched.export.torch_text import torch_lines
from asc_sched.lang.dtypes import DType
from asc_sched.run.check import TOLERANCE_ULP
from asc_sched.run.measure import contiguous_layout

if TYPE_CHECKING:
    from asc_sched.kernel import Kernel


def export_script(kernel: Kernel) -> str:
    """The script's text: it needs pyasc and torch, nothing else. `kernel` needs its source only (`generate`).

    Raises `ShapeError` for a kernel of any size, or of no element (which launches nothing).
    """
    if kernel.shapes is None:
        raise ShapeError(f"{kernel.name} takes any size; a script is written for one: give a shape")
    if kernel.shapes.total_length == 0:
        raise ShapeError(f"shape {kernel.shapes.output} has no element, so there is no kernel to export")
    plan, layout = kernel.plan, contiguous_layout(kernel)
    copied = layout.arrangement.copied
    names = {t.name: t.ident for t in plan.inputs} | {s.name: s.ident for s in plan.scalars}
    names |= {s.name: _unused(s.name, names) for s in kernel.op.scalars if s.name not in names}
    statements, results = torch_lines(kernel.typed, names)
    scalars = [_scalar(s.name, names[s.name], kernel) for s in kernel.op.scalars]
    sizes = [f"{_carrier(d)}({n})" for (_, d), n in zip(plan.formulas.arguments, layout.sizes, strict=True)]
    arguments = [*(t.ident for t in plan.inputs), *(names[s.name] for s in kernel.op.scalars)]
    return render(
        "script.py.j2",
        kernel=kernel,
        base=_base(kernel.op.name),
        expression=str(kernel.op).splitlines(),
        schedule=repr(kernel.schedule),
        device_code=_device_code(kernel.source),
        shape=kernel.shapes.output,
        core_num=layout.core_num,
        inputs=[
            _input(t.ident, t.dtype, shape, i in copied and layout.arrangement.is_expanded(i))
            for i, (t, shape) in enumerate(zip(plan.inputs, kernel.shapes.inputs, strict=True))
        ],
        sizes=sizes,
        outputs=[{"ident": t.ident, "torch": str(t.dtype), "view": _view(t.dtype)} for t in plan.outputs],
        scalars=scalars,
        arguments=", ".join(arguments),
        passed=", ".join([*(f"{t.ident}.to(device)" for t in plan.inputs), *arguments[len(plan.inputs) :]]),
        uses_numpy=any(s["pass"].startswith("np.") for s in scalars) or any(s.startswith("np.") for s in sizes),
        statements=statements,
        results=results,
        tolerances=_tolerances([t.dtype for t in plan.outputs]),
    )


def _base(name: str) -> str:
    """What the script's functions are named after."""
    text = snake("".join(c if c.isascii() else "_" for c in name))
    return text if text.isidentifier() and not keyword.iskeyword(text) else f"op_{text}".rstrip("_")


def _unused(name: str, names: dict[str, str]) -> str:
    """A scalar that the kernel doesn't use has no argument in it."""
    text = re.sub(r"\W", "_", name)
    while text in names.values():
        text += "_"
    return text


def _device_code(source: str) -> str:
    """The kernel's functions, without the module's docstring and import."""
    _, found, code = source.partition("\nimport asc\n")
    assert found, "a kernel's source begins with its docstring and `import asc`"
    return code.strip("\n")


def _input(ident: str, dtype: DType, shape: tuple[int, ...], expanded: bool) -> dict[str, Any]:
    return {
        "ident": ident, "torch": str(dtype), "shape": shape, "expanded": expanded, "random": _random(dtype),
        "view": _view(dtype),
    }  # fmt: skip


def _carrier(dtype: str) -> str:
    """How pyasc is told a scalar's type: Python's int and float are int32 and float32."""
    return {"float32": "float", "int32": "int"}.get(dtype, f"np.{dtype}")


def _random(dtype: DType) -> str:
    """As `run.check.random_inputs` makes them."""
    if dtype.is_float:
        return "torch.randn({shape}, generator=generator).to({dtype})"
    if dtype.name == "bool":
        return "torch.randint(0, 2, {shape}, generator=generator).bool()"
    low = 0 if dtype.name == "uint8" else -100
    return f"torch.randint({low}, 100, {{shape}}, generator=generator).to({{dtype}})"


def _view(dtype: DType) -> str:
    """pyasc has no bfloat16 and no bool pointers: their memory is passed as another type."""
    return "" if dtype.asc == dtype.name else f".view(torch.{dtype.asc})"


def _scalar(name: str, ident: str, kernel: Kernel) -> dict[str, Any]:
    """A runtime scalar: its value in the check, and how it is passed to the kernel ('' where the kernel has no use
    for it)."""
    declared = kernel.op.graph.scalar(name)
    value = (1.5 if declared.dtype.is_float else 2) if declared.default is None else declared.default
    carrier = next((s.carrier for s in kernel.plan.scalars if s.name == name), "")
    return {"ident": ident, "value": repr(value), "pass": _carrier(carrier) if carrier else ""}


def _tolerances(dtypes: list[DType]) -> list[tuple[str, int]]:
    """Units in the last place that a result may be off by, per floating-point dtype."""
    return [(name, ulp) for name, ulp in TOLERANCE_ULP.items() if any(d.name == name for d in dtypes)]
