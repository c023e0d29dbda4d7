"""The CANN operator project: its tiling in C++ against the Python one, and its kernel run on the host."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from asc_sched import Schedule, op
from asc_sched.declare import Op
from asc_sched.errors import CompileError, DeclarationError
from asc_sched.export import export_cann_op
from asc_sched.export.cann_op import device_function
from asc_sched.export.render import camel, snake
from asc_sched.target import get_target
from asc_sched.tiling import resolve

HEADERS = Path(__file__).parent / "headers"
CASES = 10_000
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="no g++ on PATH: the exported C++ can't be compiled"
)

# Reads "cores elements" per line; prints what the tiling function set.
TILING_MAIN = """
#include "op_host/{base}.cpp"
#include <cstdio>

int main()
{{
    long long cores, elements;
    while (scanf("%lld %lld", &cores, &elements) == 2) {{
        gert::TilingContext context;
        context.inputs.assign({inputs}, gert::StorageShape{{gert::Shape{{{{elements}}}}}});
        context.platform = static_cast<int>(cores);
        context.attrs.floats = {{2.5f, -1.0f}};
        if (ops::g_operator.core.tiling(&context) != ge::GRAPH_SUCCESS) {{
            printf("refused\\n");
            continue;
        }}
        auto *data = context.GetTilingData<{type}TilingData>();
        {base}_split::Split split{{}};
        {base}_split::ComputeSplit({arguments}, split);
        printf("%u %lld %d %lld %lld %lld %lld %lld %lld %zu\\n", context.block_dim, (long long)data->total_length,
               data->tile_length, (long long)split.unit_length, (long long)split.units, (long long)split.base_units,
               (long long)split.extra_units, (long long)split.block_length, (long long)split.tile_count,
               context.workspace);
    }}
}}
"""

# Runs the kernel on every block; reads "cores elements"; prints how many sums are wrong (or what else was touched).
KERNEL_MAIN = """
#include "op_kernel/add_custom.cpp"
#include "op_host/add_custom.cpp"
#include <cstdio>

