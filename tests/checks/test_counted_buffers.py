"""Buffers that take turns by bits of a counter that nobody ends: how compilers write two buffers, `tile[i & 1]`. Each form with one barrier
a round is right; each without it, or with a barrier but one buffer, races."""

from __future__ import annotations

import pytest

from asmgen.checks.raceproofs.outcome import PROVEN, REFUTED, UNKNOWN
from asmgen.checks.raceproofs.raceproof import prove_races
from tests.checks.test_lds_races import BEGIN, END, WAVES, program_of

BLOCK = (64 * WAVES, 1, 1)
BARRIER = "s_waitcnt lgkmcnt(0)\ns_barrier\n"
TURNS = {
    "mask": "s_and_b32 s23, s22, 1\ns_lshl_b32 s23, s23, 10\n",
    "mask after the shift": "s_lshl_b32 s23, s22, 10\ns_and_b32 s23, s23, 0x400\n",
    "field": "s_bfe_u32 s23, s22, 0x10000\ns_lshl_b32 s23, s23, 10\n",
    "what is left of 1": "s_andn2_b32 s23, 1, s22\ns_lshl_b32 s23, s23, 10\n",
    "test": "s_bitcmp1_b32 s22, 0\ns_cselect_b32 s23, 0x400, 0\n",
    "four buffers": "s_and_b32 s23, s22, 3\ns_lshl_b32 s23, s23, 10\n",
}


def loop(turn: str, barrier: str = BARRIER, add: int = 1) -> str:
    """Each round writes one buffer, and reads it after the barrier. s12 is how many rounds there are, which nobody knows."""
    return f"{BEGIN}s_load_dword s12, s[0:1], 8\ns_waitcnt lgkmcnt(0)\ns_mov_b32 s22, 0\nloop:\n{turn}v_add_u32 v9, s23, v3\n" \
           f"v_add_u32 v10, s23, v4\nds_write_b32 v9, v0\n{barrier}ds_read_b32 v8, v10\ns_add_i32 s22, s22, {add}\n" \
           f"s_cmp_lg_u32 s22, s12\ns_cbranch_scc1 loop\n{END}"


@pytest.mark.parametrize("turn", TURNS.values(), ids=list(TURNS))
def test_one_barrier_a_round_is_enough_where_two_buffers_take_turns(turn: str) -> None:
    assert prove_races(program_of(loop(turn)), BLOCK).status == PROVEN
    assert prove_races(program_of(loop(turn, "s_waitcnt lgkmcnt(0)\n")), BLOCK).status == REFUTED


@pytest.mark.parametrize(("turn", "add"), [
    ("mask", 2), ("four buffers", 4), ("test", 2),  # the same buffer each time
    ("mask after the shift", 2)])
def test_a_counter_that_does_not_change_the_bits_leaves_one_buffer(turn: str, add: int) -> None:
    assert prove_races(program_of(loop(TURNS[turn], add=add)), BLOCK).status == REFUTED


def test_bits_that_a_counter_s_steps_do_not_decide_are_not_known() -> None:
    """By its second bit, two rounds in a row have one buffer. What is added by an argument is not known."""
    second = "s_bfe_u32 s23, s22, 0x10001\ns_lshl_b32 s23, s23, 10\n"
    assert prove_races(program_of(loop(second)), BLOCK).status == REFUTED
    by_argument = loop(TURNS["mask"]).replace("s_add_i32 s22, s22, 1", "s_add_i32 s22, s22, s12")
    assert prove_races(program_of(by_argument), BLOCK).status == UNKNOWN
