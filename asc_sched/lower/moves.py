"""Where every tensor's part of a tile lies in GM, and the parameters of the copy that moves it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from asc_sched.lower.form import Access, Form, Reach
from asc_sched.lower.naming import Namer
from asc_sched.lower.plan import Move
from asc_sched.tiling import DeviceFormulas
from asc_sched.tiling.rows_device import RowFormulas, literal

BLOCK_BYTES = 32


class Movement:
    """Gives each tensor its `Move`, and collects what the kernel's loops must set up for them.

    `names` are the formulas' own names as the kernel has them. `length`, `rows` and `columns` are the names of a
    tile's counts in the functions that take them, `counts` what the kernel passes for each.
    """

    def __init__(self, form: Form, formulas: DeviceFormulas, names: Mapping[str, str], namer: Namer) -> None:
        self.form = form
        self.names = names
        self.namer = namer
        self.offsets: dict[str, str] = {}  # name -> expression, in the tile loop
        self.group_offsets: dict[str, str] = {}  # in the loop around it
        self.counts: dict[str, str] = {}
        self.rows = self.columns = ""
        self._by_text: dict[str, str] = {}
        self._row = names["tile_start" if form.is_flat else "row"]
        if form.is_flat:
            self.length = self._count("length", formulas.length)
            return
        assert isinstance(formulas, RowFormulas)
        self.rows = self._count("rows", formulas.length)
        if form.cut:
            self.length = self.columns = self._count("columns", formulas.columns)
        else:
            self.length = self._length(formulas.length)

    def _count(self, wanted: str, text: str) -> str:
        """The name that functions give a count, for which the kernel passes `text`."""
        name = self.names.get(wanted) or self.namer(wanted)
        self.counts[name] = text
        return name

    def _length(self, rows: str) -> str:
        """The elements of a tile in UB, from its rows."""
        name, pitch = self.namer("length"), self.form.pitch
        if rows.isdigit():
            self.counts[name] = str(int(rows) * pitch)
        else:
            self.offsets[name] = f"{rows} * {pitch}"
            self.counts[name] = name
        return name

    def move(self, ident: str, access: Access, itemsize: int, store: bool = False) -> Move:
        """The copy of one tensor's part of a tile: from GM, or to it."""
        once = access.reach is Reach.ONCE
        terms = self._group_terms(access, columns=True) if once else self._terms(access)
        return Move(self._start(ident, " + ".join(terms), once), self._params(access, itemsize, store))

    # -- where it starts ---------------------------------------------------------------------------------------
    def _start(self, ident: str, text: str, once: bool) -> str:
        """The name of a place in GM; tensors with the same place share it."""
        if not text or text.isidentifier():
            return text
        if text not in self._by_text:
            others = self._by_text or once
            self._by_text[text] = name = self.namer(f"{ident}_start" if others else "tile_start")
            (self.group_offsets if once else self.offsets)[name] = text
        return self._by_text[text]

    def _terms(self, access: Access) -> list[str]:
        """The summands of the place of a tile's first element, each int64."""
        form = self.form
        if form.group_count == 1:
            return _scaled(self._row, access.row_stride)
        rows_go_on = all(
            step == access.row_stride * form.row_count * math.prod(form.outer[d + 1 :])
            for d, step in enumerate(access.outer)
        )
        if rows_go_on and not form.cut:
            return _scaled(self._row, access.row_stride)
        in_group = f"({self._row} - {self.names['group_start']})"
        return [*_scaled(in_group, access.row_stride), *self._group_terms(access, access.reach is not Reach.PART)]

    def _group_terms(self, access: Access, columns: bool) -> list[str]:
        """The summands that are the same for all rows of a group."""
        terms = [t for d, step in enumerate(access.outer) if step for t in _scaled(self._outer(d), step)]
        if self.form.cut and columns and access.row_length > 1:
            terms.append(self.names["column"])
        return terms

    def _outer(self, dim: int) -> str:
        """The index of one of the outer dimensions."""
        sizes, name = self.form.outer, self.names["outer" if self.form.cut else "group"]
        inner = math.prod(sizes[dim + 1 :])
        text = f"{name} // {literal(inner)}" if inner > 1 else name
        if dim:
            return f"({text} % {literal(sizes[dim])})"
        return f"({text})" if inner > 1 else text

    # -- how much ----------------------------------------------------------------------------------------------
    def _params(self, access: Access, itemsize: int, store: bool) -> str:
        """The fields of DataCopyExtParams."""
        form = self.form
        cut = form.cut and access.row_length > 1
        if access.reach is Reach.ONCE:
            return _one_block(self.columns, itemsize) if cut else f"1, {access.row_length * itemsize}, 0, 0, 0"
        if access.reach is Reach.PART:
            return _one_block(self.rows, itemsize * access.row_length)
        if form.is_flat or cut or form.pitch == form.width == access.row_stride:
            return _one_block(self.length, itemsize)
        row_bytes = form.width * itemsize
        gap = access.row_stride * itemsize - row_bytes  # in GM, bytes
        blocks = form.pitch * itemsize // BLOCK_BYTES - -(-row_bytes // BLOCK_BYTES)  # in UB, behind a row's own blocks
        source, destination = (blocks, gap) if store else (gap, blocks)
        return f"{self.rows}, {row_bytes}, {source}, {destination}, 0"


def _one_block(count: str, itemsize: int) -> str:
    return f"1, {count} * {itemsize}, 0, 0, 0" if itemsize > 1 else f"1, {count}, 0, 0, 0"


def _scaled(name: str, step: int) -> list[str]:
    return [] if step == 0 else [name if step == 1 else f"{name} * {literal(step)}"]
