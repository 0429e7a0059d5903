"""Loads that are spread over the code before a pipeline: how far apart they stand, and what they do not pass."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.spreading import fill_gaps, spread_loads
from asmgen.isa.registers import exec_, m0, s, v
from asmgen.program.program import Instruction
from asmgen.regalloc.plan import RegisterPlan

LOADS, AT_ONCE, APART = 6, 3, 23
"""12 entries of the queue for four waves; four loads of 1 KiB at 45 B/clk take 91 clk, which are 23 slots."""


def spread(then: Callable[[Builder], object], before: int = 0) -> list[int]:
    """The positions of six loads before code that has nothing to do with them, with something else after `before` instructions of it; and
    that of the something."""
    k = Builder("spread", "gfx950", plan := RegisterPlan("gfx950", waves=1))
    plan.pin("all", v[0:63])
    plan.pin("descriptor", s[0:3])
    loads = [k.buffer_load_dwordx4(v[4 * number:4 * number + 3], v[60], s[0:3], 0, offen=True) for number in range(LOADS)]
    k.to_spread += loads
    made = None
    for number in range(5 * APART):
        if number == before:
            then(k)
            made = k.items[-1]
        k.v_mov_b32(v[50], number)
    spread_loads(k)
    assert not k.to_spread and len(k.items) == LOADS + 5 * APART + (made is not None and made is not k.items[-1])
    order = [id(item) for item in k.items]
    return [*(order.index(id(load)) for load in loads), order.index(id(made))]


def test_loads_stand_as_far_apart_as_their_data_return() -> None:
    *found, _ = spread(lambda k: k.v_mov_b32(v[51], 0))
    assert found == [0, 1, 2, *(AT_ONCE - 1 + (1 + APART) * number for number in range(1, LOADS - AT_ONCE + 1))]


@pytest.mark.parametrize("then", [
    lambda k: k.v_mov_b32(v[60], 0), lambda k: k.s_mov_b32(s[2], 0), lambda k: k.v_mov_b32(v[21], 0),
    lambda k: k.v_add_f32(v[52], v[20], v[52]), lambda k: k.s_mov_b64(exec_, -1), lambda k: k.label("here"),
    lambda k: k.s_barrier(), lambda k: k.s_waitcnt(vmcnt=0),
    lambda k: k.buffer_store_dword(v[52], v[61], s[0:3], 0, offen=True)])
def test_what_touches_their_registers_or_memory_stands_after_them(then: Callable[[Builder], object]) -> None:
    *found, after = spread(then, before=APART + 5)
    assert found[:4] == [0, 1, 2, 2 + 1 + APART] and found[4:] == [after - 2, after - 1]


def test_nothing_moves_where_nothing_is_to_be_spread() -> None:
    k = Builder("plain", "gfx950", plan := RegisterPlan("gfx950", waves=1))
    plan.pin("all", v[0:63])
    plan.pin("descriptor", s[0:3])
    k.buffer_load_dword(v[0], v[60], s[0:3], 0, offen=True)
    k.v_mov_b32(v[50], 0)
    spread_loads(k)
    assert [item.name for item in k.items if isinstance(item, Instruction)] == ["buffer_load_dword", "v_mov_b32"]


def gaps(waiting: Callable[[Builder], object], fill: Callable[[Builder], object] = lambda k: k.s_mov_b32(s[10], 0)) -> list[str]:
    """The names of six loads, each after code for it, with other code that followed them among them."""
    k = Builder("gaps", "gfx950", plan := RegisterPlan("gfx950", waves=1))
    plan.pin("all", v[0:63])
    plan.pin("some", s[0:15])
    for number in range(LOADS):
        fill(k)
        k.buffer_load_dwordx4(v[4 * number:4 * number + 3], v[60], s[0:3], 0, offen=True)
    end = len(k.items)
    waiting(k)
    fill_gaps(k, 0, end)
    assert len({id(item) for item in k.items}) == len(k.items) == len(k.tags)
    return [item.name for item in k.items if isinstance(item, Instruction) and item.name != "s_mov_b32"]


def moves(count: int) -> Callable[[Builder], None]:
    def emit(k: Builder) -> None:
        for number in range(count):
            k.v_mov_b32(v[40 + number % 8], number)
    return emit


def test_code_for_the_time_of_loads_stands_where_their_queue_is_full() -> None:
    """A load of 1 KiB by each of four waves takes the cache's port 64 clk: 16 slots of issue."""
    load, move = "buffer_load_dwordx4", "v_mov_b32"
    assert gaps(moves(40)) == [load] * (AT_ONCE + 1) + [move] * 16 + [load] + [move] * 16 + [load] + [move] * 8
    assert gaps(moves(3)) == [load] * (AT_ONCE + 1) + [move] * 3 + [load] * 2


@pytest.mark.parametrize("waiting", [
    lambda k: k.v_mov_b32(v[60], 0), lambda k: k.s_mov_b32(s[2], 0), lambda k: k.v_mov_b32(v[21], 0),
    lambda k: k.v_add_f32(v[52], v[20], v[52]), lambda k: k.s_mov_b64(exec_, -1), lambda k: k.label("here"), lambda k: k.s_barrier()])
def test_code_stays_after_the_loads_whose_registers_it_touches(waiting: Callable[[Builder], object]) -> None:
    names = gaps(lambda k: (waiting(k), moves(20)(k)))
    assert names[:LOADS] == ["buffer_load_dwordx4"] * LOADS


def test_a_condition_goes_among_loads_only_with_its_use() -> None:
    """The code for each load writes SCC: what the other code tests and what it selects by stand in one gap, or after the loads."""
    def test(k: Builder) -> None:
        moves(15)(k)
        k.s_cmp_eq_u32(s[8], 0)
        k.s_cselect_b32(s[9], 1, 0)

    names = gaps(test, lambda k: k.s_add_u32(m0, s[10], 64))
    assert names.index("s_cselect_b32") == names.index("s_cmp_eq_u32") + 1 < len(names) - 1
    used = gaps(moves(2), lambda k: (k.s_add_u32(s[10], s[10], 64), k.s_addc_u32(s[11], s[11], 0)))
    assert used.count("v_mov_b32") == 2 and all(after == "s_addc_u32" for before, after in pairwise(used) if before == "s_add_u32")
    between = gaps(lambda k: k.s_add_u32(s[12], s[12], s[13]), lambda k: k.s_cselect_b32(s[10], 1, 0))
    assert between[-1] == "s_add_u32"
