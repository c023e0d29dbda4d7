"""The form of a kernel's tiles: which dimension its rows run along, how wide they are, how each tensor fills them.

A tile is some rows of `width` elements (`pitch` in UB). For tensors that are one run of memory a row is one element:
the flat form. Else one dimension of the geometry is the rows', the dimensions inside of it make up a row, and those
outside of it are walked group by group.
"""

from __future__ import annotations

import enum
import math

import attrs

from asc_sched.lower.geometry import Geometry, Ints, compact_strides

MIN_ROW_BYTES = 64
"""Rows shorter than this, each at an address of its own in GM, cost the copy engine more than a copy made before."""
PADDED_WIDTH = 512
"""Rows of at least so many elements, off the 32-byte grid, are padded in UB where a value per row is spread over them:
Gather takes 0.19 cycles per element (msKPP), a store of such a row up to about 200 cycles more (ATT)."""
MAX_GAP_BYTES = 2**32 - 1
"""The stride fields of DataCopyExtParams are uint32."""


class Reach(enum.Enum):
    """Which elements of a tensor a tile needs."""

    FULL = "full"  # an element of its own at every place
    ONCE = "once"  # the same for all rows: read before the rows' loop
    PART = "part"  # other elements in every row, but not one for every column


@attrs.frozen
class Access:
    """How one tensor fills a tile. `outer` and `row_stride` are strides in elements; `row_length` what a row needs.

    `dims` are the tile's dimensions in which the tensor varies: 0 is the rows', the others lie within a row.
    """

    reach: Reach
    outer: Ints
    row_stride: int
    row_length: int
    dims: frozenset[int]


