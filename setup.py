"""Which folders and files the package is made of; everything else is in pyproject.toml.

`ops/` and `schedules/` lie beside the engine and install inside it, as asc_sched.ops and asc_sched.schedules: `ops` at
the top level is another project's name.
"""

from pathlib import Path

from setuptools import find_packages, setup

PARTS = {"asc_sched": "asc_sched", "asc_sched.ops": "ops", "asc_sched.schedules": "schedules"}


def data_files(folder: str) -> list[str]:
    """Templates, tables and native sources: all that isn't Python."""
    files = (p for p in Path(folder).rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc"))
    return sorted(p.relative_to(folder).as_posix() for p in files)


def packages(part: str, folder: str) -> list[str]:
    return [part, *(f"{part}.{name}" for name in find_packages(folder))]


setup(
    package_dir=PARTS,
    packages=[name for part, folder in PARTS.items() for name in packages(part, folder)],
    package_data={part: data_files(folder) for part, folder in PARTS.items()},
)
