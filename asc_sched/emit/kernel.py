"""KernelPlan to pyasc source, through the template; nothing is decided here."""

from __future__ import annotations

import textwrap
from functools import lru_cache
from typing import Any

import jinja2

import asc_sched
from asc_sched.lower.plan import KernelPlan, Member, Queue, Tensor

MAX_EXPRESSION_LINES = 40
MAX_LINE = 120


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("asc_sched.emit"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template("kernel.py.j2")


def kernel_source(plan: KernelPlan) -> str:
    """The kernel's Python module: three device functions and the kernel that calls each once per tile."""
    return _template().render(plan=_PlanText(plan), **_header(plan), **_arguments(plan))


class _PlanText:
    """The plan with its queues and expression in the form the template prints."""

    def __init__(self, plan: KernelPlan) -> None:
        self._plan = plan
        self.in_queues = [_queue(plan, q, "in") for q in plan.in_queues]
        self.out_queues = [_queue(plan, q, "out") for q in plan.out_queues]
        self.expression = _expression(plan.expression)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)


def _expression(lines: tuple[str, ...]) -> list[str]:
    wrapped = [w for line in lines for w in textwrap.wrap(line, 108, subsequent_indent="    ", break_long_words=False)]
    left = len(wrapped) - MAX_EXPRESSION_LINES
    return wrapped if left <= 0 else [*wrapped[:MAX_EXPRESSION_LINES], f"... and {left} more lines"]


def _header(plan: KernelPlan) -> dict[str, Any]:
    facts = [f"{plan.schedule!r} on {plan.target.name}, by asc_sched {asc_sched.__version__}."]
    t = plan.tiling
    dtypes = ", ".join(f"{x.name} {x.dtype}" for x in (*plan.inputs, *plan.outputs))
    if t is None or plan.dynamic:
        facts.append(f"Any total_length; tiles of {plan.tile_length} elements, the last one of a core shorter.")
    else:
        facts.append(
            f"total_length {t.total_length} = {_counted(t.core_num, 'core')} x up to {t.block_length} elements, "
            f"in up to {_counted(t.max_tile_count, 'tile')} of {t.tile_length}."
        )
    facts.append(f"Tensors: {dtypes}. UB: {plan.ub_bytes} of {plan.ub_capacity} bytes.")
    return {"facts": [w for f in facts for w in textwrap.wrap(f, 116)]}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _arguments(plan: KernelPlan) -> dict[str, Any]:
    ins, outs = _loaded(plan), plan.outputs
    in_queues, out_queues = [q.name for q in plan.in_queues], [q.name for q in plan.out_queues]
    temps = [t.name for t in plan.temps]
    starts = dict(plan.formulas.loop)
    start = next(iter(starts))
    length = plan.formulas.length

    copy_in = [*(t.gm for t in ins), *in_queues]
    compute = [*in_queues, *out_queues, *temps, *plan.scalars_used]
    copy_out = [*(t.gm for t in outs), *out_queues]
    return {
        "call": wrapped_call,
        "in_params": _params(ins),
        "out_params": _params(outs),
        "copy_in_args": [*copy_in, "start", plan.count],
        "copy_in_call": [*copy_in, start, length],
        "compute_args": [*compute, plan.count],
        "compute_call": [*compute, length],
        "copy_out_args": [*copy_out, "start", plan.count],
        "copy_out_call": [*copy_out, start, length],
        "kernel_args": _signature(plan),
        "tensors": [_tensor(plan, t, is_input=True) for t in ins] + [_tensor(plan, t, is_input=False) for t in outs],
    }


def wrapped_call(head: str, args: list[str], indent: str = "    ", tail: str = "") -> str:
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


def _loaded(plan: KernelPlan) -> tuple[Tensor, ...]:
    """The inputs that the kernel reads; one that it doesn't is an argument all the same."""
    return tuple(m.tensor for q in plan.in_queues for m in q.members)


def _signature(plan: KernelPlan) -> list[str]:
    """Pointers, then 8-byte scalars, then 4-byte ones: pyasc's launcher packs them without padding."""
    pointers = [f"{t.ident}: asc.GlobalAddress" for t in (*plan.inputs, *plan.outputs)]
    sizes = [f"{name}: int" for name, _ in plan.formulas.arguments]
    scalars = [f"{s.ident}: {'float' if s.carrier == 'float32' else 'int'}" for s in plan.scalars]
    return [*pointers, *sizes, *scalars]


def _params(tensors: tuple[Tensor, ...]) -> list[tuple[int, str]]:
    sizes = list(dict.fromkeys(t.dtype.itemsize for t in tensors))
    return [(size, _params_name(size, tensors)) for size in sizes]


def _params_name(size: int, tensors: tuple[Tensor, ...]) -> str:
    return "params" if len({t.dtype.itemsize for t in tensors}) == 1 else f"params_{8 * size}bit"


def _tensor(plan: KernelPlan, tensor: Tensor, is_input: bool) -> dict[str, Any]:
    return {"ident": tensor.ident, "gm": tensor.gm, "bypass": is_input and plan.schedule.l2_cache == "bypass"}


def _queue(plan: KernelPlan, queue: Queue, side: str) -> dict[str, Any]:
    tensors = _loaded(plan) if side == "in" else plan.outputs
    return {
        "name": queue.name,
        "local": queue.local,
        "asc_type": queue.asc_type,
        "members": [_member(queue, m, tensors) for m in queue.members],
    }


def _member(queue: Queue, member: Member, tensors: tuple[Tensor, ...]) -> dict[str, Any]:
    own = f"asc.{member.tensor.dtype.asc}"
    return {
        "local": member.local,
        "gm": member.tensor.gm,
        "asc_type": own,
        "params": _params_name(member.tensor.dtype.itemsize, tensors),
        "view": _view(queue, member, own),
    }


def _view(queue: Queue, member: Member, own: str) -> str:
    """How a member is cut out of its queue's tensor; nothing where it is the whole tensor."""
    if member.local == queue.local:
        return ""
    itemsize = queue.members[0].tensor.dtype.itemsize
    part = f"{queue.local}[{member.offset_bytes // itemsize}:]"
    return part if own == queue.asc_type else f"{part}.reinterpret_cast({own})"
