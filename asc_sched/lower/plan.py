"""The kernel plan: everything the emitter writes down, decided. It only has to turn these values into text."""

from __future__ import annotations

import attrs

from asc_sched.lang.dtypes import DType
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target
from asc_sched.tiling import DeviceFormulas, Tiling


@attrs.frozen
class Tensor:
    """One GM argument: `name` is the user's; in generated code `ident` is the argument, `gm` its GlobalTensor."""

    name: str
    ident: str
    gm: str
    dtype: DType


@attrs.frozen
class ScalarArg:
    """A runtime scalar argument: `carrier` is the type that the kernel takes."""

    name: str
    ident: str
    dtype: DType
    carrier: str


@attrs.frozen
class Member:
    """One tensor's part of a queue buffer: its name in UB and where it starts, in bytes."""

    tensor: Tensor
    local: str
    offset_bytes: int


@attrs.frozen
class Queue:
    """One TQue: `buffer_num` buffers of `buffer_bytes`, `local` the tensor that it hands out.

    More than one member means packed inputs.
    """

    name: str
    local: str
    position: str  # VECIN or VECOUT
    asc_type: str
    buffer_num: int
    buffer_bytes: int
    members: tuple[Member, ...]

    @property
    def total_bytes(self) -> int:
        return self.buffer_num * self.buffer_bytes

    @property
    def packed(self) -> bool:
        return len(self.members) > 1


@attrs.frozen
class Temp:
    """One TBuf: scratch of one tile. `offset_bytes` is where its data starts (bank padding)."""

    name: str
    buffer_bytes: int
    offset_bytes: int = 0


@attrs.frozen
class View:
    """A local tensor on a buffer, of the type wanted: ``name = base.reinterpret_cast(type)`` or ``buf.get(type)``."""

    name: str
    statement: str


@attrs.frozen
class KernelPlan:
    """A kernel, decided down to every name, byte and instruction."""

    name: str
    expression: tuple[str, ...]
    schedule: Schedule
    target: Target
    tiling: Tiling | None
    dynamic: bool
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scalars: tuple[ScalarArg, ...]
    queues: tuple[Queue, ...]
    temps: tuple[Temp, ...]
    views: tuple[View, ...]
    statements: tuple[str, ...]
    scalars_used: tuple[str, ...]
    formulas: DeviceFormulas
    tile: str
    count: str
    ub_bytes: int
    ub_reserve: int
    tile_length: int
    ub_bytes_per_element: float

    @property
    def in_queues(self) -> tuple[Queue, ...]:
        return tuple(q for q in self.queues if q.position == "VECIN")

    @property
    def out_queues(self) -> tuple[Queue, ...]:
        return tuple(q for q in self.queues if q.position == "VECOUT")

    @property
    def ub_capacity(self) -> int:
        return self.target.ub_bytes

    def __str__(self) -> str:
        lines = [f"kernel {self.name} for {self.target.name}", "", "UB map"]
        rows = [(q.name, q.position, f"{q.buffer_num} x {q.buffer_bytes}", q.total_bytes) for q in self.queues]
        rows += [(t.name, "VECCALC", f"1 x {t.buffer_bytes}", t.buffer_bytes) for t in self.temps]
        if self.ub_reserve:
            rows.append(("(reserve)", "", "", self.ub_reserve))
        lines += [f"  {name:<24} {position:<8} {size:>16} = {total:>7} bytes" for name, position, size, total in rows]
        share = 100 * self.ub_bytes / self.ub_capacity
        lines.append(f"  total {self.ub_bytes} of {self.ub_capacity} bytes ({share:.1f} %)")
        lines += ["", "compute, once per tile"]
        lines += [f"  {s}" for s in self.statements]
        return "\n".join(lines)
