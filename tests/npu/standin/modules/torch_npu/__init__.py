"""What asc_sched asks of torch_npu, on the stand-in's runtime library: device tensors, streams, events.

A device tensor is a torch tensor on memory of the stand-in that says that it is on ``npu:<index>``. Streams are the
stand-in's, so a kernel has run only after its stream was synchronised; events tell the simulator's clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import torch

torch.utils.rename_privateuse1_backend("npu")
_library = ctypes.CDLL("libruntime.so", ctypes.RTLD_GLOBAL)
_CLOCK_MHZ = 1850.0
_thread = threading.local()
_DEVICES = [torch.device("npu", index) for index in range(8)]


def _check(code: int, call: str) -> None:
    if code:
        raise RuntimeError(f"{call} returned {code}")


class NpuTensor(torch.Tensor):
    """Memory of the stand-in. `index` is the device's."""

    index = 0

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return _DEVICES[self.index]

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return False

    @property
    def is_npu(self) -> bool:
        return True


def empty(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> NpuTensor:
    """A device tensor with nothing in it."""
    npu.enter_thread()
    npu.current_stream()
    nbytes = torch.empty((), dtype=dtype).element_size() * max(1, torch.Size(shape).numel())
    pointer = ctypes.c_void_p()
    _check(_library.rtMalloc(ctypes.byref(pointer), ctypes.c_uint64(nbytes + 512), 0, 0), "rtMalloc")
    memory = (ctypes.c_uint8 * nbytes).from_address(-(-(pointer.value or 0) // 512) * 512)
    flat = torch.frombuffer(memory, dtype=torch.uint8).view(dtype)
    return flat[: torch.Size(shape).numel()].view(shape).as_subclass(NpuTensor)


def to_npu(tensor: torch.Tensor) -> NpuTensor:
    """A copy on the device."""
    result = empty(tuple(tensor.shape), tensor.dtype)
    ctypes.memmove(result.data_ptr(), tensor.contiguous().data_ptr(), tensor.nbytes)
    return result


def to_cpu(tensor: NpuTensor) -> torch.Tensor:
    """What the device memory holds now."""
    return tensor.as_subclass(torch.Tensor).clone()


def _empty_strided(size: Any, stride: Any, dtype: Any = None, **_: Any) -> torch.Tensor:
    length = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    flat = empty((length,), dtype or torch.float32)
    return torch.as_strided(flat, tuple(size), tuple(stride))


def _empty(size: Any, dtype: Any = None, **_: Any) -> torch.Tensor:
    return empty(tuple(size), dtype or torch.float32)


_kernels = torch.library.Library("aten", "IMPL")
_kernels.impl("empty.memory_format", _empty, "PrivateUse1")
_kernels.impl("empty_strided", _empty_strided, "PrivateUse1")


class Stream:
    """A stream of the stand-in."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        _check(_library.rtSetDevice(npu.index), "rtSetDevice")
        _check(_library.rtStreamCreate(ctypes.byref(handle), 0), "rtStreamCreate")
        self.npu_stream = handle.value

    def synchronize(self) -> None:
        _check(_library.rtStreamSynchronize(ctypes.c_void_p(self.npu_stream)), "rtStreamSynchronize")


class Event:
    """A point of the current stream, in the simulator's time."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing, "an event without timing can't be asked for a time"
        self.ticks: int | None = None

    def record(self) -> None:
        npu.current_stream().synchronize()
        now = _library._ZN9tm_engine7tm_timeEv
        now.restype = ctypes.c_uint64
        self.ticks = int(now())

    def synchronize(self) -> None:
        assert self.ticks is not None

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds."""
        assert self.ticks is not None and end.ticks is not None
        return (end.ticks - self.ticks) / _CLOCK_MHZ / 1000


class _Npu:
    """The module torch_npu.npu."""

    Event = Event
    Stream = Stream

    def __init__(self) -> None:
        self.index = 0
        self.streams: dict[int, Stream] = {}
        self.entered: list[int] = []

    def enter_thread(self) -> None:
        """Set the device in a thread that has none, as torch_npu does before anything."""
        if not hasattr(_thread, "device"):
            _check(_library.rtSetDevice(self.index), "rtSetDevice")
            _thread.device = self.index

    def current_device(self) -> int:
        return self.index

    def current_stream(self, device: int | None = None) -> Stream:
        index = self.index if device is None else device
        if index not in self.streams:
            self.streams[index] = Stream()
        return self.streams[index]

    @contextlib.contextmanager
    def device(self, index: int) -> Iterator[None]:
        self.entered.append(index)
        before, self.index = self.index, index
        try:
            yield
        finally:
            self.index = before

    def synchronize(self) -> None:
        for stream in self.streams.values():
            stream.synchronize()

    def get_device_name(self, _: int | None = None) -> str:
        return "Ascend910B1"


npu = _Npu()
torch._register_device_module("npu", npu)