int main()
{
    long long cores, elements;
    while (scanf("%lld %lld", &cores, &elements) == 2) {
        gert::TilingContext context;
        context.inputs.assign(2, gert::StorageShape{gert::Shape{{elements}}});
        context.platform = static_cast<int>(cores);
        if (ops::g_operator.core.tiling(&context) != ge::GRAPH_SUCCESS) {
            return 1;
        }
        std::vector<float> x(elements + 1), y(elements + 1), z(elements + 1, -7);
        for (long long i = 0; i < elements; ++i) {
            x[i] = static_cast<float>(i % 1000), y[i] = static_cast<float>(i % 77);
        }
        g_block_num = context.block_dim;
        for (g_block_idx = 0; g_block_idx < g_block_num; ++g_block_idx) {
            add_custom(reinterpret_cast<uint8_t *>(x.data()), reinterpret_cast<uint8_t *>(y.data()),
                       reinterpret_cast<uint8_t *>(z.data()), nullptr, context.data);
        }
        long long wrong = z[elements] != -7;
        for (long long i = 0; i < elements; ++i) {
            wrong += z[i] != x[i] + y[i];
        }
        printf("%lld\\n", wrong);
    }
}
"""


def write(project: dict[str, str], folder: Path) -> None:
    for name, text in project.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def build_and_run(folder: Path, main: str, stdin: str) -> list[str]:
    (folder / "main.cpp").write_text(main)
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unused", f"-I{HEADERS}", f"-I{folder}"]
    built = subprocess.run(
        [*command, str(folder / "main.cpp"), "-o", str(folder / "main")], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(folder / "main")], input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def sizes(seed: int, limit: int) -> list[tuple[int, int]]:
    """(cores, elements): every magnitude, and around powers of two and multiples of lines."""
    pick = random.Random(seed)
    found = []
    while len(found) < CASES:
        base = 1 << pick.randrange(0, limit.bit_length())
        elements = pick.choice([pick.randrange(1, 2 * base + 1), base + pick.randrange(-2, 3), 128 * base])
        if 1 <= elements <= limit:
            found.append((pick.randrange(1, 49), elements))
    return found


ADD = op("z = x + y", name="add")
SCALED = op("z = alpha * x + beta * y", scalars={"alpha": None, "beta": 1.0}, name="scaled")


@needs_compiler
@pytest.mark.parametrize(
    ("declared", "dtype", "schedule"),
    [
        (ADD, "float32", None),
        (SCALED, "float16", Schedule(core_num=20, tile_length=1024)),
        (ADD, "int16", Schedule(core_split="ceil", buffer_num=2)),
    ],
)
def test_the_tiling_in_cpp_agrees_with_the_python_one(
    declared: Op, dtype: str, schedule: Schedule | None, tmp_path: Path
) -> None:
    project = export_cann_op(declared, dtype, schedule=schedule)
    write(project, tmp_path)
    base, op_type = snake(camel(declared.name) + "Custom"), camel(declared.name) + "Custom"
    fill = "max_tile_length" in project[f"op_host/{base}_split.h"]
    limit = "optiling::kCoreLimit"
    cores = f"{limit} > 0 ? std::min<int64_t>({limit}, cores) : cores"
    arguments = f"elements, {cores}, optiling::kTileLength{', optiling::kBufferNum' if fill else ''}"
    main = TILING_MAIN.format(base=base, type=op_type, inputs=2, arguments=arguments)
    itemsize = {"float32": 4, "float16": 2, "int16": 2}[dtype]
    cases = sizes(len(dtype), (2**63 - 1 - 512) // itemsize)
    lines = build_and_run(tmp_path, main, "".join(f"{c} {n}\n" for c, n in cases))
    text = project[f"op_host/{base}.cpp"]
    constants = {name: int(text.split(f"int64_t {name} = ")[1].split(";")[0]) for name in ("kTileLength", "kCoreLimit")}
    wrong = [
        (case, line)
        for case, line in zip(cases, lines, strict=True)
        if line != expected(case, schedule, itemsize, constants, fill)
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, the first: {wrong[0]}"
    assert sum(line == "refused" for line in lines) < CASES // 2


def expected(
    case: tuple[int, int], schedule: Schedule | None, itemsize: int, constants: dict[str, int], fill: bool
) -> str:
    """What asc_sched's own tiling says, in the program's form."""
    cores, elements = case
    limit = constants["kCoreLimit"]
    given = schedule or Schedule()
    asked = given.evolve(
        core_num=min(limit, cores) if limit else cores,
        tile_num=None,
        tile_length=None if fill else constants["kTileLength"],
    )
    try:
        t = resolve(
            asked, total_length=elements, itemsizes=(itemsize,), target=get_target(),
            max_tile_length=constants["kTileLength"],
        )  # fmt: skip
    except ValueError:
        return "refused"
    numbers = (
        t.core_num, elements, t.tile_length, t.unit_length, t.units, t.base_units, t.extra_units, t.block_length,
        t.max_tile_count, 0,
    )  # fmt: skip
    return " ".join(map(str, numbers))


@needs_compiler
def test_the_device_kernel_computes_every_element_on_the_host(tmp_path: Path) -> None:
    write(export_cann_op(ADD, "float32"), tmp_path)
    cases = [(1, 1), (48, 1), (48, 7), (40, 1000), (48, 100_003), (3, 65_536), (48, 1_000_003), (5, 0)]
    lines = build_and_run(tmp_path, KERNEL_MAIN, "".join(f"{c} {n}\n" for c, n in cases))
    assert lines == ["0"] * len(cases)


PROTOTYPE_MAIN = """
#include "op_host/scaled_custom.cpp"
#include <cstdio>

