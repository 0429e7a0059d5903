"""LDS races over barriers, found without running: racy programs with their clean twins, and what the emulator says of both."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program
from asmgen.program.unrolled import inner_loops, unroll
from asmgen.reader.assembly import read_text
from tests.emulator_launch import launch

WAVES = 4
RULES = ("W002", "W003", "W011")
# v3: this work-item's dword of its wave's 256 bytes; v4: the same of the next wave but one; s20: the wave; s[8:9] a buffer.
BEGIN = """s_load_dwordx2 s[8:9], s[0:1], 0
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v3, 2, v0
v_xor_b32 v4, 0x200, v3
v_lshrrev_b32 v5, 6, v0
v_readfirstlane_b32 s20, v5
s_lshl_b32 s21, s20, 8
s_waitcnt lgkmcnt(0)
ds_write_b32 v3, v0
ds_write_b32 v3, v0 offset:1024
ds_write_b32 v3, v0 offset:2048
s_waitcnt lgkmcnt(0)
s_barrier
"""
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
BARRIER = "s_barrier\n"
END = f"{WAIT}{BARRIER}s_endpgm\n"


def fill(place: int) -> str:
    """A load into LDS of the wave's 256 bytes from `place` on."""
    return f"s_add_u32 m0, s21, {place}\ns_nop 4\nglobal_load_lds_dword v3, s[8:9]\n"


def read(place: int = 0, lane: str = "v4", into: str = "v8") -> str:
    return f"ds_read_b32 {into}, {lane} offset:{place}\n"


def write(place: int = 0, lane: str = "v3") -> str:
    return f"ds_write_b32 {lane}, v0 offset:{place}\n"


def after(condition: str, barriers: int = 1) -> str:
    """Waves for which v_cmp sets lanes pass barriers that the others do not."""
    label = f"at_{condition[6:8]}"
    return f"{condition}\ns_and_saveexec_b64 s[10:11], vcc\ns_cbranch_execz {label}\n{BARRIER * barriers}{label}:\n" \
           "s_or_b64 exec, exec, s[10:11]\n"


SET_BACK, LEVEL = after("v_cmp_le_u32 vcc, 2, v5"), after("v_cmp_gt_u32 vcc, 2, v5")


def ping_pong(reads: str, writes: str, between: str = BARRIER, rounds: int = 3) -> str:
    """Two groups a barrier apart: one reads a tile while the other computes; the next tile is written after two barriers."""
    return f"s_mov_b32 s22, {rounds}\n{SET_BACK}loop:\n{reads}{BARRIER}{WAIT}v_mov_b32 v9, v8\n{BARRIER}{writes}{WAIT}{between}" \
           f"v_mov_b32 v9, v8\n{BARRIER}s_sub_u32 s22, s22, 1\ns_cmp_lg_u32 s22, 0\ns_cbranch_scc1 loop\n{LEVEL}"


def rounds(code: str, turn: str, count: int | str = 6) -> str:
    """A loop of so many rounds."""
    return f"s_mov_b32 s22, {count}\nloop:\n{code}{turn}s_sub_u32 s22, s22, 1\ns_cmp_lg_u32 s22, 0\ns_cbranch_scc1 loop\n"


def two_buffers(other: str) -> str:
    """Each round reads one buffer and writes the one at v7, which is the same or the other one."""
    turn = "v_xor_b32 v4, 0x400, v4\nv_xor_b32 v7, 0x400, v7\n"
    return f"v_xor_b32 v7, {other}, v3\n{rounds(read() + BARRIER + write(lane='v7') + WAIT + BARRIER, turn)}"


def three_buffers(newer: int) -> str:
    """Loads two rounds ahead; s24 is the place that is filled, v7 the one that is read, by another wave."""
    into = "s_add_u32 m0, s21, s24\ns_nop 4\nglobal_load_lds_dword v3, s[8:9]\n"
    step = "s_add_u32 s24, s24, 0x400\ns_cmp_eq_u32 s24, 0xc00\ns_cselect_b32 s24, 0, s24\n"
    turn = "s_add_u32 s25, s25, 0x400\ns_cmp_eq_u32 s25, 0xc00\ns_cselect_b32 s25, 0, s25\n"
    body = f"s_waitcnt vmcnt({newer})\n{BARRIER}{into}{step}v_add_u32 v7, s25, v4\n{read(lane='v7')}s_waitcnt lgkmcnt(0)\n"
    return f"s_mov_b32 s24, 0\ns_mov_b32 s25, 0\n{into}{step}{into}{step}{rounds(body, turn)}"


HALF = "s_mov_b64 exec, 0xffffffff\n"
ALL = "s_mov_b64 exec, -1\n"
FIRST_WAVE = "s_cmp_eq_u32 s20, 0\ns_cbranch_scc0 over\n{}over:\n"
OTHER_LANES = "v_xor_b32 v6, 0x80, v4\n"  # the other half of that wave's lanes

