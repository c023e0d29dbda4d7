"""One candidate on a real backend, in a process of its own: checked first, then measured.

A candidate may crash, hang or write where it shouldn't; none of that may reach the search or the user's data. Inputs
are made here, outputs are poisoned and lie between canaries, inputs must be as they were afterwards.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from asc_sched.build.request import Lowered
from asc_sched.declare import Op
from asc_sched.errors import AscSchedError
from asc_sched.kernel import Kernel, generate
from asc_sched.library.graphs import graph_from_json, graph_to_json
from asc_sched.run.backend import get_backend
from asc_sched.run.check import allowances, compare, random_inputs
from asc_sched.run.launch import bind_launch
from asc_sched.schedule import Schedule

if TYPE_CHECKING:
    import torch

CANARY_BYTES = 512  # a line of GM: tensors lie in lines as they would without
_CANARY, _POISON = 0xA5, 0x5A


class Runner(Protocol):
    """A backend as a trial sees it: runs a kernel on tensors, and tells its times in microseconds."""

    def run(self, kernel: Kernel, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None: ...

    def measure(self, kernel: Kernel, inputs: Sequence[torch.Tensor], repeats: int) -> Sequence[float]: ...


@attrs.frozen
class BackendRunner:
    """The machine's own backend (npu, camodel, sim) behind `Runner`."""

    backend: str
    l2: str

    def run(self, kernel: Kernel, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """What lies in the tensors and in the canaries around them goes to a device and back, too.

        Tensors that the kernel has copied first lie elsewhere: no canaries can be around those.
        """
        numbers = missing_scalars(kernel.op)
        args, _, _ = bind_launch(kernel, inputs, list(outputs), numbers)
        if args.copies:
            kernel(*inputs, out=list(outputs), backend=self.backend, **numbers)
        else:
            get_backend(self.backend).run(kernel, attrs.evolve(args, guard=CANARY_BYTES))

    def measure(self, kernel: Kernel, inputs: Sequence[torch.Tensor], repeats: int) -> Sequence[float]:
        from asc_sched.run.measure import measure

        given = [t.npu() for t in inputs] if self.backend == "npu" else list(inputs)  # type: ignore[attr-defined]
        return measure(kernel, given, repeats, backend=self.backend, l2=self.l2).times_us


def missing_scalars(op: Op) -> dict[str, Any]:
    """A value for every runtime scalar without a default."""
    return {s.name: 1.5 if s.dtype.is_float else 2 for s in op.scalars if s.default is None}


def request(
    kernel: Kernel, *, backend: str, l2: str, repeats: int, seed: int = 0, runner: str | None = None
) -> dict[str, Any]:
    """A trial as plain data. `runner` names a `Runner` class by ``module:name`` in place of the backend's own."""
    assert kernel.shapes is not None
    return {
        "op": kernel.op.name,
        "graph": graph_to_json(kernel.op.graph),
        "shapes": [list(s) for s in kernel.shapes.inputs],
        "dtypes": [d.name for d in kernel.typed.input_dtypes.values()],
        "schedule": kernel.schedule.to_dict(),
        "target": attrs.asdict(kernel.target),
        "asc_ir": kernel.asc_ir,
        "ascendc": kernel.ascendc,
        "backend": backend,
        "l2": l2,
        "repeats": repeats,
        "seed": seed,
        "runner": runner,
    }


def warm(argument: dict[str, Any]) -> dict[str, Any]:
    """Load what trials need, so that it doesn't count against their time limit, and end with the search.

    A candidate that hangs can't notice that the search was killed; the kernel ends its process then (Linux).
    """
    import torch

    _die_with_parent()
    return {"status": "ok", "torch": torch.__version__}


def _die_with_parent() -> None:
    import contextlib
    import ctypes
    import signal

    with contextlib.suppress(OSError, AttributeError):  # no prctl here: the process ends when it next reads its input
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run(argument: dict[str, Any]) -> dict[str, Any]:
    """What `request` asks for: ``status`` ok (with ``times_us``), wrong or failed (with ``reason``)."""
    try:
        kernel = _kernel(argument)
        runner = _runner(argument)
        inputs = random_inputs(kernel, argument["seed"])
        fault = check(kernel, runner, inputs)
        if fault:
            return {"status": "wrong", "reason": fault}
        return {"status": "ok", "times_us": [float(t) for t in runner.measure(kernel, inputs, argument["repeats"])]}
    except AscSchedError as error:
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    except Exception as error:  # a driver may raise anything; it is this candidate's failure, not the search's
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}


