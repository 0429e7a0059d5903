"""gemm-bf16 end to end on the emulator: shapes, strides, rounding, bank conflicts, wave orders, and mutants of its own waits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.scheduling.run import Options
from asmgen.isa.registers import Reg
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.program.program import Instruction, Program
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, launch, run_kernel

ARCHS = ("gfx950", "gfx942")
LIBRARY = family("gemm-bf16")
PARTS = 3  # of what would take a minute in one test
SHAPES: list[dict[str, int]] = [
    {"m": 1, "n": 1, "k": 64},
    {"m": 128, "n": 128, "k": 64},
    {"m": 128, "n": 256, "k": 512},
    {"m": 129, "n": 5, "k": 128, "lda": 136, "ldd": 8},
    {"m": 257, "n": 129, "k": 192, "lda": 200, "ldb": 208, "ldd": 132},
    {"m": 3, "n": 300, "k": 320, "ldd": 303},
]


@cache
def built(arch: str, preload: bool = False) -> Built:
    return build_kernel(LIBRARY, arch, {"preload": preload})


def run(arch: str, shape: dict[str, int], compiled_preload: bool = False, program: Program | None = None, **options: Any) -> RunReport:
    parameters = LIBRARY.contract(arch).resolve_run(shape)
    return run_kernel(LIBRARY, built(arch, compiled_preload), parameters, "emulator", program=program, options=Options(**options))


@pytest.mark.needs_objdump
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(f"{key}{value}" for key, value in shape.items()))
def test_right_on_real_data(arch: str, shape: dict[str, int]) -> None:
    report = run(arch, shape, count_banks=True)
    assert report.passed, report
    assert report.untouched
    assert report.findings == ()
    assert report.bank_conflicts == 0


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("firmware_preloads", (True, False))
def test_preloaded_arguments(arch: str, firmware_preloads: bool) -> None:
    program = built(arch, True).kernel.program
    assert program.entry
    report = run(arch, {"m": 70, "n": 133, "k": 192}, True, program, preload=firmware_preloads)
    assert report.passed and report.findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_wave_orders_agree_bit_for_bit(arch: str) -> None:
    parameters = LIBRARY.contract(arch).resolve_run({"m": 70, "n": 140, "k": 192})
    problem = LIBRARY.problem(parameters, 7)
    results = []
    for order in ("lockstep", "serial", "random:3"):
        with EmulatedDevice(arch, Options(order=order), {built(arch).kernel.resources.name: built(arch).kernel.program}) as device:
            results.append(launch(device, built(arch), problem, parameters)["d"].view(np.uint16))
            assert device.launches[-1].findings == ()
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


def test_truncation_fails() -> None:
    """gfx942 rounds by adding 0x7fff and the lowest kept bit; without the 0x7fff it truncates."""
    program = built("gfx942").kernel.program
    mutant = program.with_items(
        item if not (isinstance(item, Instruction) and item.name == "s_movk_i32") else
        Instruction(item.opcode, item.form, (item.operands[0], 0)) for item in program.items)
    assert sum(one is not other for one, other in zip(program.items, mutant.items, strict=True)) > 0
    report = run("gfx942", {"m": 128, "n": 128, "k": 64}, program=mutant)
    assert not report.passed and report.findings == () and report.worst > 1.5


def test_nan_and_infinity_come_through() -> None:
    """The integer rounding of gfx942 must not carry a NaN into an infinity or a number."""
    for arch in ARCHS:
        parameters = LIBRARY.contract(arch).resolve_run({"m": 16, "n": 16, "k": 64})
        problem = LIBRARY.problem(parameters, 1)
        problem.arguments["a"][3, 5] = np.nan
        problem.arguments["a"][4, 5] = np.inf
        problem.arguments["b"][:, 5] = 1.0
        with EmulatedDevice(arch, None, {built(arch).kernel.resources.name: built(arch).kernel.program}) as device:
            d = launch(device, built(arch), problem, parameters)["d"].astype(np.float32)
        assert np.isnan(d[3]).all() and np.isposinf(d[4]).all() and np.isfinite(d[5]).all()


def deletions(program: Program, names: tuple[str, ...]) -> Iterator[tuple[Instruction, Program]]:
    """Each instruction of those names with the program that lacks it."""
    for number, item in enumerate(program.items):
        if isinstance(item, Instruction) and item.name in names:
            yield item, program.with_items(program.items[:number] + program.items[number + 1:])


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "part"), [*(("gfx950", part) for part in range(PARTS)), ("gfx942", 0)])
def test_every_deleted_wait_or_barrier_is_found(arch: str, part: int) -> None:
    """Of gfx950, and each third one of gfx942, whose loop the same checks judge. An odd and an even number of steps, a single one, C, a
    batch, and whole columns of two steps and more reach every path; old firmware the compatibility entry."""
    survivors = []
    shapes = ({"k": 256}, {"k": 320}, {"k": 64}, {"k": 128, "n": 128}, {"k": 64, "alpha": 2.0, "beta": 0.5, "batch": 2})
    runs: list[tuple[dict[str, Any], bool]] = [*((shape, True) for shape in shapes), ({"k": 64}, False)]
    for item, mutant in islice(deletions(built(arch, True).kernel.program, ("s_waitcnt", "s_barrier")), part, None, PARTS):
        for number, (more, firmware) in enumerate(runs):
            if any(finding.severity == "error" and finding.producer is not None and finding.consumer is not None
                   for finding in run(arch, {"m": 70, "n": 100} | more, True, mutant, preload=firmware).findings):
                runs.insert(0, runs.pop(number))  # the next deletion is on the same path, mostly
                break
        else:
            survivors.append(f"{item.text} ; {item.reason or item.comment}")
    assert survivors == []


@pytest.mark.parametrize("arch", ARCHS)
def test_arguments_beyond_the_matrix_are_never_offered_to_the_descriptor(arch: str) -> None:
    """No scalar offset beyond num_records (docs/facts/semantics.md section 8): it is 0, or in loads the bytes gone along K, which stay
    inside of a row."""
    accesses = [item for item in built(arch).kernel.program.instructions if item.name.startswith("buffer_")]
    assert len(accesses) >= 66
    for item in accesses:
        places = {place.name: operand for place, operand in zip(item.form.operands, item.operands, strict=True)}
        assert places["soffset"] == 0 or "_load_" in item.name and "k_offset" in {owner.name for owner in built(arch).kernel.plan.ranges
                                                                                  if owner.reg == places["soffset"]}


def test_accumulators_are_agprs_and_registers_fit_the_occupancy_asked_for() -> None:
    for arch, waves in (("gfx950", 3), ("gfx942", 2)):
        program = built(arch).kernel.program
        products = [item for item in program.instructions if item.name.startswith("v_mfma")]
        assert products and all(isinstance(item.operands[0], Reg) and item.operands[0].file == "a" for item in products)
        assert built(arch).kernel.plan.resources().waves_per_simd >= waves
