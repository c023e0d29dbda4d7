"""Templates of exported files, and what their texts share."""

from __future__ import annotations

import re
from typing import Any

from asc_sched.emit.environment import templates


def render(template: str, **values: Any) -> str:
    """A template of this package, filled in."""
    return templates("asc_sched.export").get_template(template).render(**values)


def snake(name: str) -> str:
    """``AddCustom`` as ``add_custom``, as CANN turns an operator's type into its kernel's file name."""
    text = re.sub(r"\W+", "_", name)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    return re.sub(r"_+", "_", text).strip("_").lower()


def camel(name: str) -> str:
    """``add_custom`` as ``AddCustom``."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", name) if part)
