"""KernelPlan to pyasc source, through the template; nothing is decided here."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import attrs
import jinja2

import asc_sched
from asc_sched.emit.environment import templates
from asc_sched.lower.form import Reach
from asc_sched.lower.plan import Body, KernelPlan, Member, Queue, Tensor
from asc_sched.tiling.rows import RowTiling

MAX_EXPRESSION_LINES = 40
MAX_LINE = 120


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    return templates("asc_sched.emit").get_template("kernel.py.j2")


def kernel_source(plan: KernelPlan) -> str:
    """The kernel's Python module: device functions, and the kernel that calls each once per tile, or before."""
    once = plan.once_queue
    prepares = once is not None or plan.prepare.statements
    functions = {
        "setup": _setup(plan) if plan.setup.statements else None,
        "prepare": _prepare(plan, once) if prepares else None,
        "copy_in": _copies(plan, "copy_in", plan.in_queues),
        "compute": _compute(plan, once),
        "copy_out": _copies(plan, "copy_out", plan.out_queues),
    }
    named = {name: f.params_by_fields for name, f in functions.items() if f is not None}
    tensors = [_tensor(plan, t, True) for t in _read(plan)] + [_tensor(plan, t, False) for t in plan.outputs]
    return _template().render(
        plan=plan,
        expression=_expression(plan.expression),
        facts=_facts(plan),
        kernel_args=_signature(plan),
        call=wrapped_call,
        tensors=tensors,
        in_queues=[_queue(q, functions["copy_in"], named["copy_in"]) for q in plan.in_queues],
        out_queues=[_queue(q, functions["copy_out"], named["copy_out"]) for q in plan.out_queues],
        once_queue=None if once is None else _queue(once, functions["prepare"], named["prepare"]),
        **functions,
    )


def wrapped_call(head: str, args: Sequence[str], indent: str = "    ", tail: str = "") -> str:
    """``head(args)`` on one line, or with the arguments on lines of their own where it would be too long."""
    line = f"{indent}{head}({', '.join(args)}){tail}"
    if len(line) <= MAX_LINE:
        return line
    rows = [f"{indent}   "]
    for arg in args:
        if len(rows[-1]) + len(arg) + 2 > MAX_LINE and rows[-1].strip():
            rows.append(f"{indent}   ")
        rows[-1] += f" {arg},"
    return "\n".join([f"{indent}{head}(", *rows, f"{indent}){tail}"])


def _read(plan: KernelPlan) -> list[Tensor]:
    """The inputs that the kernel reads; one that it doesn't is an argument all the same."""
    read = {m.tensor.name for q in plan.queues for m in q.members} | {t.name for _, _, t in plan.constants}
    return [t for t in plan.inputs if t.name in read]


# -- the header ----------------------------------------------------------------------------------------------------
def _expression(lines: tuple[str, ...]) -> list[str]:
    wrapped = [w for line in lines for w in textwrap.wrap(line, 108, subsequent_indent="    ", break_long_words=False)]
    left = len(wrapped) - MAX_EXPRESSION_LINES
    return wrapped if left <= 0 else [*wrapped[:MAX_EXPRESSION_LINES], f"... and {left} more lines"]


def _facts(plan: KernelPlan) -> list[str]:
    facts = [f"{plan.schedule!r} on {plan.target.name}, by asc_sched {asc_sched.__version__}."]
    dtypes = ", ".join(f"{x.name} {x.dtype}" for x in (*plan.inputs, *plan.outputs))
    facts.append(_row_fact(plan) if isinstance(plan.tiling, RowTiling) else _flat_fact(plan))
    facts += _broadcast_facts(plan)
    facts.append(f"Tensors: {dtypes}. UB: {plan.ub_bytes} of {plan.ub_capacity} bytes.")
    return [w for f in facts for w in textwrap.wrap(f, 116)]


