"""LDS addresses that are computed in some lanes alone, in registers that held what a load brought, as compilers write masked code."""

from __future__ import annotations

import pytest

from asmgen.checks.raceproofs.outcome import PROVEN, REFUTED, UNKNOWN
from asmgen.checks.raceproofs.raceproof import prove_races
from tests.checks.test_lds_races import BEGIN, END, WAVES, program_of

BLOCK = (64 * WAVES, 1, 1)
BARRIER = "s_waitcnt lgkmcnt(0)\ns_barrier\n"
LOAD = "global_load_dword v9, v3, s[8:9]\ns_waitcnt vmcnt(0)\n"
LOW_LANES = "v_and_b32 v7, 63, v0\nv_cmp_gt_u32 vcc, 32, v7\n"
BY_DATA = "v_cmp_gt_u32 vcc, 32, v9\n"
HALVED = """s_movk_i32 s23, 0x80
halves:
v_cmp_gt_u32 vcc, s23, v0
s_and_saveexec_b64 s[24:25], vcc
s_cbranch_execz over
v_lshl_add_u32 v9, s23, 2, v3
ds_read_b32 v9, v9
ds_read_b32 v10, v3
s_waitcnt lgkmcnt(0)
v_add_f32 v9, v9, v10
ds_write_b32 v3, v9
over:
s_or_b64 exec, exec, s[24:25]
s_lshr_b32 s23, s23, 1
s_cmp_eq_u32 s23, 0
s_waitcnt lgkmcnt(0)
{}s_cbranch_scc0 halves
"""


def masked(condition: str, barrier: str, between: str = "") -> str:
    """All waves write a word a lane; then the lanes of a condition read what another wave wrote."""
    return f"{BEGIN}{LOAD}{condition}ds_write_b32 v3, v0\n{barrier}s_and_saveexec_b64 s[24:25], vcc\nv_add_u32 v9, 0, v4\n" \
           f"{between}ds_read_b32 v8, v9\ns_mov_b64 exec, s[24:25]\n{END}"


@pytest.mark.parametrize(("condition", "without"), [(LOW_LANES, REFUTED), (BY_DATA, UNKNOWN)])
def test_an_address_of_the_lanes_that_run_is_known(condition: str, without: str) -> None:
    """Which lanes run is enough for a race; of lanes that a load decides, it is known where they may read, not that they do."""
    assert prove_races(program_of(masked(condition, BARRIER)), BLOCK).status == PROVEN
    assert prove_races(program_of(masked(condition, "s_waitcnt lgkmcnt(0)\n")), BLOCK).status == without


@pytest.mark.parametrize("between", ["s_mov_b64 exec, s[24:25]\n", "s_or_b64 exec, exec, s[26:27]\n"])
def test_an_address_of_lanes_that_begin_to_run_is_not_known(between: str) -> None:
    assert prove_races(program_of(masked(LOW_LANES, "s_waitcnt lgkmcnt(0)\n", between)), BLOCK).status == UNKNOWN


@pytest.mark.parametrize(("barrier", "status"), [("s_barrier\n", PROVEN), ("", REFUTED)])
def test_a_sum_over_halves_of_a_workgroup(barrier: str, status: str) -> None:
    assert prove_races(program_of(f"{BEGIN}{LOAD}{HALVED.format(barrier)}{END}"), BLOCK).status == status
