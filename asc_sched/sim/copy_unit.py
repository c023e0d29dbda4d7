"""Copies on an executing core: between GM and UB, and within UB, with their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asc_sched.sim import errors
from asc_sched.sim.hazards import INDEX, Race
from asc_sched.sim.memory import GmBuffer
from asc_sched.sim.patterns import CopyPlan
from asc_sched.sim.stream import Loc, Pipe
from asc_sched.sim.values import GlobalTensor, LocalTensor

if TYPE_CHECKING:
    from asc_sched.sim.execute import ExecutingCore

_V, _MTE2, _MTE3 = INDEX[Pipe.V], INDEX[Pipe.MTE2], INDEX[Pipe.MTE3]


def run_load(core: ExecutingCore, ub: LocalTensor, gm: GlobalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
    """A copy from GM to UB."""
    if plan.block_count <= 0 or plan.block_bytes <= 0:
        return
    core.instructions += 1
    source = core.check_gm(gm, plan.gm_bytes, f"{name} reads", loc)
    if not core.check_operand(ub, plan.ub_bytes, f"{name}'s destination", loc) or source is None:
        return
    number = core.clocks.tick(_MTE2)
    known = core.clocks.known(_MTE2)[_MTE3]
    for start, end in plan.ub_spans(ub.addr):
        core.write_ub(_MTE2, number, start, end, loc)
    for start, end in plan.gm_spans(gm.offset):
        race = core.gm_order.load(number, known, source.address + start, source.address + end, loc)
        if race is not None:
            _gm_race(core, race, "reads", source, gm, plan, loc)
        core.mark_read(source, start, end - start, loc)
    core.bytes_read += plan.block_count * plan.block_bytes
    _load(core, source, gm.offset, ub.addr, plan)


def _load(core: ExecutingCore, source: GmBuffer, offset: int, addr: int, plan: CopyPlan) -> None:
    data, shadow, nbytes = core.ub.data, core.ub.shadow, plan.block_bytes
    for _ in range(plan.block_count):
        at = addr
        if plan.padding:
            at = _pad(core, at, plan.padding.left_bytes, plan.padding.value)
        data[at : at + nbytes] = source.data[offset : offset + nbytes]
        shadow[at : at + nbytes] = 0
        at += nbytes
        if plan.padding:
            at = _pad(core, at, plan.padding.right_bytes, plan.padding.value)
        end = addr + plan.ub_block_bytes
        if at < end:
            shadow[at:end] = 0xFF
        addr = end + plan.ub_gap
        offset += nbytes + plan.gm_gap


def _pad(core: ExecutingCore, at: int, nbytes: int, value: bytes) -> int:
    for i in range(at, at + nbytes, len(value)):
        core.ub.data[i : i + len(value)] = memoryview(value)
    core.ub.shadow[at : at + nbytes] = 0
    return at + nbytes


def run_store(core: ExecutingCore, gm: GlobalTensor, ub: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
    """A copy from UB to GM."""
    if plan.block_count <= 0 or plan.block_bytes <= 0:
        return
    core.instructions += 1
    target = core.check_gm(gm, plan.gm_bytes, f"{name} writes", loc)
    if not core.check_operand(ub, plan.ub_bytes, f"{name}'s source", loc) or target is None:
        return
    number = core.clocks.tick(_MTE3)
    known = core.clocks.known(_MTE3)
    for start, end in plan.ub_spans(ub.addr):
        core.read_ub(_MTE3, number, start, end, loc)
    for start, end in plan.gm_spans(gm.offset):
        race = core.gm_order.store(number, known, target.address + start, target.address + end, loc)
        if race is not None:
            _gm_race(core, race, "writes", target, gm, plan, loc)
        core.mark_written(target, start, end - start, loc)
    offset, addr, nbytes = gm.offset, ub.addr, plan.block_bytes
    core.bytes_written += plan.block_count * nbytes
    for _ in range(plan.block_count):
        if core.ub.shadow[addr : addr + nbytes].any():
            _undefined_out(core, target, gm, offset, addr, nbytes, loc)
        target.data[offset : offset + nbytes] = core.ub.data[addr : addr + nbytes]
        addr += plan.ub_block_bytes + plan.ub_gap
        offset += nbytes + plan.gm_gap


def _gm_race(
    core: ExecutingCore, race: Race, what: str, buffer: GmBuffer, gm: GlobalTensor, plan: CopyPlan, loc: Loc
) -> None:
    first = gm.offset // gm.dtype.size
    last = first + plan.gm_bytes // gm.dtype.size
    earlier = "written" if race.wrote else "read"
    core.fail(
        errors.DataRaceError,
        loc,
        f"{what} elements {first} to {last} of {buffer.name} that {race.pipe.value} has {earlier} at {race.loc}; "
        f"nothing orders the two",
    )


def _undefined_out(
    core: ExecutingCore, target: GmBuffer, gm: GlobalTensor, offset: int, addr: int, nbytes: int, loc: Loc
) -> None:
    size = gm.dtype.size
    bad = (core.ub.shadow[addr : addr + nbytes // size * size].reshape(-1, size) != 0).any(axis=1).nonzero()[0]
    first, count = (int(bad[0]), len(bad)) if len(bad) else (0, 1)
    found = core.origins.get(addr)
    origin = f", first read by {found[0]} at {found[1]}" if found else ""
    core.fail(
        errors.UninitialisedReadError,
        loc,
        f"{count} elements that nobody wrote (from UB byte {addr + first * size}{origin}) go to "
        f"{target.name}[{offset // size + first}]",
    )


def run_local(core: ExecutingCore, dst: LocalTensor, src: LocalTensor, name: str, plan: CopyPlan, loc: Loc) -> None:
    """A copy within UB, by the vector pipe."""
    if plan.block_count <= 0 or plan.block_bytes <= 0:
        return
    core.instructions += 1
    if not core.check_operand(src, plan.ub_bytes, f"{name}'s source", loc):
        return
    if not core.check_operand(dst, plan.gm_bytes, f"{name}'s destination", loc):
        return
    start, end = src.addr, src.addr + plan.ub_bytes
    if start < dst.addr + plan.gm_bytes and dst.addr < end:
        core.fail(errors.OverlapError, loc, f"{name}: destination and source overlap in UB")
    number = core.clocks.tick(_V)
    core.read_ub(_V, number, start, end, loc)
    core.write_ub(_V, number, dst.addr, dst.addr + plan.gm_bytes, loc)
    if dst.addr != src.addr:
        core.note_origin(dst, (src,), name, loc)
    to, at, nbytes = dst.addr, src.addr, plan.block_bytes
    for _ in range(plan.block_count):
        for memory in (core.ub.data, core.ub.shadow):
            memory[to : to + nbytes] = memory[at : at + nbytes]
        to += nbytes + plan.gm_gap
        at += nbytes + plan.ub_gap
