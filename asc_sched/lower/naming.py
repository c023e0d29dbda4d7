"""Names for generated code: valid in pyasc and in the C++ it emits, unique, and as close to the user's as can be."""

from __future__ import annotations

import hashlib
import keyword
import re

from asc_sched.build.request import CPP_RESERVED

# Parameter names that pyasc takes for its own options (fields of CodegenOptions, CompileOptions, LaunchOptions).
_PYASC_OPTIONS = frozenset(
    """always_compile auto_sync auto_sync_log bisheng_options capture_exceptions core_num debug insert_sync
    ir_multithreading kernel_type matmul_cube_only opt_level print_ir_before_all run_passes stream strip_loc
    verify_sync""".split()
)
# What generated code itself calls.
_CALLED = frozenset({"asc", "float", "range"})
MAX_NAME = 96


def identifier(text: str) -> str:
    """`text` as an ASCII identifier: other characters become ``_`` or their code point, long names end in a hash."""
    ascii_text = "".join(c if c.isascii() else f"u{ord(c):x}" for c in text)
    name = re.sub(r"\W", "_", ascii_text)
    if not name or not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = f"{name[: MAX_NAME - 13]}_{digest}"
    return name


def is_reserved(name: str) -> bool:
    """Whether pyasc or C++ gives the name a meaning of its own."""
    return keyword.iskeyword(name) or name in CPP_RESERVED or name in _PYASC_OPTIONS or name in _CALLED


class Namer:
    """Hands out names, each once."""

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)

    def __call__(self, wanted: str) -> str:
        base = identifier(wanted)
        name = f"{base}_" if is_reserved(base) else base
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
