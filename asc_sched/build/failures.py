"""What went wrong in a worker, in words for the person who wrote the kernel."""

from __future__ import annotations

import ast
import tokenize
from typing import Any

from asc_sched.build.worker import WorkerDied
from asc_sched.errors import CompileError, WorkerCrashError


def refusal(entry: str, file: str, source: str | None, answer: dict[str, Any]) -> CompileError:
    """The error for an answer with ``ok: false``: kernel, place, the line's text, pyasc's own reason.

    `file` is the kernel's file as named in locations, `source` its text; the fault may lie in another file.
    """
    at, line, text = answer.get("file") or file, answer.get("line"), answer.get("text")
    if text is None and source is not None and line is not None and at == file:
        lines = source.splitlines()
        text = lines[line - 1] if 0 < line <= len(lines) else None
    place = "" if line is None else f" at {at}:{line}"
    shown = f"\n    {text.strip()}" if text and text.strip() else ""
    return CompileError(f"pyasc refused kernel {entry!r}{place}: {answer.get('reason')}{shown}")


def crash(entry: str, source: str | None, died: WorkerDied) -> WorkerCrashError:
    """The error for a worker that died on a kernel."""
    said = next((line.strip() for line in reversed(died.output.splitlines()) if line.strip()), "")
    said = f"; its last words: {said}" if said else ""
    return WorkerCrashError(
        f"pyasc crashed on kernel {entry!r}: the lowering worker ended with {died}{said}{_suspects(source)}"
    )


def timeout(entry: str, time_limit_s: float, doing: str = "lower") -> WorkerCrashError:
    """The error for a kernel that took too long; the worker has been killed."""
    return WorkerCrashError(
        f"kernel {entry!r} did not {doing} within {time_limit_s:g} s and its worker was stopped; "
        "raise the limit with ASC_SCHED_LOWER_TIMEOUT (seconds) if the kernel is that large"
    )


def read_source(path: str) -> str | None:
    """A source file's text, to quote from; None when it can't be read."""
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, ValueError):
        return None


def _suspects(source: str | None) -> str:
    """Bare aliases (`last = i`) in a loop of the source: pyasc 1.1.1 is known to crash on those."""
    try:
        tree = ast.parse(source or "")
    except (SyntaxError, ValueError, RecursionError):
        return ""
    lines = sorted(
        {
            (node.lineno, ast.unparse(node))
            for loop in ast.walk(tree)
            if isinstance(loop, (ast.For, ast.While))
            for node in loop.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        }
    )
    if not lines:
        return ""
    found = ", ".join(f"line {line} `{text}`" for line, text in lines[:3])
    return f"; pyasc 1.1.1 crashes on a bare alias inside a loop, and the source has {found}"
