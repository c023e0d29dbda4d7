"""`Schedule`: how a computation is split over cores, cut into tiles and buffered, apart from what it computes.

A schedule is a value: frozen, hashable, ordered ("simpler first"), checked when it is made. Nothing here knows a chip
or a size; `asc_sched.tiling.resolve` binds a schedule to both.
"""

from __future__ import annotations

import difflib
import functools
import numbers
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from asc_sched.errors import CoreNumError, ScheduleError

CORE_SPLITS = ("even", "ceil")
L2_CACHES = ("normal", "bypass")

MAX_CORE_NUM = 65535
"""The launcher's limit of blockDim (CANN refuses more); a target has far fewer cores, see `Target.vector_cores`."""
MAX_TILE = 2**31 - 1
"""Tile counts and tile lengths are int32 in the kernel."""
MAX_BUFFER_NUM = 8
"""Queue buffers that one TPosition has on A2/A3 (Ascend C documentation of `InitBuffer`)."""


def _show(value: object) -> str:
    """`value` in a message: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"{'-' if value < 0 else ''}2**{value.bit_length() - 1} or more"
    return reprlib.repr(value)


def _nearest_int(value: object, low: int, high: int) -> int | None:
    """What a caller may have meant by a value that isn't an int in [low, high]."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,20}\s*", value):
        value = int(value)
    if not isinstance(value, numbers.Real) or value != value:
        return None
    if isinstance(value, numbers.Integral):
        return min(max(int(value), low), high)
    number = float(value)
    return low if number <= low else high if number >= high else round(number)


def _as_int(name: str, value: object, low: int, high: int, error: type[ScheduleError], optional: bool) -> int:
    """`value` as a plain int in [low, high]; anything else is refused, also bools and floats of a whole value."""
    if type(value) is int and low <= value <= high:  # a search makes schedules by the thousand
        return value
    allowed = f"allowed is an integer from {low} to {high}{' or None' if optional else ''}"
    hint = _nearest_int(value, low, high)
    nearest = "" if hint is None else f"; nearest valid: {name}={hint}"
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise error(f"{name}={_show(value)} is not an integer but {type(value).__name__}: {allowed}{nearest}")
    number = int(value)
    if low <= number <= high:
        return number
    raise error(f"{name}={_show(number)} is out of range: {allowed}{nearest}")


def _as_choice(name: str, value: object, choices: Sequence[str]) -> str:
    if isinstance(value, str) and value in choices:
        return str(value)
    known = " or ".join(repr(c) for c in choices)
    near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.0)[0]
    raise ScheduleError(f"{name}={_show(value)} is unknown: allowed is {known}; nearest valid: {name}={near!r}")


