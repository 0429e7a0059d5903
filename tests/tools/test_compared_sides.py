"""Sides of comparisons that are made of what did nothing in launches: none showed how far a loop goes then, and which lanes go on."""

from __future__ import annotations

import pytest

from asmgen.kernels.registry import family
from asmgen.program.program import Instruction, Program
from asmgen.reader.assembly import read_text
from asmgen.tools.proofs.proof import PROVEN, REFUTED, UNKNOWN
from asmgen.tools.proofs.runclaims import index_claim
from asmgen.tools.running.build import Built, build_kernel
from tests.tools.test_limit_launches import with_row

_END = "s_cmp_lt_u32 s3, s20\n"
_TRIPS = "s_add_u32 s20, s14, 0xff\ns_lshr_b32 s20, s20, 8\ns_bfe_u32 s20, s20, {}\ns_lshr_b32 s21, s3, 8\ns_cmp_lt_u32 s21, s20\n"
_MORE = "s_max_u32 s21, s14, 0x400\ns_sub_u32 s21, s21, 0x400\ns_add_u32 s20, s20, s21\n"
ENDS = {
    "a minimum": (f"s_min_u32 s20, s14, 0x100000\n{_END}", UNKNOWN), "above all rows": (f"s_min_u32 s20, s14, 0x7fffffff\n{_END}", PROVEN),
    "a borrow": ("s_min_u32 s20, s14, 0x100000\ns_sub_u32 s21, s3, s20\n", UNKNOWN),
    "of all rows": ("s_min_u32 s20, s14, 0x7fffffff\ns_sub_u32 s21, s3, s20\n", PROVEN),
    "a mask": (f"s_and_b32 s20, s14, 0xfffff\n{_END}", UNKNOWN), "of all bits": (f"s_and_b32 s20, s14, 0x7fffffff\n{_END}", PROVEN),
    "16 bits with a sign": ("s_sext_i32_i16 s20, s14\ns_cmp_lt_i32 s3, s20\n", UNKNOWN),
    "what wraps": ("s_lshl_b32 s20, s14, 4\ns_lshl_b32 s21, s3, 4\ns_cmp_lt_u32 s21, s20\n", UNKNOWN),
    "what does not": ("s_lshl_b32 s20, s14, 1\ns_lshl_b32 s21, s3, 1\ns_cmp_lt_u32 s21, s20\n", PROVEN),
    "a field of rounds": (_TRIPS.format("0x100000"), UNKNOWN), "of all rounds": (_TRIPS.format("0x180000"), PROVEN),
    "a minimum that a launch meets": (f"s_min_u32 s20, s14, 0x400\n{_END}", REFUTED),
    "a minimum within a round": (f"s_min_u32 s20, s14, 0x480\n{_END}", UNKNOWN),
    "what that lacks is added": (f"s_min_u32 s20, s14, 0x480\n{_MORE.replace('0x400', '0x480')}{_END}", PROVEN),
    "what lacks is added": (f"s_min_u32 s20, s14, 0x400\n{_MORE}{_END}", PROVEN)}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.slow_after_first
def test_how_far_a_loop_goes_is_known_at_limits(name: str) -> None:
    """The end of a row of 2^29 columns is compared as that of short ones was.."""
    code, status = ENDS[name]
    built, judged = with_end(code)
    assert index_claim(family("02-row-sum"), built, 60.0, judged).status == status


@pytest.mark.parametrize(("limit", "idle"), [("0x100000", True), ("0x40000000", False)])
def test_lanes_that_a_side_leaves_out(limit: str, idle: bool) -> None:
    """Row and minimum are equal in all launches: how far they are from that tells nothing."""
    behind = f"v_mov_b32 v4, s2\nv_min_u32 v5, {limit}, v4\nv_cmp_eq_u32 vcc, v5, v4\ns_and_saveexec_b64 s[90:91], vcc\n"
    said = with_row("s_lshl_b32 s3, s2, 2\n", 3, behind=behind).judged.idle()
    assert (said is not None) == idle and (not idle or "the truth of `v_cmp_eq_u32" in str(said))


_RUN = "s_and_b32 s91, s2, 3\ns_lshr_b32 s92, s2, 2\ns_lshl2_add_u32 s92, s92, s91\ns_lshl_b32 s92, s92, 2\nv_mov_b32 v3, s92\n" \
    "s_sub_u32 s90, 2, s2\ns_bfe_i32 s90, s90, {}\ns_cmp_lt_i32 s90, 0\n" \
    "s_cbranch_scc1 over\ns_lshl_b32 s91, s91, 2\nv_mov_b32 v3, s91\nover:\n"


@pytest.mark.parametrize(("bits", "idle"), [("0x140000", True), ("0x1f0000", False)])
def test_sides_below_0_of_what_is_in_no_loop(bits: str, idle: bool) -> None:
    """The first three rows have code of their own. Row 2^20 + 2 comes there too where 2 less its number has 20 bits."""
    assert (with_row("s_lshl_b32 s3, s2, 2\n", 5, behind=_RUN.format(bits)).judged.idle() is not None) == idle


def with_end(code: str) -> tuple[Built, Program]:
    """02-row-sum, and its program with another comparison for the end of its loop."""
    built = build_kernel(family("02-row-sum"), "gfx942", {}, verify=False)
    (new,) = read_text(f"{code}s_endpgm\n", "gfx942")
    program = built.kernel.program
    return built, program.with_items(item for one in program.items for item in (
        new.instructions[:-1] if isinstance(one, Instruction) and one.name == "s_cmp_lt_u32" else (one,)))
