"""Which rows each core has, and which cores do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import attrs

from asc_sched.lower.form import Form
from asc_sched.tiling import Tiling


@attrs.frozen
class Block:
    """What a core does: rows of its first group if that is begun elsewhere, whole groups, rows of its last one."""

    start: int
    head: int
    whole: int
    tail: int

    @property
    def groups(self) -> int:
        return self.whole + bool(self.head) + bool(self.tail)


class Blocks:
    """The blocks of all cores: `split` deals out the rows of all groups, `row_count` each; `tile_rows` are a tile."""

    def __init__(self, form: Form, split: Tiling, row_count: int, tile_rows: int) -> None:
        self.form = form
        self.split = split
        self.row_count = row_count
        self.tile_rows = tile_rows

    @cached_property
    def every(self) -> list[Block]:
        """Each core's part."""
        return [self._block(*self.split.block(core)) for core in range(self.split.core_num)]

    def _block(self, start: int, length: int) -> Block:
        stop, rows = start + length, self.row_count
        if start // rows == (stop - 1) // rows and length < rows:
            return Block(start, length, 0, 0)
        head, tail = -start % rows, stop % rows
        return Block(start, head, (length - head - tail) // rows, tail)

    @cached_property
    def kind_count(self) -> int:
        """How many kinds of cores there are that do exactly the same."""
        return len({self._key(block) for block in self.every})

    def runs(self) -> Iterator[tuple[int, int]]:
        """Runs of cores side by side that do the same: the first, and how many."""
        first = 0
        for core in range(1, len(self.every) + 1):
            if core == len(self.every) or self._key(self.every[core]) != self._key(self.every[first]):
                yield first, core - first
                first = core

    def kinds(self, most: int) -> list[list[int]]:
        """The cores by kind, at most `most`: those that do the same, or where these are too many, those with as many
        tiles and groups of rows, ending alike or not. What is left goes with the largest kind."""
        keys: tuple[Callable[[Block], tuple[int, ...]], ...] = (
            self._key,
            lambda b: (self._tiles(b), b.groups, self._ends(b)[1]),
            lambda b: (self._tiles(b), b.groups),
        )
        for key in keys:
            found: dict[tuple[int, ...], list[int]] = {}
            for core, block in enumerate(self.every):
                found.setdefault(key(block), []).append(core)
            if len(found) <= most:
                break
        kinds = sorted(found, reverse=True)
        for kind in kinds[most:]:
            found[kinds[0]] += found[kind]
        return [found[kind] for kind in kinds[:most]]

    def busiest(self, cores: Sequence[int]) -> int:
        """The one of some cores that has most to do."""

        def work(core: int) -> tuple[int, int, int, int]:
            block = self.every[core]
            return self._tiles(block), block.groups, sum(self._ends(block)), -core

        return max(cores, key=work)

    def _key(self, block: Block) -> tuple[int, ...]:
        column = block.start // self.row_count % self.form.column_count if self.form.cut else 0
        return (block.head, block.whole, block.tail, column)

    def _tiles(self, block: Block) -> int:
        tile = self.tile_rows
        return -(-block.head // tile) + block.whole * -(-self.row_count // tile) + -(-block.tail // tile)

    def _ends(self, block: Block) -> tuple[int, int]:
        """Rows of a core's first and last tile, which nothing overlaps."""
        tile, whole = self.tile_rows, self.row_count if block.whole else 0
        first, last = block.head or whole or block.tail, block.tail or whole or block.head
        return min(first, tile), (last - 1) % tile + 1