def _as_bool(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    nearest = str(value).strip().lower() in ("1", "true", "yes", "on")
    raise ScheduleError(
        f"{name}={_show(value)} is not a bool but {type(value).__name__}: allowed is True or False; "
        f"nearest valid: {name}={nearest}"
    )


def _int_check(
    low: int, high: int, error: type[ScheduleError] = ScheduleError, *, optional: bool = True
) -> Callable[[str, object], int | None]:
    def check(name: str, value: object) -> int | None:
        return None if value is None and optional else _as_int(name, value, low, high, error, optional)

    return check


_CHECKS: Mapping[str, Callable[[str, object], object]] = {
    "core_num": _int_check(1, MAX_CORE_NUM, CoreNumError),
    "tile_num": _int_check(1, MAX_TILE),
    "tile_length": _int_check(1, MAX_TILE),
    "buffer_num": _int_check(1, MAX_BUFFER_NUM, optional=False),
    "core_split": functools.partial(_as_choice, choices=CORE_SPLITS),
    "l2_cache": functools.partial(_as_choice, choices=L2_CACHES),
    "bank_pad": _as_bool,
    "pack_inputs": _as_bool,
}


def check_names(names: Iterable[object], known: Sequence[str], what: str) -> None:
    """Raise `ScheduleError` for the first of `names` that isn't `known`, with the nearest that are."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=2, cutoff=0.5)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ScheduleError(f"unknown {what} field {_show(name)}{hint} (known: {', '.join(known)})")


_T = TypeVar("_T")


def fields_by_name(what: str) -> Callable[[type[_T]], type[_T]]:
    """A decorator of keyword-only attrs classes: wrong arguments raise `ScheduleError` with the nearest field, where
    Python's TypeError names neither. The signature stays as attrs has written it.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        known = tuple(f.name for f in attrs.fields(cls) if f.init)  # type: ignore[arg-type]
        written = cls.__init__

        @functools.wraps(written)
        def checked(self: _T, *args: object, **fields: Any) -> None:
            if args:
                raise ScheduleError(
                    f"{cls.__name__}({', '.join(map(_show, args))}): fields are given by name, as in "
                    f"{cls.__name__}({known[0]}=8) (known: {', '.join(known)})"
                )
            check_names(fields, known, what)
            written(self, **fields)

        cls.__init__ = checked  # type: ignore[method-assign,assignment]
        return cls

    return decorate


@fields_by_name("schedule")
@functools.total_ordering
@attrs.frozen(kw_only=True, repr=False, order=False)
class Schedule:
    """How a kernel runs; what it computes never depends on it.

    - `core_num`: cores (blockDim, USE_CORE_NUM); `None` is every vector core of the target. Cores that would have no
      work are not launched.
    - `tile_num`: a core's block is cut into tile_num x buffer_num tiles (TILE_NUM), or
    - `tile_length`: elements of one tile, a multiple of 32 bytes for every tensor. With neither, tiles fill the UB.
    - `buffer_num`: buffers of each queue (BUFFER_NUM), 2 is double buffering.
    - `core_split`: "even" (cores differ by at most one alignment unit) or "ceil" (the tutorials' split: every core
      has ceil(total / core_num), the last the rest).
    - `l2_cache`: "bypass" keeps large read-once inputs from evicting the outputs from L2.
    - `bank_pad`: puts the second source of a binary instruction 256 bytes off the first's bank group.
    - `pack_inputs`: several inputs share the buffers of one queue.

    Raises `ScheduleError` (`CoreNumError` for core_num) naming the field, its value, what is allowed, and the nearest
    valid value.
    """

    core_num: int | None = None
    tile_num: int | None = None
    tile_length: int | None = None
    buffer_num: int = 2
    core_split: str = "even"
    l2_cache: str = "normal"
    bank_pad: bool = False
    pack_inputs: bool = False

    def __attrs_post_init__(self) -> None:
        for name, check in _CHECKS.items():
            given = getattr(self, name)
            checked = check(name, given)
            if checked is not given:  # numpy's ints and bools become Python's
                object.__setattr__(self, name, checked)
        if self.tile_num is not None and self.tile_length is not None:
            raise ScheduleError(
                f"tile_num={self.tile_num} and tile_length={self.tile_length} are both given, and each decides the "
                f"tiles: nearest valid: tile_num={self.tile_num} or tile_length={self.tile_length} alone"
            )

    @classmethod
    def auto(cls, op: Any, *, shape: Any, dtype: Any, target: Any = None) -> Schedule:
        """A good schedule for `op` on tensors of `shape` and `dtype`, by rule and without a search."""
        from asc_sched.lower import schedule_for  # lowering knows the UB bytes of an op; importing it here is a cycle

        schedule: Schedule = schedule_for(op, shape=shape, dtype=dtype, target=target)
        return schedule

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Schedule:
        """The schedule that `to_dict` wrote; absent fields take their defaults, unknown ones are refused by name."""
        if not isinstance(fields, Mapping):
            raise ScheduleError(f"a schedule is read from a mapping of its fields, not from {type(fields).__name__}")
        check_names(fields, tuple(f.name for f in attrs.fields(cls)), "schedule")  # keys may be of any type
        return cls(**fields)

    def to_dict(self) -> dict[str, int | str | bool]:
        """Every field that is set, in declaration order, ready for JSON and TOML (None is left out)."""
        return {name: value for name, value in attrs.asdict(self).items() if value is not None}

    def evolve(self, **changes: Any) -> Schedule:
        """A copy with some fields changed. Giving one of tile_num and tile_length drops the other."""
        for name, other in (("tile_num", "tile_length"), ("tile_length", "tile_num")):
            if changes.get(name) is not None:
                changes.setdefault(other, None)
        return attrs.evolve(self, **changes)

    @property
    def sort_key(self) -> tuple[int | bool, ...]:
        """Orders schedules from simple to elaborate: plain memory use, the default split, few buffers, few cores, few
        tiles. Distinct schedules have distinct keys, so a tie of two times is broken the same way everywhere.
        """
        return (
            self.pack_inputs,
            self.bank_pad,
            L2_CACHES.index(self.l2_cache),
            CORE_SPLITS.index(self.core_split),
            self.buffer_num,
            0 if self.core_num is None else self.core_num,
            0 if self.tile_num is None else self.tile_num,
            0 if self.tile_length is None else 1 + MAX_TILE - self.tile_length,
        )

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self.sort_key < other.sort_key

    def __repr__(self) -> str:
        """Ready to paste: only what differs from the defaults."""
        fields = ((f, getattr(self, f.name)) for f in attrs.fields(Schedule))
        return f"Schedule({', '.join(f'{f.name}={value!r}' for f, value in fields if value != f.default)})"
