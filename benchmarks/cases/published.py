"""The published measurements as launches of the kernels in this folder, and what each of them was used for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from asc_sched.build import ArgType, LowerRequest
from asc_sched.sim import ArraySpec
from asc_sched.target import Target, get_target

_HERE = Path(__file__).parent
PUBLISHED = _HERE.parent / "published"

A2 = get_target("Ascend910B1")
#: The board of the TQue runs: 20 AI cores (40 vector cores) at 1650 MHz, the class of the 910B4.
BOARD_1650 = get_target("Ascend910B4").evolve(clock_mhz=1650)
#: The bank README doesn't name its part; 22 cycles of startup, as everywhere else, come out at 1.8 GHz.
BANK_BOARD = A2.evolve(clock_mhz=1800)


@attrs.frozen(kw_only=True)
class Case:
    """One measurement and its launch. `fitted` names what was fitted on it; empty if it only tests."""

    name: str
    group: str
    file: str
    entry: str
    consts: Mapping[str, int | bool]
    arg_bytes: tuple[int, ...]
    cores: int
    target: Target
    l2: str
    fitted: str = ""
    note: str = ""
    dtype: str = "float16"

    def request(self) -> LowerRequest:
        """What pyasc is asked to lower."""
        return LowerRequest(
            source=(_HERE / f"{self.file}.py").read_text(encoding="utf-8"),
            entry=self.entry,
            arg_types=[ArgType("pointer", self.dtype)] * len(self.arg_bytes),
            constexprs=dict(self.consts),
            filename=f"{self.file}.py",
        )

    @property
    def args(self) -> tuple[ArraySpec, ...]:
        return tuple(ArraySpec(self.dtype, n) for n in self.arg_bytes)


def measurements() -> dict[str, dict[str, Any]]:
    """The published figures by case name."""
    found: dict[str, dict[str, Any]] = json.loads((PUBLISHED / "measurements.json").read_text(encoding="utf-8"))
    return found


def cases() -> tuple[Case, ...]:
    """Every case that has a described form."""
    return (*_add(), *_tque(), *_builtin(), *_data_copy(), *_same_address(), *_nd2nz(), *_banks())


def _add() -> list[Case]:
    fitted = {
        1: "order of loads that miss (two tensors), scalar issue",
        3: "hbm_write_efficiency (its MTE3 time)",
        4: "hbm_turnaround_bytes",
        5: "bank_stall_cycles, hbm_read_efficiency",
        6: "bank_stall_cycles, hbm_read_efficiency",
    }
    found = []
    for number, (cores, tile) in enumerate(((1, 4096), (48, 4096), *[(48, 16384)] * 3, (48, 16256)), 1):
        consts: dict[str, int | bool] = {
            "row_length": 8192,
            "rows_per_core": 8192 // cores,
            "longer_cores": 8192 % cores,
            "tile_length": tile,
            "second": 32768,
            "third": 65536,
        }
        if number in (4, 5):
            consts |= {"inputs_apart": 98304, "outputs_apart": 98304, "bypass": number == 5}
        if number == 6:
            consts |= {"second": 32512, "third": 131072, "inputs_apart": 65536, "outputs_apart": 32512, "bypass": True}
        found.append(
            Case(
                name=f"add8192_case{number}",
                group="Add, 8192 x 8192 float16, static tensors",
                file="add_static",
                entry="one_buffer" if number < 4 else "two_buffers",
                consts=consts,
                arg_bytes=(8192 * 8192 * 2,) * 3,
                cores=cores,
                target=A2,
                l2="cold",
                fitted=fitted.get(number, ""),
            )
        )
    scalar = {"tiles": 8192 * 8192 // 4096, "tile_length": 4096, "second": 32768, "third": 65536}
    fields = {"entry": "by_elements", "consts": scalar, "cores": 1, "fitted": "cost of element accesses"}
    return [attrs.evolve(found[0], name="add8192_case0", **fields), *found]


def _tque() -> list[Case]:
    found = []
    published = measurements()
    for op, inputs in (("relu", 1), ("mul", 2), ("add", 4)):
        for size in (1, 2, 4, 8):
            name = f"tque_{op}_b{size}"
            m = published[name]
            found.append(
                Case(
                    name=name,
                    group="TPipe and TQue, tiles of 8192 float16, double buffer",
                    file="tque",
                    entry="add4" if op == "add" else op,
                    consts={
                        "tile_length": 8192,
                        "tiles_per_core": m["tiles_per_core"],
                        "total_tiles": m["elements"] // 8192,
                    },
                    arg_bytes=(m["elements"] * 2,) * (inputs + 1),
                    cores=m["cores"],
                    target=BOARD_1650,
                    l2="hot",
                    fitted="" if op == "add" else "launch, TPipe, queue and flag costs",
                )
            )
    return found


def _builtin() -> list[Case]:
    """Built-in operators on the board of the TQue runs. Their tiling isn't published: taken as a queue kernel on all 40
    cores with one tile each, two for the largest size (which one tile wouldn't fit UB)."""
    found = []
    published = measurements()
    for op, inputs in (("relu", 1), ("mul", 2)):
        for size in (1, 2, 4, 8):
            name = f"builtin_{op}_b{size}"
            tiles = 2 if size == 8 else 1
            tile_length = -(-published[name]["elements"] // (40 * tiles * 16)) * 16
            found.append(
                Case(
                    name=name,
                    group="CANN's built-in operators, form assumed: 40 cores, one or two tiles each",
                    file="tque",
                    entry=op,
                    consts={"tile_length": tile_length, "tiles_per_core": tiles, "total_tiles": 40 * tiles},
                    arg_bytes=(tile_length * 40 * tiles * 2,) * (inputs + 1),
                    cores=40,
                    target=BOARD_1650,
                    l2="hot",
                    note="the form is a guess, so only the task time is compared",
                )
            )
    return found


def _data_copy() -> list[Case]:
    fitted = {1: "copy_gap_cycles, cold_start_us", 2: "line_overhead_bytes", 3: "hbm_read_efficiency"}
    rows = {1: 1, 2: 64, 3: 64, 4: 64, 5: 64, 6: 64}
    columns = {1: 64, 2: 64, 3: 1024, 4: 1024, 5: 1024, 6: 1024}
    found = []
    for number in range(1, 7):
        width = 12287 if number == 4 else 12288
        found.append(
            Case(
                name=f"datacopy_ub_s{number}",
                group="GM to UB only, 12288 x 12288 float16, data_copy_pad",
                file="copies",
                entry="load_blocks",
                consts={
                    "row_length": width,
                    "rows_per_core": 256,
                    "tile_rows": rows[number],
                    "tile_columns": columns[number],
                    "parts": 4 if number == 6 else 1,
                    "passes": 4 if number > 4 else 1,
                },
                arg_bytes=(12288 * width * 2,),
                cores=48,
                target=A2,
                l2="cold",
                fitted=fitted.get(number, ""),
            )
        )
    return found


def _same_address() -> list[Case]:
    return [
        Case(
            name=f"datacopy_ub_s{number}",
            group="6144 x 512 float16 read by all 48 cores past L2: not modelled",
            file="copies",
            entry="load_everything",
            consts={"rotate": number == 8},
            arg_bytes=(6144 * 512 * 2,),
            cores=48,
            target=A2,
            l2="cold",
            note="requests of several cores for one address wait for each other; the model doesn't know that",
        )
        for number in (7, 8)
    ]


def _nd2nz() -> list[Case]:
    return [
        Case(
            name=f"nd2nz_case{number}",
            group="8192 x 8192 float16 to blocks of 16 columns, strided copies",
            file="vector",
            entry="nd_to_nz",
            consts={"column_stride": stride},
            arg_bytes=(8192 * 8192 * 2,) * 2,
            cores=48,
            target=A2,
            l2="cold",
            note="the rule of how much is written back was chosen with these in view; no constant was",
        )
        for number, stride in ((1, 144), (2, 145))
    ]


def _banks() -> list[Case]:
    places = (
        (0, 0x10100, 0x20000), (0, 0x4000, 0x10000), (0, 0x10000, 0x14100), (0, 0x10100, 0x4000),
        (0, 0x10100, 0x4020), (0, 0x10100, 0x10100), (0, 0x10100, 0x10100), (0, 0x10100, 0x10100),
    )  # fmt: skip
    found = []
    for number, (first, second, result) in enumerate(places, 1):
        block, repeat = {7: (0, 1), 8: (0, 8)}.get(number, (1, 8))
        found.append(
            Case(
                name=f"bank_scenario{number}",
                group="UB bank conflicts, 1000 Adds of 4096 float32",
                file="vector",
                entry="add_at",
                consts={
                    "first": first,
                    "second": second,
                    "result": result,
                    "block_stride": block,
                    "repeat_stride": repeat,
                    "times": 1000,
                },
                arg_bytes=(),
                cores=1,
                target=BANK_BOARD,
                l2="hot",
                fitted="READ_WRITE_STALL" if number == 5 else "",
            )
        )
    return found


@attrs.frozen(kw_only=True)
class Curve:
    """Bandwidth against copy size on one core: points of (bytes per copy, microseconds per copy)."""

    name: str
    entry: str
    target: Target
    l2: str
    points: tuple[tuple[int, float], ...]
    fitted: str

    def request(self) -> LowerRequest:
        """What pyasc is asked to lower; copy size and number are run-time arguments."""
        return LowerRequest(
            source=(_HERE / "copies.py").read_text(encoding="utf-8"),
            entry=self.entry,
            arg_types=[ArgType("pointer", "float16"), ArgType("scalar", "int32"), ArgType("scalar", "int32")],
            filename="copies.py",
        )


def curves() -> tuple[Curve, ...]:
    """The three published curves. The largest points are larger than UB; they are timed as if it held them."""
    data = json.loads((PUBLISHED / "copy_curves.json").read_text(encoding="utf-8"))

    def curve(name: str, entry: str, soc: str, l2: str, fitted: str) -> Curve:
        points = tuple((int(n), float(us)) for n, us in data[name])
        return Curve(name=name, entry=entry, target=_roomy(soc), l2=l2, points=points, fitted=fitted)

    return (
        curve("GM_TO_UB_910b3", "load_one_by_one", "Ascend910B3", "hot", "load_hit_ns, load_bytes_per_cycle"),
        curve("GM_TO_UB_910b1", "load_one_by_one", "Ascend910B1", "cold", "load_miss_*"),
        curve("UB_TO_GM_910b1", "store_one_by_one", "Ascend910B1", "hot", "store_ns, store_burst_bytes_per_cycle"),
    )


def _roomy(soc: str) -> Target:
    return get_target(soc).evolve(ub_bytes=200 * 1024)
