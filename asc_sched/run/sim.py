"""The simulator as a backend: runs the kernel's ASC-IR on the memory of CPU tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asc_sched.errors import ArgumentError

if TYPE_CHECKING:
    import torch

    from asc_sched.kernel import Kernel
    from asc_sched.run.launch import LaunchArgs


class SimBackend:
    """Runs on any machine; strict: raises on what hardware would corrupt."""

    name = "sim"

    def run(self, kernel: Kernel, args: LaunchArgs) -> None:
        from asc_sched.run.device import one_device
        from asc_sched.sim import simulate

        device = one_device(kernel, args)
        if device.type != "cpu":
            raise ArgumentError(f"{kernel.name}: the tensors are on {device}; the simulator takes CPU tensors (.cpu())")
        inputs = [_array(t, planned.dtype.asc) for t, planned in zip(args.inputs, kernel.plan.inputs, strict=True)]
        outputs = [_array(t, planned.dtype.asc) for t, planned in zip(args.outputs, kernel.plan.outputs, strict=True)]
        scalars = [_number(s.carrier, v) for s, v in zip(kernel.plan.scalars, args.scalars, strict=True)]
        sizes = [_number(d, v) for (_, d), v in zip(kernel.plan.formulas.arguments, args.sizes, strict=True)]
        simulate(
            kernel.asc_ir,
            [*inputs, *outputs, *sizes, *scalars],
            core_num=args.core_num,
            target=kernel.target,
            sources={kernel.request.pseudo_file: kernel.source},
            outputs=[
                len(inputs) + i
                for i, (out, partial) in enumerate(zip(outputs, args.partial, strict=True))
                if not partial and not _holds_input(out, inputs)
            ],
        )


def _holds_input(out: np.ndarray[Any, Any], inputs: list[np.ndarray[Any, Any]]) -> bool:
    """Whether an output is an input too (in place): its memory is defined before the kernel writes it."""
    return any(np.may_share_memory(out, x) for x in inputs)


def _array(tensor: torch.Tensor, asc_type: str) -> np.ndarray[Any, Any]:
    """The tensor's own memory, as the element type that the kernel sees."""
    import torch

    return tensor.detach().cpu().view(torch.uint8).numpy().view(asc_type)


def _number(dtype: str, value: Any) -> np.generic:
    return np.dtype(dtype).type(value)  # type: ignore[no-any-return]
