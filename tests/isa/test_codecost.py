"""What cold text costs, and which copies pay. Figures: 128-byte lines, the next one fetched ahead, 312 clk on gfx950 (isa/timing.py)."""

from __future__ import annotations

import pytest

from asmgen.isa.codecost import cold_clk, pays, shares
from asmgen.isa.timing import timing

TABLE = timing("MI355X")


def test_a_line_is_fetched_while_the_one_before_runs() -> None:
    assert cold_clk(1280, 0, TABLE) == 10 * 312
    assert cold_clk(1280, 1000, TABLE) == 10 * 312 - 1000
    assert cold_clk(1280, 4000, TABLE) == cold_clk(0, 0, TABLE) == 0


@pytest.mark.parametrize(("saved", "stands"), [(0, False), (1060, False), (1061, True)])
def test_a_copy_pays_if_two_workgroups_save_more_than_its_cold_lines_cost(saved: int, stands: bool) -> None:
    assert pays(1280, 1000, saved, TABLE) == stands


def test_a_copy_that_saves_nothing_never_stands() -> None:
    assert not pays(64, 4000, 0, TABLE)


def test_blocks_are_shared_where_that_takes_fewer_bytes() -> None:
    assert shares(2, 100, 8, 8, 4) and not shares(2, 28, 8, 8, 4)
    assert not shares(1, 1000, 8, 8, 4)
