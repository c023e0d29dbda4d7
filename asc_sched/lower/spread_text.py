"""The statements of the steps that spread values over a tile (`Spread`), for a tile of a given number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from asc_sched.lower.spaces import Spread

MAX_REPEATS = 120
"""Repeats of one instruction: pyasc takes constants up to 127."""
BLOCK_BYTES, REPEAT_BYTES = 32, 256


@attrs.frozen
class Operands:
    """What a step's text is made of: local tensors by name, element size, rows of a tile, elements that the step
    makes in all (`whole`), and elements of this tile as a name (`length`)."""

    dst: str
    srcs: tuple[str, ...]
    bits: int
    rows: int
    whole: int
    length: str

    @property
    def block(self) -> int:
        """Elements of a 32-byte block."""
        return BLOCK_BYTES * 8 // self.bits


def spread_statements(step: Spread, on: Operands) -> list[str]:
    """The pyasc statements of a step."""
    return _WRITERS[step.kind](on, step.numbers)


def _at(tensor: str, start: int) -> str:
    return f"{tensor}[{start}:]" if start else tensor


def _doubled(
    tensor: str, ready: int, whole: int, statement: Callable[[str, str, int], str], block: int = 1
) -> list[str]:
    """`tensor` filled up to `whole` elements by copying the `ready` first ones behind themselves again and again."""
    lines = []
    while ready < whole:
        count = min(ready, whole - ready)
        lines.append(statement(_at(tensor, ready), tensor, -(-count // block) * block))
        ready += count
    return lines


def _copy(dst: str, src: str, count: int) -> str:
    return f"asc.data_copy({dst}, {src}, {count})"


def _repeat(on: Operands, numbers: Sequence[int]) -> list[str]:
    """A row, for every row of the tile."""
    (row,) = numbers
    return [_copy(on.dst, on.srcs[0], row), *_doubled(on.dst, row, on.whole, _copy)]


def _fill(on: Operands, _: Sequence[int]) -> list[str]:
    return [f"asc.duplicate({on.dst}, {on.srcs[0]}.get_value(0), {on.whole})"]


def _blocks(on: Operands, _: Sequence[int]) -> list[str]:
    """A block for each row's value. Brcb reads eight values at a time."""
    lines = []
    repeats = -(-on.rows // 8)
    for start in range(0, repeats, MAX_REPEATS):
        count = min(MAX_REPEATS, repeats - start)
        dst, src = _at(on.dst, 8 * on.block * start), _at(on.srcs[0], 8 * start)
        lines.append(f"asc.brcb({dst}, {src}, {count}, asc.BrcbRepeatParams(1, 8))")
    return lines


def _rows(on: Operands, numbers: Sequence[int]) -> list[str]:
    """Each row's block, for every block of the row: along the rows or down the columns, whichever is fewer calls."""
    (pitch,) = numbers
    lanes = REPEAT_BYTES * 8 // on.bits
    down = -(-pitch // lanes) * -(-on.rows // MAX_REPEATS)
    along = on.rows * (pitch // lanes // MAX_REPEATS + 1 + bool(pitch % lanes))
    return _rows_down(on, pitch, lanes) if down <= along else _rows_along(on, pitch, lanes)


def _rows_down(on: Operands, pitch: int, lanes: int) -> list[str]:
    """One call for up to 256 bytes of columns of many rows."""
    lines = []
    for top in range(0, on.rows, MAX_REPEATS):
        count = min(MAX_REPEATS, on.rows - top)
        for column in range(0, pitch, lanes):
            dst, src = _at(on.dst, top * pitch + column), _at(on.srcs[0], top * on.block)
            params = f"asc.CopyRepeatParams(1, 0, {pitch // on.block}, 1)"
            lines.append(f"asc.copy({dst}, {src}, {min(lanes, pitch - column)}, {count}, {params})")
    return lines


def _rows_along(on: Operands, pitch: int, lanes: int) -> list[str]:
    """One call for the columns of one row, up to the limit of repeats, and one for what is left of 256 bytes."""
    calls = []
    repeats, rest = divmod(pitch, lanes)
    pieces = [(start, min(MAX_REPEATS, repeats - start), lanes) for start in range(0, repeats, MAX_REPEATS)]
    if rest:
        pieces.append((repeats, 1, rest))
    for start, count, mask in pieces:
        calls.append((start * lanes, mask, count))
    params = "asc.CopyRepeatParams(1, 0, 8, 0)"
    src = on.srcs[0]
    if on.rows == 1:
        return [f"asc.copy({_at(on.dst, at)}, {src}, {mask}, {count}, {params})" for at, mask, count in calls]
    lines = [f"for r in range({on.rows}):"]
    for at, mask, count in calls:
        place = f"{on.dst}[r * {pitch} + {at}:]" if at else f"{on.dst}[r * {pitch}:]"
        lines.append(f"    asc.copy({place}, {src}[r * {on.block}:], {mask}, {count}, {params})")
    return lines


def _gather(on: Operands, _: Sequence[int]) -> list[str]:
    return [_gathered(on, on.length)]


def _gathered(on: Operands, count: str) -> str:
    return f"asc.gather({on.dst}, {on.srcs[0]}, {on.srcs[1]}.reinterpret_cast(asc.uint32), 0, {count})"


def _gather_period(on: Operands, numbers: Sequence[int]) -> list[str]:
    """The rows until one starts at a block again, then copies of them."""
    width, period = numbers
    ready = min(period, on.rows) * width
    return [_gathered(on, str(ready)), *_doubled(on.dst, ready, on.whole, _copy, on.block)]


def _index(on: Operands, _: Sequence[int]) -> list[str]:
    """0, 1, 2...: a block by the scalar unit, then each part from the one before."""
    first = min(on.block, on.whole)
    lines = [f"for i in range({first}):", f"    {on.dst}.set_value(i, i)"]
    ready = first
    while ready < on.whole:
        count = min(ready, on.whole - ready)
        lines.append(f"asc.adds({_at(on.dst, ready)}, {on.dst}, {ready}, {count})")
        ready += count
    return lines


def _offsets(on: Operands, numbers: Sequence[int]) -> list[str]:
    """Element offsets to bytes, then on down the rows, `step` bytes further each time round."""
    size, width, base_rows, step = numbers
    ready = min(base_rows, on.rows) * width
    lines = [f"asc.muls({on.dst}, {on.srcs[0]}, {size}, {ready})"]
    done, shift = ready, step
    while done < on.whole:
        count = min(done, on.whole - done)
        if step:
            lines.append(f"asc.adds({_at(on.dst, done)}, {on.dst}, {shift}, {count})")
        else:
            lines.append(_copy(_at(on.dst, done), on.dst, -(-count // on.block) * on.block))
        done, shift = done + count, shift * 2
    return lines


_WRITERS: dict[str, Callable[[Operands, Sequence[int]], list[str]]] = {
    "repeat": _repeat,
    "fill": _fill,
    "blocks": _blocks,
    "rows": _rows,
    "gather": _gather,
    "gather_period": _gather_period,
    "index": _index,
    "offsets": _offsets,
}
