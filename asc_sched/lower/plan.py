"""The kernel plan: everything the emitter writes down, decided. It only has to turn these values into text."""

from __future__ import annotations

import attrs

from asc_sched.lang.dtypes import DType
from asc_sched.lower.form import Form
from asc_sched.lower.geometry import Arrangement
from asc_sched.schedule import Schedule
from asc_sched.target.soc import Target
from asc_sched.tiling import DeviceFormulas, Tiling
from asc_sched.tiling.rows import RowTiling


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
class Move:
    """One tensor's copy between GM and UB, as the kernel writes it.

    `start` is the name of its first element's place in GM ("" for 0); `params` are the fields of DataCopyExtParams.
    """

    start: str
    params: str


@attrs.frozen
class Member:
    """One tensor's part of a queue buffer: its name in UB, where it starts, in bytes, and how it gets there."""

    tensor: Tensor
    local: str
    offset_bytes: int
    move: Move


@attrs.frozen
class Queue:
    """One TQue: `buffer_num` buffers of `buffer_bytes`, `local` the tensor that it hands out.

    More than one member means packed tensors. `once`: it is filled before the rows' loop. `freed`: the computation
    frees its buffer before it has ended, so that the next load can start.
    """

    name: str
    local: str
    position: str  # VECIN or VECOUT
    asc_type: str
    buffer_num: int
    buffer_bytes: int
    members: tuple[Member, ...]
    once: bool = False
    freed: bool = False

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
    """A local name set up before the statements: ``name = statement``."""

    name: str
    statement: str


@attrs.frozen
class Body:
    """What one device function computes: names to set up first, then statements; the TBufs and scalars it needs."""

    views: tuple[View, ...] = ()
    statements: tuple[str, ...] = ()
    temps: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()


@attrs.frozen
class KernelPlan:
    """A kernel, decided down to every name, byte and instruction.

    `setup` runs once per core, `prepare` once per group of rows (after the queue of inputs that are the same for all
    rows is filled), `compute` once per tile. `constants` are values read from GM at the start: (name, text, tensor).
    `offsets` are names set up in the tile loop, `group_offsets` in the loop around it. `counts` are the names of the
    tile's counts that functions take, each with what the kernel passes. `held`: what `prepare` reads stays in its
    queue, for the tiles to read. `arrangement` is how the tensors lie when the kernel runs.
    """

    name: str
    expression: tuple[str, ...]
    schedule: Schedule
    target: Target
    form: Form
    tiling: Tiling | RowTiling | None
    dynamic: bool
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scalars: tuple[ScalarArg, ...]
    constants: tuple[tuple[str, str, Tensor], ...]
    queues: tuple[Queue, ...]
    temps: tuple[Temp, ...]
    setup: Body
    prepare: Body
    compute: Body
    held: bool
    formulas: DeviceFormulas
    tile: str
    group: str
    group_offsets: tuple[tuple[str, str], ...]
    offsets: tuple[tuple[str, str], ...]
    counts: tuple[tuple[str, str], ...]
    arrangement: Arrangement
    ub_bytes: int
    ub_reserve: int
    tile_rows: int
    unit_rows: int
    ub_bytes_per_element: float

    @property
    def tile_length(self) -> int:
        """Elements of a tile in UB, padding of rows included."""
        return self.tile_rows * self.form.pitch

    @property
    def copies(self) -> tuple[str, ...]:
        """The tensors that are copied before or after the launch, because no tile can address them as they lie."""
        tensors, laid = (*self.inputs, *self.outputs), self.arrangement
        words = {False: "put together", True: "to an element for every place"}
        return tuple(f"{tensors[i].name} ({words[laid.is_expanded(i)]})" for i in sorted(laid.copied))

    @property
    def in_queues(self) -> tuple[Queue, ...]:
        """The queues that every tile fills."""
        return tuple(q for q in self.queues if q.position == "VECIN" and not q.once)

    @property
    def once_queue(self) -> Queue | None:
        """The queue that is filled before the rows' loop."""
        return next((q for q in self.queues if q.once), None)

    @property
    def out_queues(self) -> tuple[Queue, ...]:
        return tuple(q for q in self.queues if q.position == "VECOUT")

    @property
    def statements(self) -> tuple[str, ...]:
        """What is computed for every tile."""
        return self.compute.statements

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
        for title, body in (
            ("set up, once per core", self.setup),
            ("prepare, before the tiles", self.prepare),
            ("compute, once per tile", self.compute),
        ):
            if body.statements or body is self.compute:
                lines += ["", title, *(f"  {s}" for s in body.statements)]
        if self.copies:
            lines += ["", "copied before the launch", *(f"  {c}" for c in self.copies)]
        return "\n".join(lines)
