"""A slice of `python -m tests.random_lds_steps`: random steps over LDS give the product for every count and wave order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.random_lds_steps import SCHEDULES, build, check, compare, drawn, refused, spoiled


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_steps_over_lds(seed: int) -> None:
    assert not check(seed)


def test_the_cases_have_every_schedule_and_shape() -> None:
    steps = [drawn(seed) for seed in range(200)]
    parts = [part for step in steps for part in (*step.a, *step.b)]
    assert {step.schedule for step in steps} == set(SCHEDULES) and {step.pairs for step in steps} == {1, 2, 3, 4}
    assert {part.early for part in parts} == {0, 1} and {part.ahead for part in parts} == {0, 1, 2, 3}
    assert {part.buffers for part in parts} >= {1, 2, 3, 4}


def test_a_buffer_that_is_filled_too_early_is_refused() -> None:
    worse = spoiled(drawn(0))
    assert worse is not None and "is waited for no barriers before; with a stagger of 1 it takes 2" in refused(worse)


@pytest.mark.slow
def test_the_comparison_sees_a_lost_product() -> None:
    step = next(step for step in map(drawn, range(100)) if step.pairs == 1 and len(step.products) == 2)
    (first, at), _ = step.products.items()
    assert "give another product" in compare(step, build(replace(step, products={first: at})), ("lockstep",))
