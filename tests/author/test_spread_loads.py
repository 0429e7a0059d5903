"""Loads that are spread over the code before a pipeline: how far apart they stand, and what they do not pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.spreading import spread_loads
from asmgen.isa.registers import exec_, s, v
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
