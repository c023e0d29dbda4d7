"""What the tests of backends do inside a process with the stand-in: each scene prints one JSON document.

    python -m tests.npu.standin.scenes <scene>
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCENES: dict[str, Callable[[], dict[str, Any]]] = {}


def scene(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    SCENES[function.__name__] = function
    return function


def failure(call: Callable[[], Any]) -> list[str]:
    """Class names and text of what a call raises."""
    try:
        call()
    except Exception as err:
        return [*(c.__name__ for c in type(err).__mro__), str(err)]
    return ["nothing raised"]


# -- CPU tensors, by copy ----------------------------------------------------------------------------------------------
def by_copy(backend: str) -> dict[str, bool]:
    """Kernels of all kinds of arguments, each against torch."""
    import torch

    from asc_sched import Schedule, op

    add = op("z = x + y", name="add")
    scaled = op("z = alpha * x + y", scalars={"alpha": None}, name="scaled")
    halves = op("z = x + y", name="halves")
    ints = op("z = maximum(x, y)", name="ints")
    generator = torch.Generator().manual_seed(0)

    def rand(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    seen = {}
    x, y = rand(1003), rand(1003)
    seen["add"] = torch.equal(add.compile((1003,), "float32")(x, y, backend=backend), x + y)
    kernel = add.compile(None, "float32", schedule=Schedule(core_num=5, tile_length=256))
    seen["any size"] = all(
        torch.equal(kernel(a, b, backend=backend), a + b) for a, b in [(x, y), (rand(64), rand(64)), (x[:1], y[:1])]
    )
    seen["no element"] = kernel(x[:0], y[:0], backend=backend).numel() == 0
    kernel = scaled.compile((33,), "float32")
    a, b = rand(33), rand(33)
    seen["runtime scalar"] = torch.allclose(kernel(a, b, backend=backend, alpha=-2.5), -2.5 * a + b, rtol=1e-6)
    a, b = rand(70).bfloat16(), rand(70).bfloat16()
    seen["bfloat16"] = torch.equal(halves.compile((70,), "bfloat16")(a, b, backend=backend), a + b)
    i, j = (torch.randint(-9, 9, (40,), generator=generator, dtype=torch.int32) for _ in range(2))
    seen["int32"] = torch.equal(ints.compile((40,), "int32")(i, j, backend=backend), torch.maximum(i, j))
    m, n = rand(20, 30).t(), rand(20, 30).t()
    seen["transposed"] = torch.equal(add.compile((30, 20), "float32")(m, n, backend=backend), m + n)
    out = torch.empty(1003)
    add.compile((1003,), "float32")(x, y, out=out, backend=backend)
    seen["out"] = torch.equal(out, x + y)
    wide = torch.full((40, 50), -7.0)
    m, n = rand(40, 33), rand(40, 33)
    add.compile((40, 33), "float32")(m, n, out=wide[:, 8:41], backend=backend)
    beside = torch.cat([wide[:, :8], wide[:, 41:]], 1)
    seen["out with gaps"] = torch.equal(wide[:, 8:41], m + n) and bool((beside == -7).all())
    row = rand(33)
    seen["broadcast"] = torch.equal(add.compile([(40, 33), (33,)], "float32")(m, row, backend=backend), m + row)
    before = x.clone()
    add.compile((1003,), "float32")(x, y, out=x, backend=backend)
    seen["in place"] = torch.equal(x, before + y)
    return seen


@scene
def camodel() -> dict[str, Any]:
    import torch

    from asc_sched import op
    from asc_sched.run.backend import get_backend
    from asc_sched.run.measure import measure

    add = op("z = x + y", name="add")
    kernel = add.compile((4096,), "float32")
    ones = torch.ones(4096)
    kernel(ones, ones, backend="camodel")
    seen: dict[str, Any] = {"own": by_copy("camodel")}
    os.environ["ASC_SCHED_LAUNCHER"] = "pyasc"
    seen["pyasc"] = by_copy("camodel")
    os.environ["ASC_SCHED_LAUNCHER"] = "own"
    seen["survives pyasc's launcher"] = torch.equal(kernel(ones, ones, backend="camodel"), 2 * ones)
    measured = measure(kernel, repeats=3, backend="camodel")
    seen["ticks"] = [list(measured.times_us), measured.source, measure(kernel, backend="sim").median_us]
    x = torch.ones(4096)
    other = add.compile((4096,), "float32", target="Ascend910B3")
    seen["other SoC"] = failure(lambda: other(x, x, backend="camodel"))
    seen["npu after camodel"] = failure(lambda: kernel(x, x, backend="npu"))
    backend: Any = get_backend("camodel")
    launcher = backend.launcher(kernel, backend.runtime_for(kernel))
    seen["too few values"] = failure(lambda: launcher(1, 0, (1, 2)))
    seen["not a number"] = failure(lambda: launcher(1, 0, (1, 2, "z")))
    any_size = add.compile(None, "float32")
    launcher = backend.launcher(any_size, backend.runtime_for(any_size))
    seen["beyond int64"] = failure(lambda: launcher(1, 0, (1, 2, 3, 2**63)))
    rt = backend.runtime_for(kernel).rt
    vector, cube = rt.DeviceModuleType.RT_MODULE_TYPE_VECTOR_CORE, rt.DeviceModuleType.RT_MODULE_TYPE_AICORE
    seen["cores"] = [rt.device_info(m, rt.DeviceInfoType.INFO_TYPE_CORE_NUM) for m in (vector, cube)]
    seen["no stream"] = failure(lambda: launcher(1, 0, (1, 2, 3, 64)))
    return seen


# -- the NPU, with the stand-in's torch_npu ----------------------------------------------------------------------------
@scene
def npu() -> dict[str, Any]:
    import torch
    import torch_npu

    from asc_sched import op
    from asc_sched.run import quick
    from asc_sched.run.backend import decide
    from asc_sched.target import get_target

    seen: dict[str, Any] = {"by copy": by_copy("npu")}
    add = op("z = x + y", name="add")
    kernel = add.compile((8, 128), "float32")
    host = [torch.rand(8, 128) for _ in range(2)]
    x, y = (torch_npu.to_npu(t) for t in host)
    out = torch_npu.to_npu(torch.zeros(8, 128))

    result = kernel(x, y, out=out)
    seen["returns out"] = result is out
    seen["before the stream is done"] = bool((torch_npu.to_cpu(out) == 0).all())
    torch_npu.npu.synchronize()
    seen["after"] = torch.equal(torch_npu.to_cpu(out), host[0] + host[1])
    seen["remembered"] = len(quick._forms[kernel])

    for repeat in range(3):
        x, y, out = torch_npu.to_npu(host[0] + repeat), torch_npu.to_npu(host[1]), torch_npu.empty((8, 128))
        kernel(x, y, out=out)
        torch_npu.npu.synchronize()
        seen[f"again {repeat}"] = torch.equal(torch_npu.to_cpu(out), host[0] + repeat + host[1])
    seen["still one form"] = len(quick._forms[kernel])
    kernel(x, y, out=x)
    torch_npu.npu.synchronize()
    seen["in place"] = torch.equal(torch_npu.to_cpu(x), host[0] + 2 + host[1])
    flat = torch_npu.to_npu(torch.zeros(9 * 128))
    low, high = flat[: 8 * 128].view(8, 128), flat[128:].view(8, 128)
    seen["overlap"] = failure(lambda: kernel(low, y, out=high))
    seen["overlap in a known form"] = failure(lambda: kernel(low, y, out=high))

    for call in ("whole", "short"):
        made = kernel(y, y)
        torch_npu.npu.synchronize()
        seen[f"result made, the {call} way"] = [made.device.type, torch.equal(torch_npu.to_cpu(made), 2 * host[1])]
    seen["mixed devices"] = failure(lambda: kernel(x, host[1]))
    seen["simulator on NPU tensors"] = failure(lambda: kernel(x, y, out=out, backend="sim"))
    seen["decided"] = decide(None, "npu").name

    second = torch_npu.to_npu(host[0])
    torch_npu.NpuTensor.index = 1
    kernel(second, second, out=second)
    seen["entered device"] = torch_npu.npu.entered
    torch_npu.npu.synchronize()
    torch_npu.NpuTensor.index = 0

    os.environ["ASC_SCHED_LAUNCHER"] = "pyasc"
    x, y, out = torch_npu.to_npu(host[0]), torch_npu.to_npu(host[1]), torch_npu.empty((8, 128))
    fresh = add.compile((8, 128), "float32")
    fresh(x, y, out=out)
    torch_npu.npu.synchronize()
    seen["in place by pyasc's launcher"] = torch.equal(torch_npu.to_cpu(out), host[0] + host[1])
    os.environ["ASC_SCHED_LAUNCHER"] = "own"

    seen["threads"] = in_threads(add)
    seen["events"] = events(add, get_target().evolve(l2_bytes=1 << 20))
    other = add.compile((8, 128), "float32", target="Ascend910B3")
    seen["wrong SoC"] = failure(lambda: other(x, y, out=out))
    return seen


def in_threads(add: Any) -> list[bool]:
    """CPU and NPU tensors, from four threads at once that have never seen the device, and share its stream."""
    from concurrent.futures import ThreadPoolExecutor

    import torch
    import torch_npu

    kernel = add.compile((8, 128), "float32")
    host = [torch.rand(8, 128) for _ in range(4)]
    on_device = [torch_npu.to_npu(t) for t in host]
    outs = [torch_npu.empty((8, 128)) for _ in host]

    def work(i: int) -> bool:
        kernel(on_device[i], on_device[i], out=outs[i])
        return all(torch.equal(kernel(host[i], host[i], backend="npu"), 2 * host[i]) for _ in range(10))

    with ThreadPoolExecutor(4) as pool:
        copied = list(pool.map(work, range(4)))
    torch_npu.npu.synchronize()
    return copied + [torch.equal(torch_npu.to_cpu(o), 2 * h) for o, h in zip(outs, host, strict=True)]


def events(add: Any, target: Any) -> dict[str, Any]:
    import torch
    import torch_npu

    from asc_sched.run.launch import bind_launch
    from asc_sched.run.measure import measure

    kernel = add.compile((4096,), "float32", target=target)
    x = torch_npu.to_npu(torch.rand(4096))
    args = bind_launch(kernel, (x, x), torch_npu.empty((4096,)), {})[0]
    seen = {}
    for l2 in ("hot", "cold"):
        found = measure(kernel, args, 3, backend="npu", l2=l2, warmup=1)
        seen[l2] = [list(found.times_us), found.source]
    seen["model"] = [[measure(kernel, args, backend="sim").median_us], "model"]
    seen["cpu tensors"] = failure(lambda: measure(kernel, [torch.rand(4096)] * 2, backend="npu"))
    return seen


@scene
def machine() -> dict[str, Any]:
    """A machine with an NPU of another kind than the default target, found by itself."""
    import torch
    import torch_npu

    from asc_sched import op
    from asc_sched.run import cann
    from asc_sched.run.backend import decide, machine_target

    cann.DEV = Path(os.environ["SCENE_DEV"])
    add = op("z = x + y", name="add")
    x = torch_npu.to_npu(torch.rand(100))
    made = add(x, x, out=torch_npu.empty((100,)))
    torch_npu.npu.synchronize()
    target = machine_target()
    return {
        "decision": [decide().name, decide().reason],
        "target": None if target is None else target.name,
        "right": torch.equal(torch_npu.to_cpu(made), 2 * torch_npu.to_cpu(x)),
        "forced": decide("sim").name,
    }


# -- what goes wrong ---------------------------------------------------------------------------------------------------
@scene
def faults() -> dict[str, Any]:
    """One fault after the other, then a try that succeeds."""
    from asc_sched.run import cann
    from asc_sched.run.runtime import bind_npu

    seen = {}

    def under(name: str, **variables: str) -> None:
        os.environ.update(variables)
        seen[name] = failure(bind_npu)
        for variable in variables:
            del os.environ[variable]

    under("no devices", ASC_SCHED_TWIN_DEVICES="0")
    under("driver error", ASC_SCHED_TWIN_FAIL="rtGetDeviceCount=507899")
    under("unknown SoC", ASC_SCHED_TWIN_SOC="Ascend310P3")
    under("device won't open", ASC_SCHED_TWIN_FAIL="rtSetDevice=507033")
    cann.DEV = Path(os.environ["SCENE_DEV"])
    access = os.access  # this may run as root, who may do all
    os.access = lambda path, *a, **k: not str(path).startswith(str(cann.DEV)) and access(path, *a, **k)
    under("no permission", ASC_SCHED_TWIN_FAIL="rtSetDevice=507899")
    os.access = access
    runtime = bind_npu()
    seen["at last"] = [runtime.soc, str(runtime.device)]
    return seen


@scene
def unloadable() -> dict[str, Any]:
    """The libraries can't be found (LD_LIBRARY_PATH isn't set): at the link, then at the load."""
    from asc_sched.run.runtime import bind_model, bind_npu

    return {"npu": failure(bind_npu), "camodel": failure(lambda: bind_model("Ascend910B1"))}


if __name__ == "__main__":
    json.dump(SCENES[sys.argv[1]](), sys.stdout)
