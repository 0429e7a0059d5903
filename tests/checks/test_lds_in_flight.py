"""Loads into LDS without tokens, as production kernels have them: in flight over barriers on purpose, and what each wait is worth."""

from __future__ import annotations

import pytest

from asmgen.checks.explain.explain import explain
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text

LOAD = "buffer_load_dwordx4 v1, s[4:7], 0 offen lds\n"
READ = "ds_read_b128 v[8:11], v3\ns_waitcnt lgkmcnt(0)\nv_add_u32 v4, v8, v4\n"
BACK = "s_sub_u32 s21, s21, 1\ns_cbranch_scc1 loop\ns_endpgm\n"
TURN = "s_xor_b32 s20, s20, 0x4000\ns_mov_b32 m0, s20\ns_nop 0\n"
# One round fills the buffer that the next one reads; `TURN` hides which.
DOUBLE = f"s_mov_b32 s20, s2\n{TURN}{LOAD}{LOAD}loop:\n{TURN}{LOAD}{LOAD}s_waitcnt vmcnt(2)\ns_barrier\n{READ}s_barrier\n{BACK}"
# Two rounds ahead: three buffers, one load instruction of each executed three times.
TRIPLE = f"{TURN}{LOAD}{LOAD}{TURN}{LOAD}{LOAD}loop:\n{TURN}{LOAD}{LOAD}s_waitcnt vmcnt(4)\ns_barrier\n{READ}s_barrier\n{BACK}"
# A and B by turns, each waited for apart, four barriers a round.
PING_PONG = (f"{TURN}{LOAD}{LOAD}{TURN}{LOAD}{LOAD}loop:\n"
             f"s_waitcnt vmcnt(2)\ns_barrier\n{READ}s_barrier\n{TURN}{LOAD}{LOAD}"
             f"s_waitcnt vmcnt(2)\ns_barrier\n{READ}s_barrier\n{TURN}{LOAD}{LOAD}{BACK}")


def at(address: int) -> str:
    return f"s_add_u32 m0, s20, {address}\ns_nop 0\n{LOAD}s_add_u32 m0, m0, 0x1000\ns_nop 0\n{LOAD}"


# M0 is the wave's number times 1024 after a constant; lane addresses are 16 times the work-item.
KNOWN = ("v_lshlrev_b32 v3, 4, v0\nv_lshrrev_b32 v5, 6, v0\nv_readfirstlane_b32 s2, v5\ns_lshl_b32 s20, s2, 10\n"
         f"{at(0)}loop:\n{at(0x4000)}s_waitcnt vmcnt(2)\ns_barrier\n{READ}s_barrier\n"
         f"{at(0)}s_waitcnt vmcnt(2)\ns_barrier\n{READ.replace('v3', 'v3 offset:16384')}s_barrier\n{BACK}")


def of(code: str) -> Program:
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{code}.size k, .-k\n', None, "k", "k.s")
    return program


def said(code: str, rules: tuple[str, ...] = ("W001", "W004", "W005", "W006", "W011")) -> list[tuple[str, str, str]]:
    found = lint_program(of(code), "k.s", KernelFacts(block=(256, 1, 1)))
    return [(row.rule, row.severity, row.message) for row in found if row.rule in rules]


def deletions(code: str) -> list[str]:
    """The code without each of its waits for loads."""
    lines = code.splitlines(keepends=True)
    return ["".join(lines[:number] + lines[number + 1:]) for number, line in enumerate(lines) if "vmcnt" in line]


@pytest.mark.parametrize("code", [DOUBLE, TRIPLE, PING_PONG, KNOWN], ids=["double", "triple", "ping-pong", "known"])
def test_production_loops_have_no_errors_and_no_idle_wait(code: str) -> None:
    """What stays in flight over a barrier is told of in notes, and no wait is called idle or too strict."""
    found = said(code)
    assert {row[:2] for row in found} == {("W004", "note")}
    assert all("may be read by other waves after the barrier" in message for _, _, message in found)


@pytest.mark.parametrize("code", [DOUBLE, TRIPLE, PING_PONG, KNOWN], ids=["double", "triple", "ping-pong", "known"])
def test_every_deleted_wait_shows(code: str) -> None:
    usual = said(code)
    assert len(deletions(code)) in (1, 2)
    for mutant in deletions(code):
        found = said(mutant)
        assert len(found) > len(usual) and not any(severity == "error" for _, severity, _ in found)


@pytest.mark.parametrize("code", [DOUBLE, TRIPLE], ids=["double", "triple"])
def test_a_loop_without_any_wait_for_its_loads_is_a_warning(code: str) -> None:
    (mutant,) = deletions(code)
    warnings = [message for rule, severity, message in said(mutant) if severity == "warning"]
    assert len(warnings) == 2 and all("no wait ends the flight" in message and "round after round" in message for message in warnings)


