"""A fixed slice of `python -m tests.random_llc`, and that it would tell."""

from __future__ import annotations

from collections import Counter

import pytest

from asmgen.checks.waitstates import passes as hazards
from tests import random_llc
from tests.llvm_mir import LLC

pytestmark = [pytest.mark.slow, pytest.mark.skipif(LLC is None, reason="there is no llc")]


@pytest.mark.parametrize("arch", random_llc.ARCHS)
def test_lint_and_insertion_agree_with_llvm(arch: str) -> None:
    told: Counter[str] = Counter()
    assert random_llc.run(arch, 0, 100, told) == {}
    assert told["looser waits that are missed"] > 20 and told["shorter nops that are missed"] > 50 and told["waits at one place"] > 80


def test_what_llvm_did_not_do_is_told() -> None:
    drawn = [random_llc.draw("gfx950", seed) for seed in range(0, 60, 3)]
    told: Counter[str] = Counter()
    bare = [random_llc.stripped(program) for program in random_llc.finished("gfx950", drawn)]
    wrong = [bool(random_llc.judged(one, program, told)) for one, program in zip(drawn, bare, strict=True)]
    assert wrong == [bool(random_llc.findings(program)) for program in bare] and sum(wrong) > 10
    assert any(hazards.verify(program) for program in bare)
