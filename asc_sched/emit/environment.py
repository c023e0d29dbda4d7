"""How this package's templates are read, wherever they lie."""

from __future__ import annotations

from functools import cache

import jinja2


@cache
def templates(package: str) -> jinja2.Environment:
    """The templates of ``asc_sched.<room>``: text as written, no blank lines of their own, no name left open."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
