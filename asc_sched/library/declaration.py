"""A library's declaration from a file: TOML, which is only read, or Python, which is run because it is the user's."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asc_sched import toml
from asc_sched.errors import AscSchedError, LibraryError
from asc_sched.files import storage_error
from asc_sched.library.spec import Library

#: A declaration is written by hand; one that is larger is something else.
MAX_DECLARATION_BYTES = 4 << 20


def load(source: str | os.PathLike[str] | Mapping[str, Any] | Library) -> Library:
    """The library that a ``.toml`` or ``.py`` file, or a table of the same fields, declares.

    A Python file is executed, and the one `Library` among its global names is taken. Raises `LibraryError`, and
    `StorageError` for a file that can't be read.
    """
    if isinstance(source, Library):
        return source
    if isinstance(source, Mapping):
        return Library.from_dict(source)
    path = Path(source)
    if path.suffix == ".py":
        return _from_python(path)
    if path.suffix != ".toml":
        raise LibraryError(f"{path}: a library is declared in a .toml or a .py file")
    try:
        return Library.from_dict(_read_toml(path))
    except LibraryError as error:
        raise LibraryError(_placed(path, error)) from None


def _placed(path: Path, error: Exception) -> str:
    text = str(error)
    return text if text.startswith(str(path)) else f"{path}: {text}"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DECLARATION_BYTES + 1)
    except OSError as error:
        raise storage_error(error, "read", path) from None
    if len(data) > MAX_DECLARATION_BYTES:
        raise LibraryError(f"{path}: longer than {MAX_DECLARATION_BYTES} bytes, which no declaration is")
    try:
        fields: dict[str, Any] = toml.loads(data.decode("utf-8"))
        return fields
    except UnicodeDecodeError as error:
        raise LibraryError(f"{path}: not UTF-8 (byte {error.start}), which TOML is") from None
    except toml.TOMLDecodeError as error:
        raise LibraryError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise LibraryError(f"{path}: nested too deeply") from None


def _from_python(path: Path) -> Library:
    if not path.is_file():
        raise LibraryError(f"{path}: there is no such file")
    folder = str(path.absolute().parent)
    sys.path.insert(0, folder)  # as `python mylib.py` would, for the user's own modules beside it
    try:
        names = runpy.run_path(str(path))
    except AscSchedError as error:
        raise LibraryError(f"{path}{_line(error, path)}: {error}") from error
    except Exception as error:
        raise LibraryError(f"{path}{_line(error, path)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    found = {id(v): n for n, v in names.items() if isinstance(v, Library)}
    if len(found) != 1:
        has = f"it has {len(found)} ({', '.join(sorted(found.values()))})" if found else "it has none"
        raise LibraryError(f"{path}: one global name must be a Library (asc_sched.library.Library(...)); {has}")
    return next(v for v in names.values() if isinstance(v, Library))


def _line(error: BaseException, path: Path) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f":{lines[-1]}" if lines else ""
