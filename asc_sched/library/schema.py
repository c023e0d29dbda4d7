"""Checking JSON data against a JSON schema: the keywords that ``manifest.schema.json`` uses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from asc_sched.errors import LibraryError

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
_KNOWN = frozenset(
    """$schema title description type properties required additionalProperties items minItems maxItems minimum pattern
    enum const anyOf""".split()
)


def validate(value: Any, schema: Mapping[str, Any], where: str = "manifest") -> None:
    """Raises `LibraryError` with the place of the first thing that doesn't fit."""
    for problem in problems(value, schema, where):
        raise LibraryError(problem)


def problems(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    """What doesn't fit, one text each."""
    unknown = schema.keys() - _KNOWN
    if unknown:
        raise ValueError(f"the schema at {where} has keywords that aren't checked: {', '.join(sorted(unknown))}")
    if "anyOf" in schema:
        if not any(_fits(value, s, where) for s in schema["anyOf"]):
            yield f"{where} is {_show(value)}, which fits none of the {len(schema['anyOf'])} forms that it may have"
        return
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{where} is {_show(value)}, not of the type {_words(schema['type'])}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where} is {_show(value)}, not {_show(schema['const'])}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {_show(value)}, none of {', '.join(map(str, schema['enum']))}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where} is {_show(value)}, below {schema['minimum']}"
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        yield f"{where} is {_show(value)}, which doesn't match {schema['pattern']}"
    if isinstance(value, dict):
        yield from _object(value, schema, where)
    if isinstance(value, list):
        yield from _array(value, schema, where)


def _fits(value: Any, schema: Mapping[str, Any], where: str) -> bool:
    return next(problems(value, schema, where), None) is None


def _object(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} has no {name!r}"
    for name, item in value.items():
        if name in properties:
            yield from problems(item, properties[name], f"{where}.{name}")
        elif isinstance(others, Mapping):
            yield from problems(item, others, f"{where}.{name}")
        elif not others:
            yield f"{where} has an unknown field {name!r}"


def _array(value: list[Any], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{where} has {len(value)} items"
    for i, item in enumerate(value):
        yield from problems(item, schema.get("items", {}), f"{where}[{i}]")


def _is(value: Any, kind: str | list[str]) -> bool:
    if isinstance(kind, list):
        return any(_is(value, k) for k in kind)
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _words(kind: str | list[str]) -> str:
    return kind if isinstance(kind, str) else " or ".join(kind)


def _show(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