int main()
{
    const ops::OpDef &it = ops::g_operator;
    for (const auto &p : it.inputs) printf("in %s %d\\n", p.name.c_str(), p.dtypes.at(0));
    for (const auto &p : it.outputs) printf("out %s %d\\n", p.name.c_str(), p.dtypes.at(0));
    for (const auto &a : it.attributes) printf("attr %s %d %g\\n", a.name.c_str(), a.type, a.value);
    gert::InferShapeContext shapes{gert::Shape{{3, 5}}, {gert::Shape{}}};
    gert::InferDataTypeContext dtypes{{ge::DT_INT64}};
    printf("%u %u\\n", it.shape(&shapes), it.dtype(&dtypes));
    printf("%lld %d %s\\n", (long long)shapes.outputs[0].GetShapeSize(), dtypes.outputs[0], it.core.configs[0].c_str());

    gert::TilingContext context;
    context.inputs = {gert::StorageShape{gert::Shape{{4, 8}}}, gert::StorageShape{gert::Shape{{32}}}};
    context.platform = 48;
    context.attrs.floats = {2.5f, -1.0f};
    auto code = it.core.tiling(&context);
    auto *data = context.GetTilingData<ScaledCustomTilingData>();
    printf("%u %lld %g %g\\n", code, (long long)data->total_length, data->alpha, data->beta);
    context.inputs[1].shape.dims = {33};
    printf("%d\\n", it.core.tiling(&context) == ge::GRAPH_FAILED);
    context.attrs.floats.clear();
    context.inputs[1].shape.dims = {32};
    printf("%d\\n", it.core.tiling(&context) == ge::GRAPH_FAILED);
}
"""


@needs_compiler
def test_prototype_inference_and_attributes(tmp_path: Path) -> None:
    write(export_cann_op(SCALED, "bfloat16"), tmp_path)
    assert build_and_run(tmp_path, PROTOTYPE_MAIN, "") == [
        "in x 2", "in y 2", "out z 2", "attr alpha 0 0", "attr beta 1 1", "0 0", "15 2 ascend910b",
        "0 32 2.5 -1", "1", "1",
    ]  # fmt: skip


def test_the_project_is_whole_and_the_same_each_time() -> None:
    project = export_cann_op(ADD, "float32", op_type="VectorAdd")
    assert sorted(project) == [
        "CMakeLists.txt", "CMakePresets.json", "README.md", "op_host/CMakeLists.txt", "op_host/vector_add.cpp",
        "op_host/vector_add_split.h", "op_kernel/CMakeLists.txt", "op_kernel/vector_add.cpp",
        "op_kernel/vector_add_tiling.h",
    ]  # fmt: skip
    assert project == export_cann_op(ADD, "float32", op_type="VectorAdd")
    preset = json.loads(project["CMakePresets.json"])["configurePresets"][0]
    assert preset["cacheVariables"]["ASCEND_COMPUTE_UNIT"]["value"] == "ascend910b"
    for step in ("cmake --build build_out", "custom_opp_*.run", "aclnnVectorAddGetWorkspaceSize(x, y, z,"):
        assert step in project["README.md"]
    assert "OP_TYPE VectorAdd" in project["op_kernel/CMakeLists.txt"]


def test_the_chip_of_the_target_is_configured() -> None:
    project = export_cann_op(ADD, "float32", target="Ascend910_9382")
    assert '.AddConfig("ascend910_93")' in project["op_host/add_custom.cpp"]


def test_no_entry_point_of_pyasc_is_left_in_the_kernel() -> None:
    text = export_cann_op(ADD, "float32")["op_kernel/add_custom.cpp"]
    assert text.count("__global__") == 1
    assert "ffts" not in text


@pytest.mark.parametrize("name", ["add", "Add-Custom", "1Add", "", "Größe"])
def test_types_that_cpp_cannot_name_are_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="expected letters and digits, the first a capital: AddCustom"):
        export_cann_op(ADD, "float32", op_type=name)


def test_text_of_another_form_is_refused() -> None:
    with pytest.raises(CompileError, match="doesn't begin as that of a vector kernel does"):
        device_function('#include "kernel_operator.h"\nvoid add() {\n}\n')


@pytest.mark.parametrize(
    ("op_type", "file"),
    [("AddCustom", "add_custom"), ("FastGELU", "fast_gelu"), ("Add2", "add2"), ("ABTest", "ab_test")],
)
def test_file_names_follow_the_types(op_type: str, file: str) -> None:
    assert snake(op_type) == file
