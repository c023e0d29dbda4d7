"""What an SSA value can be at run time besides a Python number: tensors, parameter structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from asc_sched.sim.dtypes import DType

if TYPE_CHECKING:
    from asc_sched.sim.queues import Buffer


class LocalTensor:
    """A piece of the Unified Buffer: byte address, bytes up to its end, element type.

    `buffer` is the queue buffer it belongs to (None for TBuf and static tensors). A static tensor declared without a
    size ends where the Unified Buffer does.
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


class Unknown:
    """A scalar that has no value where only the instruction stream is asked for: it depends on tensor data, or is a
    float that differs between iterations interpreted at once. It may be computed with and handed on; `error` is raised
    by whoever has to know it.
    """

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def _look(self, *_: Any) -> NoReturn:
        raise self.error

    __bool__ = __int__ = __float__ = __index__ = __neg__ = __abs__ = __invert__ = _look  # type: ignore[assignment]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _look
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _look
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _look
    __eq__ = __ne__ = _look  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Params(NamedTuple):
    """A parameter struct (``data_copy_ext_params``, ``unary_repeat_params``...): its fields in C++ order."""

    struct: str
    fields: tuple[int | float, ...]
