"""Blocks, edges and loops of the control-flow graph."""

from __future__ import annotations

from asmgen.author.builder import Builder
from asmgen.isa.registers import s
from asmgen.program.controlflow import control_flow


def shape(k: Builder) -> list[tuple[int, int, tuple[int, ...]]]:
    return [(block.first, block.last, block.successors) for block in control_flow(k.program()).blocks]


def test_straight_line_is_one_block() -> None:
    k = Builder("k", "gfx950")
    k.s_mov_b32(s[0], 1)
    k.s_endpgm()
    assert shape(k) == [(0, 1, ())]
    assert control_flow(k.program()).loops() == []


def test_if_else_and_join() -> None:
    k = Builder("k", "gfx950")
    k.s_cbranch_scc0("else")  # 0
    k.s_mov_b32(s[0], 1)  # 1
    k.s_branch("join")  # 2
    k.label("else")
    k.s_mov_b32(s[0], 2)  # 3
    k.label("join")
    k.s_endpgm()  # 4
    assert shape(k) == [(0, 0, (1, 2)), (1, 2, (3,)), (3, 3, (3,)), (4, 4, ())]
    assert control_flow(k.program()).blocks[3].predecessors == (1, 2)


def test_nested_loops_outermost_first() -> None:
    k = Builder("k", "gfx950")
    k.s_mov_b32(s[0], 3)  # 0
    k.label("outer")
    k.s_mov_b32(s[1], 3)  # 1
    k.label("inner")
    k.s_sub_u32(s[1], s[1], 1)  # 2
    k.s_cbranch_scc1("inner")  # 3
    k.s_sub_u32(s[0], s[0], 1)  # 4
    k.s_cbranch_scc1("outer")  # 5
    k.s_endpgm()
    assert [(loop.first, loop.last) for loop in control_flow(k.program()).loops()] == [(1, 5), (2, 3)]


def test_a_loop_that_is_left_in_the_middle() -> None:
    k = Builder("k", "gfx950")
    k.label("loop")
    k.s_cbranch_scc1("out")  # 0
    k.s_nop(0)  # 1
    k.s_branch("loop")  # 2
    k.label("out")
    k.s_endpgm()  # 3
    assert shape(k) == [(0, 0, (1, 2)), (1, 2, (0,)), (3, 3, ())]
    assert [(loop.first, loop.last) for loop in control_flow(k.program()).loops()] == [(0, 2)]


def test_an_indirect_branch_is_reported_and_leads_nowhere() -> None:
    k = Builder("k", "gfx950")
    k.s_setpc_b64(s[2:3])
    k.s_endpgm()
    flow = control_flow(k.program())
    assert flow.indirect == (0,)
    assert flow.blocks[0].successors == ()
