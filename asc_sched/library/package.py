"""The files of a library's Python package beside its kernels: written by templates from the plan and the manifest."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import jinja2

from asc_sched.emit.environment import templates
from asc_sched.lang.functions import FUNCTIONS
from asc_sched.library.manifest import formulas, manifest_text, schema_text
from asc_sched.library.plan import Operator, Plan
from asc_sched.library.toolchain import toolchain

#: What a kernel's files are called, by what `produce` calls them.
SUFFIXES = {"source": ".py", "ascendc": ".cpp", "asc_ir": ".mlir"}
#: The same, as the manifest calls them.
FILE_NAMES = {"source": "pyasc", "ascendc": "ascendc", "asc_ir": "asc_ir"}


class _OperatorText:
    """An operator in the forms that the templates print."""

    def __init__(self, operator: Operator, built: set[str]) -> None:
        self.torch_name = operator.torch_name
        self.internal = operator.internal
        self.schema = operator.schema
        self.expression = operator.expression
        self.docstring = _docstring([*([operator.doc.strip()] if operator.doc.strip() else []), *operator.expression])
        self.stub_arguments = _stub_arguments(operator)
        count = len(operator.outputs)
        self.stub_result = "Tensor" if count == 1 else f"builtins.tuple[{', '.join(['Tensor'] * count)}]"
        served = [v for v in operator.variants if any(k.symbol in built for k in v.kernels)]
        self.dtypes = [_kinds(v.typed.inputs) for v in served]
        with_gradient = [_kinds(v.typed.inputs) for v in served if v.gradient is not None]
        self.gradients = "yes" if with_gradient == self.dtypes else ", ".join(with_gradient) or "no"
        dtypes = (served or operator.variants)[0].typed.inputs
        self.call = ", ".join([*map(_sample, dtypes), *(f"{a}=1" for s, a in operator.scalars if s.default is None)])


def _sample(dtype: str) -> str:
    """A tensor for an example."""
    if dtype in ("float32", "float16", "bfloat16"):
        return "torch.rand(3, 5)" if dtype == "float32" else f"torch.rand(3, 5).to(torch.{dtype})"
    return f"torch.ones(3, 5, dtype=torch.{dtype})"


def _kinds(inputs: Sequence[str]) -> str:
    return inputs[0] if len(set(inputs)) == 1 else " x ".join(inputs)


def _stub_arguments(operator: Operator) -> str:
    tensors = [f"{a}: Tensor" for _, a in operator.inputs]
    scalars = []
    for scalar, argument in operator.scalars:
        kind = "float" if scalar.dtype.is_float else "bool" if scalar.dtype.name == "bool" else "int"
        scalars.append(f"{argument}: builtins.{kind}" + ("" if scalar.default is None else " = ..."))
    scalars.sort(key=lambda s: s.endswith("= ..."))
    return ", ".join([*tensors, *(["*"] if scalars else []), *scalars])


def _docstring(lines: Sequence[str]) -> str:
    """Any text as the inside of a triple-quoted string."""
    clean = ["".join(c if c.isprintable() else " " for c in line) for text in lines for line in text.splitlines()]
    text = "\n    ".join(w for line in clean for w in (textwrap.wrap(line, 108) or [""]))
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _cell(text: str) -> str:
    """Any text as code in a cell of a table in Markdown."""
    short = " ".join(text.split())
    short = short if len(short) <= 120 else f"{short[:117]}..."
    return "`" + short.replace("|", "\\|").replace("`", "'") + "`"


def _toml(text: str) -> str:
    """Any text as a string in TOML, on one line."""
    return json.dumps(" ".join("".join(c if c.isprintable() else " " for c in text).split()), ensure_ascii=False)


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    environment = templates("asc_sched.library")
    environment.filters |= {"cell": _cell, "toml": _toml}
    return environment


def runtime_files() -> dict[str, bytes]:
    """The modules of `asc_sched.library.runtime`, which every library carries along."""
    folder = resources.files("asc_sched.library").joinpath("runtime")
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir(), key=lambda p: p.name) if p.name.endswith(".py")}


def package_files(plan: Plan, records: Mapping[str, str], failed: Mapping[str, str]) -> dict[str, bytes]:
    """All files of the package but its kernels', by path; the manifest comes last.

    `records` are the built kernels' parts of the manifest by symbol, `failed` the others' reasons.
    """
    name = plan.library.name
    manifest = manifest_text(plan, records, failed).encode("utf-8")
    values = _values(plan, records, hashlib.sha256(manifest).hexdigest())

    def render(template: str) -> bytes:
        return _templates().get_template(f"{template}.j2").render(**values).encode("utf-8")

    files = {
        "pyproject.toml": render("pyproject.toml"),
        "README.md": render("README.md"),
        f"tests/test_{name}.py": render("test_library.py"),
        f"{name}/__init__.py": render("init.py"),
        f"{name}/__init__.pyi": render("init.pyi"),
        f"{name}/_tiling.py": render("tiling.py"),
        f"{name}/py.typed": b"",
        f"{name}/manifest.schema.json": schema_text().encode("utf-8"),
    }
    files |= {f"{name}/_runtime/{file}": data for file, data in runtime_files().items()}
    return files | {f"{name}/manifest.json": manifest}


def _values(plan: Plan, records: Mapping[str, str], manifest_sha256: str) -> dict[str, Any]:
    library = plan.library
    operators = [_OperatorText(o, set(records)) for o in plan.operators]
    summary = library.description or f"{library.name}: elementwise operators for Ascend NPUs."
    used = {n[0] for o in plan.operators for v in o.variants for n in v.typed.graph["nodes"]}
    return {
        "name": library.name,
        "version": library.version,
        "description": summary,
        "summary": _docstring([" ".join(summary.split())]),
        "generator": toolchain(),
        "targets": sorted({k.target for k in plan.kernels}),
        "operators": operators,
        "example": next(o for o in operators if not o.internal),
        "skipped": plan.skipped,
        "kernel_count": len(records),
        "manifest_sha256": manifest_sha256,
        "tilings": _tilings(records),
        "functions": {f: _function(f) for f in sorted(used) if f in FUNCTIONS},
    }


def _function(name: str) -> tuple[str, dict[str, str], bool, bool]:
    """What the package's tests must know of a function to call it: torch's name for it, and how it takes arguments."""
    function = FUNCTIONS[name]
    return function.torch_name, dict(function.keywords), function.tensors_only, function.own_dtype


def _tilings(records: Mapping[str, str]) -> list[dict[str, Any]]:
    """The formulas of the cores that have work, as Python, one function for each kind of split."""
    from asc_sched.tiling.exact import to_python, unwrap

    found: dict[str, Any] = {}
    for text in records.values():
        tiling = json.loads(text)["tiling"]
        found.setdefault(tiling["formulas"], tiling)
    result = []
    for key, tiling in sorted(found.items()):
        expressions = formulas(tiling).formulas
        needed = list(expressions)[: list(expressions).index("used_cores") + 1]
        result.append({"key": key, "python": [(n, unwrap(to_python(expressions[n]))) for n in needed]})
    return result
