"""Where pyasc gets a function's source from: this module instead of `inspect`. Runs inside a worker process only.

`inspect` needs a file on disk, and pyasc has it tokenised twice and parsed again. A module given as text is parsed
already, and its functions' nodes are handed over as they are.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from asc.codegen.function import Function, FunctionLocation

_DEF = re.compile(r"^def\s+\w+\s*\(", re.MULTILINE)
_pyasc_lines, _pyasc_node = Function.get_source_lines, Function.get_function_node


class _Text(NamedTuple):
    """A module that exists as text only: its lines, and its top-level functions by first line (decorators included)."""

    lines: list[str]
    functions: dict[int, ast.FunctionDef]


_texts: dict[str, _Text] = {}


def register(filename: str, source: str, tree: ast.Module) -> None:
    """Make pyasc find the functions of a module that is going to be executed under the pseudo name `filename`."""
    functions = {
        min([node.lineno, *(d.lineno for d in node.decorator_list)]): node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    _texts[filename] = _Text(source.splitlines(keepends=True), functions)


def forget(filename: str) -> None:
    """Undo `register`."""
    _texts.pop(filename, None)


def _known(fn: Any) -> tuple[_Text, ast.FunctionDef, int] | None:
    code = getattr(fn, "__code__", None)
    if code is None or code.co_filename not in _texts:
        return None
    text, first = _texts[code.co_filename], code.co_firstlineno
    return (text, text.functions[first], first) if first in text.functions else None


def _lines(fn: Any) -> Any:
    known = _known(fn)
    if known is None:
        return _pyasc_lines(fn)
    text, node, first = known
    return text.lines[first - 1 : node.end_lineno], first


def _node(fn: Any) -> Any:
    known = _known(fn)
    return _pyasc_node(fn) if known is None else known[1]


def _location(fn: Any) -> Any:
    """The file's name without folders (artefacts hold no paths of this machine), and what to add to a node's line.

    Nodes of text modules have their lines in the file. Those that pyasc parses count from `def`; pyasc then adds the
    decorator's first line and is off by its further lines, which is put right here.
    """
    name = Path(fn.__code__.co_filename).name
    if _known(fn) is not None:
        return FunctionLocation(name, 0)
    found = _pyasc_lines(fn)
    if found is None:
        return FunctionLocation(name, fn.__code__.co_firstlineno)
    text = textwrap.dedent("".join(found[0]))
    start = _DEF.search(text)
    return FunctionLocation(name, found[1] - 1 + (text[: start.start()].count("\n") if start else 0))


Function.get_source_lines = staticmethod(_lines)
Function.get_function_node = staticmethod(_node)
Function.get_location = staticmethod(_location)