TWINS = {
    "a read overwritten": (read() + BARRIER + write(), read() + WAIT + BARRIER + write()),
    "a read overwritten by a load": (read() + BARRIER + fill(0), read() + WAIT + BARRIER + fill(0)),
    "a read overwritten two barriers on": (read() + BARRIER + BARRIER + write(), read() + BARRIER + WAIT + BARRIER + write()),
    "one of two reads": (read() + read(1024, into="v10") + "s_waitcnt lgkmcnt(1)\n" + BARRIER + write(1024),
                         read() + read(1024, into="v10") + "s_waitcnt lgkmcnt(1)\n" + BARRIER + write(0)),
    "own bytes": (read() + BARRIER + write(), read(lane="v3") + BARRIER + write()),
    "a write read": (write() + BARRIER + WAIT + read(), write() + WAIT + BARRIER + read()),
    "a write overwritten": (write() + BARRIER + write(lane="v4"), write() + WAIT + BARRIER + write(lane="v4")),
    "one of two loads": (fill(0) + fill(1024) + "s_waitcnt vmcnt(1)\n" + BARRIER + read(1024),
                         fill(0) + fill(1024) + "s_waitcnt vmcnt(1)\n" + BARRIER + read(0)),
    "the base in M0": (fill(1024) + BARRIER + read(1024), fill(2048) + BARRIER + read(1024)),
    "lanes": (read() + BARRIER + HALF + write() + ALL, HALF + OTHER_LANES + read(lane="v6") + BARRIER + write() + ALL),
    "waves": (read() + BARRIER + FIRST_WAVE.format(write()), read(lane="v3") + BARRIER + FIRST_WAVE.format(write())),
    "atomics": ("ds_add_u32 v4, v0\n" + BARRIER + read(lane="v3"), "ds_add_u32 v4, v0\n" + BARRIER + "ds_add_u32 v3, v0\n"),
    "the next round": ("s_mov_b32 s22, 3\nloop:\n" + write() + WAIT + BARRIER + read() + BARRIER + "s_sub_u32 s22, s22, 1\n"
                       "s_cmp_lg_u32 s22, 0\ns_cbranch_scc1 loop\n",
                       "s_mov_b32 s22, 3\nloop:\n" + write() + WAIT + BARRIER + read() + WAIT + BARRIER + "s_sub_u32 s22, s22, 1\n"
                       "s_cmp_lg_u32 s22, 0\ns_cbranch_scc1 loop\n"),
    "two buffers": (two_buffers("0"), two_buffers("0x400")),
    "three buffers": (three_buffers(2), three_buffers(1)),
    "ping-pong": (ping_pong(read(), write()), ping_pong(read() + WAIT, write())),
    "ping-pong with loads": (ping_pong(read(), fill(0)), ping_pong(read() + WAIT, fill(0))),
    "ping-pong, too few barriers": (ping_pong(read() + WAIT, write(), between=""), ping_pong(read() + WAIT, write())),
    "ping-pong, other bytes": (ping_pong(read(), write()), ping_pong(read(), write(1024))),
}
CASES = [pytest.param(code, number == 0, id=f"{name}-{'clean' if number else 'racy'}") for name, twins in TWINS.items()
         for number, code in enumerate(twins)]


def program_of(code: str) -> Program:
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{code}.size k, .-k\n', None, "k", "k.s")
    return program


def lint(code: str, block: tuple[int, int, int] | None = (64 * WAVES, 1, 1)) -> list[LintFinding]:
    return lint_program(program_of(code), "k.s", KernelFacts(block=block))


@pytest.mark.parametrize(("code", "racy"), CASES)
def test_racy_and_clean_twins(code: str, racy: bool) -> None:
    """Lint says error of the one and nothing of the other; the emulator agrees."""
    found = [finding for finding in lint(BEGIN + code + END) if finding.rule in RULES]
    assert any(finding.severity == "error" for finding in found) is bool(found) is racy, [finding.sentence() for finding in found]
    launched = launch("gfx950", program_of(BEGIN + code + END), block=(64 * WAVES, 1, 1),
                      buffers=[np.arange(4096, dtype=np.uint32)], lds=4096)
    assert ("lds-race" in launched.checks) is racy


def said(code: str, block: tuple[int, int, int] | None = (64 * WAVES, 1, 1)) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.severity, finding.message) for finding in lint(BEGIN + code + END, block)
            if finding.rule in (*RULES, "W004")]


