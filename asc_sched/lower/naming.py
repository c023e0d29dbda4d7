"""Names for generated code: valid in pyasc and in the C++ it emits, unique, and as close to the user's as can be."""

from __future__ import annotations

import hashlib
import keyword
import re

# Parameter names that pyasc takes for its own options (fields of CodegenOptions, CompileOptions, LaunchOptions).
_PYASC_OPTIONS = frozenset(
    """always_compile auto_sync auto_sync_log bisheng_options capture_exceptions core_num debug insert_sync
    ir_multithreading kernel_type matmul_cube_only opt_level print_ir_before_all run_passes stream strip_loc
    verify_sync""".split()
)
# C and C++ words: pyasc emits a kernel's name as it is.
_CPP = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto half if inline int long
    main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq""".split()
)
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
    return keyword.iskeyword(name) or name in _CPP or name in _PYASC_OPTIONS or name == "asc"


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
