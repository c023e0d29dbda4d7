"""What is known about an op on given dtypes before any size or schedule: types, results, derivative.

It takes torch to find out, which takes seconds to import; so answers are kept as plain data, and a build that finds
them all doesn't need torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from asc_sched.errors import DtypeError
from asc_sched.lang.graph import Graph
from asc_sched.library.graphs import graph_to_json, types_to_json
from asc_sched.library.toolchain import digest, toolchain

if TYPE_CHECKING:
    from asc_sched.build.cache import Cache


@attrs.frozen
class TypedData:
    """A typed graph as JSON data: `inputs` and `outputs` are dtype names, in order."""

    graph: Mapping[str, Any]
    types: Sequence[Sequence[Any]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.graph["outputs"])


@attrs.frozen
class GradientData:
    """`asc_sched.library.gradient.Gradient` as data; `inputs` are (input, kind, source)."""

    typed: TypedData | None
    saved: tuple[str, ...]
    gradients: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, str, str], ...]


@attrs.frozen
class Analysis:
    """An op on given dtypes. `refused` is torch's reason where it isn't defined; then `forward` is None."""

    forward: TypedData | None
    gradient: GradientData | None = None
    no_gradient: str = ""
    refused: str = ""


def input_dtypes(graph: Graph, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """The dtype of each input: as given, or one for all, where inputs that only choose between others are bool."""
    if len(dtypes) == len(graph.inputs) and len(dtypes) > 1:
        return dtypes
    conditions = _conditions(graph)
    return tuple("bool" if n in conditions else dtypes[0] for n in graph.inputs)


def _conditions(graph: Graph) -> set[str]:
    """Inputs used as the condition of `where` and as nothing else."""
    uses: dict[str, set[bool]] = {}
    for node in graph.nodes:
        for position, arg in enumerate(node.args):
            if graph.nodes[arg].fn == "input":
                uses.setdefault(str(graph.nodes[arg].attr), set()).add(node.fn == "where" and position == 0)
    return {name for name, kinds in uses.items() if kinds == {True}}


class Analyst:
    """Analyses ops.

    `known` holds earlier answers by key, `cache` those of other builds; `used` collects all that were asked for.
    """

    def __init__(self, known: Mapping[str, Any] | None = None, cache: Cache | None = None) -> None:
        self.known: dict[str, Any] = dict(known or {})
        self.used: dict[str, Any] = {}
        self._cache = cache

    def analyse(self, graph: Graph, dtypes: tuple[str, ...], *, gradient: bool) -> Analysis:
        """The analysis of `graph` with one dtype per input."""
        data = graph_to_json(graph)
        chain = {k: toolchain()[k] for k in ("code", "torch")}
        key = digest({"graph": data, "dtypes": dtypes, "gradient": gradient, **chain})
        answer = self.used.get(key) or self.known.get(key)
        if answer is None:
            answer = self._from_cache(key) or self._to_cache(key, _analyse(graph, dtypes, gradient))
        self.used[key] = answer
        return _analysis(answer)

    def _from_cache(self, key: str) -> dict[str, Any] | None:
        texts = None if self._cache is None else self._cache.get(digest(["analysis", key]))
        return json.loads(texts["analysis"]) if texts and "analysis" in texts else None

    def _to_cache(self, key: str, answer: dict[str, Any]) -> dict[str, Any]:
        if self._cache is not None:
            self._cache.put(digest(["analysis", key]), {"analysis": json.dumps(answer)})
        return answer


def _analyse(graph: Graph, dtypes: tuple[str, ...], gradient: bool) -> dict[str, Any]:
    from asc_sched.lang.dtypes import DTYPES
    from asc_sched.lang.infer import infer
    from asc_sched.library.gradient import try_derive

    try:
        typed = infer(graph, {n: DTYPES[d] for n, d in zip(graph.inputs, dtypes, strict=True)})
    except DtypeError as error:
        return {"refused": str(error)}
    answer: dict[str, Any] = {"forward": _typed(typed), "gradient": None, "no_gradient": "gradients are turned off"}
    if gradient:
        found, reason = try_derive(typed)
        answer["no_gradient"] = reason
        if found is not None:
            answer["gradient"] = {
                "typed": None if found.typed is None else _typed(found.typed),
                "saved": list(found.saved),
                "gradients": [list(g) for g in found.gradients],
                "inputs": [[g.input, g.kind, g.source] for g in found.inputs],
            }
    return answer


def _typed(typed: Any) -> dict[str, Any]:
    return {
        "graph": graph_to_json(typed.graph),
        "types": types_to_json(typed),
        "inputs": [d.name for d in typed.input_dtypes.values()],
        "outputs": [d.name for d in typed.output_dtypes.values()],
    }


def _analysis(answer: Mapping[str, Any]) -> Analysis:
    if "refused" in answer:
        return Analysis(None, refused=answer["refused"])
    found = answer["gradient"]
    gradient = None
    if found is not None:
        gradient = GradientData(
            None if found["typed"] is None else _typed_data(found["typed"]),
            tuple(found["saved"]),
            tuple((o, g) for o, g in found["gradients"]),
            tuple((i, k, s) for i, k, s in found["inputs"]),
        )
    return Analysis(_typed_data(answer["forward"]), gradient, answer["no_gradient"])


def _typed_data(data: Mapping[str, Any]) -> TypedData:
    return TypedData(data["graph"], data["types"], tuple(data["inputs"]), tuple(data["outputs"]))
