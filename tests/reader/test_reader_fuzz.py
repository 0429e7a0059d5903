"""Twelve hundred damaged inputs: each is read or refused with a sentence. `python -m tests.fuzz.reader N` tries more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.clang_objects import needs_clang
from tests.fuzz.reader import answer, cases, main

pytestmark = [needs_clang, pytest.mark.needs_objdump]
INPUTS, PARTS = 1200, 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_inputs(tmp_path: Path, part: int) -> None:
    counts: Counter[str] = Counter()
    for case in cases(INPUTS // PARTS, seed=part):
        try:
            counts[answer(case, tmp_path)] += 1
        except Exception as error:
            raise AssertionError(f"input {case.number} of seed {part} ({case.kind})") from error
    # Damage that is never noticed, or always, would try nothing.
    assert counts["read"] >= INPUTS // PARTS // 20
    assert counts["ReadError"] >= INPUTS // PARTS // 5
    assert counts.total() == INPUTS // PARTS


def test_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["12", "3"]) == 0
    assert "12 inputs, 0 faults" in capsys.readouterr().out
    assert main([]) == main(["x"]) == 2
