"""A slice of `python -m tests.random_steps`: random steps give what the loop written out by hand gives, for every count and wave order."""

from __future__ import annotations

import pytest

from tests.random_steps import Operation, check, drawn, expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 9, 15])
def test_random_steps(seed: int) -> None:
    assert not check(seed)


def test_the_cases_have_every_condition_and_kind() -> None:
    operations = [one for seed in range(200) for one in drawn(seed).operations]
    assert {one.condition for one in operations} == {"", "first", "later", "masked"}
    assert {one.kind for one in operations} == {"load", "copy", "sum", "rare"} and {one.ahead for one in operations} == {0, 1, 2, 3}


def test_the_loop_by_hand() -> None:
    """Two iterations, the second masked: x = 5, 10; total = 5 + 1, then 3 * 6 + 10 + 1, and 1 + 2 more."""
    step = drawn(0)
    step.operations[:] = [Operation("load", 1, 0, 0, 5), Operation("sum", 0, 0, 0, 1), Operation("sum", 0, 0, 0, 2, "masked")]
    step.stages[:], step.totals = [2], 1
    assert expected(step, 1, 2) == [3 * 6 + 10 + 1 + 1 + 2]
