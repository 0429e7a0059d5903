"""gemm-fp8 on the emulator: formats, scales, alpha, beta, bias, odd shapes, orders of waves, and what a step of its loops costs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.checks.mutants.mutants import Judge, mutants
from asmgen.checks.waits.verify import verify
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.program.program import Instruction
from asmgen.tools.inspection.inspection import inspect_program
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, launch, run_kernel

LIBRARY = family("gemm-fp8")
SMALL = {"tile": "64x64x128", "schedule": "interleave"}
MIDDLE = {"tile": "128x128x128"}
LARGE = {"tile": "256x256x128"}
MIXED = {"b_dtype": "e5m2"}
LARGE_MIXED = LARGE | {"a_dtype": "e5m2", "scales": "row"}
ODD = {"m": 70, "n": 67, "k": 384}


@cache
def held(build: tuple[tuple[str, Any], ...], arch: str) -> Built:
    return build_kernel(LIBRARY, arch, dict(build))


def built(build: dict[str, Any], arch: str = "gfx950") -> Built:
    """Once in this file."""
    return held(tuple(sorted(build.items())), arch)


def run(build: dict[str, Any], shape: dict[str, Any], order: str = "lockstep", arch: str = "gfx950") -> RunReport:
    parameters = LIBRARY.contract(arch, build).resolve_run({**build, **shape})
    return run_kernel(LIBRARY, built(build, arch), parameters, "emulator", options=Options(order=order, count_banks=True))


def good(report: RunReport) -> bool:
    return report.passed and report.untouched and report.findings == () and report.bank_conflicts == 0


@pytest.mark.parametrize("build", [MIXED, {"a_dtype": "e5m2", "out": "f32"}, {"a_dtype": "e5m2", "b_dtype": "e5m2", "out": "f32"}])
def test_formats_in_other_mixes_than_tests_below(build: dict[str, Any]) -> None:
    assert good(run(SMALL | build, ODD))


@pytest.mark.parametrize("build", [{}, {"b_dtype": "e5m2", "scales": "row"}, {"a_dtype": "e5m2"}])
def test_formats_of_gfx942(build: dict[str, Any]) -> None:
    assert good(run(MIDDLE | build, ODD | {"alpha": 0.5, "beta": 2.0 if "scales" in build else 0.0}, arch="gfx942"))


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"scales": "row"}, {}),
    ({"scales": "row", "out": "f16", "bias": "row"}, {"alpha": -2.0, "beta": 0.25, "ldc": 71, "ldd": 69}),
    ({"scales": "tensor", "out": "f32", "bias": "row", "window": 2, "chunk": 2}, {"m": 130, "n": 131, "alpha": 1.5, "beta": -0.5}),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_d_is_beside_the_product(case: int) -> None:
    build, values = CASES[case]
    assert good(run(SMALL | build, ODD | values))


WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", SMALL | {"scales": "row"}),
    ("gfx950", SMALL | {"scales": "row", "bias": "row", "out": "f16"}),
    ("gfx950", {"tile": "128x256x128", "schedule": "ping-pong", "bias": "row", "out": "f32"}),
    ("gfx942", MIDDLE | {"bias": "row"}),
    ("gfx942", MIDDLE | {"scales": "row", "bias": "row"}),
]


@pytest.mark.parametrize("case", range(len(WHOLE)))
def test_whole_columns_take_scales_and_bias_while_the_last_step_computes(case: int) -> None:
    arch, build = WHOLE[case]
    k = 1024 if build["tile"] == SMALL["tile"] else 256  # as many steps as loads run ahead: fewer take the general epilogue
    report = run(build, {"m": 70, "n": 256, "k": k}, arch=arch)
    assert good(report) and not executed_in_turns(report, built(build, arch))
    assert executed_in_turns(run(build, {"m": 70, "n": 255, "k": k}, arch=arch), built(build, arch))


def executed_in_turns(report: RunReport, one: Built) -> bool:
    """Whether any wave went to the code that takes corner by corner."""
    labels = one.kernel.program.labels
    return report.counts[next(place for label, place in labels.items() if label.startswith("of_corner"))] > 0


@pytest.mark.parametrize(("build", "shape"), [
    ({"tile": "128x256x128"}, {"m": 70, "n": 389, "k": 128}),
    ({"tile": "256x128x128", "a_layout": "column", "b_layout": "column", "split_k": 2},
     {"m": 260, "n": 68, "k": 640, "lda": 272, "ldb": 80}),
])
def test_scales_of_blocks(build: dict[str, Any], shape: dict[str, int]) -> None:
    """The second block of columns lies inside of B and behind its end, steps are one and odd, and a second part of K has its own blocks."""
    assert good(run({"scales": "block", "b_dtype": "e5m2"} | build, shape | {"alpha": 0.5, "beta": 1.0}))


def test_whole_columns_of_block_scales_are_stored_at_once() -> None:
    """Without C a tile whose columns are whole goes to memory by code of its own."""
    build = {"tile": "128x256x128", "scales": "block", "a_layout": "column", "b_layout": "column"}
    report = run(build, {"m": 120, "n": 256, "k": 128, "lda": 128})
    assert good(report) and not executed_in_turns(report, built(build))


def test_halves_of_block_scales_stay_in_turn() -> None:
    """Of one step, too, which goes on at the last step's code; its memory stages hold barriers apart that order no data."""
    program = built({"scales": "block"}).kernel.program
    assert verify(program, notes=False) == []
    judge = Judge(program)
    barriers = [mutant for mutant in mutants(program) if mutant.kind == "barrier"]
    assert len(barriers) >= 50 and all(map(judge.notices, barriers))


