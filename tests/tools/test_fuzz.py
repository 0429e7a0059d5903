"""A hundred damaged inputs to whole commands; `python -m tests.fuzz 10000` runs them all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clang_objects import needs_clang
from tests.fuzz import server

pytestmark = [needs_clang, pytest.mark.needs_objdump]
INPUTS = 100
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_damaged_inputs_to_commands() -> None:
    """In a process of its own: one that holds all builds of a test run forks slowly."""
    done = subprocess.run([sys.executable, "-m", "tests.fuzz", str(INPUTS)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ends = [line for line in done.stdout.splitlines() if re.fullmatch(r" *\d+  .*: .* [012]", line)]
    assert {line[-1] for line in ends} == {"0", "1", "2"} and sum(int(line.split()[0]) for line in ends) == INPUTS


def test_the_server_sees_faults() -> None:
    good = server.Outcome(2, 1.0, "", "asmgen: no\n")
    assert good.fault == ""
    for status, seconds, err in ((-9, 1.0, ""), (3, 1.0, "x\n"), (0, 9.0, ""), (2, 1.0, ""), (2, 1.0, "a\nb\n"), (2, 1.0, "x" * 9999),
                                 (2, 1.0, "asmgen: internal error\n"), (1, 1.0, "Traceback\n"), (2, 1.0, "a\x1b[3m\n")):
        assert server.Outcome(status, seconds, "", err).fault
