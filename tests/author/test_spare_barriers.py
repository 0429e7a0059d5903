"""Barriers that `Modulo` leaves out as no fill relies on them, in the steps of a product: what fills and other work keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from asmgen.author.schedule import filltimes, stepscheduler
from asmgen.author.schedule.partialorder import PartialOrder
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.kernels.registry import family

BUILD = {"a_dtype": "fp4", "b_dtype": "fp6", "tile": "128x128x128"}
LENGTH = 90
"""Ticks of a step in which one of four barriers is left out. To spread the fills anew then takes five ticks from the worst one."""


class Asked(NamedTuple):
    """What `place_fills` is asked, and its orders, the one with the most barriers first."""

    order: PartialOrder
    known: Mapping[int, int]
    found: list[tuple[PartialOrder, tuple[int, ...]]]


@pytest.fixture(scope="module")
def spared() -> list[Asked]:
    """Where barriers are left out while the product is built."""
    some = []

    def place_fills(order: PartialOrder, known: Mapping[int, int]) -> list[tuple[PartialOrder, tuple[int, ...]]]:
        before = order.copy(order.exact, order.spread)
        found = filltimes.place_fills(order, known)
        if len(found) > 1:
            some.append(Asked(before, known, found[::-1]))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepscheduler, "place_fills", place_fills)
        family("gemm-mx").build("gfx950", BUILD)
    return some


def test_fills_wait_no_longer_without_a_barrier(spared: list[Asked]) -> None:
    assert LENGTH in {asked.order.length for asked in spared}
    for order, known, found in spared:
        chosen = filltimes._chosen(order, known)
        assert chosen is not None
        lacks = [chosen[1].lacks(barriers, filltimes._plain_ticks(placed)) for placed, barriers in found]
        assert lacks == sorted(lacks, reverse=True), order.length


def test_an_order_keeps_a_barrier_that_other_work_needs(spared: list[Asked], monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed values may come to stand where the barrier that fills do not need is theirs."""
    asked = next(asked for asked in spared if asked.order.length == LENGTH)
    step, (most, fewest) = asked.order.step, [barriers for _, barriers in asked.found]
    (needed,) = set(most) - set(fewest)

    def tried() -> set[tuple[int, ...]]:
        return {tuple(search.barriers) for search in stepscheduler._Orders(step).of(LENGTH)}

    def check_handoffs(order: PartialOrder, barriers: Sequence[int]) -> None:
        if needed not in barriers:
            raise NoRoom(next(iter(step.units.values())), "a value is written after the barrier that is left")

    assert fewest in tried() and most not in tried()
    monkeypatch.setattr(stepscheduler, "check_handoffs", check_handoffs)
    assert most in tried() and fewest not in tried()
