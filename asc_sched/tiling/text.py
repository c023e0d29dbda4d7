"""A tiling as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.tiling.symbolic import Alignment, symbolic_tiling

if TYPE_CHECKING:
    from asc_sched.tiling.types import Tiling


def tiling_text(tiling: Tiling) -> str:
    """The bound formulas, one a line with its number, and the blocks, equal neighbours in one line."""
    cores = f"{tiling.core_num} of {tiling.requested_core_num} cores ({tiling.target_name})"
    head = f"{tiling.total_length} elements on {cores}"
    if tiling.total_length == 0:
        return f"{head}: nothing is launched"
    return "\n".join([head, *_formula_lines(tiling), *_block_lines(tiling)])


def _formula_lines(tiling: Tiling) -> list[str]:
    from asc_sched.tiling.exact import to_text, unwrap

    smallest = min(tiling.itemsizes)
    align = Alignment(512 // smallest, 32 // smallest)
    formulas = symbolic_tiling(tiling.core_split, align, tiling.tile_by).formulas
    values = {**_values(tiling), "used_cores": tiling.core_num}
    rows = [(name, str(values[name]), unwrap(to_text(expr))) for name, expr in formulas.items() if name in values]
    name_width = max(len(name) for name, _, _ in rows)
    value_width = max(len(value) for _, value, _ in rows)
    return [f"  {name:<{name_width}}  {value:>{value_width}}  = {text}" for name, value, text in rows]


def _values(tiling: Tiling) -> dict[str, int]:
    names = ("unit_length", "units", "base_units", "extra_units", "block_length", "tile_length")
    count = tiling.max_tile_count
    tail = tiling.block_length - tiling.tile_length * (count - 1)
    return {**{name: getattr(tiling, name) for name in names}, "tile_count": count, "tail": tail}


def _block_lines(tiling: Tiling) -> list[str]:
    """Runs of cores with blocks of one length."""
    runs: list[tuple[int, int, int]] = []  # first core, last core, block length
    for core in range(tiling.core_num):
        length = tiling.block(core)[1]
        if runs and runs[-1][2] == length:
            runs[-1] = (runs[-1][0], core, length)
        else:
            runs.append((core, core, length))
    cores = [f"{first}" if first == last else f"{first}..{last}" for first, last, _ in runs]
    width = max(map(len, cores))
    lines = []
    for name, (first, _, length) in zip(cores, runs, strict=True):
        count, tail = tiling.tile_count(first), tiling.tail(first)
        full = count - (tail < tiling.tile_length)
        tiles = [f"{full} x {tiling.tile_length}"] if full else []
        tiles += [f"1 x {tail}"] if full < count else []
        lines.append(f"  core {name:<{width}}  from {tiling.block(first)[0]}: {length} elements = {' + '.join(tiles)}")
    return lines
