"""`asmgen selftest`: what it says of the library, of a kernel that is wrong, and of devices. No machine that tests this has a GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asmgen.author.contract.problem import Problem
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from asmgen.tools.bench import BenchReport
from asmgen.tools.selftest import SelftestReport, check_variant, selftest
from tests.launch.test_hip_emulator import asmgen, needs_hip

TRANSPOSE = family("03-transpose")


@pytest.mark.slow
def test_the_emulator_tests_what_is_asked_for_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    ran = asmgen("selftest", "--device", "emulator", "03-transpose", "--arch", "gfx942", "-o", str(tmp_path / "report.json"), "--json")
    assert ran.returncode == 0
    report = json.loads(ran.stdout)
    assert json.loads((tmp_path / "report.json").read_text()) == report
    (row,) = report["kernels"]
    assert (row["kernel"], row["arch"], row["passed"], row["runs"], row["failed"]) == ("03-transpose", "gfx942", True, 3, [])
    assert report["passed"] and report["timings"] == [] and report["probes"] is None and "no clock" in report["left_out"][0]


def test_a_wrong_result_and_a_kernel_that_cannot_be_built_fail_and_stop_nothing() -> None:
    def wrong(parameters: Any, seed: int) -> Problem:
        problem = TRANSPOSE.problem(parameters, seed)
        return Problem(problem.arguments, tuple(replace(output, expected=output.expected + 1.0) for output in problem.outputs))

    def refusing(parameters: Any, seed: int) -> Problem:
        raise AsmgenError("no data of that size")

    (variant,) = TRANSPOSE.variants("gfx950")
    failing = check_variant(replace(TRANSPOSE, problem=wrong), variant, "emulator")
    assert not failing.passed and failing.runs == 3 and len(failing.failed) == 3 and failing.worst > 1
    broken = check_variant(replace(TRANSPOSE, problem=refusing), variant, "emulator")
    assert not broken.passed and broken.runs == 0 and broken.trouble == "no data of that size"
    report = SelftestReport("the emulator", {}, (failing, broken))
    assert not report.passed and "0 of 2 variants passed" in report.text() and "no data of that size" in report.text()


def test_a_report_prints_its_times_beside_predictions() -> None:
    timed = BenchReport("k", "gfx950", "GPU", {}, [2.0, 4.0], 50, 2, None, 10, {}).beside(1.5)
    shown = SelftestReport("GPU", {}, (), timings=(timed,)).text()
    assert "measured 3.0000 ms" in shown and "predicted by the cycle model: 1.5000 ms" in shown


@pytest.mark.parametrize(("arguments", "words"), [
    (("--device", "gpu"), "hip and emulator would work"),
    (("--device", "emulator", "nrom"), "did you mean 'norm'"),
    (("--device", "emulator", "--arch", "gfx940", "norm"), "none of the kernels"),
])  # fmt: skip
@pytest.mark.slow
def test_requests_that_cannot_be_met_are_refused_with_a_sentence(arguments: tuple[str, ...], words: str) -> None:
    ran = asmgen("selftest", *arguments)
    assert ran.returncode == 2 and words in ran.stderr and "Traceback" not in ran.stderr


@needs_hip
@pytest.mark.slow
def test_an_emulated_gpu_is_tested_without_times() -> None:
    report = asmgen("hip-emulator", "--arch", "gfx942", sys.executable, "-m", "asmgen.tools.cli", "selftest", "03-transpose")
    assert report.returncode == 0 and "1 of 1 variants passed" in report.stdout and "left out" in report.stdout


def test_a_library_call_names_unknown_devices() -> None:
    with pytest.raises(AsmgenError, match="selftest knows no device"):
        selftest("cuda")
