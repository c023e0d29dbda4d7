"""How good the generated instructions are: V cycles and GM bytes per element, against the fewest that could do.

    python benchmarks/lowering_quality.py [--dtype float32 --dtype float16 ...] [--all]

For each op of the catalogue: V-pipe cycles per 64 elements at full throughput, the fewest that the instruction table
allows, and their ratio; GM bytes per element against inputs and outputs once each. The worst ten come last.

The fewest: every function of the expression once, by the cheapest single call that the chip has for it (a basic
instruction, or the vendor's maths API at its published or estimated cost, whatever its accuracy and its treatment of
NaN), and one cast per tensor whose dtype isn't computed with. What exceeds it is the price of torch's values: NaN in
maxima, correct powers, sines of large arguments.
"""

from __future__ import annotations

import argparse

import attrs

from asc_sched import ops
from asc_sched.errors import DtypeError
from asc_sched.lang.dtypes import DType
from asc_sched.lang.infer import TypedGraph, infer
from asc_sched.lower.planner import lower_op
from asc_sched.report.op_table import gm_bytes_per_element, input_dtypes, vector_cycles_per_64
from asc_sched.target.costs import ideal_cycles

DTYPES = ("float32", "float16", "bfloat16", "int32", "int16", "int8")

# The cheapest single call for each function on floats (Ascend C names); several where no single one does it.
CALLS: dict[str, tuple[str, ...]] = {
    "add": ("Add",), "sub": ("Sub",), "mul": ("Mul",), "div": ("Div",), "neg": ("Muls",), "abs": ("Abs",),
    "sqrt": ("Sqrt",), "rsqrt": ("Rsqrt",), "reciprocal": ("Reciprocal",), "exp": ("Exp",), "log": ("Ln",),
    "log2": ("Ln", "Muls"), "log10": ("Ln", "Muls"), "exp2": ("Muls", "Exp"), "expm1": ("Exp", "Adds"),
    "log1p": ("Adds", "Ln"), "relu": ("Relu",), "leaky_relu": ("LeakyRelu",), "maximum": ("Max",), "minimum": ("Min",),
    "fmax": ("Max",), "fmin": ("Min",), "floor": ("Cast",), "ceil": ("Cast",), "round": ("Cast",), "trunc": ("Cast",),
    "frac": ("Cast", "Sub"), "sign": ("Sign",), "signbit": ("Compares",), "copysign": ("And", "Or"),
    "sin": ("Sin",), "cos": ("Cos",), "tan": ("Tan",), "asin": ("Asin",), "acos": ("Acos",), "atan": ("Atan",),
    "atan2": ("Div", "Atan"), "sinh": ("Sinh",), "cosh": ("Cosh",), "tanh": ("Tanh",), "asinh": ("Asinh",),
    "acosh": ("Acosh",), "atanh": ("Atanh",), "erf": ("Erf",), "erfc": ("Erfc",), "pow": ("Power",),
    "hypot": ("Mul", "Mul", "Add", "Sqrt"), "fmod": ("Fmod",), "remainder": ("Fmod", "Add"),
    "floor_div": ("Div", "Cast"), "trunc_div": ("Div", "Cast"), "where": ("Select",), "finite": ("Compares", "Select"),
    "isnan": ("Compare",), "isinf": ("Compares",), "isfinite": ("Compares",), "isposinf": ("Compares",),
    "isneginf": ("Compares",), "lt": ("Compare",), "le": ("Compare",), "gt": ("Compare",), "ge": ("Compare",),
    "eq": ("Compare",), "ne": ("Compare",), "bitwise_and": ("And",), "bitwise_or": ("Or",), "bitwise_not": ("Not",),
    "gcd": ("Div", "Cast", "Mul", "Sub", "Select", "Select") * 12, "bitwise_xor": ("Or", "And"),
    "shift_left": ("ShiftLeft",), "shift_right": ("ShiftRight",),
}  # fmt: skip
# Functions of literal numbers: a scalar form that is cheaper than the one on two tensors.
WITH_NUMBER = {"add": "Adds", "sub": "Adds", "mul": "Muls", "maximum": "Maxs", "minimum": "Mins", "div": "Muls",
               "lt": "Compares", "le": "Compares", "gt": "Compares", "ge": "Compares", "eq": "Compares",
               "ne": "Compares"}  # fmt: skip

_C = {"float32": "float", "float16": "half", "int32": "int32_t", "int16": "int16_t"}


