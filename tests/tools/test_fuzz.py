"""Two hundred damaged inputs to whole commands; `python -m tests.fuzz 10000` runs them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clang_objects import needs_clang
from tests.fuzz import server
from tests.fuzz.cases import Cases

pytestmark = [needs_clang, pytest.mark.needs_objdump]
INPUTS, PARTS = 200, 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_inputs_to_commands(tmp_path: Path, part: int) -> None:
    cases = Cases(tmp_path)
    server.warm(list(cases.whole()), tmp_path)
    faults, statuses = [], set()
    for command in cases.whole():
        outcome = server.call(command, tmp_path)
        assert (outcome.status, outcome.fault) == (0, ""), (command, outcome)
    for number in range(part, INPUTS, PARTS):
        case = cases.case(number)
        cases.restore()
        (tmp_path / case.file).write_bytes(case.data)
        outcome = server.call(case.command, tmp_path)
        statuses.add(outcome.status)
        if outcome.fault:
            faults.append((number, case.command, outcome.fault, outcome.err[-400:]))
    assert not faults
    assert statuses == {0, 1, 2}


def test_the_server_sees_faults() -> None:
    good = server.Outcome(2, 1.0, "", "asmgen: no\n")
    assert good.fault == ""
    for status, seconds, err in ((-9, 1.0, ""), (3, 1.0, "x\n"), (0, 9.0, ""), (2, 1.0, ""), (2, 1.0, "a\nb\n"), (2, 1.0, "x" * 9999),
                                 (2, 1.0, "asmgen: internal error\n"), (1, 1.0, "Traceback\n"), (2, 1.0, "a\x1b[3m\n")):
        assert server.Outcome(status, seconds, "", err).fault
