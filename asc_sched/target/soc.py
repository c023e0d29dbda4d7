"""The SoCs that pyasc 1.1.1 knows (`asc.runtime.config.Platform`), as data.

Source of cores, UB, L2 and clock: CANN 8.1.RC1 `data/platform_config/<SoC>.ini` (`vector_core_cnt`, `ub_size`,
`l2_size`, `cube_freq`); the ini has no clock of its own for the vector cores.
"""

from __future__ import annotations

import difflib
from typing import Any

import attrs

from asc_sched.errors import TargetError

KIB = 1024
MIB = 1024 * 1024


@attrs.frozen(kw_only=True)
class Target:
    """One SoC as the generator and the simulator see it. Sizes in bytes, clock in MHz, bandwidth in bytes/s.

    Bandwidths are nominal and of the whole chip; what of HBM's a kernel can reach is in `target.timing`. L2's is for
    each direction: "peak about 5.2 TB/s" (asc-devkit, data_copy README, Atlas A2/A3), the same for every SoC.
    `max_queue_buffers` is the limit of queue buffers (sum of `num`) per TPosition on A2/A3, `max_pipe_buffers` the
    limit of all buffers of one TPipe (Ascend C documentation of `InitBuffer`). `max_block_dim` is the launcher's limit.
    """

    name: str
    vector_cores: int
    clock_mhz: float
    l2_bytes: int
    hbm_bytes_per_s: float
    l2_bytes_per_s: float = 5.2e12
    l2_mixed_bytes_per_s: float = 7e12
    ub_bytes: int = 192 * KIB
    max_queue_buffers: int = 8
    max_pipe_buffers: int = 64
    max_block_dim: int = 65535
    block_bytes: int = 32
    repeat_bytes: int = 256
    gm_line_bytes: int = 512

    def evolve(self, **changes: Any) -> Target:
        """A copy with some fields changed, for example ``target.evolve(clock_mhz=1650)``."""
        return attrs.evolve(self, **changes)


# Nominal HBM bandwidth, the whole chip:
# - 1.8 TB/s: "about 1.8 TB/s" for Atlas A2 and A3 (asc-devkit, data_copy README, which measures 48 vector cores).
# - 0.8 TB/s: 910B4 (a third-party evaluation tool's table; a published 16384 x 4096 fp32 run fits 0.69 TB/s reached).
# - 1.6 TB/s: the SoCs with 168 MB of L2 (the same tool's table for 910B4-1; no figure is published for 910_9362).
_HBM_FULL, _HBM_B4, _HBM_168 = 1.8e12, 0.8e12, 1.6e12

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target(name="Ascend910B1", vector_cores=48, clock_mhz=1850, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910B2", vector_cores=48, clock_mhz=1800, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910B2C", vector_cores=48, clock_mhz=1800, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910B3", vector_cores=40, clock_mhz=1800, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910B4", vector_cores=40, clock_mhz=1500, l2_bytes=96 * MIB, hbm_bytes_per_s=_HBM_B4),
        Target(name="Ascend910B4-1", vector_cores=40, clock_mhz=1500, l2_bytes=168 * MIB, hbm_bytes_per_s=_HBM_168),
        Target(name="Ascend910_9362", vector_cores=40, clock_mhz=1500, l2_bytes=168 * MIB, hbm_bytes_per_s=_HBM_168),
        Target(name="Ascend910_9372", vector_cores=40, clock_mhz=1800, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910_9381", vector_cores=48, clock_mhz=1800, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910_9382", vector_cores=48, clock_mhz=1800, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910_9391", vector_cores=48, clock_mhz=1850, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
        Target(name="Ascend910_9392", vector_cores=48, clock_mhz=1850, l2_bytes=192 * MIB, hbm_bytes_per_s=_HBM_FULL),
    )
}

DEFAULT_TARGET = "Ascend910B1"


def get_target(target: str | Target = DEFAULT_TARGET) -> Target:
    """The target of that name (a `Target` passes through). Raises `TargetError` naming the nearest known SoCs."""
    if isinstance(target, Target):
        return target
    if isinstance(target, str) and target in TARGETS:
        return TARGETS[target]
    near = difflib.get_close_matches(str(target), TARGETS, n=3, cutoff=0.5)
    hint = f"nearest: {', '.join(near)}; " if near else ""
    raise TargetError(f"unknown target {target!r}; {hint}known: {', '.join(TARGETS)}")