def _kernel(argument: dict[str, Any]) -> Kernel:
    from asc_sched.target import Target

    op = Op(argument["op"], graph_from_json(argument["graph"]))
    kernel = generate(
        op, [tuple(s) for s in argument["shapes"]], argument["dtypes"],
        schedule=Schedule.from_dict(argument["schedule"]), target=Target(**argument["target"]),
    )  # fmt: skip
    return attrs.evolve(kernel, lowered=Lowered(argument["asc_ir"], argument["ascendc"]))


def _runner(argument: dict[str, Any]) -> Runner:
    if argument["runner"] is None:
        return BackendRunner(argument["backend"], argument["l2"])
    module, _, name = argument["runner"].partition(":")
    runner: Runner = getattr(importlib.import_module(module), name)()
    return runner


def check(kernel: Kernel, runner: Runner, inputs: Sequence[torch.Tensor]) -> str:
    """Empty if the results are right and nothing else was touched; else what is wrong."""
    import torch

    assert kernel.shapes is not None
    kept = list(inputs)
    inputs, around = _guarded_copies(kept)
    guarded = [_guarded(kernel.shapes.total_length, t.dtype.torch) for t in kernel.plan.outputs]
    outputs = [inner.view(kernel.shapes.output) for _, inner in guarded]
    runner.run(kernel, inputs, outputs)
    names = [f"input {t.name}" for t in kernel.plan.inputs] + [f"output {t.name}" for t in kernel.plan.outputs]
    for name, whole in zip(names, (*around, *(whole for whole, _ in guarded)), strict=True):
        if not bool((whole[:CANARY_BYTES] == _CANARY).all() and (whole[-CANARY_BYTES:] == _CANARY).all()):
            return f"memory beside {name} was overwritten"
    for planned, before, after in zip(kernel.plan.inputs, kept, inputs, strict=True):
        if not torch.equal(before.view(-1).view(torch.uint8), after.reshape(-1).view(torch.uint8)):
            return f"input {planned.name} was changed"
    numbers = missing_scalars(kernel.op)
    expected = kernel.op.reference(*kept, **numbers)
    tensors = dict(zip(kernel.op.inputs, kept, strict=True))
    allowed = allowances(kernel.typed, tensors, kernel.op.bind_scalars(numbers), kernel.precision)
    for planned, got, want in zip(kernel.plan.outputs, outputs, expected, strict=True):
        result = compare(got, want, allowed(planned.name))
        if not result.ok:
            return (
                f"output {planned.name}: {result.mismatches} of {result.elements} elements differ from torch, "
                f"max abs error {result.max_abs_error:.3g}"
            )
    return ""


def _guarded_copies(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Copies of tensors between canaries, and all bytes of each."""
    copies, around = [], []
    for tensor in tensors:
        whole, inner = _guarded(tensor.numel(), tensor.dtype)
        copies.append(inner.view(tensor.shape).copy_(tensor))
        around.append(whole)
    return copies, around


def _guarded(length: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """All bytes, with canaries at both ends, and the poisoned inner part as elements."""
    import torch

    size = length * dtype.itemsize
    whole = torch.full((size + 2 * CANARY_BYTES,), _CANARY, dtype=torch.uint8)
    inner = whole[CANARY_BYTES : CANARY_BYTES + size]
    inner.fill_(_POISON)
    return whole, inner.view(dtype)