@attrs.frozen
class Form:
    """Tiles of rows over a geometry.

    `outer`: sizes of the dimensions outside; `row_count`: rows of one group; `inner`: sizes of the dimensions within
    a row, `width` elements in all. Rows are cut into column tiles of `column_tile` elements (`width` if they aren't
    cut); a row takes `pitch` elements in UB. `dense`: a tile of whole rows is one run of memory in every full tensor.
    `single`: a tile is never more than one row.
    """

    geometry: Geometry
    outer: Ints
    row_count: int
    inner: Ints
    column_tile: int
    pitch: int
    dense: bool
    single: bool
    accesses: tuple[Access, ...]

    @property
    def width(self) -> int:
        return math.prod(self.inner)

    @property
    def is_flat(self) -> bool:
        """Rows of one element: the whole space is one run of memory."""
        return not self.inner

    @property
    def column_count(self) -> int:
        """Column tiles of a row."""
        return -(-self.width // self.column_tile)

    @property
    def group_count(self) -> int:
        """Runs of rows with column tile and outer dimensions fixed."""
        return math.prod(self.outer) * self.column_count

    @property
    def cut(self) -> bool:
        """Whether rows are cut into column tiles."""
        return self.column_tile < self.width

    def with_columns(self, column_tile: int) -> Form:
        """The same form in tiles of one row, or of a part of one."""
        return attrs.evolve(self, column_tile=column_tile, pitch=column_tile, dense=True, single=True)


@attrs.frozen
class Misfit:
    """A tensor that no tile can address as it lies. `expand`: even copied together it doesn't fit, so it must be
    copied to an element for every place."""

    tensor: int
    expand: bool = False


def choose_form(geometry: Geometry, itemsizes: Ints, wanted_length: int) -> Form | tuple[Misfit, ...]:
    """The form for tiles of about `wanted_length` elements, or the tensors that must be copied first."""
    if geometry.rank == 1 or geometry.total_length == 0:
        strided = tuple(Misfit(i) for i, s in enumerate(geometry.strides) if s[-1] > 1)
        return strided or _form(geometry, 0, itemsizes)
    full = [i for i in range(len(geometry.strides)) if geometry.is_full(i)]
    scattered = tuple(Misfit(i) for i in full if geometry.strides[i][-1] != 1)
    if scattered:
        return scattered
    row_dim = _row_dimension(geometry, full, wanted_length)
    misfits = tuple(_misfits(geometry, row_dim, full, itemsizes))
    return misfits or _form(geometry, row_dim, itemsizes)


def _row_dimension(geometry: Geometry, full: list[int], wanted_length: int) -> int:
    """The innermost dimension whose rows fill more than a tile: short of that, the outermost one that can be."""
    first = _dense_from(geometry, full)
    sizes = geometry.sizes
    for dim in range(geometry.rank - 2, first - 1, -1):
        if math.prod(sizes[dim:]) > wanted_length:
            return dim
    return max(first - 1, 0)


def _dense_from(geometry: Geometry, full: list[int]) -> int:
    """The outermost dimension from which inwards every full tensor is one run of memory."""
    dim = geometry.rank - 1
    while dim > 0 and all(_follows(geometry, i, dim - 1) for i in full):
        dim -= 1
    return dim


def _follows(geometry: Geometry, tensor: int, dim: int) -> bool:
    """Whether a tensor's dimension steps from one run of the next dimension to the one right behind it."""
    steps = geometry.strides[tensor]
    return steps[dim] == steps[dim + 1] * geometry.sizes[dim + 1]


def _misfits(geometry: Geometry, row_dim: int, full: list[int], itemsizes: Ints) -> list[Misfit]:
    found = []
    width = math.prod(geometry.sizes[row_dim + 1 :])
    padded = any(geometry.strides[i][row_dim] != width for i in full) and width % (32 // min(itemsizes))
    for i, steps in enumerate(geometry.strides):
        gap = (steps[row_dim] - width) * itemsizes[i]
        inner = (geometry.sizes[row_dim + 1 :], steps[row_dim + 1 :])
        if i in full:
            strided = gap != 0
            if gap < 0 or gap > MAX_GAP_BYTES or (strided and width * itemsizes[i] < MIN_ROW_BYTES):
                found.append(Misfit(i))
        elif compact_strides(*inner) != inner[1]:
            found.append(Misfit(i))
        else:
            length = math.prod(n for n, s in zip(*inner, strict=True) if s)
            if steps[row_dim] and length < width and steps[row_dim] != length:
                found.append(Misfit(i))  # every row has elements of its own, and they don't lie together
            elif padded and 1 < length < width:
                found.append(Misfit(i, expand=True))  # neither one value per row nor a whole row
    return found


def _form(geometry: Geometry, row_dim: int, itemsizes: Ints) -> Form:
    sizes = geometry.sizes
    inner = sizes[row_dim + 1 :]
    width = math.prod(inner)
    accesses = tuple(_access(geometry, i, row_dim) for i in range(len(geometry.strides)))
    block = 32 // min(itemsizes)
    padded = (
        width % block != 0
        and width >= PADDED_WIDTH
        and any(a.reach is Reach.PART for a in accesses)
        and all(a.row_length in (1, width) for a in accesses)
    )
    dense = not padded and all(a.row_stride == width for a in accesses if a.reach is Reach.FULL)
    pitch = width if dense else -(-width // block) * block
    return Form(
        geometry=geometry,
        outer=sizes[:row_dim],
        row_count=sizes[row_dim],
        inner=inner,
        column_tile=width,
        pitch=pitch,
        dense=dense,
        single=False,
        accesses=accesses,
    )


def _access(geometry: Geometry, tensor: int, row_dim: int) -> Access:
    steps = geometry.strides[tensor]
    own = [d for d in range(row_dim + 1, geometry.rank) if steps[d]]
    length = math.prod(geometry.sizes[d] for d in own)
    dims = frozenset(d - row_dim for d in own) | (frozenset({0}) if steps[row_dim] else frozenset())
    if not steps[row_dim]:
        reach = Reach.ONCE
    elif len(own) == geometry.rank - row_dim - 1:
        reach = Reach.FULL
    else:
        reach = Reach.PART
    return Access(reach, steps[:row_dim], steps[row_dim], length, dims)
