"""What sizes make beside addresses in memory: lane masks, data, SCC that no comparison wrote, and addresses in LDS. Of 2^30 rows a
launch has three."""

from __future__ import annotations

import pytest

from asmgen.kernels.registry import family
from asmgen.tools.proofs.onesidedcomparisons import OneSidedComparisons
from asmgen.tools.proofs.proof import PROVEN, REFUTED
from asmgen.tools.proofs.runclaims import index_claim
from tests.tools.test_limit_launches import other_rows, with_row

_ROW = "s_lshl_b32 s3, s2, 2\n"
_NONE, _ALL = "s_cselect_b64 exec, 0, exec\n", "s_cselect_b64 exec, exec, 0\n"
_SHIFTED, _ROWS = "s_lshr_b32 s90, s2, {}\n", ("20", "30")
_SIGN = "s_sub_u32 s91, s2, {}\ns_and_b32 s91, s91, 0x80000000\ns_mov_b32 s90, 0\n"
_OF_ONE = "s_bfm_b64 exec, 1, 63\ns_lshr_b32 s90, s2, 20\ns_mov_b32 s91, -1\n"
_LIMITS = "0x100000", "0x40000000"
_CARRY = "v_mov_b32 v4, s2\nv_mov_b32 v5, {}\nv_add_co_u32 v5, vcc, v5, v4\n"
_SUM = "v_readlane_b32 s93, v1, 63\ns_nop 3\n"
_FLOAT = f"{_SHIFTED}v_cvt_f32_u32 v4, s90\n"


def _branch(scc: int) -> str:
    return f"s_cbranch_scc{scc} over\ns_nop 0\nover:\n"


FLAGS = {
    "a shift": (_SHIFTED + _NONE, _ROWS), "a mask": ("s_and_b32 s90, s2, {}\n" + _NONE, _LIMITS),
    "a field": ("s_bfe_u32 s90, s2, {}\n" + _NONE, ("0x40014", "0x2001e")), "one row": ("s_xor_b32 s90, s2, {}\n" + _ALL, _LIMITS),
    "a carry": ("s_add_u32 s90, s2, {}\n" + _NONE, ("0xfff00000", "0xc0000000")),
    "a minimum": ("s_min_u32 s90, s2, {}\n" + _branch(0), _LIMITS), "a borrow": ("s_sub_u32 s90, s2, {}\n" + _branch(0), _LIMITS),
    "an overflow": ("s_add_i32 s90, s2, {}\n" + _branch(1), ("0x7ff00000", "0x40000000")),
    "what selects data": (_SUM + "s_add_u32 s90, s2, {}\ns_cselect_b32 s93, 0, s93\n", ("0xfff00000", "0xc0000000")),
    "what moves over data": (_SUM + "s_add_u32 s90, s2, {}\ns_cmov_b32 s93, 0\n", ("0xfff00000", "0xc0000000")),
    "ones": (_SHIFTED + "s_bcnt1_i32_b32 s90, s90\n" + _branch(1), _ROWS), "a row": ("s_xor_b32 s90, s2, {}\n" + _branch(0), _LIMITS),
    "what is left out": ("s_add_u32 s90, s2, 1\ns_lshl_b32 s90, s90, {}\n" + _branch(0), ("12", "1"))}
MASKS = {
    "shifted": (_SHIFTED + "s_lshr_b64 exec, exec, s90\n", _ROWS),
    "a lane": (_SHIFTED + "s_sub_u32 s90, 63, s90\ns_bfm_b64 exec, 1, s90\n", _ROWS),
    "a bit that is set": (_SHIFTED + "s_sub_u32 s90, 63, s90\ns_mov_b64 exec, 0\ns_bitset1_b64 exec, s90\n", _ROWS),
    "a pair": (_SIGN + "s_mov_b64 exec, s[90:91]\n", _LIMITS), "its upper half": (_SIGN + "s_mov_b32 exec_hi, s91\n", _LIMITS),
    "one that is left out": (_SIGN + "s_and_saveexec_b64 s[92:93], s[90:91]\n", _LIMITS),
    "what is kept of one": (_OF_ONE + "s_{}_saveexec_b64 s[92:93], s[90:91]\n", ("or", "and")),
    "what a contrary keeps": (_OF_ONE + "s_{}_saveexec_b64 s[92:93], s[90:91]\n", ("andn2", "andn1")),
    "one that selects": (_SIGN + "v_mov_b32 v4, 0\nv_cndmask_b32 v1, v4, v1, s[90:91]\n", _LIMITS),
    "VCC": (_SIGN + "s_mov_b64 vcc, s[90:91]\nv_mov_b32 v4, 0\nv_cndmask_b32 v1, v4, v1, vcc\n", _LIMITS),
    "carries": (_CARRY + "s_andn2_b64 exec, exec, vcc\n", ("0xfff00000", "0xc0000000")),
    "carries that select": (_CARRY + "v_mov_b32 v4, 0\nv_cndmask_b32 v1, v1, v4, vcc\n", ("0xfff00000", "0xc0000000")),
    "carries of some rows": (_CARRY + "v_mov_b32 v4, 0\nv_cndmask_b32 v1, v1, v4, vcc\n", ("0xfff00000", "-2")),
    "a branch on carries": (_CARRY + "s_cbranch_vccnz over\ns_nop 0\nover:\n", ("0xfff00000", "0xc0000000")),
    "carries to data": (_CARRY + "v_addc_co_u32 v1, vcc, 0, v1, vcc\n", ("0xfff00000", "0xc0000000")),
    "a branch": (_SIGN + "s_mov_b64 vcc, s[90:91]\ns_cbranch_vccz over\ns_nop 0\nover:\n", _LIMITS)}
