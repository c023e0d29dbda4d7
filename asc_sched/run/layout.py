"""How a call's tensors lie in memory, against how its kernel reads them: which are taken as they are, which are copied.

Everything here is about shapes and strides alone, so it is worked out once per form of call.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import attrs

from asc_sched.errors import ShapeError
from asc_sched.lang.graph import Graph
from asc_sched.lower.geometry import Arrangement, Geometry, Ints, dense_strides
from asc_sched.run.shapes import resolve_shapes
from asc_sched.run.torch_strides import Spec, result_spec

if TYPE_CHECKING:
    import torch

    from asc_sched.declare import Op
    from asc_sched.kernel import Kernel

_log = logging.getLogger("asc_sched.run.launch")


@attrs.frozen
class CallLayout:
    """A call's tensors over its dimensions in the order in which the results have them in memory.

    `results` are the strides of the results that the call makes, by torch's rule; `order` sorts the dimensions,
    outermost first. `arrangement` says what is copied, `copies` in words. `sizes` and `core_num` go to the kernel.
    `spans` are the elements from the first to the last of each tensor, as it is passed or made.
    """

    shape: Ints
    results: tuple[Ints, ...]
    order: Ints
    arrangement: Arrangement
    copies: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    core_num: int = 0
    spans: Ints = ()

    @property
    def partial(self) -> tuple[bool, ...]:
        """Of each output, whether there are gaps in its memory."""
        total = math.prod(self.shape)
        return tuple(span != total for span in self.spans[self.arrangement.input_count :])


def spec_of(tensor: torch.Tensor) -> Spec:
    return tuple(tensor.shape), tensor.stride()


# -- the layout of results -----------------------------------------------------------------------------------------
def arrange(op: Op, inputs: Sequence[Spec], outs: Sequence[Spec] | None) -> CallLayout:
    """The tensors as they lie, no kernel in sight. Raises `ShapeError` where they don't broadcast."""
    shape = resolve_shapes(op, [list(s) for s, _ in inputs]).output
    results = result_strides(op.graph, tuple(inputs), shape)
    written = results if outs is None else tuple(strides for _, strides in outs)
    leading = written[0]
    order = tuple(sorted(range(len(shape)), key=lambda d: (-leading[d], d)))
    strides = (*(_broadcast(s, shape) for s in inputs), *written)
    ordered = tuple(tuple(s[d] for d in order) for s in strides)
    return CallLayout(shape, results, order, Arrangement(tuple(shape[d] for d in order), ordered, len(inputs)))


def _broadcast(spec: Spec, shape: Ints) -> Ints:
    """A tensor's strides over the broadcast shape."""
    own, strides = spec
    missing = len(shape) - len(own)
    return (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(own, strides, strict=True))


@lru_cache(maxsize=1024)
def result_strides(graph: Graph, inputs: tuple[Spec, ...], shape: Ints) -> tuple[Ints, ...]:
    """The strides of each output as torch's own functions would give them, called one after the other."""
    whole = result_spec(inputs)[1]
    first = inputs[0]
    if all(s == first for s in inputs):
        return (whole,) * len(graph.outputs)
    named = dict(zip(graph.inputs, inputs, strict=True))
    values: list[Spec] = []
    for node in graph.nodes:
        if node.fn in ("const", "scalar"):
            values.append(((), ()))
        elif node.fn == "input":
            values.append(named[str(node.attr)])
        else:
            values.append(result_spec([values[a] for a in node.args]))
    found = [values[o.node] for o in graph.outputs]
    return tuple(result_spec([spec])[1] if spec[0] == shape else whole for spec in found)


# -- a kernel's layout ---------------------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def fit(kernel: Kernel, inputs: tuple[Spec, ...], outs: tuple[Spec, ...] | None, core_num: int | None) -> CallLayout:
    """A call's layout as the kernel can take it, with as few copies as that takes. Raises `ShapeError`.

    `core_num` replaces the schedule's for a kernel of any size.
    """
    call = arrange(kernel.op, inputs, outs)
    if kernel.shapes is not None and call.shape != kernel.shapes.output:
        raise _wrong_shape(kernel, call)
    if math.prod(call.shape) == 0:
        return attrs.evolve(call, spans=(0,) * len(call.arrangement.strides))
    fitted = next((c for c in _attempts(kernel, call) if _same_work(kernel, c.arrangement.geometry)), None)
    if fitted is None:
        raise _wrong_shape(kernel, call)
    sizes, cores = kernel.launch_numbers(fitted.arrangement.geometry, core_num)
    copies = tuple(_words(kernel, call, fitted))
    for text in copies:
        _log.info("%s: %s", kernel.name, text)
    spans = tuple(_span(fitted, i) for i in range(len(fitted.arrangement.strides)))
    return attrs.evolve(fitted, sizes=sizes, core_num=cores, copies=copies, spans=spans)


def _span(call: CallLayout, tensor: int) -> int:
    """Elements from a tensor's first to its last."""
    strides = call.arrangement.strides[tensor]
    return 1 + sum((n - 1) * s for n, s in zip(call.arrangement.sizes, strides, strict=True))


