"""What the tests of built libraries do inside a process with the stand-in: each scene prints one JSON document.

    python -m tests.npu.standin.library_scenes <scene> <library's folder>
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tests.npu.standin.scenes import failure


def npu() -> dict[str, Any]:
    """The operators on NPU tensors: all kinds of arguments, several devices, and before and after ^C's handler."""
    import onboard
    import torch
    import torch_npu

    def on_device(host: Callable[..., Any], *tensors: Any, **scalars: Any) -> bool:
        results = call(host.__name__, *(torch_npu.to_npu(t) for t in tensors), **scalars)
        wanted = host(*tensors)
        pairs = zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True)
        return all(torch.equal(torch_npu.to_cpu(r), w) for r, w in pairs)

    def call(name: str, *tensors: Any, **scalars: Any) -> tuple[Any, ...]:
        found = getattr(torch.ops.onboard, name)(*tensors, **scalars)
        torch_npu.npu.synchronize()
        return found if isinstance(found, tuple) else (found,)

    def product(x: Any, y: Any) -> Any:
        return x * y

    def scaled(x: Any) -> Any:
        return -2.5 * x + 0.5

    def pair(x: Any, y: Any) -> Any:
        return x + y, x - y

    before = signal.getsignal(signal.SIGINT)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(40, 33, generator=generator) for _ in range(2))
    seen: dict[str, Any] = {"float32": on_device(product, x, y)}
    seen["of its own size"] = on_device(product, x[:10, :10].contiguous(), y[:10, :10].contiguous())
    seen["bfloat16"] = on_device(product, x.bfloat16(), y.bfloat16())
    seen["scalars"] = on_device(scaled, x, a=-2.5)
    seen["two results"] = on_device(pair, x, y)
    seen["no element"] = call("product", torch_npu.to_npu(x)[:0], torch_npu.to_npu(y)[:0])[0].shape == (0, 33)
    seen["^C's handler"] = signal.getsignal(signal.SIGINT) is before
    held = [torch_npu.to_npu(t) for t in (x, y)]
    # torch hands a subclass's views on as plain tensors, which pyasc's launcher takes for CPU tensors: without torch in
    # between, the stand-in's tensors stay what they are.
    in_place = onboard._library.operators["product"](*held)
    seen["in place"] = [torch.equal(torch_npu.to_cpu(in_place), x * y), str(in_place.device)]
    results = [call("product", *held)[0] for _ in range(3)]
    seen["again"] = all(torch.equal(torch_npu.to_cpu(r), x * y) for r in results)
    seen["device"] = str(results[0].device)
    seen["mixed devices"] = failure(lambda: torch.ops.onboard.product(held[0], x))
    seen["target"] = onboard._library.target
    torch_npu.NpuTensor.index = 1
    seen["second device"] = failure(lambda: torch.ops.onboard.product(*held))
    torch_npu.NpuTensor.index = 0
    seen["in a thread"] = in_thread(lambda: on_device(product, x, y))
    return seen


def in_thread(call: Callable[[], Any]) -> Any:
    """What a call gives in a thread that has never seen the device."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def thread_first() -> dict[str, Any]:
    """The first launch of a process from another thread than the main one."""
    import onboard  # noqa: F401
    import torch
    import torch_npu

    x = torch_npu.to_npu(torch.ones(100))

    def work() -> bool:
        result = torch.ops.onboard.product(x, x)
        torch_npu.npu.synchronize()
        return torch.equal(torch_npu.to_cpu(result), torch.ones(100))

    return {"result": in_thread(work)}


def other_chip() -> dict[str, Any]:
    """An NPU that the library wasn't built for."""
    import onboard  # noqa: F401
    import torch
    import torch_npu

    x = torch_npu.to_npu(torch.ones(100))
    seen = {"own": failure(lambda: torch.ops.onboard.product(x, x))}
    os.environ["ASC_SCHED_TARGET"] = "Ascend910B1"
    seen["forced"] = failure(lambda: torch.ops.onboard.product(x, x))
    return seen


def faults() -> dict[str, Any]:
    """A driver that gives errors, then a try that succeeds; and CPU tensors, which need no NPU."""
    import onboard  # noqa: F401
    import torch
    import torch_npu

    x = torch_npu.to_npu(torch.ones(100))
    seen: dict[str, Any] = {}

    def under(name: str, fault: str) -> None:
        os.environ["ASC_SCHED_TWIN_FAIL"] = fault
        seen[name] = failure(lambda: torch.ops.onboard.product(x, x))
        del os.environ["ASC_SCHED_TWIN_FAIL"]

    under("no name", "rtGetSocVersion=507899")
    under("no launch", "rtKernelLaunch=507015")
    result = torch.ops.onboard.product(x, x)
    torch_npu.npu.synchronize()
    seen["at last"] = torch.equal(torch_npu.to_cpu(result), torch.ones(100))
    return seen


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    print(json.dumps({f.__name__: f for f in (npu, thread_first, other_chip, faults)}[sys.argv[1]]()))