@pytest.mark.parametrize("k", [128, 256, 640])
def test_few_and_odd_steps_on_rows_that_are_apart(k: int) -> None:
    assert good(run(SMALL, {"m": 5, "n": 64, "k": k, "lda": k + 16, "ldb": k + 48, "ldd": 72}))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["ping-pong", "interleave"])
def test_large_tiles_of_gfx942(schedule: str) -> None:
    assert good(run(LARGE | {"schedule": schedule}, {"m": 253, "n": 261, "k": 384}, "random:5", "gfx942"))


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "order"), [("ping-pong", "serial"), ("interleave", "random:3")])
def test_large_tiles_on_an_odd_shape(schedule: str, order: str) -> None:
    shape = {"m": 253, "n": 261, "k": 384, "lda": 400, "ldd": 264}
    assert good(run(LARGE_MIXED | {"schedule": schedule}, shape, order))


def test_nan_and_infinity_come_through() -> None:
    build = SMALL | MIXED
    one, parameters = built(build), LIBRARY.contract("gfx950", build).resolve_run({**build, "m": 16, "n": 16, "k": 128})
    problem = LIBRARY.problem(parameters, 1)
    problem.arguments["a"][:, 5] = 1.0
    problem.arguments["b"][3, 5], problem.arguments["b"][4, 5] = np.nan, np.inf
    problem.arguments["a_scale"][0] = problem.arguments["b_scale"][0] = 1.0
    with EmulatedDevice("gfx950", None, {one.kernel.resources.name: one.kernel.program}) as device:
        d = launch(device, one, problem, parameters)["d"].astype(np.float32)
    assert np.isnan(d[:, 3]).all() and np.isposinf(d[:, 4]).all() and np.isfinite(d[:, 5]).all()


