"""``manifest.json``: everything about a built library as data, one line per kernel; and its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from asc_sched.library.plan import Operator, Plan, Variant, scalar_to_json
from asc_sched.library.toolchain import digest, toolchain
from asc_sched.schedule import Schedule

#: Bumped whenever a reader of older manifests would misunderstand a new one; the runtime checks it.
FORMAT = "asc_sched library 1"


@cache
def schema_text() -> str:
    """The JSON schema of the manifest, as text."""
    return resources.files("asc_sched.library").joinpath("manifest.schema.json").read_text(encoding="utf-8")


def manifest_text(plan: Plan, records: Mapping[str, str], failed: Mapping[str, str]) -> str:
    """The manifest of a build: `records` are its kernels' parts by symbol (JSON), `failed` messages by symbol."""
    library = plan.library
    order = {symbol: _order(json.loads(text)) for symbol, text in records.items()}
    graphs: dict[str, Any] = {}
    operators = {o.torch_name: _operator(o, order, failed, graphs) for o in plan.operators}
    chain = toolchain()
    head = {
        "format": FORMAT,
        "name": library.name,
        "version": library.version,
        "description": library.description,
        "generator": {"asc_sched": chain["asc_sched"], "code": chain["code"], "pyasc": chain["pyasc"]},
        "targets": sorted({k.target for k in plan.kernels}),
        "skipped": [{"op": o, "inputs": list(d), "reason": r} for o, d, r in plan.skipped],
        "failed": [{"kernel": s, "reason": r} for s, r in sorted(failed.items())],
        "tilings": _tilings(order),
    }
    fields = [f"{_text(k)}: {_text(v)}" for k, v in head.items()]
    fields.append(_block("graphs", {k: _text(v) for k, v in sorted(graphs.items())}))
    fields.append(_block("operators", {k: _text(v) for k, v in sorted(operators.items())}))
    fields.append(_block("kernels", {k: records[k] for k in sorted(records)}))
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _order(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a kernel is listed by: simpler schedules first; and what else is needed of its record."""
    return (Schedule.from_dict(record["schedule"]["fields"]).sort_key, record["symbol"], record["tiling"])


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _block(name: str, lines: Mapping[str, str]) -> str:
    body = ",\n".join(f"{_text(k)}: {v}" for k, v in lines.items())
    return f"{_text(name)}: {{\n{body}\n}}"


def record_text(record: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
    """A kernel's part of the manifest, on one line."""
    return _text({**record, "files": files})


def _operator(
    operator: Operator, order: Mapping[str, Any], failed: Mapping[str, str], graphs: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": operator.name,
        "doc": operator.doc,
        "internal": operator.internal,
        "expression": list(operator.expression),
        "schema": operator.schema,
        "inputs": [{"name": n, "argument": a} for n, a in operator.inputs],
        "scalars": [scalar_to_json(s, a) for s, a in operator.scalars],
        "outputs": list(operator.outputs),
        "variants": [_variant(v, order, failed, graphs) for v in operator.variants],
    }


def _variant(
    variant: Variant, order: Mapping[str, Any], failed: Mapping[str, str], graphs: dict[str, Any]
) -> dict[str, Any]:
    key = digest(variant.typed.graph)[:16]
    graphs[key] = variant.typed.graph
    built = sorted((k.symbol for k in variant.kernels if k.symbol in order), key=lambda s: order[s][:2])
    gradient = variant.gradient
    return {
        "inputs": list(variant.typed.inputs),
        "outputs": list(variant.typed.outputs),
        "graph": key,
        "kernels": built,
        "missing": [f"{k.symbol}: {failed[k.symbol]}" for k in variant.kernels if k.symbol in failed],
        "gradient": None
        if gradient is None
        else {
            "operator": variant.gradient_operator,
            "saved": list(gradient.saved),
            "gradients": [output for output, _ in gradient.gradients],
            "inputs": [{"input": i, "kind": k, "source": s} for i, k, s in gradient.inputs],
        },
        "no_gradient": variant.no_gradient,
    }


def _tilings(order: Mapping[str, Any]) -> dict[str, Any]:
    """The formulas that the kernels' tilings refer to, as people read them."""
    from asc_sched.tiling.exact import to_text, unwrap

    result = {}
    for key, tiling in sorted({t["formulas"]: t for _, _, t in order.values()}.items()):
        found = formulas(tiling)
        result[key] = {
            "inputs": list(found.inputs),
            "formulas": {n: unwrap(to_text(e)) for n, e in found.formulas.items()},
            "on_each_core": {n: unwrap(to_text(e)) for n, e in found.core_formulas.items()},
        }
    return result


def formulas(tiling: Mapping[str, Any]) -> Any:
    """The symbolic tiling of a kernel's record."""
    from asc_sched.tiling import Alignment, symbolic_tiling

    align = Alignment(tiling["line_length"], tiling["datablock_length"])
    return symbolic_tiling(tiling["core_split"], align, "tile_length")
