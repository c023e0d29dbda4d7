"""Numbers that are filled once per core: where it pays, with the same results, and in few buffers."""

from __future__ import annotations

import itertools

import pytest
import torch
from asc_sched.ops import catalogue

from asc_sched import op
from asc_sched.errors import AscSchedError
from asc_sched.lower import tiles
from asc_sched.lower.hoist import hoisted
from asc_sched.lower.pressure import eased
from asc_sched.lower.spaces import TileProgram
from asc_sched.schedule import Schedule
from tests.lower.programs import TARGET, written

DTYPES = ("float16", "float32", "bfloat16", "int32", "bool")


def _keeping() -> dict[tuple[str, str], TileProgram]:
    """The programs of the catalogue that fill numbers before their tiles."""
    found = {}
    for name, dtype in itertools.product(sorted(catalogue()), DTYPES):
        try:
            program, _ = hoisted(written(name, dtype), TARGET)
        except AscSchedError:  # torch has no such op on that dtype
            continue
        if program.setup:
            found[name, dtype] = program
    return found


def test_only_numbers_are_filled_before_the_tiles_and_only_those_that_are_read() -> None:
    keeping = _keeping()
    assert len(keeping) > 60
    for key, program in keeping.items():
        loaded = {register for _, register in (*program.loads, *program.once)}
        made: set[int] = set()
        for step in program.setup:
            assert made.issuperset(step.srcs) and not loaded.intersection(step.srcs), key
            made.add(step.dst)
        read = {s for step in (*program.setup, *program.body) for s in step.srcs}
        assert made <= read, key
        assert not made & {step.dst for step in program.body}, key


def test_where_memory_is_the_limit_no_buffer_is_spent_on_numbers() -> None:
    """sigmoid's 1.0 is filled per tile in float32, where loads take longer, and kept in float16."""
    assert hoisted(written("sigmoid", "float32"), TARGET)[0].setup == ()
    assert len(hoisted(written("sigmoid", "float16"), TARGET)[0].setup) == 1


def test_a_rounded_scalar_is_rounded_once() -> None:
    """float16 compares with the scalar as a float16: a Duplicate and two casts, none of them per tile."""
    program, allocation = hoisted(written("huber_loss", "float16"), TARGET)
    before, buffers = eased(written("huber_loss", "float16"))
    assert [s.instruction.name for s in program.setup] == ["duplicate", "cast", "cast"]  # type: ignore[union-attr]
    assert len(program.body) == len(before.body) - 3
    assert len(allocation.temps) == len(buffers.temps) + 1
    kernel = catalogue()["huber_loss"].compile(4096, "float16", schedule=Schedule(core_num=2, tile_length=512))
    assert "huber_loss_float16_setup(delta_tile_buf" in kernel.source


def test_a_number_that_is_filled_twice_is_kept_once() -> None:
    """Far apart, a tile fills it again; before the tiles, once is enough."""
    program, _ = hoisted(written("gelu", "float32"), TARGET)
    imms = [s.imm for s in program.setup]  # type: ignore[union-attr]
    assert imms and len(set(imms)) == len(imms)
    before = [s.imm for s in written("gelu", "float32").body if not s.srcs]  # type: ignore[union-attr]
    assert len(before) > len(set(before))


@pytest.mark.parametrize(
    ("name", "dtype", "numbers"),
    [
        ("huber_loss", "float16", {"delta": 0.3}),
        ("softshrink", "float16", {"lambd": 0.7}),
        ("fake_quantize", "float32", {"scale": 0.3, "zero_point": 3.0}),
        ("pow_scalar", "float16", {"exponent": 2.3}),
        ("softcap", "float32", {"cap": 7.0}),
    ],
)
@pytest.mark.parametrize("shape", [(5, 1031), None])
def test_results_are_the_same_bit_for_bit(
    name: str, dtype: str, numbers: dict[str, float], shape: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On cores of one and of several tiles with a tail, at a size and at any."""
    declared = catalogue()[name]
    inputs = [(torch.randn(5, 1031) * 4).to(getattr(torch, dtype)) for _ in declared.inputs]
    results = []
    for way in (hoisted, lambda program, _: eased(program)):
        tiles._buffers.cache_clear()
        monkeypatch.setattr(tiles, "hoisted", way)
        for schedule in (Schedule(core_num=3, tile_length=512), Schedule(core_num=48, tile_length=128, buffer_num=1)):
            kernel = declared.compile(shape, dtype, schedule=schedule)
            assert bool(kernel.plan.setup.statements) == (way is hoisted)
            results.append(kernel(*inputs, backend="sim", **numbers))
    tiles._buffers.cache_clear()
    assert all(torch.equal(results[0].nan_to_num(7.0), r.nan_to_num(7.0)) for r in results[1:])


def test_a_scalar_is_subtracted_as_a_number() -> None:
    """x - s is x + (-s), exactly: no register is filled for it, and s may change from call to call."""
    declared = op("z = exp(x - s)", scalars={"s": 1.0})
    kernel = declared.compile((4099,), "float32", schedule=Schedule(core_num=2, tile_length=512))
    assert "duplicate" not in kernel.source and "(s * -1.0)" in kernel.source
    x = torch.tensor([0.0, -0.0, 1.5, float("inf"), float("nan")]).repeat(820)[:4099]
    for s in (0.0, -0.0, 2.5, float("inf"), float("nan")):
        reference = op("z = x - s", scalars={"s": 1.0})
        result = reference.compile((4099,), "float32")(x, s=s, backend="sim")
        assert torch.equal((x - s).view(torch.int32), result.view(torch.int32)) or s != s


def test_long_chains_of_scalars_are_made_one_after_the_other() -> None:
    """Integers are computed by the vector unit: the last one hangs on all others."""
    chain = " + ".join(["n * n"] + ["n"] * 400)
    program = written(op(f"z = exp(x) + ({chain})", scalars={"n": 3}), "float32")
    assert len(program.body) > 400
    short = op(f"z = exp(x) + (n * n{' + n' * 11})", scalars={"n": 3})
    program, _ = hoisted(written(short, "float32"), TARGET)
    assert len(program.setup) > 20 and len(program.body) == 2
    x = torch.randn(1000)
    assert torch.equal(short(x, n=2), op("z = exp(x)")(x) + 26)  # type: ignore[arg-type,operator]
