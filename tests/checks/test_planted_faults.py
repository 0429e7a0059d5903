"""Each planted fault is found by its check's name, with both lines; its repaired twin has no finding, in any order of waves."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.arrival.findings import CHECKS, Finding, chosen_checks
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from asmgen.program.program import Instruction
from asmgen.reader.assembly import read_text
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel
from tests.emulator_launch import Launched, launch
from tests.planted_faults import Planted
from tests.planted_faults_more import FAULTS

ORDERS = ("lockstep", "serial", "random:3")
BUDGET = 20_000


def run(planted: Planted, repaired: bool, order: str = "lockstep", checks: bool | frozenset[str] = True) -> Launched:
    (program,) = read_text(planted.text(repaired)[0], planted.arch)
    options = Options(checks=checks, order=order, instruction_budget=BUDGET)
    buffers = [np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)]
    return launch(planted.arch, program, (2, 1, 1), (64 * planted.waves, 1, 1), buffers, lds=8192,
                  options=options)


def line(instruction: Instruction | None) -> int | None:
    return instruction.source.line if instruction is not None and instruction.source is not None else None


def lines(finding: Finding) -> tuple[int | None, int | None]:
    return line(finding.producer), line(finding.consumer)


@pytest.mark.parametrize("planted", FAULTS, ids=lambda planted: f"{planted.check}: {planted.name}")
def test_fault_is_found_and_its_repair_is_not(planted: Planted) -> None:
    _, producer, consumer = planted.text(False)
    found = run(planted, False).findings
    mine = [finding for finding in found if finding.check == planted.check]
    said = [finding.sentence() for finding in found]
    assert mine, said
    assert {finding.check for finding in found} <= {planted.check, *planted.also}, said
    assert {lines(finding) for finding in mine} == {(producer, consumer)}, said
    assert {finding.severity for finding in mine} == {planted.severity}
    assert [finding.sentence() for finding in run(planted, True).findings] == []


@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("planted", FAULTS, ids=lambda planted: f"{planted.check}: {planted.name}")
def test_other_orders_find_the_same(planted: Planted, order: str) -> None:
    """Two accesses that race may come the other way round."""
    _, producer, consumer = planted.text(False)
    found = [finding for finding in run(planted, False, order).findings if finding.check == planted.check]
    assert found and {frozenset(lines(finding)) for finding in found} == {frozenset((producer, consumer))}, \
        [finding.sentence() for finding in found]
    assert [finding.sentence() for finding in run(planted, True, order).findings] == []


@pytest.mark.parametrize("planted", FAULTS, ids=lambda planted: f"{planted.check}: {planted.name}")
def test_each_check_can_be_asked_for_and_left_out(planted: Planted) -> None:
    alone = run(planted, False, checks=frozenset({planted.check}))
    assert set(alone.checks) == {planted.check}
    others = run(planted, False, checks=frozenset(CHECKS) - {planted.check})
    assert planted.check not in others.checks
    plain = run(planted, False, checks=False)
    assert (planted.check in plain.checks) == CHECKS[planted.check].always


def test_there_are_enough_and_every_arrival_check_has_some() -> None:
    assert len(FAULTS) >= 60
    planted = {fault.check for fault in FAULTS}
    assert planted >= set(CHECKS) - {"soffset-out-of-range", "jump-outside-code", "trap", "halt", "kill"}
    assert len({(fault.check, fault.name) for fault in FAULTS}) == len(FAULTS)


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(AsmgenError, match="lds-race"):
        chosen_checks({"lds-races"})


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "order"), [("gfx942", "serial"), ("gfx950", "random:3")])
def test_the_library_kernel_has_no_finding(arch: str, order: str) -> None:
    """Two tiles by two, the last of each ragged, all checks on; tests of the family have the usual order."""
    library = family("gemm-bf16")
    built = build_kernel(library, arch, {})
    parameters = library.contract(arch).resolve_run({"m": 129, "n": 130, "k": 128})
    report = run_kernel(library, built, parameters, "emulator", options=Options(order=order), program=built.kernel.program)
    assert report.passed and [finding.sentence() for finding in report.findings] == []


def test_one_check_alone_is_made_on_a_launch_of_many_workgroups() -> None:
    """The residents' places are taken by later workgroups: what the first ones left must not be seen."""
    planted = next(planted for planted in FAULTS if planted.name == "write and read without a barrier")
    (program,) = read_text(planted.text(True)[0], planted.arch)
    launched = launch(planted.arch, program, (1200, 1, 1), (128, 1, 1), [np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)], lds=8192)
    assert launched.checks == []