def test_without_lds_reads_nobody_misses_the_wait() -> None:
    (mutant,) = deletions(DOUBLE.replace(READ, ""))
    assert {severity for _, severity, _ in said(mutant)} == {"note"}


def test_each_round_is_told_apart() -> None:
    """Three buffers have the round before in flight on purpose; one wait fewer, and the one before that is too."""
    shown = " ".join(message for _, _, message in said(TRIPLE))
    assert "of the round before" in shown and "rounds before" not in shown
    assert "of 2 rounds before" in " ".join(message for _, _, message in said(deletions(TRIPLE)[0]))


def test_known_bytes_are_named() -> None:
    """Buffer 0 is 0x0:0x2000, buffer 1 0x4000:0x6000, of four waves; a read of bytes on their way is a warning at the read."""
    notes = [message for _, _, message in said(KNOWN)]
    assert any("bytes 0x0:0x2000" in message for message in notes) and any("bytes 0x4000:0x6000" in message for message in notes)
    first, second = deletions(KNOWN)
    for mutant, low in ((first, 0), (second, 0x4000)):
        rows = [message for rule, severity, message in said(mutant) if (rule, severity) == ("W011", "warning")]
        assert rows and all(f"reads LDS bytes {low:#x}:{low + 0x1000:#x}" in message for message in rows)


@pytest.mark.parametrize(("gap", "read", "finds"), [
    ("", 0x4000, True), ("", 0x4100, True), ("", 0x5000, False), ("", 0x3C00, False), ("s_waitcnt vmcnt(0)\n", 0x4000, False),
    ("s_mov_b32 m0, s9\n", 0x4000, True)])
def test_constant_m0_and_offset(gap: str, read: int, finds: bool) -> None:
    """1024 bytes at M0 + 256 = 0x4100; a read of 64 lanes covers 1024 from its offset on. M0 of later is nothing to the load."""
    code = "s_movk_i32 s20, 0x3000\ns_add_u32 m0, s20, 0x1000\nv_and_b32 v3, 63, v0\nv_lshlrev_b32 v3, 4, v3\n" \
           f"buffer_load_dwordx4 v1, s[4:7], 0 offen offset:256 lds\n{gap}s_barrier\nds_read_b128 v[8:11], v3 offset:{read}\ns_endpgm\n"
    assert bool(said(code, ("W011",))) is finds


def test_unknown_m0_or_address_says_so_at_the_barrier() -> None:
    for setting, address in (("s_mov_b32 m0, s9\n", "v_mov_b32 v3, 0\n"), ("s_mov_b32 m0, 0\n", "")):
        code = f"{setting}{address}{LOAD}s_barrier\nds_read_b128 v[8:11], v3\ns_endpgm\n"
        assert [row[:2] for row in said(code)] == [("W004", "note")]


def test_a_wait_behind_the_barrier_that_lands_own_data_is_needed() -> None:
    assert said(f"{LOAD}s_waitcnt vmcnt(0)\ns_barrier\ns_endpgm\n") == []
    assert said(f"{LOAD}s_barrier\ns_waitcnt vmcnt(0)\ns_endpgm\n", ("W006",)) == []
    assert said(f"{LOAD}s_waitcnt vmcnt(0)\ns_waitcnt vmcnt(0)\ns_barrier\ns_endpgm\n", ("W006",)) != []


def test_lds_writes_stay_in_flight_too() -> None:
    found = said("ds_write_b32 v0, v1\ns_barrier\ns_barrier\ns_waitcnt lgkmcnt(0)\ns_barrier\ns_endpgm\n")
    assert [row[:2] for row in found] == [("W004", "note")] * 2


def test_explain_tells_what_is_in_flight_and_what_a_wait_lands() -> None:
    program = of(DOUBLE)
    names = [instruction.name for instruction in program.instructions]
    wait = names.index("s_waitcnt")
    found = explain(program, wait)
    assert len(found.in_flight) == 6 and all(row.brings == "LDS data" for row in found.in_flight)
    assert sum("LDS data of buffer_load_dwordx4" in line for line in found.why) == 4 and not any("nothing" in line for line in found.why)
    last = len(names) - 1 - names[::-1].index("s_barrier")
    found = explain(program, last)
    assert dict(found.waits) == {} and "may be read by other waves after the barrier" in found.why[0] and len(found.in_flight) == 2


@pytest.mark.parametrize(("m0", "offset", "finds"), [(0, -64, True), (0, -256, False), (-1, 4092, False), (128, -128, True)])
def test_offsets_below_lds_and_beyond_it(m0: int, offset: int, finds: bool) -> None:
    """256 bytes of which some lie below LDS, or all of them beyond what the read reaches."""
    code = f"s_mov_b32 m0, {m0}\nv_mov_b32 v3, 0\ns_nop 0\nglobal_load_lds_dword v2, s[4:5] offset:{offset}\ns_barrier\n" \
           "ds_read_b128 v[8:11], v3\ns_endpgm\n"
    assert bool(said(code, ("W011",))) is finds