@attrs.frozen
class Quality:
    """One op on one dtype."""

    op: str
    dtype: str
    cycles: float
    fewest: float
    gm_bytes: int
    fewest_bytes: int

    @property
    def ratio(self) -> float:
        return self.cycles / self.fewest if self.fewest else 1.0


def measure(name: str, dtype: str, precision: str = "exact") -> Quality | None:
    """The figures, or None where there is no such op on the dtype."""
    declared = ops.get(name)
    try:
        typed = infer(declared.graph, input_dtypes(declared, dtype))
        program = lower_op(typed, precision).program
    except DtypeError:
        return None
    tensors = (*typed.input_dtypes.values(), *typed.output_dtypes.values())
    return Quality(
        name, dtype, vector_cycles_per_64(program), fewest_cycles(typed), gm_bytes_per_element(program),
        sum(d.itemsize for d in tensors),
    )  # fmt: skip


def fewest_cycles(typed: TypedGraph) -> float:
    """The least that any lowering of these functions could take, per 64 elements."""
    graph = typed.graph
    functions = [i for i, n in enumerate(graph.nodes) if n.fn not in ("input", "scalar", "const", "cast")]
    alone = len(functions) == 1
    total = 0.0
    for i in functions:
        node, type_ = graph.nodes[i], typed.types[i]
        if type_.is_number:
            continue
        dtype = _computed(type_.operands or type_.dtype, type_.dtype, alone)
        numbers = any(typed.types[a].is_number for a in node.args)
        if node.fn.startswith("shift") and not numbers:  # the chip shifts by literals only: one choice per bit
            total += 5 * sum(ideal_cycles(n, dtype, (dtype, dtype), 64) for n in ("ShiftLeft", "Select"))
            continue
        names = (WITH_NUMBER[node.fn],) if numbers and node.fn in WITH_NUMBER else CALLS.get(node.fn, ())
        total += sum(ideal_cycles(n, dtype, (dtype, dtype), 64) for n in names)
    for stored in (*typed.input_dtypes.values(), *typed.output_dtypes.values()):
        computed = _computed(stored, stored, alone)
        if functions and _C.get(stored.name) != computed and stored.name != "bool":
            total += ideal_cycles("Cast", computed, (computed,), 64)
    return total or ideal_cycles("Adds", "float", ("float",), 64)


def _computed(operands: DType, result: DType, alone: bool) -> str:
    dtype = operands if operands.is_float or not result.is_float else result
    if dtype.is_float:
        return "half" if dtype.name == "float16" and alone else "float"
    return "int32_t" if dtype.itemsize >= 4 else "int16_t"


def report(dtypes: tuple[str, ...], show_all: bool) -> None:
    found = [q for name in ops.catalogue() for d in dtypes if (q := measure(name, d)) is not None]
    if show_all:
        print(f"{'op':<34}{'dtype':<10}{'cycles/64':>10}{'fewest':>9}{'ratio':>7}{'GM bytes':>10}{'fewest':>8}")
        for q in found:
            print(_row(q))
    print(f"\n{len(found)} ops x dtypes; GM bytes above inputs and outputs once: ", end="")
    print(sum(q.gm_bytes > q.fewest_bytes for q in found))
    for dtype in dtypes:
        ratios = sorted(q.ratio for q in found if q.dtype == dtype)
        hidden = sum(q.cycles * 20 <= 64 * q.gm_bytes for q in found if q.dtype == dtype)
        print(
            f"{dtype:<9} median ratio {ratios[len(ratios) // 2]:.2f}, "
            f"90th percentile {ratios[len(ratios) * 9 // 10]:.2f}; "
            f"{hidden} of {len(ratios)} compute faster than they copy (20 GM bytes per cycle)"
        )
    print("\nThe worst ten, by ratio")
    for q in sorted(found, key=lambda q: -q.ratio)[:10]:
        print(_row(q))


def _row(q: Quality) -> str:
    return f"{q.op:<34}{q.dtype:<10}{q.cycles:>10.1f}{q.fewest:>9.1f}{q.ratio:>7.2f}{q.gm_bytes:>10}{q.fewest_bytes:>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", action="append", help="one or more; default: " + ", ".join(DTYPES))
    parser.add_argument("--all", action="store_true", help="every op, not only the worst")
    args = parser.parse_args()
    report(tuple(args.dtype or DTYPES), args.all)


if __name__ == "__main__":
    main()
