"""Machine programs of the catalogue's ops, before their steps are put in order."""

from __future__ import annotations

from asc_sched.ops import catalogue

from asc_sched import Op, get_target
from asc_sched.lower.form import Form
from asc_sched.lower.planner import Order, flat_arrangement
from asc_sched.lower.spaces import TileProgram, place
from asc_sched.lower.tiles import ANY_SIZE, form_for
from asc_sched.tune.tuner import task_of

TARGET = get_target("Ascend910B1")


def written(declared: str | Op, dtype: str) -> TileProgram:
    """An op's program on tensors side by side, with its steps as they were written down."""
    op = catalogue()[declared] if isinstance(declared, str) else declared
    typed = task_of(op, (8192, 8192), dtype, TARGET, "hot").typed
    laid = flat_arrangement(len(typed.graph.inputs), len(typed.graph.outputs))
    subject = Order(name="kernel", typed=typed, arrangement=laid, target=TARGET).subject()
    form = form_for(subject, ANY_SIZE)
    assert isinstance(form, Form)
    return place(subject.program, form, subject.tensors)
