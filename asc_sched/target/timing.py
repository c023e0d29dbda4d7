"""The constants of the time model, each with its unit, its source, and what it was fitted on.

Sources by short name:
- ADK Add, data_copy, bank: the READMEs of `add_high_performance`, `data_copy` and `bank_conflict_ub` in asc-devkit
  (`examples/01_simd_cpp_api/05_best_practices`), measured on Atlas A2.
- ini: CANN 8.1.RC1 `data/platform_config/<SoC>.ini`.
- msKPP: transfer and instruction tables of Ascend/mskpp (`csrc/prof_data/resource910b.cpp`), measured on 910B1/B3.
- TQue runs: published msprof csv files of relu, mul and four-input add kernels on TPipe and TQue (910B with 20 AI cores
  at 1650 MHz).

Latencies outside the core are in time, not cycles: L2 and HBM don't run on the core's clock.
"""

from __future__ import annotations

from typing import Any

import attrs


def _constant(default: float, unit: str, source: str, fitted: str = "") -> Any:
    return attrs.field(default=default, metadata={"unit": unit, "source": source, "fitted": fitted})


@attrs.frozen(kw_only=True)
class TimingConstants:
    """What the time model knows besides a `Target` and the instruction costs. `describe()` lists sources and units."""

    # -- launch and start-up -----------------------------------------------------------------------------------
    launch_us: float = _constant(
        0.57, "us", "TQue runs: task time beyond core time, line through 12, 16, 20 and 40 cores", "relu, mul"
    )
    launch_per_core_us: float = _constant(0.0235, "us/core", "the same line", "relu, mul")
    tpipe_cycles: float = _constant(
        940.0, "cycles", "TQue runs: start of the first load; ADK: 'several hundred ns' of TPipe", "relu, mul"
    )
    init_buffer_cycles: float = _constant(61.0, "cycles", "TQue runs: 2 to 5 queues", "relu, mul")
    vector_init_cycles: float = _constant(
        28.0, "cycles", "ADK Add cases 0 and 1: vector time beyond the instructions'", "Add case 0"
    )

    # -- scalar unit -------------------------------------------------------------------------------------------
    scalar_op_cycles: float = _constant(1.0, "cycles", "in-order scalar unit, one operation per cycle", "assumed")
    issue_cycles: float = _constant(1.0, "cycles", "ADK Add case 1: 26 scalar cycles per tile", "Add case 1")
    copy_issue_cycles: float = _constant(3.0, "cycles", "ADK Add case 1: 26 scalar cycles per tile", "Add case 1")
    queue_op_cycles: float = _constant(26.0, "cycles", "TQue runs: scalar time against queue operations", "relu, mul")
    queue_sync_vector_cycles: float = _constant(
        2.3, "cycles", "TQue runs: vector time per tile beyond the instructions'", "relu, mul"
    )

    # -- copies, one core --------------------------------------------------------------------------------------
    load_hit_ns: float = _constant(107.0, "ns", "msKPP GM_TO_UB_910b3 (L2 hits)", "GM_TO_UB_910b3")
    load_queued_ns: float = _constant(
        30.0, "ns", "TQue runs: what a load's latency is shorter by when it waits in MTE2's queue already", "relu, mul"
    )
    load_bytes_per_cycle: float = _constant(128.0, "bytes/cycle", "msKPP GM_TO_UB_910b3", "GM_TO_UB_910b3")
    load_miss_ns: float = _constant(130.0, "ns", "msKPP GM_TO_UB_910b1 (L2 misses)", "GM_TO_UB_910b1")
    load_miss_burst_gbps: float = _constant(156.0, "GB/s", "msKPP GM_TO_UB_910b1 up to 16 KB", "GM_TO_UB_910b1")
    load_miss_gbps: float = _constant(82.0, "GB/s", "msKPP GM_TO_UB_910b1 from 32 KB", "GM_TO_UB_910b1")
    store_ns: float = _constant(78.0, "ns", "msKPP UB_TO_GM_910b1", "UB_TO_GM_910b1")
    store_burst_bytes_per_cycle: float = _constant(92.0, "bytes/cycle", "msKPP UB_TO_GM_910b1", "UB_TO_GM_910b1")
    store_bytes_per_cycle: float = _constant(64.0, "bytes/cycle", "ini ub_to_l2_rate and ub_to_ddr_rate")
    copy_sync_cycles: float = _constant(
        8.0,
        "cycles",
        "TQue runs: MTE2's and MTE3's time per tile beyond their copies, per queue operation",
        "relu, mul",
    )
    copy_gap_cycles: float = _constant(
        19.1, "cycles", "ADK data_copy scenario 1: 20.6 per 128-byte copy less its transfer", "data_copy scenario 1"
    )

    bank_stall_cycles: float = _constant(
        0.015,
        "cycles per 32 bytes stored",
        "loads and stores meet in a UB bank in ADK Add case 5, not in case 6 (0.09), and in TQue runs of relu (0)",
        "MTE2 times of Add cases 5 and 6, and of relu",
    )

    # -- chip --------------------------------------------------------------------------------------------------
    hbm_read_efficiency: float = _constant(
        0.862,
        "of the nominal HBM bandwidth",
        "ADK data_copy scenario 3 (302 MB in 202.66 us: 0.854), Add cases 5 and 6 (268 MB: 0.87 and 0.90)",
        "data_copy scenario 3; Add cases 5 and 6 a little",
    )
    hbm_write_efficiency: float = _constant(
        0.67,
        "of the nominal HBM bandwidth",
        "ADK Add case 3: a store of 32 KB on each of 48 cores takes 1243 cycles, half of it is written back",
        "Add case 3, MTE3 time",
    )
    hbm_turnaround_bytes: float = _constant(
        4000.0, "bytes", "ADK Add case 4: time per tile beyond its loads' and write-backs' own", "Add case 4"
    )
    cold_start_us: float = _constant(
        6.3,
        "us",
        "ADK data_copy scenarios 1 to 4: a core's time beyond that of MTE2 (first launch, instruction cache cold)",
        "data_copy scenarios 1 to 3",
    )
    idle_filled: float = _constant(
        0.9,
        "of the pauses",
        "ADK Add cases 3 and 4: one buffer is 1.7 % slower than two where HBM is the limit",
        "the two",
    )
    hbm_spread: float = _constant(
        0.02, "of the time", "ADK Add and data_copy: slowest core over the mean where HBM is the limit", "all of them"
    )
    line_overhead_bytes: float = _constant(
        16.0, "bytes per 512-byte line", "ADK data_copy scenario 2: 128-byte pieces", "data_copy scenario 2"
    )

    @classmethod
    def describe(cls) -> tuple[tuple[str, float, str, str, str], ...]:
        """(name, value, unit, source, fitted on) of every constant."""
        return tuple(
            (a.name, a.default, a.metadata["unit"], a.metadata["source"], a.metadata["fitted"])
            for a in attrs.fields(cls)
        )


TIMING = TimingConstants()
