"""Names of a library's operators, kernels and files: readable, capped, and never two things under one."""

from __future__ import annotations

import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from asc_sched.errors import LibraryError
from asc_sched.lower.naming import identifier
from asc_sched.schedule import Schedule

#: A symbol's most characters: pyasc and C++ take it as it is, device functions add a few, file systems a suffix.
MAX_SYMBOL = 90
_HASH = 12
_LIBRARY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MAX_LIBRARY_NAME = 64

#: Names that a package can't have beside what it imports, and operator namespaces of torch's own.
_TAKEN_PACKAGES = frozenset(
    """asc asc_sched numpy torch torch_npu sys os json test tests site builtins typing aten prim prims inductor
    c10d quantized profiler higher_order mkldnn xla""".split()
)
#: Attributes that every namespace ``torch.ops.<library>`` has of its own.
_TAKEN_OPS = frozenset({"name", "load_library", "loaded_libraries", "import_module"})


def check_library_name(name: object) -> str:
    """The name of a package, of its folder, and of its operators' namespace. Raises `LibraryError`."""
    if not isinstance(name, str) or not name:
        raise LibraryError(f"name={name!r}: a library's name must be a text such as 'mylib'")
    usable = _usable(name)
    if usable != name:
        raise LibraryError(
            f"name={name!r} can't name a Python package: it takes ASCII letters, digits and _, no digit first, no "
            f"reserved word, and at most {MAX_LIBRARY_NAME} characters; nearest valid: name={usable!r}"
        )
    if name.casefold() in _TAKEN_PACKAGES:
        raise LibraryError(f"name={name!r} is the name of something that a library needs itself; try {name + '_ops'!r}")
    return name


def _usable(name: str) -> str:
    usable = identifier(name)
    if not _LIBRARY.match(usable) or keyword.iskeyword(usable):
        usable = f"{usable}_"
    return usable[:MAX_LIBRARY_NAME]


def torch_name(name: str) -> str:
    """The operator's name under ``torch.ops.<library>``: the op's, made an identifier of ASCII, long ones hashed."""
    usable = capped(identifier(name), name, MAX_SYMBOL)
    if keyword.iskeyword(usable) or usable in _TAKEN_OPS or usable.startswith("__"):
        usable = f"op_{usable}"
    return usable


def capped(text: str, whole: str, limit: int) -> str:
    """`text`, or its beginning and a hash of `whole` where it is longer than `limit`."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - _HASH - 1].rstrip('_')}_{hashlib.sha256(whole.encode()).hexdigest()[:_HASH]}"


def schedule_label(schedule: str | Schedule) -> str:
    """``auto``, ``tuned``, or a short hash of a fixed schedule's fields."""
    if isinstance(schedule, str):
        return schedule
    fields = ",".join(f"{k}={v}" for k, v in sorted(schedule.to_dict().items()))
    return f"s{hashlib.sha256(fields.encode()).hexdigest()[:8]}"


def shape_label(shape: tuple[int, ...] | None) -> str:
    """``any`` for a kernel of any size, ``8192x8192``, ``0d`` for a single element without dimensions."""
    if shape is None:
        return "any"
    return "x".join(map(str, shape)) if shape else "0d"


def symbol(
    op: str, dtypes: Sequence[str], shape: tuple[int, ...] | None, schedule: str | Schedule, target: str
) -> str:
    """A kernel's name in pyasc and C++, and its files': all that tells it from others, in a fixed order."""
    kinds = dtypes[0] if len(set(dtypes)) == 1 else "_".join(dtypes)
    parts = (op, kinds, shape_label(shape), schedule_label(schedule), target)
    return capped(identifier("_".join(parts)), repr(parts), MAX_SYMBOL)


def check_operators(names: Iterable[tuple[str, str]]) -> None:
    """`names` are pairs of an operator's name and where it comes from. Raises `LibraryError` naming a clashing pair.

    Two operators clash when their names become one identifier, whatever they are made of.
    """
    seen: dict[str, tuple[str, str]] = {}
    for name, origin in names:
        usable = torch_name(name)
        if usable in seen:
            other, other_origin = seen[usable]
            raise LibraryError(
                f"operators {other!r} ({other_origin}) and {name!r} ({origin}) would both be called {usable!r}; "
                "give one of them another name"
            )
        seen[usable] = (name, origin)


def spread(symbols: Sequence[str], identities: Sequence[str]) -> list[str]:
    """`symbols`, with a hash of the identity added to those that differ in case only or not at all.

    The result doesn't depend on the order: every member of such a group gets its hash.
    """
    groups = Counter(s.casefold() for s in symbols)
    result = [
        s if groups[s.casefold()] == 1 else f"{s}_{hashlib.sha256(i.encode()).hexdigest()[:_HASH]}"
        for s, i in zip(symbols, identities, strict=True)
    ]
    twice = [s for s, count in Counter(r.casefold() for r in result).items() if count > 1]
    if twice:
        raise LibraryError(f"two kernels of the library are the same: {', '.join(sorted(twice))}")
    return result
