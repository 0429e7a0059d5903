"""Expressions depend on each register that an instruction takes: a slice of `tests.hash_sources`, and a rule that leaves one out."""

from __future__ import annotations

import pytest

from asmgen.emulator.hashes.expressions import Hashes
from asmgen.emulator.hashes.vectorhashes import Computation
from tests.hash_sources import instructions, wrong

ALL = list(instructions())


@pytest.mark.parametrize("number", range(20, len(ALL), 110))
def test_hashes_differ_where_bits_do(number: int) -> None:
    assert not wrong(*ALL[number])


def test_a_rule_that_leaves_out_a_source_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Computation.of

    def without_the_last(self: Computation, given: list[Hashes]) -> Hashes:
        return whole(self, [*given[:-1], given[0]])

    monkeypatch.setattr(Computation, "of", without_the_last)
    text, sources, results = next(one for one in ALL if one[0].startswith("v_fma_f32 "))
    assert wrong(text, sources, results) == sources[-1:]
