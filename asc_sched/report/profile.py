"""A predicted launch as a table, in the terms of msprof."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from asc_sched.sim.profile import Timing

_PIPES = {
    "S": "scalar code, queue operations, instruction issue",
    "V": "vector instructions",
    "MTE2": "copies from GM to UB",
    "MTE3": "copies from UB to GM",
}


def profile_table(timing: Timing) -> Table:
    """The launch's times, per-pipe times and ratios, bytes and bandwidth, and what bounds it."""
    title = f"{timing.target} at {timing.clock_mhz:g} MHz, {timing.core_num} cores, L2 {timing.l2}"
    table = Table(title=title, title_justify="left", show_header=True, header_style="bold", caption_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("", justify="right")
    table.add_column("")
    table.add_row("task time", _us(timing.task_us), "", "launch and the slowest core")
    table.add_row("launch", _us(timing.launch_us), _percent(timing.launch_us, timing.task_us), "outside the cores")
    table.add_row("core time", _us(timing.core_us), _percent(timing.core_us, timing.task_us), _mean_text(timing))
    table.add_row("start-up", _us(timing.init_us), _percent(timing.init_us, timing.task_us), "TPipe, buffers")
    table.add_section()
    for pipe, text in _PIPES.items():
        time = timing.pipes[pipe]
        style = "bold" if pipe == timing.bounding_pipe else ""
        table.add_row(pipe, _us(time.busy_us), f"{time.ratio:.1%}", f"{text}, mean over cores", style=style)
    table.add_section()
    table.add_row("read", _bytes(timing.bytes_read), "", "GM to UB")
    table.add_row("written", _bytes(timing.bytes_written), "", "UB to GM")
    moved = timing.bytes_read + timing.bytes_written
    table.add_row("through HBM", _bytes(timing.hbm_bytes), _percent(timing.hbm_bytes, moved), "the rest is L2's")
    table.add_row("bandwidth", _rate(timing.achieved_bytes_per_s), "", "bytes read and written over task time")
    table.add_section()
    roofline = _percent(timing.roofline_us, timing.task_us)
    table.add_row("roofline", _us(timing.roofline_us), roofline, f"{timing.roofline_by}; reached")
    table.add_row("bound", _us(timing.bound_us), f"{timing.share_of_bound:.1%}", f"{timing.bound_by}; reached")
    table.add_row("held up by", timing.bounding_pipe, "", timing.why)
    return table


def profile_text(timing: Timing) -> RenderableType:
    """The table with a line on where its figures come from."""
    note = "Predicted by the time model, not measured; docs/timing_model.md has its error."
    return Group(profile_table(timing), Text(note))


def _mean_text(timing: Timing) -> str:
    return f"slowest; mean of all cores {timing.core_mean_us:.2f} us"


def _us(value: float) -> str:
    return f"{value:.2f} us"


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _bytes(value: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if value >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value} B"


def _rate(value: float) -> str:
    return f"{value / 1e12:.3f} TB/s" if value >= 1e11 else f"{value / 1e9:.2f} GB/s"