def _flat_fact(plan: KernelPlan) -> str:
    t = plan.tiling
    if t is None or plan.dynamic:
        at_most = "at most " if any(name.startswith("tile_length") for name, _ in plan.formulas.arguments) else ""
        return f"Any total_length; tiles of {at_most}{plan.tile_length} elements, the last one of a core shorter."
    return (
        f"total_length {t.total_length} = {_counted(t.core_num, 'core')} x up to {t.block_length} elements, "
        f"in up to {_counted(t.max_tile_count, 'tile')} of {t.tile_length}."
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _row_fact(plan: KernelPlan) -> str:
    t = plan.tiling
    assert isinstance(t, RowTiling)
    shape = f"{t.tile_rows} x {t.column_tile} elements"
    if plan.dynamic:
        return f"Any number of rows of {t.width} elements; tiles of {shape}."
    groups = f" in {t.outer_count} groups" if t.outer_count > 1 else ""
    part = " of a column tile" if t.column_count > 1 else ""
    return (
        f"{_counted(t.outer_count * t.row_count, 'row')} of {t.width} elements{groups} = "
        f"{_counted(t.core_num, 'core')} x up to {_counted(t.rows.block_length, 'row')}{part}, in up to "
        f"{_counted(t.max_tile_count, 'tile')} of {shape}."
    )


def _broadcast_facts(plan: KernelPlan) -> list[str]:
    """What is read how often, where that isn't once and all."""
    accesses = dict(zip((t.name for t in plan.inputs), plan.form.accesses, strict=False))
    loaded = {m.tensor.name for q in plan.queues for m in q.members}
    once = [n for n, a in accesses.items() if a.reach is Reach.ONCE and n in loaded]
    part = [n for n, a in accesses.items() if a.reach is Reach.PART and n in loaded]
    often = "core" if not plan.group else "group of rows"
    facts = [f"Read once per {often}: {', '.join(once)}."] if once else []
    facts += [f"Spread over the rows of each tile: {', '.join(part)}."] if part else []
    return facts


# -- functions -----------------------------------------------------------------------------------------------------
@attrs.frozen
class Function:
    """A device function's parameters, and what the kernel passes for them; `result` names what it returns.

    `params`: DataCopyExtParams by name; `starts`: the function's names for places in GM.
    """

    name: str
    args: tuple[str, ...]
    given: tuple[str, ...]
    result: str = ""
    params: tuple[tuple[str, str], ...] = ()
    starts: dict[str, str] = attrs.field(factory=dict)

    @property
    def params_by_fields(self) -> dict[str, str]:
        return {fields: name for name, fields in self.params}


def _setup(plan: KernelPlan) -> Function:
    args = (*plan.setup.temps, *plan.setup.scalars)
    return Function(f"{plan.name}_setup", args, args)


def _prepare(plan: KernelPlan, once: Queue | None) -> Function:
    queues = [] if once is None else [once]
    function = _moves(plan, "prepare", queues, (*plan.prepare.temps, *plan.prepare.scalars))
    return attrs.evolve(function, result=once.local if plan.held and once is not None else "")


def _copies(plan: KernelPlan, part: str, queues: Sequence[Queue]) -> Function:
    return _moves(plan, part, queues, ())


def _moves(plan: KernelPlan, part: str, queues: Sequence[Queue], more: tuple[str, ...]) -> Function:
    """A function that copies between queues and GM: tensors, queues, buffers, places, counts."""
    members = [m for q in queues for m in q.members]
    places = list(dict.fromkeys(m.move.start for m in members if m.move.start))
    starts = dict.fromkeys(places, "start") if len(places) == 1 else {place: place for place in places}
    counts = _used_counts(plan, (m.move.params for m in members))
    tensors = [m.tensor.gm for m in members]
    names = [q.name for q in queues]
    args = (*tensors, *names, *more, *starts.values(), *(name for name, _ in counts))
    given = (*tensors, *names, *more, *starts, *(text for _, text in counts))
    return Function(f"{plan.name}_{part}", args, given, "", tuple(_params(members)), starts)


def _compute(plan: KernelPlan, once: Queue | None) -> Function:
    body: Body = plan.compute
    counts = _used_counts(plan, (*body.statements, *(v.statement for v in body.views)))
    held = [once.local] if plan.held and once is not None else []
    buffers = [*(q.name for q in plan.in_queues), *held, *(q.name for q in plan.out_queues), *body.temps]
    args = (*buffers, *body.scalars, *(name for name, _ in counts))
    given = (*buffers, *body.scalars, *(text for _, text in counts))
    return Function(f"{plan.name}_compute", args, given)


def _used_counts(plan: KernelPlan, texts: Iterable[str]) -> list[tuple[str, str]]:
    """The tile's counts that a function mentions."""
    words = {w for text in texts for w in re.findall(r"[A-Za-z_]\w*", text)}
    return [(name, text) for name, text in plan.counts if name in words]


def _params(members: Sequence[Member]) -> list[tuple[str, str]]:
    """Names for the distinct DataCopyExtParams of a function: ``params``, by item size, or by tensor."""
    by_fields: dict[str, list[Member]] = {}
    for m in members:
        by_fields.setdefault(m.move.params, []).append(m)
    if len(by_fields) == 1:
        return [("params", fields) for fields in by_fields]
    sizes = [{m.tensor.dtype.itemsize for m in users} for users in by_fields.values()]
    flat = [size for users in sizes for size in users]
    if len(set(flat)) == len(flat) == len(by_fields):
        return [(f"params_{8 * size}bit", fields) for fields, size in zip(by_fields, flat, strict=True)]
    return [(f"{users[0].tensor.ident}_params", fields) for fields, users in by_fields.items()]


def _signature(plan: KernelPlan) -> list[str]:
    """Pointers, then 8-byte scalars, then 4-byte ones: pyasc's launcher packs them without padding."""
    pointers = [f"{t.ident}: asc.GlobalAddress" for t in (*plan.inputs, *plan.outputs)]
    sizes = [f"{name}: int" for name, _ in plan.formulas.arguments]
    scalars = [f"{s.ident}: {'float' if s.carrier == 'float32' else 'int'}" for s in plan.scalars]
    return [*pointers, *sizes, *scalars]


# -- tensors and queues --------------------------------------------------------------------------------------------
def _tensor(plan: KernelPlan, tensor: Tensor, is_input: bool) -> dict[str, Any]:
    return {"ident": tensor.ident, "gm": tensor.gm, "bypass": is_input and plan.schedule.l2_cache == "bypass"}


def _queue(queue: Queue, function: Function | None, params: dict[str, str]) -> dict[str, Any]:
    assert function is not None
    return {
        "name": queue.name,
        "local": queue.local,
        "freed": queue.freed,
        "asc_type": queue.asc_type,
        "members": [_member(queue, m, function, params) for m in queue.members],
    }


def _member(queue: Queue, member: Member, function: Function, params: dict[str, str]) -> dict[str, Any]:
    own = f"asc.{member.tensor.dtype.asc}"
    start = member.move.start
    return {
        "local": member.local,
        "gm": f"{member.tensor.gm}[{function.starts[start]}:]" if start else member.tensor.gm,
        "asc_type": own,
        "params": params[member.move.params],
        "view": _view(queue, member, own),
    }


def _view(queue: Queue, member: Member, own: str) -> str:
    """How a member is cut out of its queue's tensor; nothing where it is the whole tensor."""
    if member.local == queue.local:
        return ""
    itemsize = queue.members[0].tensor.dtype.itemsize
    part = f"{queue.local}[{member.offset_bytes // itemsize}:]"
    return part if own == queue.asc_type else f"{part}.reinterpret_cast({own})"
