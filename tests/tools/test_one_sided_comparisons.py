"""Comparisons with one outcome in all launches: where they have the other one at limits, nothing is known of what code does then."""

from __future__ import annotations

import pytest

from asmgen.emulator.carried.comparisons import Sides, outcome
from asmgen.kernels.registry import family
from asmgen.reader.assembly import read_text
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.proofs.edgelaunches import EdgeLaunches
from asmgen.tools.proofs.edgeterms import EdgeTerms
from asmgen.tools.proofs.limitlaunches import LimitCheck
from asmgen.tools.proofs.onesidedcomparisons import OneSidedComparisons
from asmgen.tools.proofs.proof import PROVEN, UNKNOWN
from asmgen.tools.proofs.runclaims import index_claim
from asmgen.tools.running.build import build_kernel
from tests.tools.test_limit_launches import with_row

_ROW = "s_lshl_b32 s3, s2, 2\n"
_LANES = "v_mov_b32 v4, s2\n{}s_and_saveexec_b64 s[90:91], vcc\n"
_CHOICE = "v_mov_b32 v4, s2\n{}v_mov_b32 v5, 0\nv_cndmask_b32 v4, v5, v4, vcc\ns_nop 1\nv_readfirstlane_b32 s3, v4\ns_lshl_b32 s3, s3, 2\n"
TURNS = {
    "lanes by rows": _LANES.format("v_cmp_gt_u32 vcc, 0x100000, v4\n"), "one row": _LANES.format("v_cmp_ne_u32 vcc, 0x12345, v4\n"),
    "all lanes by rows": "s_cmp_lt_u32 s2, 0x100000\ns_cselect_b64 exec, exec, 0\n",
    "by a bit": "s_bitcmp1_b32 s2, 20\ns_cselect_b64 exec, 0, exec\n", "by no bit": "s_bitcmp0_b32 s2, 20\ns_cselect_b64 exec, exec, 0\n",
    "by 16 bits": "s_cmpk_lt_u32 s2, 0x9000\ns_cselect_b64 exec, exec, 0\n",
    "by 16 bits with a sign": "s_cmpk_gt_i32 s2, 0x7000\ns_cselect_b64 exec, 0, exec\n",
    "a wave": "s_cmp_ge_i32 s2, 0x100000\ns_cbranch_scc1 over\ns_nop 0\nover:\n"}
STAY = {
    "rows that are none": _LANES.format("v_cmp_gt_u32 vcc, 0x40000000, v4\n"), "no row": _LANES.format("v_cmp_ne_u32 vcc, -1, v4\n"),
    "a bit of no row": "s_bitcmp1_b32 s2, 30\ns_cselect_b64 exec, 0, exec\n", "lanes": _LANES.format("v_cmp_gt_u32 vcc, 64, v0\n"),
    "no row, by 16 bits": "s_cmpk_ge_i32 s2, 0x9000\ns_cselect_b64 exec, exec, 0\n",
    "some rows of the launch": "s_cmp_eq_u32 s2, 2\ns_cselect_b64 exec, exec, exec\n"}


@pytest.mark.parametrize("name", [*TURNS, *STAY])
@pytest.mark.slow_after_first
def test_which_rows_are_stored_turns_at_limits(name: str) -> None:
    """Rows of which there may be 2^30 are left out, though none of the three of a launch is."""
    check = with_row(_ROW, 3, behind={**TURNS, **STAY}[name])
    assert (OneSidedComparisons(check).other(one_sided(check)) is not None) == (name in TURNS)


@pytest.mark.parametrize(("limit", "turns"), [("0x100000", True), ("0x40000000", False)])
def test_what_lanes_select_turns_at_limits(limit: str, turns: bool) -> None:
    """The address follows the run, in which each lane has its row."""
    check = with_row(_CHOICE.format(f"v_cmp_gt_u32 vcc, {limit}, v4\n"), 3)
    held = one_sided(check)
    judged = OneSidedComparisons(check)
    assert not check.judged.idle() and held and judged.other({}) is None and "the time was over" in str(judged.other(held, 0.0))
    assert (judged.other(held) is not None) == turns


def one_sided(check: LimitCheck) -> dict[int, bool]:
    """Of the comparisons that are not the kernel's own, those with one outcome in the launch of a check."""
    library, program = family("02-row-sum"), check.report.program
    built = build_kernel(library, "gfx942", {}, verify=False)
    edges = EdgeLaunches(built.kernel.contract, built.kernel.parameters, program)
    report = run_algebra(library, built, check.report.parameters, program=program)
    edges.met({}, report.nearest, report.sides)
    own = {one.text for one in built.kernel.program.instructions}
    return {position: truth for position, truth in edges.one_sided().items() if program.instructions[position].text not in own}


@pytest.mark.parametrize(("jump", "there"), [
    ("s_cbranch_scc0 over\ns_nop 0\nover:\ns_nop 1\n", [False, True, False]),
    ("global_store_dword v3, v1, s[6:7]\n", [False, True, False]), ("", [False, True, True])])
def test_launches_in_which_a_comparison_turns_come_to_it(jump: str, there: list[bool]) -> None:
    """Rows beyond 16 go around a test of bit 4: the first 17 come there. What leads to a block is known where a branch on SCC ends it, or
    an access is in it."""
    check = with_row(_ROW, 3, behind=f"s_cmp_gt_u32 s2, 16\ns_cbranch_scc1 around\ns_bitcmp1_b32 s2, 4\n{jump}around:\n")
    (position,) = (number for number, one in enumerate(check.report.program.instructions) if one.name == "s_bitcmp1_b32")
    launches = [{**check.report.parameters, "m": rows} for rows in (3, 17, 1 << 20 | 17)]
    (met,) = check.meeting(launches, OneSidedComparisons(check).lacks({position: False})).values()
    assert met.tolist() == there


