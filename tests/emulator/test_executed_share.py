"""What share of a program launches have executed: of what can be reached, and where the rest stands."""

from __future__ import annotations

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import s
from asmgen.program.program import Program
from asmgen.tools.running.executed import Executed, branch_outcomes, executed, never_round, stretches


def sample() -> Program:
    """A branch over two instructions, and padding after the end that nothing reaches."""
    k = Builder("k", "gfx950")
    k.s_mov_b32(s[0], 1)  # 0
    k.s_cbranch_scc0("past")  # 1
    k.s_mov_b32(s[1], 1)  # 2
    k.s_mov_b32(s[2], 1)  # 3
    k.label("past")
    k.s_mov_b32(s[3], 1)  # 4
    k.s_endpgm()  # 5
    k.s_nop(0)  # 6
    k.s_nop(0)  # 7
    return k.program()


def test_what_scc_was_at_branches_follows_from_counts() -> None:
    """It is 0 where code goes on at the label."""
    assert branch_outcomes(sample(), [(4, 4, 0, 0, 4, 4, 0, 0)]) == {1: {False}}
    assert branch_outcomes(sample(), [(4, 4, 0, 0, 4, 4, 0, 0), (2, 2, 2, 2, 2, 2, 0, 0)]) == {1: {False, True}}


def test_of_a_branch_that_ends_the_program_nothing_is_told() -> None:
    """No count says whether code went on behind it; of the same branch with an instruction behind it one does."""
    k = Builder("k", "gfx950")
    k.label("first")
    k.s_cmp_eq_u32(s[0], 0)  # 0
    k.s_cbranch_scc1("first")  # 1
    assert branch_outcomes(k.program(), [(3, 3)]) == {}
    k.s_endpgm()  # 2
    assert branch_outcomes(k.program(), [(3, 3, 1)]) == {1: {False, True}}


def test_padding_after_the_end_does_not_count() -> None:
    found = executed(sample(), [(4, 4, 0, 0, 4, 4, 0, 0)])
    assert found == Executed(4, 6, (2, 3))
    assert found.as_json() == {"instructions": 4, "of": 6, "share": 4 / 6}
    assert str(found) == "4 of 6 instructions (66.7 %)"


def test_launches_add_up() -> None:
    found = executed(sample(), [(4, 4, 0, 0, 4, 4, 0, 0), (4, 4, 2, 2, 4, 4, 0, 0)])
    assert (found, found.share, str(found)) == (Executed(6, 6, ()), 1.0, "6 of 6 instructions (100.0 %)")
    assert executed(sample(), []).instructions == 0


def halves() -> Program:
    """Two halves of a loop that code enters in its middle: each goes on to the other, or to the other's head by a jump of its own."""
    k = Builder("k", "gfx950")
    k.s_nop(0)  # 0
    k.s_cbranch_scc0("second")  # 1
    k.label("first")
    k.s_mov_b32(s[0], 1)  # 2
    k.s_cbranch_scc1("out")  # 3
    k.label("second")
    k.s_mov_b32(s[1], 1)  # 4
    k.s_cbranch_scc0("first")  # 5
    k.s_nop(0)  # 6
    k.s_branch("first")  # 7
    k.label("out")
    k.s_endpgm()  # 8
    return k.program()


def test_a_loop_that_is_entered_in_its_middle_goes_round_by_any_way() -> None:
    """No wave leaves the first half for the second; both begin in the second; one goes round, by the jump after it, of which the other
    way back is no part."""
    assert set(never_round(halves(), [(1, 1, 1, 1, 0, 0, 0, 0, 1)])) == {5, 7}
    assert never_round(halves(), [(2, 2, 2, 2, 2, 2, 0, 0, 2)]) == [7]
    assert never_round(halves(), [(2, 2, 3, 3, 1, 1, 1, 1, 2)]) == [5]


def test_nearly_all_does_not_read_as_all() -> None:
    assert str(Executed(9999, 10000, (7,))) == "9999 of 10000 instructions (99.9 %)"


def test_what_is_called_can_be_reached() -> None:
    """Where a call goes is not known, so each label may be its target."""
    k = Builder("k", "gfx950")
    k.s_swappc_b64(s[2:3], s[4:5])  # 0
    k.s_endpgm()  # 1
    k.label("callee")
    k.s_setpc_b64(s[2:3])  # 2
    assert executed(k.program(), [(1, 1, 0)]) == Executed(2, 3, (2,))


def test_neighbours_are_listed_together() -> None:
    (first, last) = stretches(sample(), (2, 3, 5))
    assert first.startswith("2 from number 2 at ") and first.endswith("s_mov_b32 s1, 1") and "test_executed_share.py" in first
    assert last.startswith("1 from number 5 after label past at ") and last.endswith("s_endpgm")
