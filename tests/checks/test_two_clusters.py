"""Two clusters of four waves each, by hand after what HipKittens and AITER publish of their 8-wave ping-pong: racy forms and their right
twins, judged from the object alone and run on the emulator.

One cluster computes while the other moves data, so the second runs a barrier late. A step reads A and B of one buffer and fills those of
the other; its text stands once for each buffer, so an odd count of steps ends in the middle. In the form with roles, four waves fill and
four read, each in a loop of its own. In the last form one cluster writes what the other reads a barrier later.
"""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.checks.raceproofs.outcome import PROVEN, REFUTED, UNKNOWN
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.reader.assembly import read_text
from tests.checks.test_race_proofs import proof_of_object, text_of
from tests.emulator_launch import launch

# s20: the wave; s[8:9]: a buffer; s22: steps; v3, v4: this work-item's 16 bytes of its wave's share of a tile, and those of a wave of the
# other cluster. A tile has 0x2000 bytes: A of both buffers from 0 on, B from 0x4000 on.
BEGIN = """s_load_dwordx2 s[8:9], s[0:1], 0
s_load_dword s22, s[0:1], 8
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v3, 4, v0
v_xor_b32 v4, 0x1000, v3
v_lshrrev_b32 v5, 6, v0
s_nop 1
v_readfirstlane_b32 s20, v5
s_lshl_b32 s21, s20, 10
s_waitcnt lgkmcnt(0)
"""
END = "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_endpgm\n"
ALL = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
READ = "s_waitcnt lgkmcnt(0)\n"
BARRIER = "s_barrier\n"
MATRICES = "s_setprio 1\nv_mfma_f32_16x16x32_bf16 v[16:19], v[8:11], v[12:15], v[16:19]\ns_setprio 0\n"


def fill(place: int) -> str:
    """A load into LDS of the wave's share of a tile."""
    return f"s_add_u32 m0, s21, {place}\ns_nop 4\nglobal_load_lds_dwordx4 v3, s[8:9]\n"


def read(into: int, place: int, lane: str = "v4") -> str:
    return f"ds_read_b128 v[{into}:{into + 3}], {lane} offset:{place}\n"


def step(buffer: int, landed: str = "s_waitcnt vmcnt(1) lgkmcnt(0)\n", refilled: int | None = None, between: str = BARRIER) -> str:
    """Reads A and B of a buffer and fills those of the other. A's fill has landed before the third barrier, B's before the next first."""
    other = 1 - buffer if refilled is None else refilled
    first = f"{read(8, 0x2000 * buffer)}{fill(0x2000 * (1 - buffer))}s_waitcnt vmcnt(1) lgkmcnt(0)\n{BARRIER}{MATRICES}{between}"
    return f"{first}{read(12, 0x4000 + 0x2000 * buffer)}{READ}{fill(0x4000 + 0x2000 * other)}{landed}{BARRIER}"


def after(cluster: int, barriers: str = BARRIER) -> str:
    """Barriers for one cluster alone."""
    label = f"all{cluster}{len(barriers)}"
    return f"s_cmp_{('lt', 'ge')[cluster]}_u32 s20, 4\ns_cbranch_scc0 {label}\n{barriers}{label}:\n"


def ping_pong(even: str = step(0), odd: str = step(1), late: str = BARRIER, begin: str = ALL, ends: str = "") -> str:
    """The two buffers' steps in a loop that may end after either; the last matrix instructions stand in the epilogue."""
    down = "s_sub_u32 s22, s22, 1\ns_cmp_eq_u32 s22, 0\ns_cbranch_scc1 over\n"
    return f"{BEGIN}{fill(0)}{fill(0x4000)}{begin}{BARRIER}{after(1, late)}loop:\n{even}{down}{MATRICES}{BARRIER}{odd}{down}{MATRICES}" \
           f"{BARRIER}s_branch loop\nover:\n{MATRICES}{ALL}{ends}{BARRIER}{after(0, late)}{END}"


def roles(filled: str = ALL, taken: str = READ, freed: str = BARRIER) -> str:
    """The second cluster fills two buffers by turns, the first reads them a step later. A second barrier stands in each step."""
    count = "s_bfe_u32 s23, s22, 0x20000\ns_add_u32 s23, s23, 1\n"
    down = "s_sub_u32 s23, s23, 1\ns_cmp_lg_u32 s23, 0\n"
    producer = f"{count}{fill(0)}{ALL}{BARRIER}fills:\ns_xor_b32 s24, s24, 0x2000\ns_add_u32 m0, s21, s24\ns_nop 4\n" \
               f"global_load_lds_dwordx4 v3, s[8:9]\n{down}{BARRIER}{filled}{BARRIER}s_cbranch_scc1 fills\n{END}"
    consumer = f"{count}{BARRIER}reads:\nds_read_b128 v[8:11], v6\nv_xor_b32 v6, 0x2000, v6\n{down}{taken}{BARRIER}{freed}" \
               f"s_cbranch_scc1 reads\nds_read_b128 v[8:11], v6\n{END}"
    return f"{BEGIN}v_xor_b32 v6, 0x1000, v3\ns_mov_b32 s24, 0\ns_cmp_lt_u32 s20, 4\ns_cbranch_scc1 consumers\n{producer}" \
           f"consumers:\n{consumer}"


