"""The schedules that a search looks at, declared: values for each knob and restrictions between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from asc_sched import toml
from asc_sched.errors import ScheduleError, TuningError, nearest
from asc_sched.schedule import Schedule, fields_by_name

# A restriction keeps the schedules for which it is true; its name is what reports say.
Restriction = Callable[[Schedule], bool]

_CORES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 44, 48)
_TILE_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
# Parts of the longest tile: where blocks are so long that their number of tiles doesn't matter.
_PARTS = ((1, 1), (31, 32), (15, 16), (7, 8), (3, 4), (5, 8), (1, 2), (3, 8), (1, 4), (3, 16), (1, 8))


def _as_tuple(value: Any) -> Any:
    return value if value is None else tuple(value) if isinstance(value, (list, tuple, range)) else (value,)


@fields_by_name("space")
@attrs.frozen(kw_only=True)
class Space:
    """Values per knob; the space is their product, less what the restrictions and the chip's rules refuse.

    `core_num` None: a spread of counts up to the target's. `tile_length` None: the lengths that cut a core's block into
    `tile_counts` equal tiles or are simple parts of the longest one that the UB takes, as far as copies (of the widest
    tensor) aren't shorter than `min_copy_bytes`. A single value may be given in place of a tuple. `restrictions` are
    conditions by name that a schedule must meet. Raises `ScheduleError` for values that no schedule has.
    """

    core_num: tuple[int, ...] | None = attrs.field(default=None, converter=_as_tuple)
    tile_length: tuple[int, ...] | None = attrs.field(default=None, converter=_as_tuple)
    tile_counts: tuple[int, ...] = attrs.field(default=_TILE_COUNTS, converter=_as_tuple)
    min_copy_bytes: int = 1024
    buffer_num: tuple[int, ...] = attrs.field(default=(1, 2), converter=_as_tuple)
    l2_cache: tuple[str, ...] = attrs.field(default=("normal", "bypass"), converter=_as_tuple)
    bank_pad: tuple[bool, ...] = attrs.field(default=(False, True), converter=_as_tuple)
    core_split: tuple[str, ...] = attrs.field(default=("even",), converter=_as_tuple)
    pack_inputs: tuple[bool, ...] = attrs.field(default=(False, True), converter=_as_tuple)
    restrictions: Mapping[str, Restriction] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name in ("buffer_num", "l2_cache", "bank_pad", "core_split", "pack_inputs", "core_num", "tile_length"):
            values = getattr(self, name)
            if values == ():
                raise ScheduleError(f"Space({name}=()) is empty; give at least one value")
            for value in values or ():
                Schedule(**{name: value})
        for name, numbers in (("tile_counts", self.tile_counts), ("min_copy_bytes", (self.min_copy_bytes,))):
            if not numbers or not all(type(n) is int and n >= 1 for n in numbers):
                raise ScheduleError(f"Space({name}={getattr(self, name)!r}): allowed are integers of 1 or more")
        _check_restrictions(self.restrictions)

    def variants(self) -> Iterator[Schedule]:
        """Every combination of the knobs besides core_num and tile_length."""
        knobs = (self.buffer_num, self.l2_cache, self.bank_pad, self.core_split, self.pack_inputs)
        for buffers, l2, pad, split, pack in itertools.product(*knobs):
            yield Schedule(buffer_num=buffers, l2_cache=l2, bank_pad=pad, core_split=split, pack_inputs=pack)

    def cores(self, limit: int) -> tuple[int, ...]:
        """Core counts; those over the target's `limit` are left to be refused by its rule."""
        if self.core_num is not None:
            return tuple(dict.fromkeys(self.core_num))
        return (*(c for c in _CORES if c < limit), limit)

    def tiles(self, block_length: int, longest: int, step: int, widest: int) -> tuple[int, ...]:
        """Tile lengths to try for a core's block, multiples of `step` elements up to `longest`, longest first."""
        if self.tile_length is not None:
            return tuple(dict.fromkeys(self.tile_length))
        whole = -(-block_length // step) * step
        if not longest or longest < step:
            return ()
        shortest = min(whole, max(step, -(-self.min_copy_bytes // widest // step) * step))
        fewest = -(-whole // longest)
        counts = {c for c in self.tile_counts if c >= fewest} | {fewest + k for k in range(3)}
        lengths = {-(-block_length // (c * step)) * step for c in counts}
        lengths |= {longest * a // b // step * step for a, b in _PARTS}
        lengths |= {step << k for k in range(20)}
        return tuple(sorted((t for t in lengths if shortest <= t <= min(longest, whole)), reverse=True))

    def refused_by(self, schedule: Schedule) -> str | None:
        """The name of the first restriction that a schedule breaks."""
        return next((name for name in self.restrictions if not self._keeps(name, schedule)), None)

    def _keeps(self, name: str, schedule: Schedule) -> bool:
        try:
            return bool(self.restrictions[name](schedule))
        except Exception as error:  # the user's own code
            raise TuningError(
                f"restriction {name!r} raised {type(error).__name__} for {schedule!r}: {error}"
            ) from error


def _check_restrictions(given: object) -> None:
    example = "such as {'short tiles': lambda s: s.tile_length <= 4096}"
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ScheduleError(f"Space(restrictions=...) is a mapping of names to conditions, {example}, not {kind}")
    for name, keeps in given.items():
        if not isinstance(name, str):
            raise ScheduleError(f"Space(restrictions=...): the name {name!r} is not a str; give names, {example}")
        if not callable(keeps):
            raise ScheduleError(f"Space(restrictions=...): {name!r} is {keeps!r}, not a condition, {example}")


def read_space(path: Path) -> Space:
    """A space from a TOML file with the fields of `Space` at its top. Raises `TuningError` naming file and mistake."""
    try:
        fields = toml.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TuningError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TuningError(f"{path} is not UTF-8 text: {error}") from None
    except (ValueError, RecursionError) as error:  # also for numbers that are too long, nesting that is too deep
        raise TuningError(f"{path} is not TOML: {error}") from None
    if "restrictions" in fields:
        raise TuningError(f"{path}: restrictions are conditions in Python; pass a Space to Op.tune(space=...)")
    try:
        return Space(**fields)
    except (ScheduleError, TypeError) as error:
        raise TuningError(f"{path}: {error}") from None


def default_space(target: str) -> Space:
    """The space that is searched on a target when none is given: `schedules/` declares it."""
    from asc_sched.schedules import DEFAULT_SPACE, TARGET_SPACES

    space: Space = TARGET_SPACES.get(target, DEFAULT_SPACE)
    return space


def space_of(value: Space | str | Iterable[Schedule] | None, target: str) -> Space | tuple[Schedule, ...]:
    """What a caller's `space=` asks for: None and "default" are the target's own, "plain" has no memory knobs.

    A list of schedules comes back as a tuple. Raises `TuningError` for anything else, naming what is allowed.
    """
    from asc_sched.schedules import PLAIN_SPACE

    if isinstance(value, Space):
        return value
    if value is None or value == "default":
        return default_space(target)
    if value == "plain":
        plain: Space = PLAIN_SPACE
        return plain
    if isinstance(value, str):
        hint = nearest(value, ("default", "plain"))
        raise TuningError(f"unknown space {value!r}{hint} (known: default, plain; read_space reads a file)")
    allowed = "space= takes a Space or a list of Schedule"
    if isinstance(value, Schedule):
        raise TuningError(f"{allowed}; for this schedule alone: space=[{value!r}]")
    if not isinstance(value, Iterable) or isinstance(value, (Mapping, bytes)):
        raise TuningError(f"{allowed}, not {type(value).__name__}")
    schedules = tuple(value)
    for number, schedule in enumerate(schedules):
        if not isinstance(schedule, Schedule):
            raise TuningError(f"{allowed}, and element {number} of the list is {_kind(schedule)}")
    return schedules


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
