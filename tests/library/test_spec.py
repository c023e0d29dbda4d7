"""Declarations: what is understood, what is refused and how, and that order and spelling make no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asc_sched import Schedule, Target, get_target, op
from asc_sched.errors import AscSchedError, LibraryError, StorageError
from asc_sched.library import Library, load


def fields(**changes: Any) -> dict[str, Any]:
    return {"name": "mylib", "ops": ["add"]} | changes


def test_toml_declares_what_the_same_fields_declare_in_python(tmp_path: Path) -> None:
    path = tmp_path / "mylib.toml"
    path.write_text(
        """
        name = "mylib"
        version = "1.2.0"
        ops = ["add", { name = "axpby2", expr = "z = a * x + b * y", scalars = ["a", "b"], dtypes = ["float16"] }]
        dtypes = ["float32", "half"]
        shapes = ["dynamic", "8192x8192", 1000, [4, 5], "()"]
        targets = ["Ascend910B3", "Ascend910B1"]
        schedules = ["auto", { core_num = 8, tile_num = 8 }]
        """
    )
    library = load(path)
    assert (library.name, library.version) == ("mylib", "1.2.0")
    add, axpby = library.ops
    assert add.dtypes == (("float32",), ("float16",))
    assert add.shapes == (None, (), (4, 5), (1000,), (8192, 8192))
    assert add.targets == ("Ascend910B1", "Ascend910B3")
    assert set(add.schedules) == {"auto", Schedule(core_num=8, tile_num=8)}
    assert axpby.dtypes == (("float16",),)
    assert [s.name for s in axpby.op.scalars] == ["a", "b"]


def test_ops_are_names_patterns_declarations_functions_and_tables() -> None:
    def doubled(x: Any) -> Any:
        "Twice as much."
        return x + x

    library = Library(
        "mylib",
        ops=["add", "ma*imum", op("z = x - 1", name="less_one"), doubled, {"name": "plus", "op": "add"},
             {"name": "three", "expr": "z = x + y * w", "inputs": ["w", "x", "y"], "doc": "Three inputs."}],
    )  # fmt: skip
    names = {e.name: e for e in library.ops}
    assert list(names) == ["add", "doubled", "less_one", "maximum", "plus", "three"]
    assert names["doubled"].op.doc == "Twice as much."
    assert names["plus"].op is names["add"].op
    assert names["three"].op.inputs == ("w", "x", "y")


def test_star_is_the_whole_catalogue() -> None:
    from asc_sched import ops

    assert {e.name for e in Library("mylib", ops=["*", "add"]).ops} == set(ops.catalogue())


def test_order_of_declarations_makes_no_difference() -> None:
    one = Library("mylib", ops=["add", "exp"], dtypes=["float16", "float32"], schedules=["auto", {"core_num": 4}])
    two = Library("mylib", ops=["exp", "add"], dtypes=["float32", "half"], schedules=[{"core_num": 4}, "auto"])
    for a, b in zip(one.ops, two.ops, strict=True):
        assert (a.name, a.dtypes, a.shapes, a.schedules) == (b.name, b.dtypes, b.shapes, b.schedules)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (fields(dtype=["float32"]), "unknown field 'dtype'; did you mean 'dtypes'? (known: name, ops, dtypes, shapes"),
        ({"ops": ["add"]}, "field 'name' is missing; a library needs name and ops"),
        (fields(name="my lib"), "name='my lib' can't name a Python package"),
        (fields(name="my lib"), "nearest valid: name='my_lib'"),
        (fields(name="../../etc"), "nearest valid: name='______etc'"),
        (fields(name="class"), "nearest valid: name='class_'"),
        (fields(name="torch"), "name='torch' is the name of something that a library needs itself"),
        (fields(name=3), "name=3: a library's name must be a text"),
        (fields(ops=[]), "ops is empty: a library needs at least one op"),
        (fields(ops="add"), "ops='add' is not a list; write ops = ['add']"),
        (fields(ops=["ad"]), "ops[0]: no op 'ad' in the catalogue; did you mean 'add'"),
        (fields(ops=[3]), "ops[0]=3 is no op; an op is a name, an Op, or a table with an expr"),
        (fields(ops=[{"expr": "z = x +"}]), "ops[0]: "),
        (fields(ops=[{"expr": "z = foo(x)"}]), "unknown function 'foo'"),
        (fields(ops=[{"epxr": "z = x"}]), "ops[0]: unknown field 'epxr'; did you mean 'expr'?"),
        (fields(ops=[{"doc": "nothing"}]), "ops[0] declares nothing: give expr"),
        (fields(ops=[{"op": "add", "expr": "z = x"}]), "op and expr are both given"),
        (fields(ops=[{"op": "add", "scalars": ["a"]}]), "scalars goes with expr"),
        (fields(ops=[{"op": "*", "name": "all"}]), "which can't all be called 'all'"),
        (fields(ops=[{"name": "", "expr": "z = x"}]), "an op's name is a non-empty text"),
        (fields(ops=[{"expr": "z = x", "scalars": 3}]), "ops[0]: scalars=3: they are a list of names, or a table"),
        (fields(ops=[{"expr": "z = a * x", "scalars": [3]}]), "ops[0]: scalars=[3]: they are"),
        (fields(ops=[{"name": "f"}]), "no op 'f' in the catalogue (`asc-sched ops` lists all); to declare it, give"),
        (fields(ops=[{"expr": 3}]), "ops[0]: expr=3 is no text such as 'z = x + y'"),
        (fields(dtypes=["float23"]), "dtypes[0]: unknown dtype 'float23'"),
        (fields(dtypes=[]), "dtypes is empty"),
        (fields(dtypes=[["int32", "float32", "int8"]]), "add takes 2 inputs (x, y)"),
        (fields(shapes=["8x"]), "shapes[0]='8x' is no size; write 'dynamic'"),
        (fields(shapes=[[-1]]), "shapes[0]=[-1] is no size"),
        (fields(shapes=[True]), "shapes[0]=True is no size"),
        (fields(targets=["Ascend910B"]), "targets[0]: unknown target 'Ascend910B'; nearest: "),
        (fields(schedules=["best"]), "schedules[0]='best' is no schedule; write 'auto', 'tuned', or a table"),
        (fields(schedules=[{"core_num": 0}]), "schedules[0]: core_num=0 is out of range"),
        (fields(schedules=[{"cores": 8}]), "schedules[0]: unknown schedule field 'cores'"),
        (fields(gradients="yes"), "gradients='yes' is not true or false"),
        (fields(version="one"), "version='one' is not a version"),
        (fields(description=["a"]), "description=['a'] is not a text"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place(given: dict[str, Any], told: str) -> None:
    with pytest.raises(LibraryError) as caught:
        load(given)
    assert told in str(caught.value)
    assert "ops[0]: ops[0]" not in str(caught.value)


def test_a_changed_target_is_refused() -> None:
    faster: Target = get_target().evolve(clock_mhz=9999)
    with pytest.raises(LibraryError, match="not for a changed Ascend910B1"):
        Library("mylib", ops=["add"], targets=[faster])


# -- files -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "not TOML: "),
        ("name = 'mylib'\nops = ['ad']", "mylib.toml: ops[0]: no op 'ad'"),
        ("x = " + "[" * 100_000, "mylib.toml: "),
    ],
)
def test_mistakes_in_a_toml_file_name_the_file(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mylib.toml"
    path.write_text(text)
    with pytest.raises(LibraryError) as caught:
        load(path)
    assert told in str(caught.value)


def test_toml_that_is_not_utf8_or_far_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mylib.toml"
    path.write_bytes(b'name = "\xff\xfe"')
    with pytest.raises(LibraryError, match="not UTF-8"):
        load(path)
    path.write_bytes(b"#" * ((4 << 20) + 1))
    with pytest.raises(LibraryError, match="longer than"):
        load(path)
    with pytest.raises(StorageError, match=r"can't read .*missing.toml"):
        load(tmp_path / "missing.toml")
    with pytest.raises(LibraryError, match=r"in a .toml or a .py file"):
        load(tmp_path / "mylib.json")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch {marker}')",
        "z = __import__('os').system('touch {marker}')",
        "z = x.__class__",
        "z = (lambda: x)()",
        "z = [x for x in y]",
        "z = open('{marker}', 'w')",
        "z = x + 9 ** 9 ** 9",
    ],
)
def test_expressions_in_toml_run_no_code(tmp_path: Path, text: str) -> None:
    marker = tmp_path / "marker"
    with pytest.raises(AscSchedError):
        load(fields(ops=[{"name": "evil", "expr": text.format(marker=marker)}]))
    assert not marker.exists()


def test_python_files_give_their_one_library(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("NAMES = ['add']\n")
    path = tmp_path / "mylib.py"
    path.write_text(
        "from asc_sched.library import Library\nfrom helper import NAMES\n"
        "def half(x):\n    return x * 0.5\nlib = Library('mylib', ops=[*NAMES, half])\nsame = lib\n"
    )
    assert [e.name for e in load(path).ops] == ["add", "half"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", "mylib.py: one global name must be a Library (asc_sched.library.Library(...)); it has none"),
        ("\n\nraise KeyError('oops')\n", "mylib.py:3: KeyError: 'oops'"),
        ("from asc_sched.library import Library\nlib = Library('mylib', ops=['ad'])\n", "mylib.py:2: ops[0]: no op"),
        ("from asc_sched.library import Library as L\na, b = L('a', ['add']), L('b', ['add'])\n", "it has 2 (a, b)"),
    ],
)
def test_mistakes_in_a_python_file_name_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mylib.py"
    path.write_text(text)
    with pytest.raises(LibraryError) as caught:
        load(path)
    assert told in str(caught.value)