def test_both_instructions_bytes_and_the_wait_are_named() -> None:
    """Of two reads the first has a newer operation; the barrier is the finding's place, as the wait belongs before it."""
    code = f"{BEGIN}{read(1024)}{read(into='v10')}{BARRIER}{write(1024)}{END}"
    (finding,) = [finding for finding in lint(code) if finding.rule == "W002"]
    lines = code.splitlines()
    at = len(BEGIN.splitlines())
    assert (finding.line, finding.need) == (4 + at + 2, 1) and finding.producer is not None and finding.producer.text in lines[at]
    assert finding.message.startswith(f"ds_read_b32 v8, v4 offset:1024 (k.s:{4 + at}) may still read LDS bytes 0x400:0x500 for wave 2 ")
    assert f"may write them by ds_write_b32 v3, v0 offset:1024 (k.s:{4 + at + 3}): s_waitcnt lgkmcnt(1) belongs" in finding.message


def test_the_barriers_of_a_stagger_are_counted() -> None:
    """Waves 2 and 3 run one barrier late: while they pass the first barrier of a round, the others pass the second and write."""
    (row,) = said(ping_pong(read(), write()))
    assert row[:2] == ("W002", "error") and "after which and 1 more wave 0 may write" in row[2] and "for wave 2 as it passes" in row[2]
    rows = said(ping_pong(read() + WAIT, write(), between=""))
    assert {row[:2] for row in rows} == {("W003", "error")}
    assert all("1 barrier late" in message and "2 barriers must" in message for _, _, message in rows)


@pytest.mark.parametrize(("code", "says"), [
    (f"v_mov_b32 v4, v9\n{read()}{BARRIER}{write()}", "LDS reads are in flight at this barrier (ds_read_b32 v8, v4"),
    (f"v_mov_b32 v3, v9\n{read()}{BARRIER}{write()}", "other waves write LDS (ds_write_b32 v3"),
    (f"s_mov_b32 m0, s7\n{read()}{BARRIER}global_load_lds_dword v3, s[8:9]\n", "other waves write LDS (global_load_lds_dword"),
    (f"{fill(0)}v_mov_b32 v4, v9\n{BARRIER}{read()}", "it may be read by other waves after the barrier")])
def test_unknown_addresses_are_a_note(code: str, says: str) -> None:
    (row,) = said(code)
    assert row[:2] == ("W004", "note") and says in row[2]


def test_an_unknown_workgroup_is_a_note() -> None:
    assert [row[:2] for row in said(read() + BARRIER + write(), None)] == [("W004", "note")]
    assert said(read() + BARRIER + write(), (64, 1, 1)) == [], "one wave alone has nobody to race with"


@pytest.mark.parametrize(("first", "severities"), [
    ("v_and_b32 v0, 0x3ff, v0", {"error"}), ("v_bfe_u32 v0, v0, 0, 10", {"error"}), ("v_mov_b32 v6, v0\nv_and_b32 v0, 0x3ff, v0", {"note"}),
    ("v_bfe_u32 v6, v0, 10, 10\nv_and_b32 v0, 0x3ff, v0", {"note"}),
    # Triton 3.8.0 for gfx950: parts of x by one instruction with what stands above them, or after a shift
    ("v_and_or_b32 v6, v0, 48, s20\nv_and_b32 v0, 0x3ff, v0", {"error"}),
    ("v_and_or_b32 v6, s20, 48, v0\nv_and_b32 v0, 0x3ff, v0", {"note"}),
    ("v_lshrrev_b32 v6, 2, v0\nv_and_b32 v6, 0xff, v6\nv_and_b32 v0, 0x3ff, v0", {"error"}),
    ("v_lshrrev_b32 v6, 2, v0\nv_and_b32 v6, 0x1ff, v6\nv_and_b32 v0, 0x3ff, v0", {"note"}),
    ("v_lshlrev_b32 v0, 2, v0\nv_and_b32 v0, 0xffc, v0\nv_lshrrev_b32 v0, 2, v0", {"error"}),
    ("v_and_b32_sdwa v6, v0, 15 src0_sel:WORD_1\nv_and_b32 v0, 0x3ff, v0", {"note"})])
def test_code_that_takes_x_alone_has_workgroups_of_one_row(first: str, severities: set[str]) -> None:
    program = program_of(BEGIN.replace("v_and_b32 v0, 0x3ff, v0", first) + read() + BARRIER + write() + END)
    found = lint_program(program, "k.s", KernelFacts(most=64 * WAVES))
    assert {finding.severity for finding in found if finding.rule in (*RULES, "W004")} == severities


