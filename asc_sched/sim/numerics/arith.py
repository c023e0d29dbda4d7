"""Add, Sub, Mul, Div, Max, Min."""
from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def add(out: Any, srcs: Any, scalar: Any, mode: int) -> None:
    np.add(srcs[0], srcs[1], out=out)


def sub(out: Any, srcs: Any, scalar: Any, mode: int) -> None:
    np.subtract(srcs[0], srcs[1], out=out)


def mul(out: Any, srcs: Any, scalar: Any, mode: int) -> None:
    np.multiply(srcs[0], srcs[1], out=out)


def div(out: Any, srcs: Any, scalar: Any, mode: int) -> None:
    np.divide(srcs[0], srcs[1], out=out)


def maximum(out: Any, srcs: Any, scalar: Any, mode: int) -> None:
    np.maximum(srcs[0], srcs[1], out=out)


def minimum(out: Any, srcs: Any, scalar: Any, mode: int) -> None:
    np.minimum(srcs[0], srcs[1], out=out)
