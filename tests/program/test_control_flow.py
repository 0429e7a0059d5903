"""Blocks, edges and loops of the control-flow graph."""

from __future__ import annotations

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.ways import Ways
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


def loops(k: Builder) -> list[tuple[int, int]]:
    """(first, last) positions, by the passes' graph; the emulator's own reading finds the same."""
    program = k.program()
    found = [(loop.first, loop.last) for loop in control_flow(program).loops()]
    assert set(found) == set(Ways(program).loops())
    return found


def with_a_block_behind_the_end(k: Builder, rotated: bool = False) -> None:
    if rotated:
        k.s_branch("middle")  # 0
    k.label("outer")
    k.s_mov_b32(s[0], 3)
    k.label("loop")
    k.s_mov_b32(s[1], 3)
    k.s_cbranch_vccnz("seldom")
    k.label("middle")
    k.s_sub_u32(s[2], s[2], 1)
    k.s_cbranch_scc1("loop")
    k.s_sub_u32(s[3], s[3], 1)
    k.s_cbranch_scc1("outer")
    k.s_endpgm()
    k.label("seldom")
    k.label("own")
    k.s_mov_b32(s[4], 3)
    k.s_cbranch_execz("own")
    k.s_branch("middle")


def test_a_jump_back_from_a_block_behind_the_end_is_no_loop() -> None:
    """Three loops: two around the place where the block is entered, one in the block itself. `loop` holds the block's code too."""
    k = Builder("k", "gfx950")
    with_a_block_behind_the_end(k)
    assert loops(k) == [(0, 6), (1, 4), (8, 9)]
    flow = control_flow(k.program())
    outer, inner, _ = flow.loops()
    assert {flow.block_of[8], flow.block_of[10]} <= inner.blocks <= outer.blocks


def test_such_a_block_that_returns_in_front_of_its_branch_is_a_loop() -> None:
    """It may come to itself again without going round the other loop."""
    k = Builder("k", "gfx950")
    k.label("loop")
    k.s_mov_b32(s[0], 3)  # 0
    k.label("again")
    k.s_cbranch_vccnz("seldom")  # 1
    k.s_cbranch_scc1("loop")  # 2
    k.s_endpgm()  # 3
    k.label("seldom")
    k.s_branch("again")  # 4
    assert loops(k) == [(0, 2), (1, 4)]


def test_a_loop_that_is_entered_in_its_middle() -> None:
    """Alone, and where a block after the end returns to the place of entry."""
    k = Builder("k", "gfx950")
    k.s_branch("middle")  # 0
    k.label("loop")
    k.s_mov_b32(s[0], 3)  # 1
    k.label("middle")
    k.s_cbranch_scc1("loop")  # 2
    k.s_endpgm()
    assert loops(k) == [(1, 2)]
    k = Builder("k", "gfx950")
    with_a_block_behind_the_end(k, rotated=True)
    assert loops(k) == [(1, 7), (2, 5), (9, 10)]


def test_loops_of_jumps_back_alone() -> None:
    """No jump back is reached by going down from its target, so each of them stands for the loop."""
    k = Builder("k", "gfx950")
    k.s_cbranch_scc1("last")  # 0
    k.label("first")
    k.s_cbranch_scc1("last")  # 1
    k.s_endpgm()  # 2
    k.label("second")
    k.s_branch("first")  # 3
    k.label("last")
    k.s_branch("second")  # 4
    assert loops(k) == [(1, 3), (3, 4)]


def test_an_indirect_branch_is_reported_and_leads_nowhere() -> None:
    k = Builder("k", "gfx950")
    k.s_setpc_b64(s[2:3])
    k.s_endpgm()
    flow = control_flow(k.program())
    assert flow.indirect == (0,)
    assert flow.blocks[0].successors == ()