def _same_work(kernel: Kernel, geometry: Geometry) -> bool:
    """Whether a kernel compiled for its geometry does the work of this one."""
    own = kernel.plan.form.geometry
    if not kernel.plan.dynamic:
        return own == geometry
    return own.strides == geometry.strides and own.sizes[1:] == geometry.sizes[1:] and own.rank == geometry.rank


def _attempts(kernel: Kernel, call: CallLayout) -> Iterator[CallLayout]:
    """The call with more and more copies: none, the kernel's own, whatever isn't compact, all to the kernel's form."""
    yield call
    own = kernel.plan.arrangement
    planned = {i: own.is_expanded(i) for i in sorted(own.copied)}
    if planned:
        yield _copying(call, planned)
    tensors = range(len(call.arrangement.strides))
    yield _copying(call, {i: False for i in tensors if not _is_compact(call.arrangement, i)} | planned)
    rows = _row_major(call)
    yield _copying(rows, {i: False for i in tensors if not _is_compact(rows.arrangement, i)} | planned)
    if kernel.shapes is not None:
        yield from _as_compiled(rows, own)
    dense = dense_strides(rows.arrangement.sizes)
    yield _copying(rows, {i: True for i in tensors if rows.arrangement.strides[i] != dense})


def _as_compiled(call: CallLayout, own: Arrangement) -> Iterator[CallLayout]:
    """The call with every tensor that lies otherwise copied to the strides that the kernel was compiled for, unless
    that takes a tensor's elements away."""
    arrangement = call.arrangement
    for i, (have, want) in enumerate(zip(arrangement.strides, own.strides, strict=True)):
        have, want = _ignoring_ones(own.sizes, have), _ignoring_ones(own.sizes, want)
        if any(h and not w for h, w in zip(have, want, strict=True)):
            return
        if have != want:
            arrangement = arrangement.with_strides(i, want)
    yield attrs.evolve(call, arrangement=arrangement)


def _copying(call: CallLayout, copies: dict[int, bool]) -> CallLayout:
    arrangement = call.arrangement
    for tensor, expand in copies.items():
        arrangement = arrangement.with_copy(tensor, expand)
    return attrs.evolve(call, arrangement=arrangement)


def _is_compact(arrangement: Arrangement, tensor: int) -> bool:
    """Whether a tensor has its own elements side by side in the order of the dimensions."""
    after = arrangement.with_copy(tensor, expand=False).strides[tensor]
    return _ignoring_ones(arrangement.sizes, arrangement.strides[tensor]) == _ignoring_ones(arrangement.sizes, after)


def _ignoring_ones(sizes: Ints, strides: Ints) -> Ints:
    return tuple(0 if n == 1 else s for n, s in zip(sizes, strides, strict=True))


def _row_major(call: CallLayout) -> CallLayout:
    """The call over its dimensions in their own order."""
    back = [call.order.index(d) for d in range(len(call.order))]
    arrangement = call.arrangement
    return attrs.evolve(
        call,
        order=tuple(range(len(call.order))),
        arrangement=Arrangement(
            call.shape,
            tuple(tuple(s[b] for b in back) for s in arrangement.strides),
            arrangement.input_count,
        ),
    )


def _wrong_shape(kernel: Kernel, call: CallLayout) -> ShapeError:
    if kernel.shapes is not None and call.shape == kernel.shapes.output:
        made = ", ".join(map(str, kernel.shapes.inputs))
        return ShapeError(
            f"{kernel.name} was compiled for inputs of shapes {made}, which broadcast; these tensors broadcast to "
            f"{call.shape} in another way"
        )
    made = str(kernel.shapes.output if kernel.shapes is not None else kernel.plan.form.geometry.sizes)
    return ShapeError(
        f"{kernel.name} was compiled for shape {made}, the tensors have {call.shape}; compile with shape=None for a "
        "kernel of any size"
    )


def _words(kernel: Kernel, call: CallLayout, fitted: CallLayout) -> Iterable[str]:
    """What is copied, and why, for people."""
    names = [t.name for t in (*kernel.plan.inputs, *kernel.plan.outputs)]
    for tensor in sorted(fitted.arrangement.copied):
        own = call.arrangement.strides[tensor]
        where = f"{names[tensor]} (strides {own} over {call.arrangement.sizes}, outermost dimension first)"
        if tensor >= call.arrangement.input_count:
            yield f"{where} is written after the launch, from a result of its own"
        elif 0 in own and fitted.arrangement.is_expanded(tensor):
            yield f"{where} is expanded to every element before the launch"
        else:
            yield f"{where} is copied to contiguous memory before the launch"


# -- memory --------------------------------------------------------------------------------------------------------
def memory(tensor: torch.Tensor, span: int) -> torch.Tensor:
    """The memory of a tensor's `span` elements from the first to the last, as one dimension."""
    return (tensor.detach() if tensor.requires_grad else tensor).as_strided((span,), (1,))


def gathered(tensor: torch.Tensor, layout: CallLayout, number: int) -> torch.Tensor:
    """A copy of input `number` as the layout has it, as one dimension."""
    view = tensor.detach().expand(layout.shape).permute(layout.order)
    for dim, (size, step) in enumerate(zip(view.shape, layout.arrangement.strides[number], strict=True)):
        if step == 0 and size > 1:
            view = view.narrow(dim, 0, 1)
    flat = view.reshape(-1)
    return flat.clone() if flat.data_ptr() == tensor.data_ptr() else flat
