"""Compiles a kernel's IR into closures once, to be run per core: control flow, scalar code, and the table of builders.

A step is a function of the value list and the core. Builders for the operations of one family live in `framework`
(queues, tensors, synchronisation), `moves` (copies), `vector` (instructions) and `inline` (verbatim calls).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from asc_sched.sim import dtypes, errors, scalar
from asc_sched.sim.affine import Undecided
from asc_sched.sim.core import Core
from asc_sched.sim.dtypes import DType
from asc_sched.sim.ir import Block, Func, Op
from asc_sched.sim.stream import Loc
from asc_sched.sim.values import Unknown

Env: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Env, Core], None]
Builder: TypeAlias = Callable[[Op], "Step | None"]

#: Scalar instructions that a loop's own control takes per iteration (compare and branch, increment).
LOOP_OPS = 2
_FREE = frozenset(("emitc.include", "ascendc.set_ffts_base_addr", "scf.yield", "return"))


@attrs.frozen
class Program:
    """A compiled kernel. `template` is the value list with all constants filled in."""

    func: Func
    template: tuple[Any, ...]
    steps: tuple[Step, ...]
    reserve_bytes: int

    def env(self, args: Sequence[Any]) -> Env:
        """A fresh value list for one core; `args` are the values of the explicit arguments."""
        env = list(self.template)
        for arg, value in zip(self.func.explicit_args, args, strict=True):
            env[arg.value] = value
        return env

    def run(self, core: Core, args: Sequence[Any]) -> None:
        """Runs the kernel on one core."""
        env = self.env(args)
        core.reserve_bytes = self.reserve_bytes
        for step in self.steps:
            step(env, core)
        core.finish()

    def iterate(self, core: Core, args: Sequence[Any]) -> Iterator[None]:
        """Runs the kernel on one core, stopping after every operation of its body and of its outer loops."""
        env = self.env(args)
        core.reserve_bytes = self.reserve_bytes
        yield from _iterate(self.steps, env, core)
        core.finish()


def _iterate(steps: Sequence[Step], env: Env, core: Core) -> Iterator[None]:
    for step in steps:
        if isinstance(step, Loop):
            for _ in step.iterate(env, core):
                yield
        else:
            step(env, core)
            yield


@functools.lru_cache(maxsize=256)
def compile_kernel(func: Func, counting: bool) -> Program:
    """The program of a kernel function. With `counting`, scalar operations are counted for the instruction stream.

    Raises `UnknownOperationError` for an operation that has no model.
    """
    return _Compiler(func, counting).program()


class _Compiler:
    def __init__(self, func: Func, counting: bool) -> None:
        from asc_sched.sim.builders import BUILDERS, find  # the builders import this module

        self._func = func
        self._counting = counting
        self._template: list[Any] = [None] * func.values
        self._builders = BUILDERS
        self._find = find
        self._loops = 0
        self._reserve = 0

    def program(self) -> Program:
        steps = self._block(self._func.body)
        return Program(self._func, tuple(self._template), tuple(steps), self._reserve)

    def _block(self, block: Block) -> list[Step]:
        """The steps of a block. Runs of scalar operations are counted into one step before what follows them."""
        steps: list[Step] = []
        ops, loc = 0, self._func.loc
        for op in block.ops:
            step, cost = self._op(op)
            if step is None:
                continue
            if self._counting:
                if cost:
                    ops, loc = ops + cost, op.loc
                elif ops:
                    steps.append(_count(ops, loc))
                    ops = 0
            steps.append(step)
        if ops:
            steps.append(_count(ops, loc))
        return steps

    def _op(self, op: Op) -> tuple[Step | None, int]:
        name = op.name
        if name in ("arith.constant", "emitc.constant"):
            dtype = dtypes.of(op.types[-1])
            self._template[op.results[0]] = scalar.constant(op.attrs["value"], dtype)
            return None, 0
        if name in _FREE:
            return None, 0
        if name.startswith(("arith.", "emitc.")):
            return (_deferred(op, _scalar(op)) if self._counting else _scalar(op)), 1
        if name.startswith("scf."):
            return self._control(op), 0
        if op.attrs.get("selMode") in (1, 2) or (name == "emitasc.verbatim" and "VSEL_TENSOR" in op.words[0]):
            self._reserve = SELECT_RESERVE
        builder = self._builders.get(name) or self._find(op)
        if builder is None:
            raise unknown(op)
        try:
            return builder(op), (1 if name in _CHEAP else 0)
        except (KeyError, IndexError, ValueError, TypeError) as e:  # a form of it that its builder wasn't written for
            text = f"{op.loc}: the simulator can't read this form of {name} ({type(e).__name__}: {e})"
            raise errors.UnknownOperationError(text, op.loc) from e

    # -- control flow ------------------------------------------------------------------------------------------
    def _control(self, op: Op) -> Step:
        if op.name == "scf.for":
            number = self._loops
            self._loops += 1
            body = self._block(op.regions[0])
            return Loop(op, number, tuple(body), _yields(op.regions[0]), self._counting)
        if op.name == "scf.if":
            branches = [self._branch(region, op) for region in op.regions]
            return _if(op, branches, self._counting)
        if op.name == "scf.while":
            return self._while(op)
        raise unknown(op)

    def _branch(self, region: Block, op: Op) -> tuple[Step, ...]:
        moves = tuple(zip(op.results, _yields(region), strict=True))
        steps = self._block(region)
        if moves:
            steps.append(_move(moves))
        return tuple(steps)

    def _while(self, op: Op) -> Step:
        """pyasc's `while` emits C++ that tests its condition's first value for ever."""
        condition_op = op.regions[0].ops[-1]
        before = tuple(self._block(Block(op.regions[0].args, op.regions[0].ops[:-1])))
        condition, loc = condition_op.operands[0], op.loc

        def step(env: Env, core: Core) -> None:
            for inner in before:
                inner(env, core)
            if env[condition]:
                core.fail(errors.ScalarError, loc, "endless loop: pyasc's `while` tests its condition only once")

        return step


#: UB that Select keeps for itself in its modes 1 and 2 (Ascend C documentation of Select).
SELECT_RESERVE = 8 * 1024
_CHEAP = frozenset(
    "ascendc.construct ascendc.global_tensor.subindex ascendc.local_tensor.subindex ascendc.reinterpret_cast "
    "ascendc.tbuf.get_tensor ascendc.tbuf.get_with_offset ascendc.local_tensor_v2 ascendc.local_tensor.get_size "
    "ascendc.local_tensor.get_length ascendc.get_block_num ascendc.global_tensor.bracket "
    "ascendc.local_tensor.bracket emitasc.ptr_offset".split()
)


def unknown(op: Op) -> errors.UnknownOperationError:
    """The error for an operation without a model."""
    return errors.UnknownOperationError(f"{op.loc}: the simulator has no model of {op.name}", op.loc)


def _yields(block: Block) -> tuple[int, ...]:
    if block.ops and block.ops[-1].name == "scf.yield":
        return block.ops[-1].operands
    return ()


def _count(ops: int, loc: Loc) -> Step:
    return lambda env, core: core.scalar(ops, loc)


def _move(moves: tuple[tuple[int, int], ...]) -> Step:
    def step(env: Env, core: Core) -> None:
        for dst, src in moves:
            env[dst] = env[src]

    return step


def _if(op: Op, branches: list[tuple[Step, ...]], counting: bool) -> Step:
    condition, loc = op.operands[0], op.loc
    then = branches[0]
    other = branches[1] if len(branches) > 1 else ()

    def step(env: Env, core: Core) -> None:
        if counting:
            core.scalar(1, loc)
        for inner in then if env[condition] else other:
            inner(env, core)

    return step


class Loop:
    """`scf.for` as pyasc's C++ runs it: a signed `<` test, carried values assigned one after the other."""

    def __init__(self, op: Op, number: int, body: tuple[Step, ...], yields: tuple[int, ...], counting: bool) -> None:
        self.lower, self.upper, self.stride = op.operands[:3]
        self.inits = op.operands[3:]
        self.induction, *self.carried = op.regions[0].args
        self.results = op.results
        self.body = body
        self.yields = yields
        self.number = number
        self.loc = op.loc
        self._counting = counting

    def __call__(self, env: Env, core: Core) -> None:
        if core.loop_driver is not None:
            core.loop_driver(self, env)
            return
        body = self.body
        for _ in self._rounds(env, core):
            for step in body:
                step(env, core)

    def iterate(self, env: Env, core: Core) -> Iterator[None]:
        """Like calling, but stops inside every iteration."""
        for _ in self._rounds(env, core):
            for step in self.body:
                step(env, core)
            yield

    def _rounds(self, env: Env, core: Core) -> Iterator[None]:
        at, upper, stride = env[self.lower], env[self.upper], env[self.stride]
        if stride <= 0 and at < upper:
            core.fail(errors.ScalarError, self.loc, f"endless loop: {at} < {upper} with a step of {stride}")
        total = max(0, -((at - upper) // stride)) if stride > 0 else 0
        for arg, init in zip(self.carried, self.inits, strict=True):
            env[arg] = env[init]
        tile, counting, induction, loc = core.tile, self._counting, self.induction, self.loc
        tile.append(0)
        for iteration in range(total):
            env[induction] = at
            tile[-1] = iteration
            if counting:
                core.loop_mark(self.number, iteration, total)
                core.scalar(LOOP_OPS, loc)
            yield
            for arg, value in zip(self.carried, self.yields, strict=True):
                env[arg] = env[value]
            at += stride
        tile.pop()
        for result, arg in zip(self.results, self.carried, strict=True):
            env[result] = env[arg]


# -- scalar operations -----------------------------------------------------------------------------------------
def _scalar(op: Op) -> Step:
    kind = op.name.partition(".")[2]
    out = op.results[0] if op.results else -1
    if kind == "select":
        cond, yes, no = op.operands

        def select(env: Env, core: Core) -> None:
            env[out] = env[yes] if env[cond] else env[no]

        return select
    fn = _scalar_function(op, kind)
    if fn is None:
        raise unknown(op)
    loc = op.loc
    if len(op.operands) == 1:
        (a,) = op.operands

        def unary(env: Env, core: Core) -> None:
            env[out] = fn(env[a])

        return unary
    a, b = op.operands
    if kind in _CAN_FAIL:

        def guarded(env: Env, core: Core) -> None:
            try:
                env[out] = fn(env[a], env[b])
            except ZeroDivisionError:
                core.fail(errors.ScalarError, loc, f"{env[a]} divided by zero")
            except ArithmeticError as e:
                core.fail(errors.ScalarError, loc, str(e))

        return guarded

    def binary(env: Env, core: Core) -> None:
        env[out] = fn(env[a], env[b])

    return binary


def _deferred(op: Op, step: Step) -> Step:
    """Scalar code where only the instruction stream is asked for: values that nobody has are handed on, and a float
    that differs between iterations has none. Whoever has to know one raises its error."""
    operands, out = op.operands, op.results[0] if op.results else -1
    has_float = any(t in dtypes.BY_IR and dtypes.BY_IR[t].is_float for t in op.types)

    def deferred(env: Env, core: Core) -> None:
        for i in operands:
            if isinstance(env[i], Unknown):
                env[out] = env[i]
                return
        try:
            step(env, core)
        except Undecided as question:
            if not has_float:
                raise
            env[out] = Unknown(question)

    return deferred


_CAN_FAIL = frozenset(
    "divsi divui remsi remui ceildivsi ceildivui floordivsi shli shrsi shrui".split(),
)


def _scalar_function(op: Op, kind: str) -> Callable[..., Any] | None:
    dtype: DType = dtypes.of(op.types[0])
    if kind == "cmpi":
        return scalar.integer_compare(op.words[0], dtype)
    if kind == "cmpf":
        return scalar.float_compare(op.words[0])
    if kind == "negf":
        return lambda a: -a
    return (
        scalar.integer_binary(kind, dtype)
        or scalar.float_binary(kind, dtype)
        or scalar.cast(kind, dtype, dtypes.of(op.types[-1]))
    )