def test_places_that_never_come_back_are_a_note() -> None:
    """Each round reads and writes further on: no number of rounds tells whether bytes meet."""
    turn = "v_add_u32 v4, 4, v4\nv_add_u32 v3, 4, v3\n"
    assert {row[:2] for row in said(rounds(read() + BARRIER + write(1024) + WAIT + BARRIER, turn, "s7"))} == {("W004", "note")}


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_unrolled_loop_does_the_same(times: int) -> None:
    """A loop with a branch inside and one out of it, and each position's instruction."""
    inner = "s_bitcmp1_b32 s22, 0\ns_cbranch_scc0 even\nv_add_u32 v8, s22, v8\neven:\ns_cmp_eq_u32 s22, 3\ns_cbranch_scc1 out\n"
    code = f"s_load_dwordx2 s[8:9], s[0:1], 0\nv_mov_b32 v8, 0\n{rounds(inner + 'v_lshlrev_b32 v8, 1, v8', chr(10), 9)}out:\n" \
           "v_lshlrev_b32 v0, 2, v0\ns_waitcnt lgkmcnt(0)\nglobal_store_dword v0, v8, s[8:9]\ns_endpgm\n"
    program = program_of(code)
    (loop,) = inner_loops(control_flow(program))
    longer = unroll(program, [loop], times)
    assert len(longer.program) == len(program) + (times - 1) * (loop.last - loop.first + 2) == len(longer.original)
    assert all(position < 0 or instruction.opcode is program.instructions[position].opcode
               for position, instruction in zip(longer.original, longer.program.instructions, strict=True))
    one, other = (launch("gfx950", made, buffers=[np.zeros(64, np.uint32)]).buffers[0] for made in (program, longer.program))
    assert one.any() and (one == other).all()


@pytest.mark.parametrize(("code", "finds"), [
    (f"{fill(0)}ds_write_b32 v3, v0\n", True), (f"{fill(0)}{WAIT}ds_write_b32 v3, v0\n", False),
    (f"{fill(0)}ds_write_b32 v3, v0 offset:1024\n", False),
    (f"v_cmp_lt_u32 vcc, v9, v0\ns_and_saveexec_b64 s[10:11], vcc\n{fill(0)}s_xor_b64 exec, exec, s[10:11]\nds_write_b32 v3, v0\n"
     "s_mov_b64 exec, s[10:11]\n", False)])
def test_a_write_of_what_the_waves_own_load_still_fills_is_found(code: str, finds: bool) -> None:
    """Not where lanes that the load leaves out are written, as compilers do for masked loads."""
    rows = [row for row in said(code) if row[0] == "W011" and row[2].startswith("ds_write_b32 overwrites LDS bytes 0x0:0x400")]
    assert bool(rows) is finds


@pytest.mark.parametrize(("code", "says"), [
    (f"{read()}{fill(0)}", ""), (f"{read(lane='v3')}{fill(0)}", "ds_read_b32 v8, v3 (k.s:"),
    (f"{read(lane='v3')}s_waitcnt lgkmcnt(0)\n{fill(0)}", ""), (f"{read(1024, lane='v3')}{fill(0)}", ""),
    (f"{read(lane='v3')}{read(1024)}s_waitcnt lgkmcnt(1)\n{fill(0)}", ""),
    (f"{read(lane='v3')}{read(0, lane='v3', into='v10')}{fill(0)}", "2 operations that read LDS"),
    (f"{write()}{fill(0)}", "may still write"), (f"{write(4)}{fill(1024)}", "")])
def test_a_load_of_what_the_wave_may_still_read_or_write_is_found(code: str, says: str) -> None:
    """Another wave's bytes are a matter of barriers."""
    rows = [row[2] for row in said(code) if row[0] == "W011"]
    assert len(rows) == bool(says) and all(says in row and "overwrites LDS bytes 0x0:0x" in row for row in rows), rows


@pytest.mark.parametrize(("code", "doubt"), [
    (f"v_cmp_lt_u32 vcc, v9, v10\ns_and_saveexec_b64 s[10:11], vcc\n{read()}{BARRIER}{write()}s_mov_b64 exec, -1\n", "EXEC is not known"),
    (f"{read(lane='v11')}ds_write_b32 v11, v0\n{BARRIER}{read(lane='v11')}", "all waves write the same"),
    (f"{read()}s_cmp_eq_u32 s6, 0\ns_cbranch_scc1 on\ns_nop 0\non:\ns_cmp_eq_u32 s7, 0\ns_cbranch_scc1 over\n{BARRIER}{write()}over:\n",
     "on some path"),
    (f"v_cmp_eq_u32 vcc, v9, v0\ns_cbranch_vccz over\n{read()}{BARRIER}{write()}over:\n", "waves that go other ways")])
def test_what_is_not_certain_is_a_warning(code: str, doubt: str) -> None:
    rows = [row for row in said("v_mov_b32 v11, 64\n" + code) if row[0] == "W002"]
    assert [row[1] for row in rows] == ["warning"] and doubt in rows[0][2], rows
