"""What the timing tests share: lowering of kernels in files, and outlines written out record by record."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from asc_sched.build import ArgType, LowerRequest, lower
from asc_sched.sim.affine import Affine, Var
from asc_sched.sim.ir import UNKNOWN_LOC
from asc_sched.sim.outline import CoreGroup, Node, Repeat
from asc_sched.sim.stream import Copy, LoopMark, Record, ScalarWork

HERE = Path(__file__).parent
CASES = HERE.parent.parent / "benchmarks" / "cases"


@functools.cache
def lowered(file: Path, entry: str, args: str, consts: tuple[tuple[str, int | bool], ...] = ()) -> str:
    """ASC-IR of a kernel in a file; `args` as ``*float16 int32``."""
    types = [ArgType("pointer" if a[0] == "*" else "scalar", a.lstrip("*")) for a in args.split()]
    source = file.read_text(encoding="utf-8")
    request = LowerRequest(source=source, entry=entry, arg_types=types, constexprs=dict(consts), filename=file.name)
    return lower(request, cache=None).asc_ir


def written_out(groups: Sequence[CoreGroup], core: int) -> list[Record]:
    """The records of one core, with plain GM offsets and adjacent scalar work added up."""
    group = next(g for g in groups if g.start <= core < g.start + g.cores)
    values = {} if group.var is None else {group.var: core}
    return merged(_walk(group.nodes, values))


def _walk(nodes: Sequence[Node], values: dict[Var, int]) -> Iterator[Record]:
    for node in nodes:
        if isinstance(node, Repeat):
            for i in range(node.count):
                yield from _walk(node.body, {**values, node.var: i * node.stride})
        elif isinstance(node, Copy):
            yield attrs.evolve(node, gm=attrs.evolve(node.gm, offset=_number(node.gm.offset, values)))
        else:
            yield node


def _number(offset: int | Affine, values: dict[Var, int]) -> int:
    if isinstance(offset, int):
        return offset
    return offset.const + sum(c * values[v] for v, c in offset.terms)


def merged(records: Iterator[Record]) -> list[Record]:
    """Without loop marks, and with adjacent scalar work added up (where it was written down differs)."""
    out: list[Record] = []
    for record in records:
        if isinstance(record, LoopMark):
            continue
        if isinstance(record, ScalarWork):
            record = attrs.evolve(record, loc=_NOWHERE)
            if out and isinstance(out[-1], ScalarWork):
                out[-1] = attrs.evolve(out[-1], ops=out[-1].ops + record.ops)
                continue
        out.append(record)
    return out


_NOWHERE = UNKNOWN_LOC
