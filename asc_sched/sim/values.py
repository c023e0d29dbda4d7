"""What an SSA value can be at run time besides a Python number: tensors, parameter structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from asc_sched.sim.dtypes import DType

if TYPE_CHECKING:
    from asc_sched.sim.queues import Buffer


class LocalTensor:
    """A piece of the Unified Buffer: byte address, bytes up to its end, element type.

    `buffer` is the queue buffer it belongs to (None for TBuf and static tensors). `nbytes` is None for a static
    tensor declared without a size: such a tensor ends where the Unified Buffer does.
    """

    __slots__ = ("addr", "buffer", "dtype", "nbytes")

    def __init__(self, addr: int, nbytes: int, dtype: DType, buffer: Buffer | None = None) -> None:
        self.addr = addr
        self.nbytes = nbytes
        self.dtype = dtype
        self.buffer = buffer


class GlobalTensor:
    """A view of one GM argument from byte `offset` on. `bypass_read`/`bypass_write`: L2 is passed by."""

    __slots__ = ("arg", "bypass_read", "bypass_write", "dtype", "offset", "size")

    def __init__(self, dtype: DType) -> None:
        self.arg = -1
        self.offset = 0
        self.dtype = dtype
        self.bypass_read = False
        self.bypass_write = False
        self.size: int | None = None

    def at(self, elements: int) -> GlobalTensor:
        """The tensor that starts `elements` further on."""
        other = GlobalTensor(self.dtype)
        other.arg = self.arg
        other.offset = self.offset + elements * self.dtype.size
        other.bypass_read = self.bypass_read
        other.bypass_write = self.bypass_write
        return other


class Params(NamedTuple):
    """A parameter struct (``data_copy_ext_params``, ``unary_repeat_params``...): its fields in C++ order."""

    struct: str
    fields: tuple[int | float, ...]
