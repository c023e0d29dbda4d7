"""The device formulas: right by pyasc's typing rules, lowered by the real pyasc, and run as the C++ it emits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_sched import Schedule
from asc_sched.build import ArgType, LowerRequest, lower
from asc_sched.errors import ScheduleError
from asc_sched.tiling import Alignment, DeviceFormulas, Tiling, dynamic_formulas, resolve, static_formulas
from tests.tiling.device_model import run_formulas
from tests.tiling.plain import steady

FLOAT = (4, 4, 4)
FLOAT_ALIGN = Alignment(128, 8)


def text(formulas: DeviceFormulas) -> str:
    """As a kernel has it."""
    setup = [f"{name} = {expr}" for name, expr in formulas.setup]
    loop = [f"    {name} = {expr}" for name, expr in formulas.loop]
    copy = f"    copy(tile_start, {formulas.length})"
    return "\n".join([*setup, f"for tile in range({formulas.tile_count}):", *loop, copy])


def static(total_length: int, itemsizes: tuple[int, ...] = FLOAT, **fields: object) -> DeviceFormulas:
    return static_formulas(resolve(Schedule(**fields), total_length=total_length, itemsizes=itemsizes))  # type: ignore[arg-type]


def every_tile(tiling: Tiling) -> list[list[tuple[int, int]]]:
    return [list(tiling.tiles(core)) for core in range(tiling.core_num)]


def arguments(formulas: DeviceFormulas, tiling: Tiling) -> dict[str, int]:
    values = {"total_length": tiling.total_length, "tile_length": tiling.tile_length}
    return {name: values[name] for name, _ in formulas.arguments}


# -- what is written -------------------------------------------------------------------------------------------------
def test_a_size_that_divides_has_no_branch() -> None:
    assert text(static(8 * 2048, core_num=8, tile_num=8)) == (
        "block_idx = asc.get_block_idx()\n"
        "block_start = asc.number(2048, asc.int64) * block_idx\n"
        "for tile in range(16):\n"
        "    tile_start = block_start + asc.number(128, asc.int64) * tile\n"
        "    copy(tile_start, 128)"
    )


def test_one_core_with_one_tile_computes_nothing() -> None:
    formulas = static(7, core_num=8, tile_length=1024)
    assert text(formulas) == (
        "for tile in range(1):\n    tile_start = asc.number(0, asc.int64)\n    copy(tile_start, 7)"
    )
    assert formulas.single


def test_a_ragged_size_has_the_branches_that_are_taken() -> None:
    assert text(static(1000003, core_num=8, tile_num=8)) == (
        "block_idx = asc.get_block_idx()\n"
        "block_start = asc.number(124928, asc.int64) * block_idx + 128 * (block_idx if block_idx < 5 else 5)\n"
        "block_length = 125056 if block_idx < 5 else 124928 if block_idx < 7 else 124867\n"
        "tail = block_length - 117240\n"
        "for tile in range(16):\n"
        "    tile_start = block_start + asc.number(7816, asc.int64) * tile\n"
        "    length = 7816 if tile < 15 else tail\n"
        "    copy(tile_start, length)"
    )


def test_blocks_of_different_tile_counts_compute_them() -> None:
    assert text(static(2 * 8192 + 128, core_num=2, tile_length=1024)) == (
        "block_idx = asc.get_block_idx()\n"
        "block_start = asc.number(8320, asc.int64) * block_idx\n"
        "block_length = 8320 if block_idx < 1 else 8192\n"
        "tile_count = asc.ceildiv(block_length, 1024)\n"
        "tail = block_length - 1024 * (tile_count - 1)\n"
        "for tile in range(tile_count):\n"
        "    tile_start = block_start + asc.number(1024, asc.int64) * tile\n"
        "    length = 1024 if tile < tile_count - 1 else tail\n"
        "    copy(tile_start, length)"
    )


def test_cores_with_one_tile_each_have_no_tail() -> None:
    assert text(static(100, core_num=8, tile_length=64)) == (
        "block_idx = asc.get_block_idx()\n"
        "block_start = asc.number(8, asc.int64) * block_idx + 8 * (block_idx if block_idx < 5 else 5)\n"
        "block_length = 16 if block_idx < 5 else 8 if block_idx < 7 else 4\n"
        "for tile in range(1):\n"
        "    tile_start = block_start\n"
        "    copy(tile_start, block_length)"
    )


def test_beyond_2_to_the_31_block_lengths_are_int64_too() -> None:
    assert text(static(3_270_680_000, (2, 2), core_num=40, tile_length=8192)) == (
        "block_idx = asc.get_block_idx()\n"
        "block_start = asc.number(81766912, asc.int64) * block_idx + 256 * (block_idx if block_idx < 14 else 14)\n"
        "block_length = asc.number(81767168, asc.int64) if block_idx < 14 else asc.number(81766912, asc.int64) if "
        "block_idx < 39 else asc.number(81766848, asc.int64)\n"
        "tail = (block_length - asc.number(81764352, asc.int64)).cast(asc.int32)\n"
        "for tile in range(9982):\n"
        "    tile_start = block_start + asc.number(8192, asc.int64) * tile\n"
        "    length = 8192 if tile < 9981 else tail\n"
        "    copy(tile_start, length)"
    )


def test_the_dynamic_even_split_reads_like_this() -> None:
    formulas = dynamic_formulas("even", FLOAT_ALIGN, 1024)
    assert formulas.arguments == (("total_length", "int64"),)
    assert text(formulas) == (
        "block_idx = asc.get_block_idx()\n"
        "block_num = asc.get_block_num()\n"
        "unit_length = asc.number(128, asc.int64) if asc.ceildiv(total_length, 128) >= block_num else asc.number(8, "
        "asc.int64)\n"
        "units = asc.ceildiv(total_length, unit_length)\n"
        "base_units = units // block_num\n"
        "extra_units = units % block_num\n"
        "longer_blocks = block_idx.cast(asc.int64) if extra_units > block_idx else extra_units\n"
        "block_start = unit_length * (base_units * block_idx + longer_blocks)\n"
        "block_units = base_units + 1 if extra_units > block_idx else base_units\n"
        "block_length = unit_length * block_units if block_idx < block_num - 1 else total_length - block_start\n"
        "tile_count = asc.ceildiv(block_length, 1024).cast(asc.int32)\n"
        "tail = (block_length - asc.number(1024, asc.int64) * (tile_count - 1)).cast(asc.int32)\n"
        "for tile in range(tile_count):\n"
        "    tile_start = block_start + asc.number(1024, asc.int64) * tile\n"
        "    length = 1024 if tile < tile_count - 1 else tail\n"
        "    copy(tile_start, length)"
    )


def test_the_dynamic_ceil_split_with_its_tile_length_as_an_argument() -> None:
    formulas = dynamic_formulas("ceil", FLOAT_ALIGN)
    assert formulas.arguments == (("total_length", "int64"), ("tile_length", "int32"))
    assert text(formulas) == (
        "block_idx = asc.get_block_idx()\n"
        "block_num = asc.get_block_num()\n"
        "units = asc.ceildiv(total_length, 8)\n"
        "full_length = asc.number(8, asc.int64) * asc.ceildiv(units, block_num)\n"
        "block_start = full_length * block_idx\n"
        "block_length = full_length if block_idx < block_num - 1 else total_length - block_start\n"
        "tile_stride = tile_length.cast(asc.int64)\n"
        "tile_count = asc.ceildiv(block_length, tile_length).cast(asc.int32)\n"
        "tail = (block_length - tile_stride * (tile_count - 1)).cast(asc.int32)\n"
        "for tile in range(tile_count):\n"
        "    tile_start = block_start + tile_stride * tile\n"
        "    length = tile_length if tile < tile_count - 1 else tail\n"
        "    copy(tile_start, length)"
    )


def test_names_can_make_room_for_a_kernels_own() -> None:
    formulas = dynamic_formulas("even", FLOAT_ALIGN)
    assert {"units", "length", "tile", "total_length", "tile_stride"} <= set(formulas.names)
    renamed = formulas.renamed({"length": "this_length", "units": "all_units", "cast": "no", "asc": "no"})
    assert text(renamed) == text(formulas).replace(" length", " this_length").replace(" units", " all_units").replace(
        "\nunits", "\nall_units"
    )
    assert ("tile_length", "int32") in renamed.arguments
    assert not {"units", "length"} & set(renamed.names)
    with pytest.raises(ValueError, match=r"gives two names of .* the same name"):
        formulas.renamed({"length": "tail"})


def test_there_is_no_kernel_of_no_elements() -> None:
    with pytest.raises(ScheduleError, match="a total_length of 0 launches nothing, so there is no kernel to write"):
        static(0, tile_num=8)


def test_dynamic_formulas_check_what_they_bake_in() -> None:
    with pytest.raises(ScheduleError, match="core_split='odd' is unknown: allowed is 'even' or 'ceil'"):
        dynamic_formulas("odd", FLOAT_ALIGN)
    with pytest.raises(ScheduleError, match="tile_length=0 is out of range: allowed is 1 to 2147483647"):
        dynamic_formulas("even", FLOAT_ALIGN, 0)


# -- what it computes ------------------------------------------------------------------------------------------------
cases = {
    "core_num": st.integers(1, 48),
    "tile_length": st.integers(1, 40).map(lambda n: 32 * n),
    "split": st.sampled_from(["even", "ceil"]),
    "itemsizes": st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3).map(tuple),
}


@settings(steady, max_examples=250)
@given(total_length=st.integers(1, 5000) | st.integers(1, 40000), **cases)
def test_static_formulas_run_exactly_the_tiles(
    total_length: int, core_num: int, tile_length: int, split: str, itemsizes: tuple[int, ...]
) -> None:
    schedule = Schedule(core_num=core_num, tile_length=tile_length, core_split=split)
    tiling = resolve(schedule, total_length=total_length, itemsizes=itemsizes)
    formulas = static_formulas(tiling)
    got = [run_formulas(formulas, core, tiling.core_num) for core in range(tiling.core_num)]
    assert got == every_tile(tiling)


@settings(steady, max_examples=250)
@given(total_length=st.integers(1, 5000) | st.integers(1, 40000), baked=st.booleans(), **cases)
def test_dynamic_formulas_run_exactly_the_tiles(
    total_length: int, core_num: int, tile_length: int, split: str, itemsizes: tuple[int, ...], baked: bool
) -> None:
    schedule = Schedule(core_num=core_num, tile_length=tile_length, core_split=split)
    tiling = resolve(schedule, total_length=total_length, itemsizes=itemsizes)
    align = Alignment(512 // min(itemsizes), 32 // min(itemsizes))
    formulas = dynamic_formulas(split, align, tile_length if baked else None)
    values = arguments(formulas, tiling)
    got = [run_formulas(formulas, core, tiling.core_num, values) for core in range(tiling.core_num)]
    assert got == every_tile(tiling)


@settings(steady, max_examples=60)
@given(total_length=st.integers(2**31 - 9000, 2**31 + 9000) | st.integers(2**31, 2**60), **cases)
def test_no_value_leaves_its_dtype_at_any_length(
    total_length: int, core_num: int, tile_length: int, split: str, itemsizes: tuple[int, ...]
) -> None:
    total_length = min(total_length, (2**63 - 1) // max(itemsizes))
    # Long tiles keep the loop short; they only have to be int32.
    tile_length = max(tile_length * 2**12, total_length // core_num // 2**4 // 2**15 * 2**15)
    tile_length = min(tile_length, 2**31 - 2**15)
    if -(-total_length // tile_length) > 4000:
        return
    schedule = Schedule(core_num=core_num, tile_length=tile_length, core_split=split)
    tiling = resolve(schedule, total_length=total_length, itemsizes=itemsizes)
    align = Alignment(512 // min(itemsizes), 32 // min(itemsizes))
    for formulas in (
        static_formulas(tiling),
        dynamic_formulas(split, align),
        dynamic_formulas(split, align, tile_length),
    ):
        values = arguments(formulas, tiling)
        for core in {0, tiling.core_num // 2, tiling.core_num - 1}:
            assert run_formulas(formulas, core, tiling.core_num, values) == list(tiling.tiles(core))


# -- what pyasc makes of it ------------------------------------------------------------------------------------------
SIZES = (1, 7, 8, 9, 255, 256, 257, 1000, 10000, 13243, 16384, 16392, 16512, 100003, 1000003)
SCHEDULES = (
    Schedule(core_num=8, tile_num=8),
    Schedule(core_num=20, tile_num=4, buffer_num=1),
    Schedule(core_num=48, tile_length=1024),
    Schedule(core_num=1, tile_length=4096),
    Schedule(core_num=8, tile_num=8, core_split="ceil"),
    Schedule(core_num=48, tile_length=256, core_split="ceil"),
)


def kernel(name: str, formulas: DeviceFormulas) -> LowerRequest:
    """A kernel that moves every tile in, and nothing else."""
    scalars = "".join(f", {argument}: int" for argument, _ in formulas.arguments)
    setup = "".join(f"    {name} = {expr}\n" for name, expr in formulas.setup)
    loop = "".join(f"        {name} = {expr}\n" for name, expr in formulas.loop)
    source = (
        "import asc\n\n\n@asc.jit\n"
        f"def {name}(x: asc.GlobalAddress{scalars}):\n{setup}"
        "    x_gm = asc.GlobalTensor()\n    x_gm.set_global_buffer(x)\n"
        "    pipe = asc.TPipe()\n    queue = asc.TQue(asc.TPosition.VECIN, 1)\n"
        "    pipe.init_buffer(que=queue, num=2, len=4096)\n"
        f"    for tile in range({formulas.tile_count}):\n{loop}"
        "        x_in = queue.alloc_tensor(asc.float32)\n"
        f"        params = asc.DataCopyExtParams(1, {formulas.length} * 4, 0, 0, 0)\n"
        "        pad = asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0)\n"
        "        asc.data_copy_pad(x_in, x_gm[tile_start:], params, pad)\n"
        "        queue.enque(x_in)\n"
    )
    types = [ArgType("pointer", "float32"), *(ArgType("scalar", dtype) for _, dtype in formulas.arguments)]
    return LowerRequest(source=source, entry=name, arg_types=types)


def test_every_form_lowers_without_a_branch_it_does_not_need() -> None:
    plain = lower(kernel("plain", static(8 * 2048, core_num=8, tile_num=8)), cache=None).ascendc
    assert "if (" not in plain and "?" not in plain and "int64_t" in plain
    ragged = lower(kernel("ragged", static(1000003, core_num=8, tile_num=8)), cache=None).ascendc
    loop = ragged[ragged.index("for (") :]
    assert "if (" not in loop, "in the loop, the tail is a select"
    dynamic = lower(kernel("dynamic", dynamic_formulas("even", FLOAT_ALIGN)), cache=None).ascendc
    assert "int64_t" in dynamic[: dynamic.index("{")]
    loop = dynamic[dynamic.index("for (") :]
    assert "if (" not in loop and " / " not in loop, "divisions stay before the loop"


MOCK = """
#include <cstdint>
#include <cstdio>
#define __global__
#define __aicore__
#define __gm__
static int64_t block_idx, block_num;
static void set_ffts_base_addr(uint64_t) {}
namespace AscendC {
enum class TPosition { VECIN };
inline int64_t GetBlockIdx() { return block_idx; }
inline int64_t GetBlockNum() { return block_num; }
template <typename T> struct LocalTensor {};
template <typename T> struct GlobalTensor {
  int64_t offset = 0;
  void SetGlobalBuffer(T *) {}
  GlobalTensor operator[](int64_t by) const { GlobalTensor other; other.offset = offset + by; return other; }
};
struct DataCopyExtParams { uint16_t count; uint32_t len, src, dst, rsv; };
template <typename T> struct DataCopyPadExtParams { bool pad; uint8_t left, right; T value; };
template <TPosition p, int depth> struct TQue {
  template <typename T> LocalTensor<T> AllocTensor() { return {}; }
  template <typename T> void EnQue(LocalTensor<T>) {}
};
struct TPipe { template <typename Q> void InitBuffer(Q &, int, int) {} };
template <typename T>
void DataCopyPad(LocalTensor<T>, const GlobalTensor<T> &g, const DataCopyExtParams &c, DataCopyPadExtParams<T>) {
  std::printf("%lld %lu\\n", (long long)g.offset, (unsigned long)(c.len / sizeof(T)));
}
}
"""


def host_run(tmp_path: Path, runs: list[tuple[DeviceFormulas, Tiling]]) -> list[list[list[tuple[int, int]]]]:
    """The (offset, elements) of every copy of every core, from pyasc's C++ compiled for this machine."""
    parts, calls = [MOCK], []
    names: dict[DeviceFormulas, str] = {}
    for formulas, tiling in runs:
        if formulas not in names:
            names[formulas] = f"kernel_{len(names)}"
            code = lower(kernel(names[formulas], formulas), cache=None).ascendc
            code = code.replace('#include "kernel_operator.h"', "").replace("static_cast<uint16_t>(c0_i32)", "0")
            parts.append(code)
        values = "".join(f", {value}" for value in arguments(formulas, tiling).values())
        for core in range(tiling.core_num):
            calls.append(f"  block_idx = {core}; block_num = {tiling.core_num};")
            calls.append(f'  std::printf("core\\n"); {names[formulas]}(nullptr{values}, &ffts);')
    parts += ["int main() {", "  uint64_t ffts = 0;", *calls, "}"]
    (tmp_path / "run.cpp").write_text("\n".join(parts))
    subprocess.run(["g++", "-std=c++17", "-w", "-O0", "-o", "run", "run.cpp"], cwd=tmp_path, check=True)
    output = subprocess.run(["./run"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    cores = [
        [(int(line.split()[0]), int(line.split()[1])) for line in core.splitlines()]
        for core in output.removeprefix("core\n").split("core\n")
    ]
    results = []
    for _, tiling in runs:
        results.append([cores.pop(0) for _ in range(tiling.core_num)])
    assert not cores
    return results


needs_cpp = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


@needs_cpp
def test_the_emitted_cpp_of_static_kernels_copies_exactly_the_tiles(tmp_path: Path) -> None:
    tilings = [
        resolve(schedule, total_length=size, itemsizes=FLOAT)
        for schedule in SCHEDULES
        for size in (SIZES if schedule.core_num == 8 else SIZES[1::4])
    ]
    tilings.append(resolve(Schedule(core_num=40, tile_length=2**22), total_length=3_270_680_000, itemsizes=FLOAT))
    got = host_run(tmp_path, [(static_formulas(tiling), tiling) for tiling in tilings])
    assert got == [every_tile(tiling) for tiling in tilings]
    assert sum(got[-1][-1][-1]) == 3_270_680_000


@needs_cpp
def test_the_emitted_cpp_of_one_dynamic_kernel_serves_every_size_and_schedule(tmp_path: Path) -> None:
    runs = []
    for schedule in SCHEDULES:
        formulas = dynamic_formulas(schedule.core_split, FLOAT_ALIGN)
        runs += [(formulas, resolve(schedule, total_length=size, itemsizes=FLOAT)) for size in SIZES]
    for split in ("even", "ceil"):
        large = Schedule(core_num=40, tile_length=2**22, core_split=split)
        runs.append((dynamic_formulas(split, FLOAT_ALIGN), resolve(large, total_length=3_270_680_000, itemsizes=FLOAT)))
    assert len({formulas for formulas, _ in runs}) == 2
    got = host_run(tmp_path, runs)
    assert got == [every_tile(tiling) for _, tiling in runs]