DATA = {
    "a summand": (_FLOAT + "v_add_f32 v1, v1, v4\n", _ROWS), "an exponent": (_SHIFTED + "v_ldexp_f32 v1, v1, s90\n", _ROWS),
    "to another lane": (_FLOAT + "s_nop 4\nv_add_f32_dpp v1, v4, v1 row_shr:1 row_mask:0xf bank_mask:0xf\n", _ROWS),
    "beside data": (_SUM + _SHIFTED + "s_add_u32 s93, s93, s90\n", _ROWS),
    "a comparison with data": (_SUM + _SHIFTED + "s_cmp_lt_u32 s90, s93\n", _ROWS),
    "a bit of data": (_SUM + _SHIFTED + "s_bitset0_b32 s93, s90\n", _ROWS),
    "a bit by data": (_SUM + _SHIFTED + "s_bitset0_b32 s90, s93\n", _ROWS),
    "the number of a lane": (_SHIFTED + "s_nop 3\nv_readlane_b32 s90, v0, s90\n", _ROWS),
    "what is compared as a float": (_FLOAT + "v_cmp_gt_f32 vcc, 0.5, v4\n", _ROWS),
    "what a minimum lacks": ("s_min_u32 s90, s2, {}\ns_sub_u32 s90, s2, s90\nv_mov_b32 v4, s90\nv_or_b32 v1, v1, v4\n", _LIMITS)}
BESIDE = {"LDS": (_SHIFTED + "v_mov_b32 v4, s90\nv_lshlrev_b32 v4, 2, v4\nds_write_b32 v4, v1\n", _ROWS)}
_KINDS = {"flag": FLAGS, "mask": MASKS, "data": DATA, "beside": BESIDE}
CASES = {f"{kind}, {name}": case for kind, cases in _KINDS.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow_after_first
def test_what_rows_make_that_no_launch_has_is_unknown(name: str) -> None:
    code, limits = CASES[name]
    assert [_said(code.format(limit)) is not None for limit in limits] == [True, False]


def _said(behind: str) -> str | None:
    check = with_row(_ROW, 3, behind=behind)
    instructions, outcomes = check.report.program.instructions, check.report.outcomes
    held = {place: min(outcomes[id(one)]) for place, one in enumerate(instructions) if len(outcomes.get(id(one), ())) == 1}
    return check.judged.idle() or OneSidedComparisons(check).other(held)


@pytest.mark.parametrize(("code", "status"), [("v_add_f32 v1, v1, v4\n", REFUTED), ("", PROVEN)])
def test_a_launch_is_made_in_which_data_is_another(code: str, status: str) -> None:
    """Rows from 40 on have a summand more."""
    more = f"s_max_u32 s90, s2, 40\ns_sub_u32 s90, s90, 40\nv_cvt_f32_u32 v4, s90\n{code}"
    built, program = other_rows(_ROW, more)
    assert index_claim(family("02-row-sum"), built, 60.0, program).status == status


@pytest.mark.parametrize(("use", "status"), [(_branch(0), PROVEN), (_ALL, REFUTED)])
def test_a_launch_is_made_in_which_scc_decides_otherwise(use: str, status: str) -> None:
    """In rows from 40 on; there a way is right that does nothing, and a mask of no lanes is not."""
    built, program = other_rows(_ROW, f"s_min_u32 s90, s2, 40\n{use}")
    claim = index_claim(family("02-row-sum"), built, 60.0, program)
    assert claim.status == status, claim.reason
