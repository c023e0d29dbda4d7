"""The simulator as a kernel's backend: findings quote the generated source."""

from __future__ import annotations

import attrs
import pytest
import torch

from asc_sched import op
from asc_sched.sim import errors


def test_findings_quote_the_generated_line() -> None:
    kernel = op("z = x + y").compile(4096, "float32")
    tight = attrs.evolve(kernel.target, ub_bytes=2048)
    broken = attrs.evolve(kernel, plan=attrs.evolve(kernel.plan, target=tight))
    line = r"pipe\.init_buffer\("
    with pytest.raises(errors.UbOverflowError, match=rf"^{kernel.name}\.py:\d+: buffers take .*\n    .*{line}"):
        broken(torch.zeros(4096), torch.zeros(4096))
