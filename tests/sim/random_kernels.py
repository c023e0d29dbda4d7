"""Random valid vector kernels as text, their results, and ways to break them in one place.

A kernel is a list of tagged lines, so that a mutation can find what it breaks. Two styles: queues (TPipe/TQue) and
static tensors with flags. Every kernel computes an expression of one to three inputs tile by tile, with double or
single buffers, on several cores, with a byte-exact tail.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

DTYPES = ("float32", "float16", "int32", "int16")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
SCALAR: dict[str, Callable[[Any, Any], Any]] = {
    "adds": np.add,
    "muls": np.multiply,
    "maxs": np.maximum,
    "mins": np.minimum,
}


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


@attrs.frozen
class Line:
    """A line of the kernel. `tag` names its role (``enque x``), `tile` whether it stands in the loop over tiles."""

    text: str
    tag: str = ""
    tile: bool = False


@attrs.frozen
class Kernel:
    """A kernel and what it computes. `inputs` are names; `steps` are (call, destination, sources or scalar)."""

    lines: tuple[Line, ...]
    dtype: str
    inputs: tuple[str, ...]
    steps: tuple[tuple[str, str, tuple[str, ...], int], ...]
    total_length: int
    core_num: int
    tile_length: int
    buffers: int
    style: str

    @property
    def source(self) -> str:
        """The module's text."""
        params = ", ".join(f"{n}: asc.GlobalAddress" for n in (*self.inputs, "z"))
        head = ["import asc", "@asc.jit", f"def k({params}, total_length: int):"]
        return "\n".join(head + [f"    {'    ' * line.tile}{line.text}" for line in self.lines]) + "\n"

    def arguments(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Inputs (small numbers) and the expected result."""
        rng = np.random.default_rng(self.total_length)
        arrays = [rng.integers(-9, 9, self.total_length).astype(self.dtype) for _ in self.inputs]
        values: dict[str, np.ndarray] = dict(zip(self.inputs, arrays, strict=True))
        with np.errstate(all="ignore"):
            for call, dst, srcs, scalar in self.steps:
                if call in BINARY:
                    values[dst] = BINARY[call](values[srcs[0]], values[srcs[1]])
                else:
                    values[dst] = SCALAR[call](values[srcs[0]], np.dtype(self.dtype).type(scalar))
        return arrays, values["z"]

    @property
    def block_length(self) -> int:
        """Elements of a core (the last may have fewer), whole 32-byte blocks."""
        unit = 32 // np.dtype(self.dtype).itemsize
        return ceil_div(ceil_div(self.total_length, self.core_num), unit) * unit

    @property
    def tiles(self) -> int:
        """The largest number of tiles that a core has."""
        return ceil_div(min(self.block_length, self.total_length), self.tile_length)

    @property
    def longest_tile_bytes(self) -> int:
        """Bytes of the longest tile that any core moves."""
        return min(self.block_length, self.total_length, self.tile_length) * np.dtype(self.dtype).itemsize


def random_kernel(seed: int) -> Kernel:
    """The valid kernel of a seed."""
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    unit = 32 // np.dtype(dtype).itemsize
    inputs = ("x", "y", "w")[: rng.randint(1, 3)]
    tile_length = unit * rng.randint(1, 24)
    core_num = rng.randint(1, 5)
    total_length = rng.choice([rng.randint(1, 40), rng.randint(1, 3000), unit * rng.randint(1, 300)])
    style = rng.choice(["queues", "flags"])
    shape = {"dtype": dtype, "inputs": inputs, "total_length": total_length, "core_num": core_num}
    shape |= {"tile_length": tile_length, "buffers": rng.randint(1, 2), "style": style}
    steps = _steps(rng, inputs)
    kernel = Kernel(lines=(), steps=steps, **shape)
    return attrs.evolve(kernel, lines=tuple(_queues(kernel, rng) if style == "queues" else _flags(kernel)))


def _steps(rng: random.Random, inputs: tuple[str, ...]) -> tuple[tuple[str, str, tuple[str, ...], int], ...]:
    """Instructions that use every input; all but the last write the temporary ``t``."""
    steps: list[tuple[str, str, tuple[str, ...], int]] = []
    held = inputs[0]
    for other in inputs[1:]:
        steps.append((rng.choice(list(BINARY)), "t", (held, other), 0))
        held = "t"
    for _ in range(rng.randint(0 if steps else 1, 3)):
        steps.append((rng.choice(list(SCALAR)), "t", (held,), rng.randint(-3, 3)))
        held = "t"
    call, _, srcs, scalar = steps[-1]
    return (*steps[:-1], (call, "z", srcs, scalar))


def _prologue(kernel: Kernel) -> list[Line]:
    block = kernel.block_length
    lines = [
        Line(f"start = asc.get_block_idx() * {block}"),
        Line("rest = total_length - start"),
        Line(f"length = rest if rest < {block} else asc.number({block}, asc.int32)"),
    ]
    for name in (*kernel.inputs, "z"):
        lines += [Line(f"{name}_gm = asc.GlobalTensor()"), Line(f"{name}_gm.set_global_buffer({name})")]
    return lines


def _loop(kernel: Kernel) -> list[Line]:
    size, tile = np.dtype(kernel.dtype).itemsize, kernel.tile_length
    return [
        Line(f"for tile in range(asc.ceildiv(length, {tile})):"),
        Line(f"left = length - tile * {tile}", tile=True),
        Line(f"count = left if left < {tile} else asc.number({tile}, asc.int32)", tile=True),
        Line(f"at = start + tile * {tile}", tile=True),
        Line(f"params = asc.DataCopyExtParams(1, count * {size}, 0, 0, 0)", tile=True),
    ]


def _load(kernel: Kernel, name: str, tensor: str) -> Line:
    pad = f"asc.DataCopyPadExtParams(asc.{kernel.dtype}, False, 0, 0, 0)"
    return Line(f"asc.data_copy_pad({tensor}, {name}_gm[at:], params, {pad})", f"load {name}", True)


def _compute(kernel: Kernel, names: dict[str, str]) -> list[Line]:
    lines = []
    for number, (call, dst, srcs, scalar) in enumerate(kernel.steps):
        operands = [names[dst], *(names[s] for s in srcs)] + ([str(scalar)] if call in SCALAR else [])
        lines.append(Line(f"asc.{call}({', '.join(operands)}, count)", f"compute {number}", True))
    return lines


def _queues(kernel: Kernel, rng: random.Random) -> list[Line]:
    nbytes = kernel.tile_length * np.dtype(kernel.dtype).itemsize
    lines = [*_prologue(kernel), Line("pipe = asc.TPipe()")]
    for name in (*kernel.inputs, "z"):
        position = "VECOUT" if name == "z" else "VECIN"
        lines.append(Line(f"{name}_queue = asc.TQue(asc.TPosition.{position}, 1)"))
        lines.append(Line(f"pipe.init_buffer({name}_queue, {kernel.buffers}, {nbytes})", f"init {name}"))
    lines.append(Line("t_buf = asc.TBuf(asc.TPosition.VECCALC)"))
    lines.append(Line(f"pipe.init_buffer(t_buf, {nbytes})", "init t"))
    lines.append(Line(f"t = t_buf.get(asc.{kernel.dtype})"))
    lines += _loop(kernel)
    order = rng.sample(kernel.inputs, len(kernel.inputs))
    for name in order:
        lines.append(Line(f"{name}_ub = {name}_queue.alloc_tensor(asc.{kernel.dtype})", f"alloc {name}", True))
        lines.append(_load(kernel, name, f"{name}_ub"))
        lines.append(Line(f"{name}_queue.enque({name}_ub)", f"enque {name}", True))
    for name in kernel.inputs:
        lines.append(Line(f"{name}_in = {name}_queue.deque(asc.{kernel.dtype})", f"deque {name}", True))
    lines.append(Line(f"z_ub = z_queue.alloc_tensor(asc.{kernel.dtype})", "alloc z", True))
    names = {n: f"{n}_in" for n in kernel.inputs} | {"t": "t", "z": "z_ub"}
    lines += _compute(kernel, names)
    lines.append(Line("z_queue.enque(z_ub)", "enque z", True))
    for name in rng.sample(kernel.inputs, len(kernel.inputs)):
        lines.append(Line(f"{name}_queue.free_tensor({name}_in)", f"free {name}", True))
    lines.append(Line(f"z_out = z_queue.deque(asc.{kernel.dtype})", "deque z", True))
    lines.append(Line("asc.data_copy_pad(z_gm[at:], z_out, params)", "store z", True))
    lines.append(Line("z_queue.free_tensor(z_out)", "free z", True))
    return lines


def _flags(kernel: Kernel) -> list[Line]:
    size, tile, buffers = np.dtype(kernel.dtype).itemsize, kernel.tile_length, kernel.buffers
    lines, addr = _prologue(kernel), 0
    for name in (*kernel.inputs, "z", "t"):
        position = "VECOUT" if name == "z" else "VECIN"
        length = tile * (1 if name == "t" else buffers)
        tensor = f"asc.LocalTensor(asc.{kernel.dtype}, asc.TPosition.{position}, {addr}, {length})"
        lines.append(Line(f"{name}_all = {tensor}", f"tensor {name}"))
        addr += length * size
    for event in ("V_MTE2", "MTE3_V"):
        for number in range(buffers):
            lines.append(Line(f"asc.set_flag(asc.HardEvent.{event}, {number})", f"first set {event} {number}"))
    lines += _loop(kernel)
    lines.append(Line(f"turn = tile % {buffers}", tile=True))
    for name in (*kernel.inputs, "z"):
        lines.append(Line(f"{name}_ub = {name}_all[turn * {tile}:]", tile=True))

    def flag(kind: str, event: str) -> Line:
        return Line(f"asc.{kind}_flag(asc.HardEvent.{event}, turn)", f"{kind} {event}", True)

    lines.append(flag("wait", "V_MTE2"))
    lines += [_load(kernel, name, f"{name}_ub") for name in kernel.inputs]
    lines += [flag("set", "MTE2_V"), flag("wait", "MTE2_V"), flag("wait", "MTE3_V")]
    lines += _compute(kernel, {n: f"{n}_ub" for n in (*kernel.inputs, "z")} | {"t": "t_all"})
    lines += [flag("set", "V_MTE2"), flag("set", "V_MTE3"), flag("wait", "V_MTE3")]
    lines.append(Line("asc.data_copy_pad(z_gm[at:], z_ub, params)", "store z", True))
    lines.append(flag("set", "MTE3_V"))
    for event in ("V_MTE2", "MTE3_V"):
        for number in range(buffers):
            lines.append(Line(f"asc.wait_flag(asc.HardEvent.{event}, {number})", f"last wait {event} {number}"))
    return lines


# -- mutations ---------------------------------------------------------------------------------------------------
@attrs.frozen
class Mutation:
    """A kernel broken in one way. `what` says how."""

    kernel: Kernel
    what: str


def _drop(kernel: Kernel, where: Callable[[str], bool]) -> Kernel:
    return attrs.evolve(kernel, lines=tuple(line for line in kernel.lines if not where(line.tag)))


def _edit(kernel: Kernel, tag: str, old: str, new: str) -> Kernel:
    lines = tuple(
        attrs.evolve(line, text=line.text.replace(old, new)) if line.tag == tag else line for line in kernel.lines
    )
    return attrs.evolve(kernel, lines=lines)


def _duplicate(kernel: Kernel, tag: str) -> Kernel:
    lines: list[Line] = []
    for line in kernel.lines:
        lines += [line, line] if line.tag == tag else [line]
    return attrs.evolve(kernel, lines=tuple(lines))


def mutations(kernel: Kernel, rng: random.Random) -> list[Mutation]:
    """Ways to break a kernel, in random order."""
    unit = 32 // np.dtype(kernel.dtype).itemsize
    size = np.dtype(kernel.dtype).itemsize
    name = rng.choice(kernel.inputs)
    longer = f"asc.DataCopyExtParams(1, count * {size} + 32, 0, 0, 0)"
    found = [
        ("a longer load", _edit(kernel, f"load {name}", "params, ", f"{longer}, ")),
        ("a longer store", _edit(kernel, "store z", "params", longer)),
        ("a shorter load", _edit(kernel, f"load {name}", "params, ", longer.replace("+ 32", f"- {size}") + ", ")),
        ("a shorter store", _edit(kernel, "store z", "params", longer.replace("+ 32", f"- {size}"))),
        ("a load at another offset", _edit(kernel, f"load {name}", "[at:]", f"[at + {unit}:]")),
        ("a store at another offset", _edit(kernel, "store z", "[at:]", f"[at + {unit}:]")),
        ("a store before its place", _edit(kernel, "store z", "[at:]", f"[at - {unit}:]")),
        ("a load without its tensor", _drop(kernel, lambda tag: tag == f"load {name}")),
        ("a missing store", _drop(kernel, lambda tag: tag == "store z")),
        ("a missing instruction", _drop(kernel, lambda tag: tag == f"compute {len(kernel.steps) - 1}")),
        ("a longer instruction", _edit(kernel, "compute 0", ", count)", f", {kernel.tile_length + unit})")),
        ("a misaligned operand", _misaligned(kernel)),
    ]
    found += _queue_mutations(kernel, name) if kernel.style == "queues" else _flag_mutations(kernel, rng)
    rng.shuffle(found)
    return [Mutation(broken, what) for what, broken in found if broken.lines != kernel.lines]


def _misaligned(kernel: Kernel) -> Kernel:
    tensor = "z_out" if kernel.style == "queues" else "z_ub"
    return _edit(kernel, "store z", f"{tensor},", f"{tensor}[1:],")


def _queue_mutations(kernel: Kernel, name: str) -> list[tuple[str, Kernel]]:
    other = next((n for n in kernel.inputs if n != name), "z")
    nbytes = kernel.tile_length * np.dtype(kernel.dtype).itemsize
    found = []
    for which, of in ((name, "an input"), ("z", "the output")):
        for kind in ("enque", "free"):
            dropped = f"{kind} {which}"
            found.append((f"a dropped {kind} of {of}", _drop(kernel, dropped.__eq__)))
            found.append((f"a double {kind} of {of}", _duplicate(kernel, dropped)))
    for kind in ("free", "enque"):
        swapped = _edit(kernel, f"{kind} {name}", f"{name}_queue", f"{other}_queue")
        found.append((f"{kind} on the wrong queue", swapped))
    found.append(("a smaller buffer", _edit(kernel, f"init {name}", f", {nbytes})", ", 32)")))
    found.append(("a buffer beyond UB", _edit(kernel, f"init {name}", f", {nbytes})", ", 196608)")))
    found.append(("too many buffers", _edit(kernel, f"init {name}", f", {kernel.buffers}, ", ", 9, ")))
    found.append(("a free before the use", _moved(kernel, f"free {name}", "compute 0")))
    return found


def _flag_mutations(kernel: Kernel, rng: random.Random) -> list[tuple[str, Kernel]]:
    event = rng.choice(["MTE2_V", "V_MTE3", "V_MTE2", "MTE3_V"])
    pair = _drop(kernel, lambda tag: tag.startswith(("set", "wait", "first set", "last wait")) and event in tag.split())
    found = [(f"no {event} flags at all", pair)]
    for kind in ("set", "wait"):
        found.append((f"a missing {kind}_flag {event}", _drop(kernel, f"{kind} {event}".__eq__)))
    found.append(("a flag of the other buffer", _edit(kernel, f"wait {event}", "turn", "turn + 1")))
    found.append(("tensors that overlap", _overlapping(kernel)))
    return found


def _overlapping(kernel: Kernel) -> Kernel:
    """The output's tensor on top of the last input's."""
    source = next(line for line in kernel.lines if line.tag == f"tensor {kernel.inputs[-1]}")
    addr = source.text.split(", ")[2]
    target = next(line for line in kernel.lines if line.tag == "tensor z")
    return _edit(kernel, "tensor z", f", {target.text.split(', ')[2]}, ", f", {addr}, ")


def _moved(kernel: Kernel, tag: str, before: str) -> Kernel:
    moved = next(line for line in kernel.lines if line.tag == tag)
    lines = [line for line in kernel.lines if line.tag != tag]
    lines.insert(next(i for i, line in enumerate(lines) if line.tag == before), moved)
    return attrs.evolve(kernel, lines=tuple(lines))