def hand_over(late: str = after(1)) -> str:
    """In its stage with memory the first cluster writes what the second reads in its own."""
    return f"{BEGIN}{late}loop:\ns_cmp_lt_u32 s20, 4\ns_cbranch_scc1 writes\n{read(8, 0)}{READ}s_branch done\nwrites:\n" \
           f"ds_write_b128 v3, v[12:15]\n{READ}done:\n{BARRIER}{MATRICES}{BARRIER}s_sub_u32 s22, s22, 1\ns_cmp_lg_u32 s22, 0\n" \
           f"s_cbranch_scc1 loop\n{after(0)}{END}"


OUTPUT = f"ds_write_b128 v3, v[16:19] offset:{0x4000}\n{READ}"
"""An epilogue that exchanges its results through the first buffer of B."""
RIGHT = {
    "ping-pong": ping_pong(),
    "an epilogue in a buffer after a barrier": ping_pong(ends=BARRIER + OUTPUT),
    "an epilogue in bytes of its own": ping_pong(ends=OUTPUT.replace(f"offset:{0x4000}", f"offset:{0x8000}")),
    "roles": roles(),
    "a hand-over": hand_over(),
}
RACY = {
    "the second cluster leaves out a barrier of odd steps": ping_pong(odd=step(1, between=after(0, f"{BARRIER}s_nop 0\n"))),
    "the second cluster is two barriers late": ping_pong(late=BARRIER * 2),
    "an odd count of steps ends in the buffer that the epilogue takes": ping_pong(ends=OUTPUT),
    "no vmcnt before the barrier of even steps": ping_pong(even=step(0, landed="s_waitcnt lgkmcnt(0)\n")),
    "a vmcnt of odd steps counts one load too many": ping_pong(odd=step(1, landed="s_waitcnt vmcnt(2) lgkmcnt(0)\n")),
    "one buffer of B for even and odd steps": ping_pong(odd=step(1, refilled=1)),
    "the first fill is not awaited": ping_pong(begin=""),
    "a role leaves out a barrier of each step": roles(freed=""),
    "a role passes its barrier before its reads are there": roles(taken=""),
    "a role's fills are not there at its barrier": roles(filled=""),
    "the stagger is lost": hand_over(late=""),
}


def races(code: str) -> bool:
    """Whether an odd number of steps races on the emulator, which is enough for a cluster that gains a barrier in two steps."""
    (program,) = read_text(text_of(code), None, "k", "k.s")
    data = np.arange(4096, dtype=np.uint32)
    return "lds-race" in launch("gfx950", program, block=(512, 1, 1), buffers=[data], values=[7], lds=0xa000).checks


@pytest.mark.slow
@pytest.mark.parametrize("form", RACY)
def test_racy_forms(form: str) -> None:
    assert proof_of_object(RACY[form]).status == REFUTED
    assert races(RACY[form])


@pytest.mark.slow
@pytest.mark.parametrize("form", RIGHT)
def test_right_forms(form: str) -> None:
    assert proof_of_object(RIGHT[form]).status == PROVEN
    assert not races(RIGHT[form])


def counted(label: str, steps: str, then: str) -> str:
    """Code of one wave alone, which passes a barrier for each of some steps."""
    return f"{steps}{label}:\ns_sub_u32 s23, s23, 1\ns_cmp_lg_u32 s23, 0\n{BARRIER}s_cbranch_scc1 {label}\n{then}"


COPIED = "s_mov_b32 s23, s22\n"
WRITES, READS = f"ds_write_b32 v3, v0\n{READ}{BARRIER}", f"{BARRIER}ds_read_b32 v8, v4\n{READ}"
"""Apart where both have passed as many barriers before."""


def one_by_one(second: str) -> str:
    """Whoever loads a 0 writes, then all others read; common code between says how many steps. Waves meet after each."""
    begin = f"{BEGIN}s_load_dword s30, s[0:1], 12\nv_lshrrev_b32 v3, 2, v3\nv_xor_b32 v4, 0x100, v3\nds_write_b32 v3, v0\n" \
            f"global_load_dword v7, v3, s[8:9]\n{ALL}{BARRIER}v_readfirstlane_b32 s20, v7\ns_cmp_eq_u32 s20, 0\ns_cbranch_scc0 met\n"
    return f"{begin}{counted('steps', COPIED, WRITES)}met:\ns_mov_b32 s23, 0\ns_mov_b32 s22, {second}\n" \
           f"s_cmp_lg_u32 s20, 0\ns_cbranch_scc0 end\n{counted('others', COPIED, READS)}end:\n{BARRIER}{END}"


def test_common_code_between_what_two_waves_do_alone_is_no_code_of_both() -> None:
    (program,) = read_text(text_of(one_by_one("s30")), None, "k", "k.s")
    checks = launch("gfx950", program, block=(128, 1, 1), buffers=[np.arange(4096, dtype=np.uint32)], values=[5, 4], lds=0x1000).checks
    assert "lds-race" in checks and prove_races(program, (128, 1, 1)).status == UNKNOWN


@pytest.mark.parametrize(("steps", "status"), [(COPIED, PROVEN), ("s_getpc_b64 s[24:25]\ns_bfe_u32 s23, s24, 0x30002\n", UNKNOWN)])
def test_waves_that_count_the_same_and_where_they_are(steps: str, status: str) -> None:
    begin = f"{BEGIN}v_lshrrev_b32 v3, 2, v3\nv_xor_b32 v4, 0x100, v3\ns_cmp_eq_u32 s20, 0\ns_cbranch_scc0 others\n"
    code = f"{begin}{counted('steps', steps, WRITES)}{END}others:\n{counted('more', steps, READS)}{END}"
    assert prove_races(*read_text(text_of(code), None, "k", "k.s"), (128, 1, 1)).status == status
