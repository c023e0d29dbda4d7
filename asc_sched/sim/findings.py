"""What a run finds: which findings stop it, which are kept as warnings, and the source line they quote."""

from __future__ import annotations

import linecache
import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from asc_sched.errors import ArgumentError
from asc_sched.sim import errors
from asc_sched.sim.errors import HardwareError
from asc_sched.sim.stream import Loc

log = logging.getLogger("asc_sched.sim")


class Findings:
    """What a run found: decides whether a finding stops it, and keeps those that don't, once per place."""

    def __init__(
        self, strict: bool | Collection[str], sources: Mapping[str, str] | None = None, *, quiet: bool = False
    ) -> None:
        if not isinstance(strict, bool):
            unknown = sorted(set(strict) - set(errors.CHECKS))
            if unknown:
                raise ArgumentError(f"unknown checks {unknown}; there are {', '.join(sorted(errors.CHECKS))}")
        self._strict = strict
        self._quiet = quiet
        self._sources = {name: text.splitlines() for name, text in (sources or {}).items()}
        self.warnings: list[HardwareError] = []
        self._seen: set[tuple[str, Loc]] = set()

    def source_line(self, loc: Loc) -> str:
        """The kernel's text at a location: from the sources given, or from the file where its path is absolute."""
        lines = self._sources.get(loc.file)
        if lines is not None:
            return lines[loc.line - 1].strip() if 0 < loc.line <= len(lines) else ""
        return linecache.getline(loc.file, loc.line).strip() if loc.line and Path(loc.file).is_absolute() else ""

    def add(self, finding: HardwareError) -> None:
        """Raises the finding when its check is strict, else keeps and logs it."""
        stop = self._strict if isinstance(self._strict, bool) else finding.check in self._strict
        if finding.fatal or stop:
            raise finding
        self.warn(finding)

    def warn(self, finding: HardwareError) -> None:
        """Keeps and logs a finding, the first at its place."""
        key = (finding.check, finding.loc)
        if key not in self._seen:
            self._seen.add(key)
            self.warnings.append(finding)
            if not self._quiet:
                log.warning("%s: %s", finding.check, finding)
