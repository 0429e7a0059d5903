"""Branches that decide alike whenever a wave comes back to them."""

from __future__ import annotations

import pytest

from asmgen.program.controlflow import control_flow
from asmgen.reader.assembly import read_text
from asmgen.tools.proofs.samebranches import SameBranches

_ROUND = """
s_mov_b32 s0, 4
outer:
s_mov_b32 s3, s9
loop:
{before}
s_cbranch_scc1 over
s_nop 0
over:
{behind}
s_sub_u32 s0, s0, 1
s_cmp_lg_u32 s0, 0
s_cbranch_scc1 loop
{around}
s_cbranch_scc1 outer
s_endpgm
"""
_AROUND = "s_cmp_lg_u32 s8, 0"
_COMPARE = "s_cmp_lt_u32 s1, s2"
CASES = {
    "registers that nothing writes": (_COMPARE, "s_nop 0", _AROUND, True),
    "made of these": ("s_or_b32 s4, s1, s2\ns_and_b32 s4, s4, 7", "s_mov_b32 s4, 9", _AROUND, True),
    "each time of the number of the round": ("s_cmp_lt_u32 s1, s0", "s_nop 0", _AROUND, False),
    "written behind it": (_COMPARE, "s_mov_b32 s2, s0", _AROUND, False),
    "written in a loop around": (_COMPARE, "s_nop 0", f"s_add_u32 s1, s1, 1\n{_AROUND}", False),
    "written each round, from what is the same": ("s_mov_b32 s2, 3\ns_cmp_lt_u32 s1, s2", "s_mov_b32 s2, s0", _AROUND, True),
    "half of a pair is": ("s_mov_b32 s6, 3\ns_cmp_eq_u64 s[6:7], 0", "s_mov_b32 s7, s0", _AROUND, False),
    "from a lane": ("v_readfirstlane_b32 s1, v0\ns_cmp_lt_u32 s1, s2", "s_nop 0", _AROUND, False),
    "from memory": ("s_load_dword s1, s[10:11], 0x0\ns_waitcnt lgkmcnt(0)\ns_cmp_lt_u32 s1, s2", "s_nop 0", _AROUND, False),
    "of a flag before": ("s_cmp_lg_u32 s8, 0\ns_cselect_b32 s4, 1, 0\ns_cmp_lg_u32 s4, 0", "s_nop 0", _AROUND, False),
    "a carry": ("s_addc_u32 s4, s1, s2", "s_nop 0", _AROUND, False),
    "of EXEC": ("s_and_b64 s[4:5], exec, s[6:7]", "s_nop 0", _AROUND, False),
    "of EXEC, which is no operand": ("s_and_saveexec_b64 s[4:5], s[6:7]", "s_mov_b64 exec, s[8:9]", _AROUND, False),
    "set by another block": ("s_nop 0", "s_nop 0", _AROUND, False),
    "a register that is chosen is written": (_COMPARE, "s_movreld_b32 s20, s0", _AROUND, False)}


@pytest.mark.parametrize("name", CASES)
def test_a_branch_goes_one_way_if_nothing_it_compares_changes(name: str) -> None:
    before, behind, around, same = CASES[name]
    (program,) = read_text(_ROUND.format(before=before, behind=behind, around=around), "gfx942")
    branch = next(place for place, one in enumerate(program.instructions) if one.name == "s_cbranch_scc1")
    assert SameBranches(program, control_flow(program)).goes_one_way(branch) == same
