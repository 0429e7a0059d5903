"""The numbered examples of launching run as their users run them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from asmgen.checks.lint.linting import lint_file

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "kernels" / "examples"


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_launch_your_own_on_the_emulator() -> None:
    script = str(EXAMPLES / "10_launch_your_own.py")
    assert run(script, "--device", "emulator", "--arch", "gfx942") == "scale ran on emulator (gfx942): y = 3 x\n"


@pytest.mark.skipif(find_spec("hip") is None, reason="hip-python is not installed")
def test_launch_your_own_through_hip_python() -> None:
    script = str(EXAMPLES / "10_launch_your_own.py")
    found = run("-m", "asmgen.tools.cli", "hip-emulator", sys.executable, script, "--device", "hip")
    assert found == "scale ran on hip (gfx950): y = 3 x\n"


def test_gemm_on_tensors() -> None:
    assert run(str(EXAMPLES / "11_gemm_on_tensors.py")).startswith("gemm.bf16 of [200, 128] and [150, 128]: largest error 0.")


def test_the_assembly_is_clean() -> None:
    for arch in ("gfx942", "gfx950"):
        assert [finding for finding in lint_file(EXAMPLES / "10_scale.s", arch).findings if finding.severity != "note"] == []


@pytest.mark.parametrize("name", ["10_launch_your_own.py", "11_gemm_on_tensors.py"])
def test_an_example_is_at_most_60_lines(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= 60
