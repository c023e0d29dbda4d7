"""The tiling's formulas, symbolic in every size, and the integer function that is generated from them.

One ordered mapping of name to sympy expression is the only place where the arithmetic of a split is written down:
people read it, Python and C++ are printed from it, and `resolve` runs what was printed. A formula uses the inputs
and the names above it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs

from asc_sched.errors import ScheduleError
from asc_sched.schedule import CORE_SPLITS
from asc_sched.target import Target

TileBy = Literal["tile_num", "tile_length", "fill"]
"""What decides tile_length: the schedule's tile_num, its tile_length, or the UB (input `max_tile_length`)."""

_INPUTS: Mapping[TileBy, tuple[str, ...]] = {
    "tile_num": ("total_length", "core_num", "tile_num", "buffer_num"),
    "tile_length": ("total_length", "core_num", "tile_length"),
    "fill": ("total_length", "core_num", "max_tile_length", "buffer_num"),
}


@attrs.frozen
class Alignment:
    """Elements per hardware unit, counted in the smallest item of a kernel, so that every tensor is aligned to it.

    `line_length`: elements of a GM line (512 B): two cores that touch one line wait for each other.
    `datablock_length`: elements of a data block (32 B): the least that the UB and its copies are aligned to.
    """

    line_length: int
    datablock_length: int

    @classmethod
    def of(cls, itemsizes: tuple[int, ...], target: Target) -> Alignment:
        """For tensors of these item sizes (bytes; powers of two)."""
        smallest = min(itemsizes)
        return cls(target.gm_line_bytes // smallest, target.block_bytes // smallest)

    def step(self, length: int) -> int:
        """What tiles of about that length are multiples of: whole GM lines if it has one, else data blocks."""
        return self.line_length if length >= self.line_length else self.datablock_length


@attrs.frozen
class SymbolicTiling:
    """The formulas of one split: `inputs` are free, `formulas` maps each name to its expression, in order.

    `core_formulas` go on with one core's part, in `block_idx` (0 to used_cores - 1).
    """

    core_split: str
    tile_by: TileBy
    inputs: tuple[str, ...]
    formulas: Mapping[str, Any]
    core_formulas: Mapping[str, Any]

    def expanded(self, name: str) -> Any:
        """The formula of `name` in the inputs alone."""
        expr = self.formulas[name]
        for earlier in reversed(list(self.formulas)[: list(self.formulas).index(name)]):
            expr = expr.subs(_symbol(earlier), self.formulas[earlier])
        return expr

    def bind(self, block_idx: int | None = None, **inputs: int) -> dict[str, int]:
        """Every formula's value for these inputs by sympy's substitution, with the core's if `block_idx` is given.

        Slow; `integer_function` is the fast way.
        """
        known = {_symbol(name): value for name, value in inputs.items()}
        formulas = dict(self.formulas)
        if block_idx is not None:
            known[_symbol("block_idx")] = block_idx
            formulas |= self.core_formulas
        values = {}
        for name, expr in formulas.items():
            values[name] = known[_symbol(name)] = int(expr.subs(known))
        return values

    def __str__(self) -> str:
        from asc_sched.tiling.exact import to_text, unwrap

        width = max(map(len, [*self.formulas, *self.core_formulas]))

        def lines(formulas: Mapping[str, Any]) -> list[str]:
            return [f"{name:<{width}} = {unwrap(to_text(expr))}" for name, expr in formulas.items()]

        head = f"# for any {', '.join(self.inputs)}"
        each = "# on core block_idx = 0 .. used_cores - 1"
        return "\n".join([head, *lines(self.formulas), each, *lines(self.core_formulas)])

    def python_source(self, function: str = "bind") -> str:
        """A Python function of the inputs that returns every formula's value, as a tuple in order."""
        from asc_sched.tiling.exact import to_python, unwrap

        lines = [f"    {name} = {unwrap(to_python(expr))}" for name, expr in self.formulas.items()]
        result = f"    return ({', '.join(self.formulas)})"
        return "\n".join([f"def {function}({', '.join(self.inputs)}):", *lines, result, ""])

    def cpp_source(self) -> str:
        """The formulas as C++ statements on int64_t, for inputs that aren't negative."""
        from asc_sched.tiling.exact import to_cpp, unwrap

        return "\n".join(f"const int64_t {name} = {unwrap(to_cpp(e))};" for name, e in self.formulas.items()) + "\n"


def _symbol(name: str) -> Any:
    import sympy

    positive = name not in ("total_length", "extra_units", "units", "block_idx", "block_start")
    return sympy.Symbol(name, integer=True, nonnegative=True, **({"positive": True} if positive else {}))


def _check_split(core_split: str) -> None:
    if core_split not in CORE_SPLITS:
        raise ScheduleError(f"core_split={core_split!r} is unknown: allowed is {' or '.join(map(repr, CORE_SPLITS))}")


@functools.lru_cache(maxsize=64)
def symbolic_tiling(core_split: str, align: Alignment | None = None, tile_by: TileBy = "tile_num") -> SymbolicTiling:
    """The formulas of a split, for total_length >= 1 (a length of 0 launches nothing).

    `align` gives numbers to `line_length` and `datablock_length`; without it they are inputs too.
    """
    _check_split(core_split)
    from asc_sched.tiling.exact import ceil_div, floor_div, if_at_least, minimum, mod

    inputs = _INPUTS[tile_by] + (() if align else ("line_length", "datablock_length"))
    s = {name: _symbol(name) for name in inputs}
    if align:
        s |= {"line_length": align.line_length, "datablock_length": align.datablock_length}
    formulas: dict[str, Any] = {}

    def define(name: str, expr: Any) -> Any:
        formulas[name] = expr
        return _symbol(name)

    total, core_num, line, datablock = s["total_length"], s["core_num"], s["line_length"], s["datablock_length"]
    if core_split == "even":
        unit = define("unit_length", if_at_least(ceil_div(total, line), core_num, line, datablock))
        units = define("units", ceil_div(total, unit))
        cores = define("used_cores", minimum(core_num, units))
        define("base_units", floor_div(units, cores))
        define("extra_units", mod(units, cores))
        block = define("block_length", minimum(unit * ceil_div(units, cores), total))
    else:
        unit = define("unit_length", datablock + 0 * total)
        units = define("units", ceil_div(total, unit))
        base = define("base_units", ceil_div(units, core_num))
        define("used_cores", ceil_div(units, base))
        define("extra_units", 0 * total)
        block = define("block_length", minimum(unit * base, total))

    if tile_by == "tile_num":
        tile = define("tile_length", datablock * ceil_div(ceil_div(block, s["tile_num"] * s["buffer_num"]), datablock))
    elif tile_by == "fill":
        rounds = define("tile_rounds", ceil_div(block, s["max_tile_length"] * s["buffer_num"]))
        tile = define("tile_length", datablock * ceil_div(ceil_div(block, rounds * s["buffer_num"]), datablock))
    else:
        tile = s["tile_length"]
    count = define("tile_count", ceil_div(block, tile))
    define("tail", block - tile * (count - 1))
    each = _core_formulas(total)
    return SymbolicTiling(core_split, tile_by, inputs, MappingProxyType(formulas), MappingProxyType(each))


def _core_formulas(total: Any) -> dict[str, Any]:
    """One core's part: the first extra_units cores have one unit more, the last core stops at total_length."""
    from asc_sched.tiling.exact import ceil_div, if_at_least, minimum

    names = ("unit_length", "base_units", "extra_units", "tile_length", "block_idx")
    unit, base, extra, tile, idx = (_symbol(name) for name in names)
    start, units, length, count = (
        _symbol(name) for name in ("block_start", "core_units", "core_length", "core_tile_count")
    )
    return {
        "block_start": unit * (base * idx + minimum(idx, extra)),
        "core_units": base + if_at_least(idx, extra, 0, 1),
        "core_length": minimum(unit * units, total - start),
        "core_tile_count": ceil_div(length, tile),
        "core_tail": length - tile * (count - 1),
    }


@functools.lru_cache(maxsize=256)
def integer_function(
    core_split: str, align: Alignment, tile_by: TileBy
) -> tuple[Callable[..., tuple[int, ...]], tuple[str, ...]]:
    """The formulas as a Python function on ints, and the names of its arguments."""
    units = {"line_length": align.line_length, "datablock_length": align.datablock_length}
    inputs = symbolic_tiling(core_split, None, tile_by).inputs
    return functools.partial(_bind(core_split, tile_by), **units), tuple(n for n in inputs if n not in units)


@functools.lru_cache(maxsize=64)
def _bind(core_split: str, tile_by: TileBy) -> Callable[..., tuple[int, ...]]:
    """Generated once per split, whatever the alignment: deriving formulas takes sympy a while."""
    scope: dict[str, Any] = {}
    source = symbolic_tiling(core_split, None, tile_by).python_source()
    exec(compile(source, f"<tiling {core_split} by {tile_by}>", "exec"), scope)
    function: Callable[..., tuple[int, ...]] = scope["bind"]
    return function


@functools.lru_cache(maxsize=64)
def formula_names(core_split: str, tile_by: TileBy) -> tuple[str, ...]:
    """The names in the order in which `integer_function` returns them."""
    return tuple(symbolic_tiling(core_split, None, tile_by).formulas)
