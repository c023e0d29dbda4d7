"""One kernel of a built library against torch, on the simulator: what `check` runs in a worker process.

Only data is read: the kernel's ASC-IR, its part of the manifest, and the graph that it computes. None of the library's
Python is imported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from asc_sched.errors import AscSchedError, LibraryError
from asc_sched.lang.dtypes import DTYPES, DType
from asc_sched.lang.graph import Constant
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.library.graphs import graph_from_json

if TYPE_CHECKING:
    import torch

#: Inputs repeat after so many elements, a prime, so that no tile or block begins where another did. What a kernel
#: computes for the first ones is compared with torch; for the others it must give the same bits again.
PERIOD = 1_000_003


def verify(argument: Mapping[str, Any]) -> dict[str, Any]:
    """Run the kernel of ``argument["job"]`` at several sizes (a kernel of a fixed size: at that) on random data.

    Gives ``elements`` compared, ``max_rel_error``, and ``wrong``, a text for what is wrong, empty if nothing is.
    """
    job = json.loads(argument["job"])
    try:
        return _verify(job)
    except AscSchedError as error:
        return {"elements": 0, "max_rel_error": 0.0, "wrong": f"{type(error).__name__}: {error}"}
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        return {"elements": 0, "max_rel_error": 0.0, "wrong": f"it can't be run: {type(error).__name__}: {error}"}


def _verify(job: Mapping[str, Any]) -> dict[str, Any]:
    from asc_sched.sim import parse

    kernel = job["kernel"]
    graph = graph_from_json(job["graph"])
    typed = infer(graph, {n: DTYPES[d] for n, d in zip(graph.inputs, kernel["inputs"], strict=True)})
    module = parse(job["asc_ir"])
    elements, worst, wrong = 0, 0.0, ""
    for total_length in _sizes(kernel):
        result = _run(kernel, typed, module, total_length)
        elements, worst, wrong = elements + result[0], max(worst, result[1]), wrong or result[2]
    return {"elements": elements, "max_rel_error": worst, "wrong": wrong}


def _sizes(kernel: Mapping[str, Any]) -> tuple[int, ...]:
    """One element, a prime number below and one above a tile; a large one with tails on every core."""
    if kernel["shape"] is not None:
        return (math.prod(kernel["shape"]),)
    tile_length = int(kernel["tiling"]["tile_length"])
    return (1, 31, tile_length + 1, min(3 * tile_length * 8 + 13, 100_003))


def _run(kernel: Mapping[str, Any], typed: TypedGraph, module: Any, total_length: int) -> tuple[int, float, str]:
    from asc_sched.sim import simulate
    from asc_sched.target import get_target

    target = get_target(kernel["target"])
    pointers = [a for a in kernel["arguments"] if a["kind"] == "pointer"]
    names = [a["name"] for a in pointers]
    if names != [*typed.graph.inputs, *(o.name for o in typed.graph.outputs)]:
        raise LibraryError(f"its arguments {', '.join(names)} are not those of its graph")
    inputs = {n: _random(d, total_length, i) for i, (n, d) in enumerate(typed.input_dtypes.items())}
    outputs = {n: np.empty(total_length, d.numpy) for n, d in typed.output_dtypes.items()}
    scalars = _scalars(typed)
    arrays = [a.view(p["carrier"]) for a, p in zip((*inputs.values(), *outputs.values()), pointers, strict=True)]
    cores = _core_num(kernel, total_length)
    if cores:
        numbers = [_number(a, kernel, total_length, scalars) for a in kernel["arguments"] if a["kind"] != "pointer"]
        written = range(len(inputs), len(arrays))
        simulate(module, [*arrays, *numbers], core_num=cores, target=target, entry=kernel["symbol"], outputs=written)
    return _compare(typed, inputs, outputs, scalars, total_length)


def _random(dtype: DType, total_length: int, index: int) -> np.ndarray[Any, Any]:
    """Reproducible values: normal numbers, small integers, coin flips. Integers after the first input are above 0: they
    may be divisors, exponents or shifts."""
    generator = np.random.default_rng([index, total_length])
    length = min(total_length, PERIOD)
    if dtype.is_float:
        values = generator.standard_normal(length, dtype=np.float32).astype(dtype.numpy)
    elif dtype.name == "bool":
        values = generator.integers(0, 2, length).astype(bool)
    else:
        low, high = (1, 8) if index else (0 if dtype.name == "uint8" else -100, 101)
        values = generator.integers(low, high, length).astype(dtype.numpy)
    return np.resize(values, total_length)


def _scalars(typed: TypedGraph) -> dict[str, Constant]:
    return {
        s.name: s.default if s.default is not None else 1.5 if s.dtype.is_float else 1 for s in typed.graph.scalars
    }


def _number(
    argument: Mapping[str, Any], kernel: Mapping[str, Any], total_length: int, scalars: Mapping[str, Constant]
) -> np.generic:
    carrier = np.dtype(argument["carrier"]).type
    if argument["kind"] == "size":
        sizes = {"total_length": total_length, "tile_length": kernel["tiling"]["tile_length"]}
        return carrier(sizes[argument["size"]])  # type: ignore[no-any-return]
    declared = DTYPES[argument["dtype"]].numpy.type
    return carrier(declared(scalars[argument["name"]]))  # type: ignore[no-any-return]


def _core_num(kernel: Mapping[str, Any], total_length: int) -> int:
    """The cores that have work, from the tiling's own arithmetic and not from the library's printed formulas."""
    from asc_sched.tiling import Alignment
    from asc_sched.tiling.symbolic import formula_names, integer_function

    tiling = kernel["tiling"]
    if total_length == 0:
        return 0
    align = Alignment(tiling["line_length"], tiling["datablock_length"])
    function, inputs = integer_function(tiling["core_split"], align, "tile_length")
    known = {"total_length": total_length, "core_num": tiling["core_num"], "tile_length": tiling["tile_length"]}
    values = function(*(known[n] for n in inputs))
    return int(dict(zip(formula_names(tiling["core_split"], "tile_length"), values, strict=True))["used_cores"])


def _compare(
    typed: TypedGraph,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    outputs: Mapping[str, np.ndarray[Any, Any]],
    scalars: Mapping[str, Constant],
    total_length: int,
) -> tuple[int, float, str]:
    from asc_sched.lang.reference import evaluate
    from asc_sched.run.check import allowances, compare

    first = slice(0, min(total_length, PERIOD))
    tensors = {n: _tensor(a[first], typed.input_dtypes[n]) for n, a in inputs.items()}
    expected, allowed = evaluate(typed, tensors, scalars), allowances(typed, tensors, scalars)
    elements, worst = 0, 0.0
    for name, array in outputs.items():
        for part in _periods(total_length):
            length = part.stop - part.start
            elements += length
            if part.start and _same_bits(array[part], array[:length]):
                continue
            result = _tensor(array[part], typed.output_dtypes[name])
            found = compare(result, expected[name][:length], _doubled(allowed(name), length))
            worst = max(worst, found.max_rel_error)
            if not found.ok:
                where = f"[{part.start}:{part.stop}] of {total_length}"
                return elements, worst, (
                    f"{found.mismatches} of the elements {where} of {name} are not torch's (max abs error "
                    f"{found.max_abs_error:.3g}, max rel error {found.max_rel_error:.3g})"
                )
    return elements, worst, ""


def _doubled(allowed: Callable[[], torch.Tensor] | None, length: int) -> Callable[[], torch.Tensor] | None:
    """Errors that add up in the worst way are rare, but a library's check looks at millions of elements."""
    return None if allowed is None else lambda: 2 * allowed()[:length]


def _periods(total_length: int) -> Iterator[slice]:
    return (slice(s, min(s + PERIOD, total_length)) for s in range(0, total_length, PERIOD))


def _same_bits(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return bool(np.array_equal(one.view(np.uint8), other.view(np.uint8)))


def _tensor(array: np.ndarray[Any, Any], dtype: DType) -> torch.Tensor:
    """A torch tensor on the array's memory; numpy's bfloat16 is none of torch's."""
    import torch

    return torch.from_numpy(array.view(np.uint8)).view(dtype.torch)
