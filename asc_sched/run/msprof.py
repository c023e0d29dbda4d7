"""msprof's tables: reads the op summary that msprof writes, and runs msprof on a command.

Columns are found by name, since msprof's set of them depends on its version and options: ``op_summary_*.csv`` of
``msprof --application``, ``OpBasicInfo.csv`` of ``msprof op``.
"""

from __future__ import annotations

import csv
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from asc_sched.errors import ArgumentError, BackendError, StorageError
from asc_sched.files import storage_error
from asc_sched.run.measure import Measurement

_TABLES = ("op_summary_*.csv", "op_summary.csv", "OpBasicInfo*.csv")
_PIPES = {"S": "scalar", "V": "vec", "MTE2": "mte2", "MTE3": "mte3"}
_NOTHING = ("", "n/a", "na", "nan", "-")


@attrs.frozen
class PipeUse:
    """One pipe: busy microseconds and their part of the cores' time, None where msprof didn't collect it."""

    busy_us: float | None
    ratio: float | None


@attrs.frozen(kw_only=True)
class OpTime:
    """One task of a table. `duration_us` is msprof's Task Duration; `core_us` the cores' mean time (aiv_time)."""

    name: str
    op_type: str
    task_type: str
    duration_us: float
    core_num: int | None
    core_us: float | None
    pipes: dict[str, PipeUse]
    extra: dict[str, str]


def read_op_summary(path: str | Path, kernel: str | None = None) -> tuple[OpTime, ...]:
    """The tasks of a table (a csv file, or a folder in which the newest one is taken), in order.

    `kernel` keeps those whose op name is that, or begins with it and a ``_``. Raises `ArgumentError` where there is no
    table, no such kernel, or a needed column is missing; `StorageError` where it can't be read.
    """
    table = _find(Path(path))
    tasks = tuple(_task(row, table) for row in _rows(table))
    if kernel is None:
        return tasks
    kept = tuple(t for t in tasks if t.name == kernel or t.name.startswith(f"{kernel}_"))
    if not kept:
        names = sorted({t.name for t in tasks})
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise ArgumentError(f"{table.name} has no task {kernel!r}; it has {shown or 'none'}")
    return kept


def measurement(tasks: Sequence[OpTime], skip: int = 1) -> Measurement:
    """Task durations as a `Measurement`; the first `skip` (cold instruction cache) don't count if others are left."""
    kept = tasks[skip:] if len(tasks) > skip else tasks
    return Measurement(tuple(t.duration_us for t in kept), "msprof")


def msprof_command(command: Sequence[str], folder: str | Path) -> list[str]:
    """The command line that collects tasks and pipe times of a program into `folder`."""
    return [
        "msprof", f"--output={folder}", "--task-time=l1", "--ascendcl=off", "--runtime-api=off", "--aicpu=off",
        "--ai-core=on", "--aic-mode=task-based", "--aic-metrics=PipeUtilization",
        f"--application={shlex.join(command)}",
    ]  # fmt: skip


def run_msprof(command: Sequence[str], folder: str | Path, kernel: str | None = None) -> tuple[OpTime, ...]:
    """Run a program under msprof and read its table. Raises `BackendError` without msprof or where it fails."""
    if shutil.which("msprof") is None:
        raise BackendError(
            "msprof is not on PATH: it comes with CANN's toolkit; run `source /usr/local/Ascend/ascend-toolkit/"
            "set_env.sh`, `which msprof` shows the cause"
        )
    done = subprocess.run(msprof_command(command, folder), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise BackendError(f"msprof failed (exit code {done.returncode}):\n{last}")
    return read_op_summary(folder, kernel)


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    found = [p for pattern in _TABLES for p in path.rglob(pattern)] if path.is_dir() else []
    if not found:
        raise ArgumentError(f"{path} is no csv file, and there is no op_summary_*.csv or OpBasicInfo.csv in it")
    return max(found, key=lambda p: (p.stat().st_mtime_ns, str(p)))


def _rows(table: Path) -> list[dict[str, str]]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as err:
        raise storage_error(err, "read", table) from err
    except (UnicodeDecodeError, csv.Error) as err:
        raise StorageError(f"{table} is not a csv file of text: {err}") from None
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise ArgumentError(f"{table} is empty")
    names = [_plain(name) for name in rows[0]]
    return [dict(zip(names, row, strict=False)) for row in rows[1:]]


def _plain(name: str) -> str:
    """A column's name without its unit, case and spaces: ``Task Duration(us)`` is ``taskduration``."""
    return "".join(c for c in name.split("(")[0].lower() if c.isalnum())


def _task(row: Mapping[str, str], table: Path) -> OpTime:
    used = {"opname", "optype", "tasktype", "taskduration", "blockdim", "blocknum", "aivtime"}
    duration = _number(row.get("taskduration"))
    if "opname" not in row or duration is None:
        has = ", ".join(row)
        raise ArgumentError(f"{table.name} lacks a value of 'Op Name' or 'Task Duration(us)' in a row; it has {has}")
    cores = _number(row.get("blockdim", row.get("blocknum")))
    pipes = {}
    for pipe, word in _PIPES.items():
        keys = (f"aiv{word}time", f"aiv{word}ratio")
        used.update(keys)
        pipes[pipe] = PipeUse(*(_number(row.get(key)) for key in keys))
    return OpTime(
        name=row["opname"],
        op_type=row.get("optype", ""),
        task_type=row.get("tasktype", ""),
        duration_us=duration,
        core_num=None if cores is None else int(cores),
        core_us=_number(row.get("aivtime")),
        pipes=pipes,
        extra={k: v for k, v in row.items() if k not in used},
    )


def _number(text: str | None) -> float | None:
    if text is None or text.lower() in _NOTHING:
        return None
    try:
        return float(text)
    except ValueError:
        return None