@pytest.mark.parametrize(("bit", "status"), [(8, PROVEN), (28, UNKNOWN)])
def test_a_comparison_with_one_outcome_asks_for_a_launch_in_which_it_turns(bit: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 256 elements are short, those of 2^28 are no launch. Launches at edges, which find the short ones too, are off."""
    monkeypatch.setattr(EdgeTerms, "following", lambda self: iter(()))
    monkeypatch.setattr(EdgeLaunches, "following", lambda self: iter(()))
    monkeypatch.setattr(EdgeTerms, "unmet", lambda self: [key for key in self.left() if key[0][1].startswith("s_bitcmp")])
    library = family("02-row-sum")
    built = build_kernel(library, "gfx942", {}, verify=False)
    (test,) = read_text(f"s_bitcmp1_b32 s8, {bit}\ns_endpgm\n", "gfx942")
    wait = next(one for one in built.kernel.program.instructions if one.name == "s_waitcnt")
    items = [one for item in built.kernel.program.items for one in ([item, test.instructions[0]] if item is wait else [item])]
    claim = index_claim(library, built, 60.0, built.kernel.program.with_items(items))
    assert claim.status == status and (status == PROVEN or "was false in all launches" in claim.reason)
    assert not any("launches did not" in one for one in claim.assumptions), "what these launches met is no assumption"


def test_comparisons_that_sizes_reach_are_no_matter_of_limits() -> None:
    """Rows 20 and 40 are near to rows of 64 columns, row 90 is not. What another kernel compares counts for nothing."""
    check = with_row(_ROW, 3, behind="s_cmp_lt_u32 s2, 3\ns_cmp_lt_u32 s2, 20\ns_cmp_gt_u32 s2, 66\ns_bitcmp1_b32 s2, 20\n")
    program = check.report.program
    edges = EdgeLaunches(check._contract, {}, program)
    near, far, beyond, bit = ((place, one.name) for place, one in [*enumerate(program.instructions)][-20:]
                              if one.name.startswith(("s_cmp_", "s_bitcmp")))
    sides = {near: Sides(-2, 3, -2, 5), far: Sides(-18, None, -20, 1), beyond: Sides(-64, None, -66, 1), bit: Sides(0, None, 0),
             (len(program.instructions), "s_cmp_lt_u32"): Sides(-99, None, -99, 1)}
    edges.met({"m": 3, "n": 64}, {}, sides)
    assert edges.one_sided() == {beyond[0]: False, bit[0]: False}
    edges._tried.append({"m": 3, "n": 99})
    edges.met({"m": 3, "n": 99}, {}, {})
    assert edges.one_sided() == {beyond[0]: False, bit[0]: False}, "a launch at an edge"
    edges.met({"m": 3, "n": 65}, {}, {bit: Sides(None, 1, 1)})
    assert edges.one_sided() == {} and [Sides(None, 4, 4).lacks(name) for name in ("s_cmp_lt_u32", "v_cmp_gt_i32")] == [5, 4]


@pytest.mark.parametrize(("name", "below", "above"), [
    ("s_cmp_lt_u32", True, False), ("v_cmp_le_i32", True, False), ("v_cmp_gt_u32", False, True), ("s_cmp_ge_i32", False, True),
    ("s_cmp_eq_u32", True, False), ("v_cmp_ne_u32", False, True), ("s_bitcmp0_b32", True, False), ("s_bitcmp1_b32", False, True)])
def test_outcomes(name: str, below: bool, above: bool) -> None:
    assert (outcome(name, True), outcome(name, False)) == (below, above)


@pytest.mark.parametrize("code", [
    "s_mov_b64 exec, vcc\nv_add_u32 v3, v3, v5\ns_mov_b64 exec, -1\n", "v_cndmask_b32 v5, 0, v5, vcc\nv_add_u32 v3, v3, v5\n",
    "s_cmp_gt_u32 s8, 0x200\ns_cbranch_scc1 over\nv_mov_b32 v5, 0\nover:\nv_add_u32 v3, v3, v5\n"])
@pytest.mark.parametrize(("places", "status"), [(12, UNKNOWN), (1, PROVEN)])
def test_what_code_does_at_an_edge_alone_is_followed_in_addresses(code: str, places: int, status: str) -> None:
    """Rows of more than 512 elements, as those of a launch at the edge, add 0 to their addresses by way of n << places, which wraps for the
    longest ones or does not."""
    library = family("02-row-sum")
    built = build_kernel(library, "gfx942", {}, verify=False)
    nothing = f"v_mov_b32 v4, s8\nv_lshlrev_b32 v5, {places}, v4\nv_lshrrev_b32 v5, {places}, v5\nv_sub_u32 v5, v5, v4\n"
    (more,) = read_text(f"{nothing}v_mov_b32 v6, 0x200\nv_cmp_gt_u32 vcc, v4, v6\n{code}s_endpgm\n", "gfx942")
    wait = next(one for one in built.kernel.program.instructions if one.name == "s_waitcnt")
    items = [one for item in built.kernel.program.items for one in ([item, *more.items[:-1]] if item is wait else [item])]
    claim = index_claim(library, built, 60.0, built.kernel.program.with_items(items))
    assert claim.status == status and (status == PROVEN or "wraps" in claim.reason), claim.reason
