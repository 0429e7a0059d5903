"""persistent=true: workgroups that take one tile after another store the bits of those that make one, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.family.family import Family
from asmgen.codeobject.load import CodeObject
from asmgen.kernels.products.persistent import tiles_of
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel
from asmgen.tuning.started import launch_list

LIBRARY = family("gemm-bf16")
FP8 = family("gemm-fp8")
SMALL = {"tile": "128x128x64", "schedule": "interleave"}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # one tile more than workgroups, the least k; both ways through a loop of two copies, cut rows and columns, a batch
    ("gfx950", {**SMALL, "any_k": True, "pointers": True},
     {"m": 128, "n": 150, "k": 199, "lda": 200, "ldb": 216, "batch": 2, "workgroups": 3}),
    ("gfx950", {**SMALL, "window": 2, "chunk": 1, "preload": True}, {"m": 250, "n": 384, "k": 320, "workgroups": 2, "batch": 2}),
    ("gfx950", {"tile": "256x256x64", "schedule": "ping-pong", "d_layout": "column", "c_layout": "column"},
     {"m": 136, "n": 512, "k": 192, "workgroups": 2, "batch": 3, "a_stride_batch": 0}),
    ("gfx942", {**SMALL, "dtype": "f16", "bias": "column"}, {"m": 130, "n": 128, "k": 192, "workgroups": 1, "batch": 2, "beta": 2.0}),
    # whose epilogue takes the loop's registers of A
    ("gfx942", {"tile": "256x256x64", "schedule": "ping-pong", "a_layout": "column", "b_layout": "column", "bias": "row", "chunk": 8},
     {"m": 260, "n": 256, "k": 192, "lda": 264, "workgroups": 1, "beta": 2.0}),
]


OF_FP8: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # scales of rows, which each tile and each matrix of a batch has of its own, and one of all beside an epilogue that overlaps
    # of the largest tile, whose loop leaves registers for a corner's at a time
    ("gfx950", {"tile": "256x256x128", "schedule": "ping-pong", "scales": "row", "d_layout": "column", "c_layout": "column"},
     {"m": 136, "n": 512, "k": 512, "workgroups": 1, "batch": 2}),
    ("gfx950", {"tile": "128x128x128", "schedule": "interleave", "bias": "row"},
     {"m": 130, "n": 300, "k": 640, "workgroups": 2, "batch": 2, "alpha": 0.5}),
    ("gfx942", {"tile": "128x128x128", "schedule": "interleave", "scales": "row", "a_layout": "column"},
     {"m": 132, "lda": 144, "n": 128, "k": 384, "workgroups": 1, "batch": 2, "beta": 2.0}),
]
ALL = [(LIBRARY, *case) for case in CASES] + [(FP8, *case) for case in OF_FP8]


def product(device: EmulatedDevice, library: Family, arch: str, build: dict[str, Any], shape: dict[str, Any]) -> np.ndarray[Any, Any]:
    """D of the library's random data, with all that the launch leaves in its memory."""
    one = build_kernel(library, arch, build)
    contract = one.kernel.contract
    values = contract.resolve_run({**one.kernel.parameters, **shape})
    given = library.problem(values, 3).arguments
    launch_list(CodeObject.load(one.code_object), contract, values).start(
        device, {argument.name: given[argument.name] for argument in contract.given}, None)
    return np.asarray(given["d"])


def check_bits(library: Family, arch: str, build: dict[str, Any], shape: dict[str, Any]) -> None:
    """A build stores the same bits with persistent workgroups and without."""
    with EmulatedDevice(arch) as device:
        found, expected = (product(device, library, arch, {**build, "persistent": chained}, shape) for chained in (True, False))
    unsigned = f"u{found.dtype.itemsize}"
    assert (found.view(unsigned) == expected.view(unsigned)).all() and np.isfinite(found.astype(np.float32)).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ALL)))
def test_bits_are_those_of_a_grid_of_all_tiles(number: int) -> None:
    check_bits(*ALL[number])


def test_fewer_tiles_than_workgroups_have_one_each() -> None:
    build = {"persistent": True, "tile": "128x256x64", "schedule": "interleave"}
    contract = LIBRARY.contract("gfx950", build)
    grids = [contract.grid_of(contract.resolve_run({**build, "m": m, "n": 512, "k": 256, "batch": 2})) for m in (256, 128 * 100)]
    assert grids == [(8, 1, 1), (256, 1, 1)]


