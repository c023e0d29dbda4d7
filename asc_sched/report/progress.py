"""Progress on a terminal: a bar with the time that is left. Elsewhere only what went wrong, one line each."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from asc_sched.library.builder import Failure, Watcher
from asc_sched.library.checker import Problem


class _Bar:
    """A bar on standard error that leaves nothing behind; no bar where standard error isn't a terminal."""

    def __init__(self, what: str) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self._progress = Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        )
        self._task: TaskID | None = None
        self._what = what

    def start(self, total: int) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=total)

    def advance(self) -> None:
        if self._task is not None:
            self._progress.advance(self._task)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def close(self) -> None:
        self._progress.stop()


class BuildProgress(Watcher):
    """Shows how a build goes. `todo` kernels are to be made, `done` of them are."""

    def __init__(self) -> None:
        self._searches = _Bar("tuning")
        self._bar = _Bar("building")
        self.todo = self.done = 0

    def waiting(self, owner: str) -> None:
        self._bar.say(f"waiting for {owner}, which builds into the same folder")

    def searching(self, total: int) -> None:
        self._searches.start(total)

    def searched(self, symbol: str) -> None:
        self._searches.advance()

    def planned(self, total: int, todo: int) -> None:
        self._searches.close()
        self.todo = todo
        self._bar.start(todo)

    def finished(self, symbol: str) -> None:
        self.done += 1
        self._bar.advance()

    def failed(self, failure: Failure) -> None:
        self._bar.advance()
        self._bar.say(f"failed {failure.symbol}: {failure.error}: {_one_line(failure.message)}")

    def close(self) -> None:
        """Take the bars away."""
        self._searches.close()
        self._bar.close()

    def __enter__(self) -> BuildProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CheckProgress:
    """Shows how a check goes."""

    def __init__(self) -> None:
        self._bar = _Bar("checking")

    def step(self, done: int, total: int, problem: Problem | None) -> None:
        """One kernel was looked at."""
        self._bar.start(total)
        self._bar.advance()
        if problem is not None:
            self._bar.say(f"wrong {problem.symbol}: {_one_line(problem.message)}")

    def __enter__(self) -> CheckProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


def _one_line(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())
