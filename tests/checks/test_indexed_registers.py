"""Registers that M0 names, and counters that are full: what is not known there, and what is."""

from __future__ import annotations

import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.raceproofs.outcome import REFUTED, UNKNOWN
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.program.program import Program
from asmgen.program.registerindex import first_indexed
from asmgen.reader.assembly import read_text
from asmgen.tools.proofs.proof import PROVEN
from asmgen.tools.proofs.textclaims import errata_claim

OWN_AND_OTHERS = """v_lshlrev_b32 v3, 2, v0
v_xor_b32 v4, 0x100, v3
v_mov_b32 v10, v4
s_mov_b32 s6, 1
{on}
v_mov_b32 v9, v3
s_set_gpr_idx_off
ds_write_b32 v10, v0
ds_read_b32 v8, v4
s_waitcnt lgkmcnt(0)
"""


def program(text: str) -> Program:
    """For gfx950."""
    (found,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{text}s_endpgm\n.size k, .-k\n', None, "k",
                         "k.s")
    return found


def test_a_destination_that_m0_moves_proves_nothing() -> None:
    """v10, and not v9, becomes the wave's own address: it writes its bytes and reads the other's."""
    moved = program(OWN_AND_OTHERS.format(on="s_set_gpr_idx_on s6, 8"))
    assert prove_races(moved, (128, 1, 1)).status == UNKNOWN
    claim = errata_claim(moved, KernelFacts())
    assert claim.status == UNKNOWN and claim.reason == "M0 says which registers instructions mean"
    plain = program(OWN_AND_OTHERS.format(on="v_mov_b32 v10, v3").replace("s_set_gpr_idx_off\n", ""))
    assert prove_races(plain, (128, 1, 1)).status == REFUTED and errata_claim(plain, KernelFacts()).status == PROVEN


@pytest.mark.parametrize(("text", "indexed"), [
    ("s_set_gpr_idx_on s6, 1", True), ("s_set_gpr_idx_mode 1", True), ("s_setreg_b32 hwreg(HW_REG_MODE), s5", True),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0x080003c0", True), ("s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0x3c0", False),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15", False), ("s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s5", False),
    ("s_movreld_b32 s16, s4", True), ("s_movrels_b64 s[16:17], s[4:5]", True)])
def test_what_switches_indexing_on(text: str, indexed: bool) -> None:
    assert (first_indexed(program(f"{text}\n")) == 0) == indexed


def test_code_that_goes_on_anywhere_has_no_proof_of_waits() -> None:
    claim = errata_claim(program("s_setpc_b64 s[4:5]\n"), KernelFacts())
    assert claim.status == UNKNOWN and "computed address" in claim.reason


@pytest.mark.parametrize(("newer", "severity"), [(63, "note"), (62, "error")])
def test_a_full_counter_holds_back_what_is_newer(newer: int, severity: str) -> None:
    """As compilers write it: with 64 loads and vmcnt(63), the first has arrived; with one load fewer it may not have."""
    loads = "".join(f"global_load_dword v{20 + number}, v[2:3], off\n" for number in range(newer + 1))
    found = lint_program(program(f"{loads}s_waitcnt vmcnt(63)\nv_mov_b32 v9, v20\ns_waitcnt vmcnt(0)\n"), "", KernelFacts())
    assert [finding.severity for finding in found if finding.rule == "W001"] == [severity]
