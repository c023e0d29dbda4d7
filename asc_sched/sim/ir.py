"""ASC-IR as frozen data: what `parse` makes of the MLIR text that pyasc's passes leave behind.

Values are numbered densely within a function (`Op.operands` and `Op.results` are those numbers), so that an
interpreter can keep them in a list. Types stay MLIR's own text; `element` reads the element type out of one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import attrs

from asc_sched.sim.stream import Loc

UNKNOWN_LOC = Loc("<unknown>", 0)

Attr: TypeAlias = "int | float | bool | str | tuple[int, ...] | tuple[str, ...]"

_ELEMENT = re.compile(r"<(?:(?:\*|\?|\d+)x)*(\w+)")


@attrs.frozen
class Block:
    """A region's only block: its arguments (value numbers) and its operations in order."""

    args: tuple[int, ...]
    ops: tuple[Op, ...]


@attrs.frozen
class Op:
    """One operation.

    `words` are the bare keywords of its printed form (``slt``, ``mte2_v``, ``vecin``), `types` the types after the
    colon in printed order (operands first, results last, as far as the form prints them).
    """

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[str, ...]
    attrs: Mapping[str, Attr]
    words: tuple[str, ...]
    regions: tuple[Block, ...]
    loc: Loc


@attrs.frozen
class Arg:
    """A function argument: source name, MLIR type, value number. `kind` is ``explicit`` for the caller's own."""

    name: str
    type: str
    kind: str
    value: int

    @property
    def is_pointer(self) -> bool:
        """Whether the argument is a GM address (an array of the caller's)."""
        return self.type.startswith("memref")


@attrs.frozen(eq=False)  # by identity: the interpreter caches what it compiles from a function
class Func:
    """One function: `values` is how many SSA values its body numbers."""

    name: str
    args: tuple[Arg, ...]
    body: Block
    values: int
    is_kernel: bool
    loc: Loc

    @property
    def explicit_args(self) -> tuple[Arg, ...]:
        """The arguments that a caller passes, in order (without pyasc's own, such as ``ffts_addr``)."""
        return tuple(a for a in self.args if a.kind == "explicit")


@attrs.frozen
class Module:
    """All functions of one compiled kernel."""

    funcs: tuple[Func, ...]

    def kernel(self, entry: str | None = None) -> Func:
        """The kernel function of that name, or the only one. Raises `KeyError` listing the names there are."""
        kernels = [f for f in self.funcs if f.is_kernel]
        if entry is None and len(kernels) == 1:
            return kernels[0]
        for func in kernels:
            if func.name == entry:
                return func
        raise KeyError(f"no kernel {entry!r}" if entry else f"{len(kernels)} kernels: {[f.name for f in kernels]}")


def walk(block: Block) -> Iterator[Op]:
    """Every operation of a block, outer before inner, in printed order."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


@functools.lru_cache(maxsize=4096)
def element(type_text: str) -> str:
    """The element type of a tensor or memref type (`f32` of `!ascendc.local_tensor<*xf32>`), else the type itself."""
    m = _ELEMENT.search(type_text)
    return m.group(1) if m and type_text[:1] in "!m<" else type_text
