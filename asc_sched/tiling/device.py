"""A tiling's arithmetic as a kernel computes it: short expressions in pyasc's subset of Python.

The rules that the expressions keep (each a trap of pyasc 1.1.1): an int64 value stands on the left of every operator
whose result must be int64, since the left operand's dtype wins; no value is carried from one turn of the loop to the
next; int64 constants are `asc.number`s; both arms of `a if c else b` have one dtype; loop bounds are int32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from asc_sched.errors import ScheduleError
from asc_sched.schedule import CORE_SPLITS, MAX_TILE
from asc_sched.tiling.symbolic import Alignment
from asc_sched.tiling.types import Tiling

_INT32_MAX = 2**31 - 1


@attrs.frozen(kw_only=True)
class DeviceFormulas:
    """What a kernel computes to find its tiles, as (name, expression) pairs in order.

    - `arguments`: the kernel's scalar arguments, (name, dtype); none for a static kernel.
    - `setup`: before the loop. Defines what the rest uses, such as `block_start` (int64).
    - `tile_count`: the loop's bound, ``for tile in range(<tile_count>)``; a number or a name of `setup` (int32).
    - `loop`: inside, from `tile`: always `tile_start` (int64, elements), and `length` where tiles differ.
    - `length`: elements of this tile (int32): a number where all tiles are alike, else a name.

    ``single`` says that every core has exactly one tile, so that the loop may be left out (with `tile` unused).
    """

    arguments: tuple[tuple[str, str], ...]
    setup: tuple[tuple[str, str], ...]
    tile_count: str
    loop: tuple[tuple[str, str], ...]
    length: str

    @property
    def single(self) -> bool:
        return self.tile_count == "1"

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the formulas define or take, which a kernel's own names must avoid."""
        defined = [name for name, _ in (*self.arguments, *self.setup, *self.loop)]
        return (*defined, "tile")

    def renamed(self, names: Mapping[str, str]) -> DeviceFormulas:
        """The same formulas with some of their names changed, for a kernel that has an argument `length`, say."""
        names = {name: names[name] for name in self.names if name in names}
        if len({names.get(name, name) for name in self.names}) < len(self.names):
            raise ValueError(f"renaming {names} gives two names of {', '.join(self.names)} the same name")
        pattern = re.compile(r"(?<![\w.])[A-Za-z_]\w*")

        def new(text: str) -> str:
            return pattern.sub(lambda m: names.get(m.group(), m.group()), text)

        def pairs(items: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
            return tuple((new(name), new(text)) for name, text in items)

        return DeviceFormulas(
            arguments=tuple((new(name), dtype) for name, dtype in self.arguments),
            setup=pairs(self.setup),
            tile_count=new(self.tile_count),
            loop=pairs(self.loop),
            length=new(self.length),
        )


def _int64(value: int | str) -> str:
    return f"asc.number({value}, asc.int64)"


# -- static: every size is baked in ----------------------------------------------------------------------------------
def static_formulas(tiling: Tiling) -> DeviceFormulas:
    """For a kernel of this very tiling: constants only, and only the branches that some core or tile takes."""
    if tiling.core_num == 0:
        raise ScheduleError("a total_length of 0 launches nothing, so there is no kernel to write")
    lengths = [tiling.block(core)[1] for core in range(tiling.core_num)]
    narrow = tiling.total_length + tiling.tile_length <= _INT32_MAX
    setup: list[tuple[str, str]] = []
    if tiling.core_num > 1:
        setup.append(("block_idx", "asc.get_block_idx()"))
        setup.append(("block_start", _static_block_start(tiling)))
    uniform = len(set(lengths)) == 1
    if not uniform:
        setup.append(("block_length", _static_block_length(tiling, lengths, narrow)))
    return _static_tiles(tiling, lengths, setup, narrow)


def _static_block_start(tiling: Tiling) -> str:
    """The first `extra` cores have one unit more than the others."""
    unit, base, extra = tiling.unit_length, tiling.base_units, tiling.extra_units
    if extra == 0 or extra >= tiling.core_num - 1:
        return f"{_int64(unit * (base + (extra > 0)))} * block_idx"
    return f"{_int64(unit * base)} * block_idx + {unit} * (block_idx if block_idx < {extra} else {extra})"


def _static_block_length(tiling: Tiling, lengths: list[int], narrow: bool) -> str:
    """One number for each run of equal blocks: at most three, the longer, the shorter, and the last."""
    text, last = "", tiling.core_num - 1
    for core in range(last):
        if lengths[core] != lengths[core + 1]:
            length = lengths[core] if narrow else _int64(lengths[core])
            text += f"{length} if block_idx < {core + 1} else "
    return text + str(lengths[last] if narrow else _int64(lengths[last]))


def _static_tiles(tiling: Tiling, lengths: list[int], setup: list[tuple[str, str]], narrow: bool) -> DeviceFormulas:
    """The loop, with a tile's length as a number where all are alike and the tail before the loop where they aren't."""
    tile_length = tiling.tile_length
    counts = {-(-length // tile_length) for length in lengths}
    tails = {length - tile_length * (-(-length // tile_length) - 1) for length in lengths}
    tile_count = str(counts.pop()) if len(counts) == 1 else "tile_count"
    if tile_count == "tile_count":
        cast = "" if narrow else ".cast(asc.int32)"
        setup.append(("tile_count", f"asc.ceildiv(block_length, {tile_length}){cast}"))
    loop = [("tile_start", _tile_start(tiling.core_num > 1, tile_count, _int64(tile_length)))]

    if len(tails) == 1:
        tail = str(tails.pop())
    elif tile_count == "1" and narrow:
        tail = "block_length"
    else:
        tail = "tail"
        setup.append(("tail", _static_tail(tile_length, tile_count, narrow)))
    if tail == str(tile_length) or tile_count == "1":
        return _formulas(setup, tile_count, loop, tail)
    last = "tile_count - 1" if tile_count == "tile_count" else str(int(tile_count) - 1)
    loop.append(("length", f"{tile_length} if tile < {last} else {tail}"))
    return _formulas(setup, tile_count, loop, "length")


def _static_tail(tile_length: int, tile_count: str, narrow: bool) -> str:
    """What the full tiles leave of the block."""
    if tile_count == "tile_count":
        before = f"{tile_length if narrow else _int64(tile_length)} * (tile_count - 1)"
    else:
        full = tile_length * (int(tile_count) - 1)
        before = str(full) if narrow else _int64(full)
    return f"block_length - {before}" if narrow else f"(block_length - {before}).cast(asc.int32)"


def _tile_start(has_block: bool, tile_count: str, stride: str) -> str:
    if tile_count == "1":
        return "block_start" if has_block else _int64(0)
    return f"block_start + {stride} * tile" if has_block else f"{stride} * tile"


def _formulas(
    setup: list[tuple[str, str]],
    tile_count: str,
    loop: list[tuple[str, str]],
    length: str,
    arguments: tuple[tuple[str, str], ...] = (),
) -> DeviceFormulas:
    return DeviceFormulas(
        arguments=arguments, setup=tuple(setup), tile_count=tile_count, loop=tuple(loop), length=length
    )


# -- dynamic: total_length is an argument ----------------------------------------------------------------------------
def dynamic_formulas(core_split: str, align: Alignment, tile_length: int | None = None) -> DeviceFormulas:
    """For a kernel of any size: `total_length` is an int64 argument, the cores are those that were launched.

    `tile_length` is baked in, or with None an int32 argument. The launch must use the cores of a resolved tiling
    (`Tiling.core_num`, all with work); the kernel finds the same blocks from their number, and so serves every
    core_num: the split over the launched cores is the split over the requested ones, less those without work.
    """
    if core_split not in CORE_SPLITS:
        raise ScheduleError(f"core_split={core_split!r} is unknown: allowed is {' or '.join(map(repr, CORE_SPLITS))}")
    if tile_length is not None and not 0 < tile_length <= MAX_TILE:
        raise ScheduleError(f"tile_length={tile_length} is out of range: allowed is 1 to {MAX_TILE}")
    arguments = [("total_length", "int64")]
    setup = [("block_idx", "asc.get_block_idx()"), ("block_num", "asc.get_block_num()")]
    setup += _dynamic_even(align) if core_split == "even" else _dynamic_ceil(align)
    if tile_length is None:
        arguments.append(("tile_length", "int32"))
        setup.append(("tile_stride", "tile_length.cast(asc.int64)"))
        length, stride = "tile_length", "tile_stride"
    else:
        length, stride = str(tile_length), _int64(tile_length)
    setup += [
        ("tile_count", f"asc.ceildiv(block_length, {length}).cast(asc.int32)"),
        ("tail", f"(block_length - {stride} * (tile_count - 1)).cast(asc.int32)"),
    ]
    loop = [
        ("tile_start", f"block_start + {stride} * tile"),
        ("length", f"{length} if tile < tile_count - 1 else tail"),
    ]
    return _formulas(setup, "tile_count", loop, "length", tuple(arguments))


def _dynamic_even(align: Alignment) -> list[tuple[str, str]]:
    line, datablock = align.line_length, align.datablock_length
    return [
        (
            "unit_length",
            f"{_int64(line)} if asc.ceildiv(total_length, {line}) >= block_num else {_int64(datablock)}",
        ),
        ("units", "asc.ceildiv(total_length, unit_length)"),
        ("base_units", "units // block_num"),
        ("extra_units", "units % block_num"),
        ("longer_blocks", "block_idx.cast(asc.int64) if extra_units > block_idx else extra_units"),
        ("block_start", "unit_length * (base_units * block_idx + longer_blocks)"),
        ("block_units", "base_units + 1 if extra_units > block_idx else base_units"),
        (
            "block_length",
            "unit_length * block_units if block_idx < block_num - 1 else total_length - block_start",
        ),
    ]


def _dynamic_ceil(align: Alignment) -> list[tuple[str, str]]:
    datablock = align.datablock_length
    return [
        ("units", f"asc.ceildiv(total_length, {datablock})"),
        ("full_length", f"{_int64(datablock)} * asc.ceildiv(units, block_num)"),
        ("block_start", "full_length * block_idx"),
        ("block_length", "full_length if block_idx < block_num - 1 else total_length - block_start"),
    ]