@pytest.mark.parametrize(("build", "edge"), [(MIDDLE, 128), ({"tile": "256x256x128", "schedule": "ping-pong"}, 256)])
def test_whole_tiles_with_nans_are_stored_again(build: dict[str, Any], edge: int) -> None:
    """What gfx942 stores while the last step computes is rounded as numbers are, which makes 0 of a NaN with all bits set; but it is seen.
    Accumulators in VGPRs (ping-pong) have been multiplied by then, which may not happen twice."""
    one, parameters = built(build, "gfx942"), LIBRARY.contract("gfx942", build).resolve_run(
        {**build, "m": edge, "n": edge, "k": 256})
    problem = LIBRARY.problem(parameters, 1)
    problem.arguments["b"][:, 5], problem.arguments["a"][3, 5], problem.arguments["b_scale"][0] = 1.0, np.nan, 1.0
    whole = one.kernel.program
    blind = whole.with_items(item for item in whole.items if not (isinstance(item, Instruction) and item.name == "s_cbranch_vccnz"))
    assert len(blind.items) == len(whole.items) - 1
    found = {}
    for scale, program in itertools.product((0x40000000, 0x7FFFFFFF), (whole, blind)):
        problem.arguments["a_scale"].view(np.uint32)[0] = scale
        with EmulatedDevice("gfx942", None, {one.kernel.resources.name: program}) as device:
            d = launch(device, one, problem, parameters)["d"].astype(np.float32)
        found[scale, program is whole] = d
    assert np.isnan(found[0x40000000, True][3]).all() and np.isfinite(np.delete(found[0x40000000, True], 3, axis=0)).all()
    np.testing.assert_array_equal(found[0x40000000, True], found[0x40000000, False])
    assert np.isnan(found[0x7FFFFFFF, True]).all() and not found[0x7FFFFFFF, False].any()


@pytest.mark.parametrize(("arch", "build", "product"), [("gfx950", SMALL, 1152.0), ("gfx942", MIDDLE, 288.0)])
def test_bytes_are_numbers_of_the_architecture(arch: str, build: dict[str, Any], product: float) -> None:
    """Typed by hand: 128 times 1.5 (0x3c) x 3 (0x44) of OCP, each a half of that in FNUZ, with scales 0.5 and 4."""
    one, parameters = built(build, arch), LIBRARY.contract(arch, build).resolve_run({**build, "m": 1, "n": 1, "k": 128})
    problem = LIBRARY.problem(parameters, 0)
    arguments = problem.arguments
    for name, value in (("a", 0x3c), ("b", 0x44)):
        arguments[name].view(np.uint8)[:] = value
    arguments["a_scale"][0], arguments["b_scale"][0] = 0.5, 4.0
    with EmulatedDevice(arch, None, {one.kernel.resources.name: one.kernel.program}) as device:
        assert launch(device, one, replace(problem, arguments=arguments), parameters)["d"][0, 0] == product


@pytest.mark.parametrize(("schedule", "steps", "most"), [("ping-pong", 2, 86), ("interleave", 2, 134)])
def test_a_step_of_the_loop_is_dense(schedule: str, steps: int, most: int) -> None:
    """Every instruction of the steady loop counts, for each wave and 128 columns of K."""
    report = inspect_program(built(LARGE_MIXED | {"schedule": schedule}).kernel.program, None).as_json()
    loop = report["loops"][report["main_loop"]]
    assert loop["instructions"] <= most * steps
    assert not any(loop["groups"][group] for group in ("valu", "valu_address", "accvgpr", "nop", "lds_write", "global_load"))


def test_interleave_asks_memory_for_44_kb_in_1000_clk_at_most() -> None:
    """Loads of 1 KB, by each of four waves, behind matrix instructions of 32 clk: in two rounds of the loop, one behind the other."""
    program = built(LARGE_MIXED | {"schedule": "interleave"}).kernel.program
    report = inspect_program(program, None).as_json()
    loop = report["loops"][report["main_loop"]]
    asked, clk = [], 0
    for instruction in program.instructions[loop["first"]:loop["last"] + 1] * 2:
        clk += 32 * ("mfma" in instruction.opcode.classes)
        asked += [clk] * ("lds" in instruction.modifiers and instruction.name.startswith("buffer_load"))
    assert len(asked) == 64 and max(sum(begin <= other < begin + 1000 for other in asked) for begin in asked) * 4 <= 44


@pytest.mark.parametrize(("build", "sentence"), [({"a_dtype": "bf16"}, "a_dtype"), ({"scales": "column"}, "scales"),
                                                 ({"encoding": "fnuz"}, "encoding")])
def test_what_is_not_offered_is_refused(build: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        build_kernel(LIBRARY, "gfx950", SMALL | build)
