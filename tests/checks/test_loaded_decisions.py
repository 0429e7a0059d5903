"""Branches on what vector loads and LDS reads bring. From one address all waves may have the same, as a ticket that one of them has drawn:
then they go one way, and what stands on the two ways does not race. From addresses of their own they may part."""

from __future__ import annotations

import pytest

from asmgen.checks.raceproofs.outcome import PROVEN, REFUTED, UNKNOWN
from asmgen.checks.raceproofs.raceproof import prove_races
from tests.checks.test_lds_races import BEGIN, END, WAVES, program_of

BLOCK = (64 * WAVES, 1, 1)
BARRIER = "s_waitcnt lgkmcnt(0)\ns_barrier\n"
WAYS = "v_cmp_eq_u32 vcc, 7, v9\ns_cbranch_vccnz reads\nds_write_b32 v4, v0\ns_branch ends\nreads:\nds_read_b32 v8, v3\nends:\n"
TICKET = f"v_mov_b32 v10, 0\nds_read_b32 v9, v10 offset:2048\n{BARRIER}"
LANES_TICKET = f"v_and_b32 v10, 63, v0\nv_lshlrev_b32 v10, 2, v10\nds_read_b32 v9, v10 offset:2048\n{BARRIER}"
FLAG = f"v_mov_b32 v10, 0\nglobal_load_dword v9, v10, s[8:9]\ns_waitcnt vmcnt(0)\n{BARRIER}"
OWN_WORD = f"ds_read_b32 v9, v3 offset:2048\n{BARRIER}"
OWN_NUMBER = f"global_load_dword v9, v3, s[8:9]\ns_waitcnt vmcnt(0)\n{BARRIER}"
DRAWN = f"v_mov_b32 v10, 0\nv_mov_b32 v11, 1\nglobal_atomic_add v9, v10, v11, s[8:9] sc0\ns_waitcnt vmcnt(0)\n{BARRIER}"


@pytest.mark.parametrize(("decides", "status"), [(TICKET, UNKNOWN), (LANES_TICKET, UNKNOWN), (FLAG, UNKNOWN), (OWN_WORD, REFUTED),
                                                 (OWN_NUMBER, REFUTED), (DRAWN, REFUTED)])
def test_waves_part_on_what_each_has_loaded_for_itself(decides: str, status: str) -> None:
    proof = prove_races(program_of(f"{BEGIN}{decides}{WAYS}{END}"), BLOCK)
    assert proof.status == status
    assert ("load different numbers from one address" in proof.reason) is (status == UNKNOWN)


@pytest.mark.parametrize("decides", [TICKET, FLAG])
def test_a_race_of_one_way_stays_one(decides: str) -> None:
    """Whatever all waves have loaded, those that go on by the second way write what others read there."""
    both = WAYS.replace("ds_read_b32 v8, v3\n", "ds_read_b32 v8, v3\nds_write_b32 v4, v0\n")
    assert prove_races(program_of(f"{BEGIN}{decides}{both}{END}"), BLOCK).status == REFUTED


ELECTED = {  # who goes on is one wave: whose ticket is the first, and the first by a number that is computed of what is loaded
    "ticket": "v_mov_b32 v10, 0\nv_mov_b32 v11, 1\nds_add_rtn_u32 v9, v10, v11 offset:3072\ns_waitcnt lgkmcnt(0)\n",
    "flat number": "s_load_dword s12, s[0:1], 8\ns_waitcnt lgkmcnt(0)\nv_mul_lo_u32 v9, v1, s12\nv_add_u32 v9, v9, v0\n"
                   "v_lshrrev_b32 v9, 6, v9\n"}
ALONE = "v_readfirstlane_b32 s30, v9\ns_cmp_eq_u32 s30, 0\ns_cbranch_scc0 ends\nds_write_b32 v4, v0\n"
READ = "s_waitcnt lgkmcnt(0)\nds_read_b32 v8, v3\n"


@pytest.mark.parametrize("elects", ELECTED.values(), ids=list(ELECTED))
@pytest.mark.parametrize(("code", "status"), [
    (f"{ALONE}{READ}ends:\n", UNKNOWN), (f"{ALONE}ends:\n{READ}", REFUTED),
    (f"{ALONE}s_branch met\nends:\n{READ}met:\n", REFUTED), (f"{ALONE}ends:\n{BARRIER}{READ}", PROVEN)])
def test_a_wave_does_not_race_with_itself_where_it_may_go_alone(elects: str, code: str, status: str) -> None:
    """What one wave writes and reads on its way is no race; what it writes while those that have passed by read is one."""
    proof = prove_races(program_of(f"{BEGIN}{elects}{code}{END}"), BLOCK)
    assert proof.status == status, proof.reason
    assert ("each wave decides for itself" in proof.reason) is (status == UNKNOWN)


@pytest.mark.parametrize(("barrier", "status"), [(BARRIER, PROVEN), ("s_waitcnt lgkmcnt(0)\n", REFUTED)])
def test_loops_of_each_wave_s_own_do_not_hide_a_missing_barrier(barrier: str, status: str) -> None:
    """As in a softmax: a loop of masked rounds, whose ways meet before any barrier, then a word of each wave that all read."""
    masked = "v_mov_b32 v9, v0\ns_mov_b64 s[24:25], exec\nv_cmp_gt_u32 vcc, s12, v9\ns_and_b64 exec, exec, vcc\ns_cbranch_execz met\n" \
             "rounds:\nglobal_load_dword v10, v9, s[8:9]\nv_add_u32 v9, 0x100, v9\nv_cmp_gt_u32 vcc, s12, v9\n" \
             "s_and_b64 exec, exec, vcc\ns_cbranch_execz met\ns_cmp_eq_u32 s13, 0\ns_cbranch_scc1 rounds\n" \
             "s_nop 0\nmet:\ns_mov_b64 exec, s[24:25]\n"
    code = f"s_load_dwordx2 s[12:13], s[0:1], 8\ns_waitcnt lgkmcnt(0)\n{masked}ds_write_b32 v3, v0\n{barrier}ds_read_b32 v8, v4\n"
    assert prove_races(program_of(f"{BEGIN}{code}{END}"), BLOCK).status == status


FLIGHTS = """s_load_dwordx2 s[12:13], s[0:1], 8
s_waitcnt lgkmcnt(0)
again:
s_cmp_lt_i32 s12, 2
s_cbranch_scc1 few
global_load_dword v12, v3, s[8:9]
s_waitcnt vmcnt(0)
s_barrier
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
few:
s_barrier
ds_read_b32 v8, v4
s_cmp_lt_i32 s12, 1
s_cbranch_scc1 none
{}none:
s_sub_u32 s13, s13, 1
s_cmp_lg_u32 s13, 0
s_cbranch_scc1 again
"""


@pytest.mark.parametrize("wait", ["s_waitcnt lgkmcnt(0)\n", ""])
def test_a_read_does_not_live_on_beyond_a_wait_nor_start_after_another_barrier(wait: str) -> None:
    """As in Triton's persistent product: the read's wait is left out where no step was made, and then none will write what it reads. Where
    it is always left out, more than one branch must still go the right way."""
    proof = prove_races(program_of(f"{BEGIN}{FLIGHTS.format(wait)}{END}"), BLOCK)
    assert proof.status == UNKNOWN and "whether these ways are ever taken" in proof.reason
