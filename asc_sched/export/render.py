"""Templates of exported files, and what their texts share."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import jinja2


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("asc_sched.export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(template: str, **values: Any) -> str:
    """A template of this package, filled in."""
    return _environment().get_template(template).render(**values)


def snake(name: str) -> str:
    """``AddCustom`` as ``add_custom``, as CANN turns an operator's type into its kernel's file name."""
    text = re.sub(r"\W+", "_", name)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    return re.sub(r"_+", "_", text).strip("_").lower()


def camel(name: str) -> str:
    """``add_custom`` as ``AddCustom``."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", name) if part)
