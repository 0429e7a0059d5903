"""Every semantic function of the emulator can be replaced, each replacement is known to be noticed, and a sample is noticed again here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.replacements.replace_semantics import NOTICED, all_replacements, read_noticed, summary
from tests.replacements.replacement_runs import Verdict
from tests.replacements.replacements import EQUIVALENT, copied, copying, unflagged

TESTS = Path(__file__).parent


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.replacements.replace_semantics", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS.parents[1])


def test_a_copy_has_the_bits_of_the_source_and_the_shape_of_the_result() -> None:
    assert copied(np.zeros(2, np.float32), np.array([0x3F800000, 0x40000000], np.uint32)).tolist() == [1.0, 2.0]
    assert copied(np.zeros(1, np.uint64), np.array([-1], np.int16)).tolist() == [0xFFFF]
    assert copied(np.zeros(1, np.uint16), np.array([0x12345678], np.uint32)).tolist() == [0x5678]
    assert copied(np.zeros((2, 2), bool), np.array([0.0, -2.5])).tolist() == [[False, True]] * 2
    assert copied(np.zeros((3, 2), np.uint32), np.array([[1, 2], [3, 4]], np.uint32)).tolist() == [[1, 2], [3, 4], [0, 0]]
    assert copied(np.uint32(7), np.uint32(9)) == 9


def test_flags_are_replaced_on_their_own() -> None:
    def add(a: int, b: int) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        return a + b, np.array([True])

    value, flag = copying(add)(np.uint32(3), np.uint32(4))
    assert value == 3 and flag.tolist() == [True]
    value, flag = unflagged(add)(3, 4)
    assert value == 7 and flag.tolist() == [False]


def test_every_replacement_is_known_to_be_noticed() -> None:
    """A new semantic function fails here until a full run (--write) has found the test that notices its replacement."""
    names = [str(replacement) for replacement in all_replacements()]
    assert len(names) == len(set(names))
    assert EQUIVALENT.keys() <= set(names)
    assert read_noticed(TESTS).keys() == set(names) - EQUIVALENT.keys()


def test_the_tests_that_notice_exist() -> None:
    """At least their functions do: parameters are looked at when they run."""
    for test in set(read_noticed(TESTS).values()):
        file, _, name = test.partition("::")
        assert f"def {name.split('[')[0]}(" in (TESTS / file).read_text(), test


@pytest.mark.slow
def test_a_sample_is_noticed() -> None:
    done = run_tool("--sample", "16", "--seed", "11")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all: 16 of 16 noticed (100.0 %)" in done.stdout


@pytest.mark.slow
def test_tests_that_look_at_nothing_notice_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_emulator_blind.py").write_text("""
from asmgen.isa.registers import v
from tests.emulator_harness import run

def test_it_runs():
    run("gfx950", lambda k: k.v_xor_b32(v[2], v[0], v[1]))

def test_something_else():
    assert run("gfx950", lambda k: k.v_sub_u32(v[2], 5, v[1])).v(2)[0, 0] == 5
""")
    done = run_tool("--only", "integer: v_xor_b32", "--jobs", "1", "--tests", str(tmp_path))
    assert done.returncode == 1 and "survives: integer: v_xor_b32 (1 tests use it)" in done.stdout, done.stdout + done.stderr


def test_the_summary_names_survivors() -> None:
    chosen = [replacement for replacement in all_replacements() if replacement.table == "mixed"][:2]
    lines = summary(chosen, [Verdict(str(chosen[0]), "test_x.py::test_y", "assert", 1), Verdict(str(chosen[1]), "", "", 4)])
    assert lines == ["mixed: 1 of 2 noticed (50.0 %)", "all: 1 of 2 noticed (50.0 %)", f"  survives: {chosen[1]} (4 tests use it)"]


def test_requests_that_cannot_be_met() -> None:
    for arguments, words in ((("--table", "nosuch"), "there is no table `nosuch`"), (("--sample", "3", "--tests", "nowhere"), NOTICED)):
        done = run_tool(*arguments)
        assert done.returncode == 2 and words in done.stderr