@pytest.mark.parametrize("edge", [4096, 8192, 8448])
def test_what_stands_for_a_launch_has_the_tiles_of_its_first_workgroup(edge: int) -> None:
    given = {"persistent": True, "tile": "256x256x64", "schedule": "interleave", "m": edge, "n": edge, "k": 4096}
    contract = LIBRARY.contract("gfx950", given)
    values, tiles = contract.resolve_run(given), (edge // 256) ** 2
    assert LIBRARY.work is not None
    work = LIBRARY.work(values, LIBRARY.select("gfx950", values))
    assert work.first["workgroups"] == 1 and work.first["m"] * work.first["n"] == -(-tiles // 256) * 256 * 256
    assert work.traced == work.first["k"] // 64 * -(-tiles // 256) and work.steps.sum() == tiles * 64 and len(work.steps) == min(256, tiles)


def test_figures_for_a_choice_have_several_tiles_of_a_workgroup() -> None:
    build = {"tile": "256x256x64", "schedule": "interleave"}
    of_one, of_several = (LIBRARY.typical_for(LIBRARY.contract("gfx950", {**build, "persistent": chained})) for chained in (False, True))
    assert of_one == LIBRARY.typical and of_several["m"] * of_several["n"] == 4 * 256 * 256 * 256


@pytest.mark.parametrize(("tile", "schedule"), [("64x64x64", "interleave"), ("64x64x32", "in-order"), ("32x32x64", "interleave")])
def test_figures_for_a_choice_of_few_rows_have_one_tile_of_rows(tile: str, schedule: str) -> None:
    rows, columns, _ = map(int, tile.split("x"))
    typical = LIBRARY.typical_for(LIBRARY.contract("gfx950", {"tile": tile, "schedule": schedule}))
    assert typical["m"] == rows and typical["n"] // columns > 304, "units of each GPU have two workgroups"


@pytest.mark.parametrize(("library", "arch"), [(one, arch) for one in (LIBRARY, FP8) for arch in ("gfx950", "gfx942")])
def test_figures_for_a_choice_have_shared_tiles(library: Family, arch: str) -> None:
    for variant in library.variants(arch):
        if library.fixed(variant).get("stream_k", True):
            contract = library.contract_of(variant, {**library.fixed(variant), "stream_k": True})
            values = contract.resolve_run({**library.fixed(variant), "stream_k": True, **library.typical_for(contract)})
            assert tiles_of(values, variant.tile) > values["workgroups"] and tiles_of(values, variant.tile) % values["workgroups"]


REACHED: list[dict[str, Any]] = [
    {"m": 130, "n": 128, "k": 256, "beta": 0.5}, {"m": 16, "n": 264, "k": 320}, {"m": 16, "n": 256, "k": 256, "batch": 2},
    {"m": 16, "n": 140, "k": 320, "beta": 1.0, "alpha": 2.0}, {"m": 16, "n": 256, "k": 192, "batch": 2, "ldc": 257, "beta": 1.0},
]


def check_executed(build: dict[str, Any], shapes: list[dict[str, Any]]) -> None:
    """Launches of one workgroup are right, and together they execute each instruction."""
    one = build_kernel(LIBRARY, "gfx950", build)
    missing: set[int] | None = None
    for number, shape in enumerate(shapes):
        values = one.kernel.contract.resolve_run({**one.kernel.parameters, "workgroups": 1, **shape})
        report = run_kernel(LIBRARY, one, values, "emulator", 2 * number)
        assert report.passed and report.untouched and not report.findings and report.executed is not None, report
        missing = set(report.executed.missing) & (missing if missing is not None else set(report.executed.missing))
    assert not missing, [one.kernel.program.instructions[position].text for position in sorted(missing or ())][:20]


@pytest.mark.slow
def test_each_instruction_is_executed() -> None:
    check_executed({**SMALL, "persistent": True}, REACHED)


@pytest.mark.parametrize(("values", "sentence"), [
    ({"k": 128}, "a k of at least 3 steps"), ({"k": 191, "lda": 192, "ldb": 192}, "a k of at least 3"),
    ({"b_layout": "column", "k": 258, "lda": 264}, "whole steps where A or B"),
    ({"schedule": "in-order"}, "persistent"), ({"m": (1 << 31) - 1, "n": 8192, **SMALL}, "fewer than"),
])
def test_what_no_chain_serves_is_refused(values: dict[str, Any], sentence: str) -> None:
    given = {"persistent": True, "m": 256, "n": 256, "k": 256, **values}
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", given).resolve_run(given)


@pytest.mark.parametrize("name", ["gemm-bf16", "gemm-fp8"])
@pytest.mark.slow
def test_the_example_is_a_legal_launch_of_persistent_builds(name: str) -> None:
    library = family(name)
    for arch in library.archs:
        build = {"persistent": True}
        assert library.contract(arch, build).describe(arch, build)["example"]["persistent"] is True
