"""gemm-mx on the emulator: decoded values, orders of scales, odd shapes, orders of waves, and what a step of its loops costs."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.gemm_mx.problem import VALUES, shuffled
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.build import Built, build_kernel
from asmgen.tools.inspection import inspect_program
from asmgen.tools.runner import RunReport, launch, run_kernel

LIBRARY = family("gemm-mx")
SMALL, LARGE = {"tile": "128x128x256"}, {"tile": "256x256x256"}


@cache
def built(build: tuple[tuple[str, Any], ...]) -> Built:
    return build_kernel(LIBRARY, "gfx950", dict(build))


def run(build: dict[str, Any], shape: dict[str, Any], order: str, seed: int = 0) -> RunReport:
    parameters = LIBRARY.contract("gfx950", build).resolve_run({**build, **shape})
    options = Options(order=order, count_banks=True)
    return run_kernel(LIBRARY, built(tuple(build.items())), parameters, "emulator", seed=seed, options=options)


def good(report: RunReport) -> bool:
    return report.passed and report.untouched and report.findings == () and report.bank_conflicts == 0


CASES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"out": "f32"}, {"m": 65, "n": 67, "k": 512, "lda": 544, "ldb": 576, "ldsa": 24, "ldsb": 32, "ldd": 69}, "random:1"),
    ({"out": "f16", "bias": "row", "window": 2}, {"m": 129, "n": 16, "k": 256, "alpha": -0.5, "beta": 2.0, "ldc": 17}, "serial"),
    ({}, {"m": 16, "n": 128, "k": 1536}, "lockstep"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_odd_shapes(case: int) -> None:
    build, shape, order = CASES[case]
    assert good(run(SMALL | build, shape, order, seed=case))


@pytest.mark.slow
@pytest.mark.parametrize(("order", "k"), [("lockstep", 256), ("random:2", 768)])
def test_the_large_tile(order: str, k: int) -> None:
    assert good(run(LARGE | {"out": "f32"}, {"m": 253, "n": 254, "k": k}, order))


def test_shuffled_scales_by_the_formula() -> None:
    """docs/facts/blockscales.md section 2, typed."""
    scales = np.random.default_rng(0).integers(0, 255, (70, 24), dtype=np.uint8)
    found = shuffled(scales).reshape(-1)
    assert found.size == 96 * 24
    for x, y in itertools.product(range(70), range(24)):
        offset = (x >> 5) * 32 * 24 + (y >> 3) * 256 + (y & 3) * 64 + (x & 15) * 4 + (y >> 2 & 1) * 2 + (x >> 4 & 1)
        assert found[offset] == scales[x, y]


def test_bytes_are_the_formats_numbers() -> None:
    """By hand: 1.5 (code 3, the low half of a byte holds even k) times -6 (code 15), with the scales 2^3 and 2^-1 in one block of eight."""
    assert VALUES.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]
    one = built(tuple(SMALL.items()))
    parameters = LIBRARY.contract("gfx950", SMALL).resolve_run({**SMALL, "m": 2, "n": 2, "k": 256})
    problem = LIBRARY.problem(parameters, 1)
    a, b = (problem.arguments[name] for name in "ab")
    a[:], b[:] = 0, 0
    a[1, 100], b[0, 100] = 0x03, 0x0F  # k = 200, even
    a[1, 17], b[0, 17] = 0x20, 0x20  # k = 35, odd: 1 x 1
    for name, byte in (("a_scale", 130), ("b_scale", 126)):
        problem.arguments[name].reshape(-1)[:] = 127
        row = 1 if name == "a_scale" else 0
        problem.arguments[name].reshape(-1)[(200 // 32 & 3) * 64 + row * 4 + 2] = byte  # block 6 is the second one of K128 half 1
    with EmulatedDevice("gfx950", None, {one.kernel.resources.name: one.kernel.program}) as device:
        d = launch(device, one, problem, parameters)["d"].astype(np.float32)
    np.testing.assert_array_equal(d, [[0, 0], [1.5 * -6 * 2.0**3 * 2.0**-1 + 1, 0]])


@pytest.mark.parametrize(("tile", "unroll", "most"), [(LARGE, 2, 199), (SMALL, 4, 78)])
def test_a_step_of_the_loop_is_dense(tile: dict[str, Any], unroll: int, most: int) -> None:
    """Every instruction of the steady loop counts, for each wave and 256 columns of K: 128 and 32 of them are matrix instructions."""
    report = inspect_program(built(tuple(tile.items())).kernel.program, None).as_json()
    loop = report["loops"][report["main_loop"]]
    assert loop["instructions"] <= most * unroll
    assert not any(loop["groups"][group] for group in ("valu", "valu_address", "accvgpr", "lds_write", "global_load"))


@pytest.mark.parametrize(("values", "sentence"), [
    ({"ldsa": 4}, "ldsa must be at least k / 32"), ({"ldsb": 20}, "ldsb must be at least k / 32, and a multiple of 8"),
    ({"k": 128}, "k must be"), ({"lda": 528}, "lda must be")])
def test_what_is_not_offered_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        LIBRARY.contract("gfx950", SMALL).resolve_run({**SMALL, "m": 1, "n": 1, "k": 512, **values})
