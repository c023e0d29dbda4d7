"""What is asked of pyasc and what comes back, as plain immutable data."""

from __future__ import annotations

import hashlib
import json
import keyword
import sys
from collections.abc import Iterable
from typing import Any, Literal

import attrs

from asc_sched.errors import CompileError, DtypeError

#: Bumped whenever the same request may give other text than before (passes, locations, options).
LOWERING_FORMAT = 1

#: The element and scalar types that pyasc 1.1.1 can name in a kernel's signature (`asc.DataType.to_ir`).
PYASC_DTYPES = (
    "float16", "float32", "float64",
    "int1", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip

#: Options of `@asc.jit` that change the lowered text; the others only matter to the device compiler.
OPTIONS = ("insert_sync", "matmul_cube_only", "strip_loc", "verify_sync")

ConstValue = int | float | bool | str


def _is_plain_name(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if not value.isidentifier() or keyword.iskeyword(value):
        raise CompileError(f"{attribute.name} {value!r} is not a Python identifier, so pyasc can't compile it")
    if value in CPP_RESERVED:
        raise CompileError(
            f"{attribute.name} {value!r} is a reserved word of C++ and pyasc emits kernel names unchanged; "
            f"use for example {value + '_kernel'!r}"
        )


def _is_dtype(_: Any, __: attrs.Attribute[str], value: str) -> None:
    if value not in PYASC_DTYPES:
        hint = "; pass bfloat16 data as uint16" if value == "bfloat16" else ""
        raise DtypeError(f"pyasc 1.1.1 has no argument type {value!r}{hint}; it has {', '.join(PYASC_DTYPES)}")


@attrs.frozen
class ArgType:
    """The type of one run-time argument: a pointer to GM elements or a scalar, with pyasc's name of the dtype."""

    kind: Literal["pointer", "scalar"] = attrs.field(validator=attrs.validators.in_(("pointer", "scalar")))
    dtype: str = attrs.field(validator=_is_dtype)


def _arg_types(value: Iterable[ArgType]) -> tuple[ArgType, ...]:
    return tuple(value)


def _const_pairs(value: Any) -> tuple[tuple[str, ConstValue], ...]:
    pairs = value.items() if isinstance(value, dict) else value
    return tuple((str(name), const) for name, const in pairs)


def _safe_filename(_: Any, __: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None and (not value or "/" in value or "\\" in value or not value.isprintable()):
        raise CompileError(f"pseudo file name {value!r} must be a plain printable name without a folder")


@attrs.frozen(kw_only=True)
class LowerRequest:
    """One kernel to lower.

    `source` is a whole Python module (its own ``import asc``), `entry` the `@asc.jit` function in it, `arg_types` the
    types of its run-time parameters in order, `constexprs` the values of its `asc.ConstExpr` parameters. `filename` is
    the name that locations in the ASC-IR carry (default ``<entry>.py``); no file of that name is read or written.
    `options` are options of `@asc.jit` out of `OPTIONS`; they win over those of the decorator.
    """

    source: str
    entry: str = attrs.field(validator=_is_plain_name)
    arg_types: tuple[ArgType, ...] = attrs.field(converter=_arg_types)
    constexprs: tuple[tuple[str, ConstValue], ...] = attrs.field(default=(), converter=_const_pairs)
    target: str = "Ascend910B1"
    filename: str | None = attrs.field(default=None, validator=_safe_filename)
    options: tuple[tuple[str, bool], ...] = attrs.field(default=(), converter=_const_pairs)

    @options.validator
    def _known_options(self, _: Any, value: tuple[tuple[str, bool], ...]) -> None:
        unknown = sorted({name for name, _ in value} - set(OPTIONS))
        if unknown:
            raise CompileError(f"unknown option {unknown[0]!r} for kernel {self.entry!r}; known: {', '.join(OPTIONS)}")

    @property
    def pseudo_file(self) -> str:
        """The file name in the artefacts' locations."""
        return self.filename or f"{self.entry}.py"

    def message(self) -> dict[str, Any]:
        """The request as JSON-ready data, for the worker and for the cache key."""
        return {
            "source": self.source,
            "entry": self.entry,
            "arg_types": [[a.kind, a.dtype] for a in self.arg_types],
            # The type is spelt out: JSON can't tell 1.0 from 1 for every reader, and True == 1 in Python.
            "constexprs": [[name, type(value).__name__, value] for name, value in self.constexprs],
            "filename": self.pseudo_file,
            "options": [[name, value] for name, value in sorted(self.options)],
        }

    def key(self, pyasc_version: str) -> str:
        """Content key: hex SHA-256 over everything that can change the text."""
        parts = {
            **self.message(),
            "format": LOWERING_FORMAT,
            "target": self.target,
            "pyasc": pyasc_version,
            "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@attrs.frozen
class Lowered:
    """ASC-IR after pyasc's passes (with source locations), the Ascend C emitted from it, and pyasc's remarks.

    `cached` tells whether pyasc was run; it takes no part in comparisons.
    """

    asc_ir: str
    ascendc: str
    diagnostics: str = ""
    cached: bool = attrs.field(default=False, eq=False)


# ISO C++17 [lex.key] and alternative tokens; kernel names reach the emitted C++ as they are.
_CPP_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
float for friend goto if inline int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct
switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
wchar_t while xor xor_eq
"""
CPP_RESERVED = frozenset(_CPP_WORDS.split())
