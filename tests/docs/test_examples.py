"""What the documentation shows is what happens: its Python sessions and command lines are run."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

from asc_sched import cli, errors
from asc_sched.sim import CHECKS
from asc_sched.sim.errors import QueueError

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FLAGS = doctest.ELLIPSIS
IDS = [page.name for page in PAGES]


def fenced(page: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of every block in a language."""
    found, lines = [], page.read_text(encoding="utf-8").splitlines()
    starts = [i for i, line in enumerate(lines) if line.strip() == f"```{language}"]
    for start in starts:
        end = next(i for i in range(start + 1, len(lines)) if lines[i].strip() == "```")
        found.append((start + 2, "\n".join(lines[start + 1 : end]) + "\n"))
    return found


def agrees(expected: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(expected, got, FLAGS)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_python_sessions_are_true(page: Path) -> None:
    """All sessions of a page are one: later ones use what earlier ones made."""
    examples, told = [], []
    for line, text in fenced(page, "python"):
        if ">>> " in text:
            parsed = doctest.DocTestParser().get_examples(text)
            for example in parsed:
                example.lineno += line - 1
            examples += parsed
    test = doctest.DocTest(examples, {}, page.name, str(page), 0, None)
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.append, clear_globs=False)
    assert not told, "".join(told)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_command_lines_are_true(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for line, text in fenced(page, "console"):
        for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = session.partition("\n")
            words = shlex.split(command)
            if words[0] != "asc-sched":
                continue
            monkeypatch.setattr(sys, "argv", words)
            capsys.readouterr()
            with pytest.raises(SystemExit):
                cli.main()
            captured = capsys.readouterr()
            got = captured.out + captured.err
            assert agrees(expected, got), f"{page.name}:{line}: $ {command}\nexpected:\n{expected}\ngot:\n{got}"


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be linked by: a second one of the same name ends in ``-1``."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        found.append(f"{slug}-{n}" if (n := sum(re.sub(r"-\d+$", "", f) == slug for f in found)) else slug)
    return set(found)


def prose(page: Path) -> str:
    """A page's text without code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line if line.startswith("#") else re.sub(r"`[^`]*`", "", line) for line in text.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        linked = page if not name else (page.parent / name)
        assert linked.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}"


def test_the_reference_has_every_command_error_and_check() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for command in cli.COMMANDS:
        assert f"`asc-sched {command}" in text, command
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.AscSchedError):
            assert f"`{name}`" in text or f"errors.{name}`" in text, name
    for check, found in CHECKS.items():
        if found is not QueueError:
            assert f"`{check}`" in text, check


def test_the_pages_are_found() -> None:
    assert {"README.md", "tutorial.md", "reference.md", "how_it_works.md"} <= {p.name for p in PAGES}
