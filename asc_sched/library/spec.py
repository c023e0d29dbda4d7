"""`Library`: what is to be built, checked when it is made. From Python, or from a TOML table of the same fields."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from asc_sched.declare import Op
from asc_sched.declare import op as declare_op
from asc_sched.errors import AscSchedError, LibraryError, nearest
from asc_sched.lang.dtypes import DTYPES, get_dtype
from asc_sched.library.names import check_library_name, check_operators, schedule_label, torch_name
from asc_sched.schedule import Schedule
from asc_sched.target import TARGETS, Target, get_target

#: Schedules that are chosen for each kernel: by rule, or by a search whose winners are stored.
CHOSEN_SCHEDULES = ("auto", "tuned")
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.dev\d+)?\Z")
_OP_FIELDS = (
    "name", "op", "expr", "inputs", "scalars", "doc", "dtypes", "shapes", "targets", "schedules", "gradients",
)  # fmt: skip

Shape = tuple[int, ...]


@attrs.frozen(eq=False)
class OpEntry:
    """One operator of a library with what is built for it. `origin` says where its declaration stands, for messages.

    A dtype entry is one dtype for all inputs, or one per input.
    """

    name: str
    op: Op
    origin: str
    dtypes: tuple[tuple[str, ...], ...]
    shapes: tuple[Shape | None, ...]
    targets: tuple[str, ...]
    schedules: tuple[str | Schedule, ...]
    gradients: bool

    @property
    def torch_name(self) -> str:
        """Its name under ``torch.ops.<library>``."""
        return torch_name(self.name)


@attrs.frozen(eq=False, init=False)
class Library:
    """A library of operators: which ops, for which dtypes, sizes, targets and schedules.

    - `name`: of the Python package and of the namespace ``torch.ops.<name>``.
    - `ops`: names of the catalogue (also patterns, ``"*"`` for all of it), `Op`s, functions, or tables with any of
      ``name``, ``op`` or ``expr`` (a declaration as text, with ``inputs``, ``scalars``), ``doc``, and their own
      ``dtypes``, ``shapes``, ``targets``, ``schedules``, ``gradients``.
    - `dtypes`: names; one for all inputs, or a list with one per input (used for ops with that many inputs).
    - `shapes`: ``"dynamic"`` (a kernel of any size), or sizes such as ``"8192x8192"``.
    - `schedules`: ``"auto"``, ``"tuned"``, `Schedule`s or tables of their fields.
    - `gradients`: whether kernels for the backward pass are built where an op has a derivative.

    The order in which things are given makes no difference. Raises `LibraryError` naming the field and the nearest
    valid value.
    """

    name: str
    ops: tuple[OpEntry, ...]
    version: str
    description: str

    def __init__(
        self,
        name: str,
        ops: Iterable[Any],
        *,
        dtypes: Iterable[Any] = ("float32",),
        shapes: Iterable[Any] = ("dynamic",),
        targets: Iterable[str | Target] = ("Ascend910B1",),
        schedules: Iterable[Any] = ("auto",),
        gradients: bool = True,
        version: str = "0.1.0",
        description: str = "",
    ) -> None:
        common: dict[str, Any] = {
            "dtypes": _dtypes("dtypes", dtypes),
            "shapes": _shapes("shapes", shapes),
            "targets": _targets("targets", targets),
            "schedules": _schedules("schedules", schedules),
            "gradients": _bool("gradients", gradients),
        }
        entries = [e for i, o in enumerate(_list("ops", ops)) for e in _entries(f"ops[{i}]", o, common)]
        if not entries:
            raise LibraryError("ops is empty: a library needs at least one op, such as ops = ['add']")
        merged = _distinct(entries)
        check_operators((e.name, e.origin) for e in merged)
        self.__attrs_init__(  # type: ignore[attr-defined]
            check_library_name(name), tuple(merged), _version(version), _text("description", description)
        )

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Library:
        """A library from plain data, as TOML gives it. Unknown fields are refused by name."""
        known = [f for f in cls.__init__.__annotations__ if f != "return"]
        for field in fields:
            if field not in known:
                hint = nearest(str(field), known, 3)
                raise LibraryError(f"unknown field {field!r}{hint} (known: {', '.join(known)})")
        missing = [f for f in ("name", "ops") if f not in fields]
        if missing:
            raise LibraryError(f"field {missing[0]!r} is missing; a library needs name and ops")
        return cls(**fields)


def _distinct(entries: list[OpEntry]) -> list[OpEntry]:
    """Entries by name, sorted; the same catalogue op named twice (by a pattern, say) is one."""
    seen: dict[str, OpEntry] = {}
    for entry in entries:
        other = seen.get(entry.name)
        if other is None:
            seen[entry.name] = entry
        elif not _same_entry(entry, other):
            raise LibraryError(
                f"operator {entry.name!r} is declared twice, by {other.origin} and by {entry.origin}, and the two "
                "differ; give one of them another name"
            )
    return [seen[n] for n in sorted(seen)]


def _same_entry(a: OpEntry, b: OpEntry) -> bool:
    ours, theirs = (attrs.asdict(e, recurse=False, filter=lambda f, _: f.name not in ("origin", "op")) for e in (a, b))
    return ours == theirs and a.op.graph == b.op.graph


# -- ops ---------------------------------------------------------------------------------------------------------
def _entries(where: str, given: Any, common: Mapping[str, Any]) -> list[OpEntry]:
    if isinstance(given, str):
        return [_entry(n, o, where, {}, common) for n, o in _from_catalogue(where, given)]
    if isinstance(given, Op):
        return [_entry(given.name, given, where, {}, common)]
    if callable(given):
        traced = _declared(where, lambda: declare_op(given))
        return [_entry(traced.name, traced, where, {}, common)]
    if not isinstance(given, Mapping):
        raise LibraryError(f"{where}={given!r} is no op; an op is a name, an Op, or a table with an expr")
    for field in given:
        if field not in _OP_FIELDS:
            raise LibraryError(
                f"{where}: unknown field {field!r}{nearest(str(field), _OP_FIELDS, 3)} (known: {', '.join(_OP_FIELDS)})"
            )
    named = _declaration(where, given)
    if "name" in given and len(named) > 1:
        several = f"{given['op']!r} names {len(named)} ops"
        raise LibraryError(f"{where}: {several}, which can't all be called {given['name']!r}")
    return [_entry(_op_name(where, given.get("name", n)), o, where, given, common) for n, o in named]


def _op_name(where: str, name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise LibraryError(f"{where}: name={name!r}: an op's name is a non-empty text")
    return name


def _declaration(where: str, given: Mapping[str, Any]) -> list[tuple[str, Op]]:
    expr, base = given.get("expr"), given.get("op")
    if expr is not None and base is not None:
        raise LibraryError(f"{where}: op and expr are both given, and each declares the op; leave one out")
    if expr is None:
        for field in ("inputs", "scalars"):
            if field in given:
                raise LibraryError(f"{where}: {field} goes with expr; a catalogue op has its own")
        base = given.get("name") if base is None else base
        if isinstance(base, Op):
            return [(base.name, base)]
        if base is None:
            raise LibraryError(f"{where} declares nothing: give expr = 'z = ...', or op = the name of a catalogue op")
        return _from_catalogue(where, base, "" if "op" in given else "; to declare it, give expr = 'z = ...'")
    if not isinstance(expr, str):
        raise LibraryError(f"{where}: expr={expr!r} is no text such as 'z = x + y'")
    name = _op_name(where, given["name"]) if given.get("name") is not None else None
    scalars = _scalars(where, given.get("scalars", ()))
    made = _declared(where, lambda: declare_op(expr, name=name, inputs=given.get("inputs"), scalars=scalars))
    return [(made.name, attrs.evolve(made, doc=_text(f"{where}: doc", given.get("doc", ""))))]


def _scalars(where: str, given: Any) -> Any:
    if isinstance(given, (str, Mapping)) or (isinstance(given, Sequence) and all(isinstance(s, str) for s in given)):
        return given
    raise LibraryError(
        f"{where}: scalars={given!r}: they are a list of names, or a table of names and their defaults or dtypes"
    )


def _declared(where: str, make: Any) -> Op:
    try:
        made: Op = make()
        return made
    except AscSchedError as error:
        raise LibraryError(f"{where}: {error}") from None


def _from_catalogue(where: str, name: Any, more: str = "") -> list[tuple[str, Op]]:
    from asc_sched import ops

    known: dict[str, Op] = ops.catalogue()
    if not isinstance(name, str):
        raise LibraryError(f"{where}: op={name!r}: the name of a catalogue op is a text")
    if name in known:
        return [(name, known[name])]
    found = fnmatch.filter(known, name) if re.search(r"[*?\[]", name) else []
    if not found:
        hint = nearest(name, known, 3)
        raise LibraryError(f"{where}: no op {name!r} in the catalogue{hint} (`asc-sched ops` lists all){more}")
    return [(n, known[n]) for n in found]


def _entry(name: str, op: Op, where: str, own: Mapping[str, Any], common: Mapping[str, Any]) -> OpEntry:
    readers = {"dtypes": _dtypes, "shapes": _shapes, "targets": _targets, "schedules": _schedules, "gradients": _bool}
    chosen = {f: read(f"{where}: {f}", own[f]) if f in own else common[f] for f, read in readers.items()}
    dtypes: Any = chosen["dtypes"]
    fitting = tuple(d for d in dtypes if len(d) in (1, len(op.inputs)))
    if not fitting or ("dtypes" in own and len(fitting) != len(dtypes)):
        wrong = next(d for d in dtypes if len(d) not in (1, len(op.inputs)))
        raise LibraryError(
            f"{where}: {name} takes {len(op.inputs)} inputs ({', '.join(op.inputs)}), and the dtypes {list(wrong)} are "
            f"for {len(wrong)}"
        )
    return OpEntry(name=name, op=op, origin=where, **(chosen | {"dtypes": fitting}))  # type: ignore[arg-type]


# -- the other fields --------------------------------------------------------------------------------------------
def _list(where: str, given: Any) -> list[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise LibraryError(f"{where}={given!r} is not a list; write {where.rpartition(' ')[2]} = [{given!r}]")
    return list(given)


def _sorted_distinct(where: str, items: list[Any], key: Any) -> tuple[Any, ...]:
    if not items:
        raise LibraryError(f"{where} is empty: give at least one")
    return tuple(sorted(dict.fromkeys(items), key=key))


def _dtypes(where: str, given: Any) -> tuple[tuple[str, ...], ...]:
    order = list(DTYPES)
    items = [_dtype(f"{where}[{i}]", d) for i, d in enumerate(_list(where, given))]
    return _sorted_distinct(where, items, lambda d: (len(d), [order.index(n) for n in d]))


def _dtype(where: str, given: Any) -> tuple[str, ...]:
    parts = list(given) if isinstance(given, (list, tuple)) else [given]
    try:
        return tuple(get_dtype(p).name for p in parts)
    except AscSchedError as error:
        raise LibraryError(f"{where}: {error}") from None


def _shapes(where: str, given: Any) -> tuple[Shape | None, ...]:
    items = [_shape(f"{where}[{i}]", s) for i, s in enumerate(_list(where, given))]
    return _sorted_distinct(where, items, lambda s: (s is not None, s or ()))


def _shape(where: str, given: Any) -> Shape | None:
    if given is None or given == "dynamic":
        return None
    if isinstance(given, str) and re.fullmatch(r"\d{1,18}(x\d{1,18})*", given):
        return tuple(int(d) for d in given.split("x"))
    if given == "()":
        return ()
    dims = [given] if isinstance(given, int) else given
    if isinstance(dims, (list, tuple)) and all(isinstance(d, int) and not isinstance(d, bool) and d >= 0 for d in dims):
        return tuple(dims)
    raise LibraryError(f"{where}={given!r} is no size; write 'dynamic' for kernels of any size, or such as '8192x8192'")


def _targets(where: str, given: Any) -> tuple[str, ...]:
    items = []
    for i, target in enumerate(_list(where, given)):
        try:
            items.append(get_target(target).name)
        except AscSchedError as error:
            raise LibraryError(f"{where}[{i}]: {error}") from None
        if isinstance(target, Target) and target != TARGETS[target.name]:
            raise LibraryError(f"{where}[{i}]: libraries are for chips as they are, not for a changed {target.name}")
    return _sorted_distinct(where, items, lambda t: t)


def _schedules(where: str, given: Any) -> tuple[str | Schedule, ...]:
    items = [_schedule(f"{where}[{i}]", s) for i, s in enumerate(_list(where, given))]
    by_label = {schedule_label(s): s for s in items}
    return _sorted_distinct(where, list(by_label.values()), schedule_label)


def _schedule(where: str, given: Any) -> str | Schedule:
    if isinstance(given, Schedule):
        return given
    if isinstance(given, Mapping):
        try:
            return Schedule.from_dict(given)
        except AscSchedError as error:
            raise LibraryError(f"{where}: {error}") from None
    if isinstance(given, str) and given in CHOSEN_SCHEDULES:
        return given
    raise LibraryError(
        f"{where}={given!r} is no schedule; write 'auto', 'tuned', or a table of a Schedule's fields such as "
        "{ core_num = 8, tile_num = 8 }"
    )


def _bool(where: str, given: Any) -> bool:
    if isinstance(given, bool):
        return given
    raise LibraryError(f"{where}={given!r} is not true or false")


def _text(where: str, given: Any) -> str:
    if isinstance(given, str):
        return given
    raise LibraryError(f"{where}={given!r} is not a text")


def _version(given: Any) -> str:
    if isinstance(given, str) and _VERSION.match(given):
        return given
    raise LibraryError(f"version={given!r} is not a version such as '0.1.0' or '1.2.0rc1'")
