"""How far the time model is from published measurements: predicted, measured, error, per case and in all.

    python benchmarks/model_error.py [--write-docs] [--json]

Every case is a real pyasc kernel of the published form: lowered by pyasc, read by the simulator's parser, timed by
the model. `--write-docs` puts the tables into docs/timing_model.md, `--json` prints the rows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

sys.path.insert(0, str(Path(__file__).parent))

from cases.published import Case, Curve, cases, curves, measurements

from asc_sched.build import Lowered, lower_many
from asc_sched.errors import CompileError
from asc_sched.files import write_atomic
from asc_sched.sim import ArraySpec, Timing, time_kernel
from asc_sched.target.timing import TimingConstants

DOCS = Path(__file__).parent.parent / "docs" / "timing_model.md"
_COPIES = 16
_TICK_US = 0.02


@attrs.frozen(kw_only=True)
class Row:
    """One measurement: what it is of, predicted and measured values, and what was fitted on the case."""

    case: str
    group: str
    quantity: str
    predicted: float
    measured: float
    fitted: str

    @property
    def error(self) -> float:
        """Relative; ratios (of pipe times) are compared by difference."""
        return self.predicted - self.measured if self.is_ratio else self.predicted / self.measured - 1

    @property
    def is_ratio(self) -> bool:
        return self.quantity.endswith("ratio")


_RATIOS = (("vec_r", "V"), ("scalar_r", "S"), ("mte2_r", "MTE2"), ("mte3_r", "MTE3"))


def case_rows(case: Case, timing: Timing, measured: dict[str, Any]) -> Iterator[Row]:
    """The rows of one case: the task's time, the vector time, the pipes' ratios, as far as they were published."""

    def row(quantity: str, predicted: float, value: float) -> Row:
        return Row(
            case=case.name, group=case.group, quantity=quantity, predicted=predicted, measured=value, fitted=case.fitted
        )

    if "ticks" in measured:
        yield row("vector us", timing.pipes["V"].busy_us, measured["ticks"] * _TICK_US)
        return
    yield row("task us", timing.task_us, measured["task_us"])
    if case.name.startswith("builtin"):  # another kernel's pipes
        return
    if "vec_us" in measured:
        yield row("vector us", timing.pipes["V"].busy_us, measured["vec_us"])
    for key, pipe in _RATIOS:
        if key in measured:
            yield row(f"{pipe} ratio", timing.pipes[pipe].ratio, measured[key])


def curve_rows(curve: Curve, lowered: Lowered) -> Iterator[Row]:
    """The rows of one curve: the pipe's time per copy at each size."""
    pipe = "MTE3" if curve.entry.startswith("store") else "MTE2"
    for nbytes, us in curve.points:
        args = (ArraySpec("float16", nbytes * _COPIES), nbytes // 2, _COPIES)
        timing = time_kernel(lowered.asc_ir, args, core_num=1, target=curve.target, l2=curve.l2)
        yield Row(
            case=f"{curve.name} {nbytes // 1024} KB",
            group=curve.name,
            quantity="us per copy",
            predicted=timing.pipes[pipe].busy_us / _COPIES,
            measured=us,
            fitted=curve.fitted,
        )


def all_rows() -> list[Row]:
    """Every row, in a fixed order."""
    published = measurements()
    found, wanted = cases(), curves()
    texts = _lowered([c.request() for c in found] + [c.request() for c in wanted])
    rows: list[Row] = []
    for case, lowered in zip(found, texts, strict=False):
        timing = time_kernel(lowered.asc_ir, case.args, core_num=case.cores, target=case.target, l2=case.l2)
        rows += case_rows(case, timing, published[case.name])
    for curve, lowered in zip(wanted, texts[len(found) :], strict=True):
        rows += curve_rows(curve, lowered)
    return rows


def _lowered(requests: Sequence[Any]) -> list[Lowered]:
    texts = []
    for result in lower_many(requests, jobs=1):
        if isinstance(result, CompileError):
            raise result
        texts.append(result)
    return texts


# -- tables ----------------------------------------------------------------------------------------------------
def tables(rows: Sequence[Row]) -> str:
    """All tables as Markdown."""
    parts = [_summary(rows), _cases(rows), _ratios(rows), _curves(rows), _constants()]
    return "\n\n".join(parts) + "\n"


def _summary(rows: Sequence[Row]) -> str:
    lines = ["### Summary", "", "| what | cases | mean error | largest error |", "| --- | ---: | ---: | ---: |"]
    for title, part in _parts(rows):
        errors = [abs(r.error) for r in part]
        form = "{:.3f}" if part[0].is_ratio else "{:.1%}"
        mean, worst = sum(errors) / len(errors), max(errors)
        lines.append(f"| {title} | {len(part)} | {form.format(mean)} | {form.format(worst)} |")
    return "\n".join(lines)


def _parts(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    def pick(title: str, keep: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
        part = list(keep)
        if part:
            yield title, part

    task = [r for r in rows if r.quantity == "task us"]
    yield from pick("task time, cases that constants were fitted on", (r for r in task if r.fitted))
    unknown = [r for r in task if r.case.startswith("builtin")]
    same = [r for r in task if r.case in ("datacopy_ub_s7", "datacopy_ub_s8")]
    tests = (r for r in task if not r.fitted and r not in unknown and r not in same)
    yield from pick("task time, cases that only test", tests)
    yield from pick("task time, built-in operators (form assumed)", unknown)
    yield from pick("task time, all cores read the same addresses (not modelled)", same)
    yield from pick("task time, Add cases 2 to 6", (r for r in task if r.case[:4] == "add8" and r.case[-1] > "1"))
    yield from pick("task time, TQue runs", (r for r in task if r.case.startswith("tque")))
    scenarios = [f"datacopy_ub_s{i}" for i in range(1, 5)]
    yield from pick("task time, GM to UB scenarios 1 to 4", (r for r in task if r.case in scenarios))
    yield from pick("vector time, Add cases", (r for r in rows if r.quantity == "vector us" and r.case[:4] == "add8"))
    yield from pick("vector time, bank conflicts", (r for r in rows if r.case.startswith("bank")))
    ratios = (r for r in rows if r.is_ratio and r.case.startswith("tque"))
    yield from pick("pipe ratios, TQue runs (difference)", ratios)
    for curve in dict.fromkeys(r.group for r in rows if r.quantity == "us per copy"):
        yield from pick(f"copy curve {curve}", (r for r in rows if r.group == curve))


def _cases(rows: Sequence[Row]) -> str:
    lines = ["### Times", "", "| case | quantity | predicted | measured | error | fitted on it |"]
    lines.append("| --- | --- | ---: | ---: | ---: | --- |")
    group = ""
    for r in rows:
        if r.quantity not in ("task us", "vector us"):
            continue
        if r.group != group:
            group = r.group
            lines.append(f"| **{group}** | | | | | |")
        fitted = r.fitted if r.quantity == "task us" or r.case.startswith("bank") else ""
        lines.append(f"| {r.case} | {r.quantity} | {r.predicted:.3f} | {r.measured:.3f} | {r.error:+.1%} | {fitted} |")
    return "\n".join(lines)


def _ratios(rows: Sequence[Row]) -> str:
    pipes = ("V", "S", "MTE2", "MTE3")
    lines = ["### Busy ratios of the pipes, predicted / measured", ""]
    lines += [f"| case | {' | '.join(pipes)} |", "| --- |" + " ---: |" * len(pipes)]
    by_case: dict[str, dict[str, Row]] = {}
    for r in rows:
        if r.is_ratio:
            by_case.setdefault(r.case, {})[r.quantity.split()[0]] = r
    for case, found in by_case.items():
        cells = [f"{found[p].predicted:.3f} / {found[p].measured:.3f}" if p in found else "" for p in pipes]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _curves(rows: Sequence[Row]) -> str:
    lines = ["### Copy curves: microseconds per copy, predicted / measured", ""]
    names = list(dict.fromkeys(r.group for r in rows if r.quantity == "us per copy"))
    lines += [f"| KB | {' | '.join(names)} |", "| ---: |" + " ---: |" * len(names)]
    points: dict[int, dict[str, Row]] = {}
    for r in rows:
        if r.quantity == "us per copy":
            points.setdefault(int(r.case.split()[1]), {})[r.group] = r
    for size in (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 76, 96, 128, 160, 192):
        found = points.get(size, {})
        cells = [
            f"{found[n].predicted:.4f} / {found[n].measured:.4f} ({found[n].error:+.1%})" if n in found else ""
            for n in names
        ]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _constants() -> str:
    lines = ["### Constants", "", "| constant | value | unit | source | fitted on |"]
    lines.append("| --- | ---: | --- | --- | --- |")
    for name, value, unit, source, fitted in TimingConstants.describe():
        lines.append(f"| `{name}` | {value:g} | {unit} | {source} | {fitted} |")
    return "\n".join(lines)


_BEGIN, _END = "<!-- tables: python benchmarks/model_error.py --write-docs -->", "<!-- end of tables -->"


def write_docs(text: str) -> None:
    """Puts the tables between their marks in docs/timing_model.md."""
    page = DOCS.read_text(encoding="utf-8")
    head, _, rest = page.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    write_atomic(DOCS, f"{head}{_BEGIN}\n\n{text}\n{_END}{tail}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/timing_model.md")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    rows = all_rows()
    if options.json:
        print(json.dumps([{**attrs.asdict(r), "error": r.error} for r in rows], indent=1))
    else:
        print(tables(rows))
    if options.write_docs:
        write_docs(tables(rows))


if __name__ == "__main__":
    main()
