"""Races of reads with writes: an error where the read may find either of two values, a warning where the write changes nothing.

And what reads beside atomics is no race at all. Each case has a neighbour, as close to it as can be, that is an error.
"""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.arrival.ldsvalues import changes
from asmgen.emulator.arrival.races_kernels import lanes_change
from asmgen.emulator.races.globalraces_kernels import changes_of as compiled_changes_of
from asmgen.emulator.races.globalvalues import changes_of
from asmgen.emulator.scheduling.run import Options
from asmgen.reader.assembly import read_text
from tests.emulator_launch import Launched, launch
from tests.planted_faults import Planted

ORDERS = ("lockstep", "serial", "random:5")
G = "global-race"
PART = "s_cmp_eq_u32 s20, 0\ns_cbranch_scc1 zero\n"
"""Wave 0 goes to `zero`, the others go on."""

HARMLESS = (
    Planted("a store of what stands there", G, f"""
        + v_mov_b32 v5, 1
        - v_mov_b32 v5, 2
        {PART}
        global_load_dword v6, v3, s[8:9]
        s_endpgm
        zero:
        global_store_dword v3, v5, s[8:9]
    """, waves=2),
    Planted("one byte of those that are read", G, f"""
        v_mov_b32 v4, 1
        v_mov_b32 v5, 4
        - v_mov_b32 v5, 0x104
        {PART}
        global_load_dwordx2 v[6:7], v3, s[8:9]
        s_endpgm
        zero:
        global_store_dwordx2 v3, v[4:5], s[8:9]
    """, waves=3),
    Planted("a change before, before a barrier", G, f"""
        v_mov_b32 v5, 9
        {PART}
        + s_barrier
        global_load_dword v6, v3, s[8:9]
        s_endpgm
        zero:
        global_store_dword v3, v5, s[8:9]
        s_waitcnt vmcnt(0)
        + s_barrier
        global_store_dword v3, v5, s[8:9]
    """, waves=2),
    Planted("a load with scope bits", G, f"""
        + v_mov_b32 v5, 1
        - v_mov_b32 v5, 2
        {PART}
        global_load_dword v6, v3, s[8:9] sc0 sc1
        s_endpgm
        zero:
        global_store_dword v3, v5, s[8:9]
    """, waves=2),
)

L = "lds-race"
FILL = "ds_write_b32 v2, v1\ns_waitcnt lgkmcnt(0)\ns_barrier\nv_xor_b32 v4, 0x100, v2\nv_xor_b32 v5, 64, v1\n"
"""Each of two waves has left its work-items' numbers; v4: the other wave's places, v5: what stands there."""

IN_LDS = (
    Planted("a write of what another wave reads", L, f"""
        {FILL}
        - v_add_u32 v5, 1, v5
        {PART}
        ds_read_b32 v6, v2
        s_waitcnt lgkmcnt(0)
        s_endpgm
        zero:
        ds_write_b32 v4, v5
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("one lane's byte", L, f"""
        {FILL}
        v_cmp_eq_u32 vcc, 0x41, v5
        - v_cndmask_b32 v5, v5, v4, vcc
        {PART}
        ds_read_b32 v6, v2
        s_waitcnt lgkmcnt(0)
        s_endpgm
        zero:
        ds_write_b8 v4, v5
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a read in flight over a barrier", L, f"""
        {FILL}
        - v_add_u32 v5, 1, v5
        ds_read_b32 v6, v2
        s_barrier
        ds_write_b32 v4, v5
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a change that the barrier settles", L, f"""
        {FILL}
        v_add_u32 v5, 1, v5
        {PART}
        + s_barrier
        ds_read_b32 v6, v2
        s_waitcnt lgkmcnt(0)
        s_endpgm
        zero:
        ds_write_b32 v4, v5
        s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_write_b32 v4, v5
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a change that nothing has settled", L, f"""
        {FILL}
        - v_add_u32 v6, 1, v5
        + v_mov_b32 v6, v5
        {PART}
        ds_read_b32 v7, v2
        s_waitcnt lgkmcnt(0)
        s_endpgm
        zero:
        ds_write_b32 v4, v6
        ds_write_b32 v4, v5
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("LDS-DMA of what stands there", L, f"""
        s_mov_b32 m0, 0
        v_and_b32 v6, 63, v1
        v_lshlrev_b32 v6, 2, v6
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 filled
        global_load_lds_dword v6, s[8:9]
        s_waitcnt vmcnt(0)
        filled:
        s_barrier
        + v_mov_b32 v8, v6
        - v_add_u32 v8, 4, v6
        {PART}
        ds_read_b32 v7, v6
        s_waitcnt lgkmcnt(0)
        s_endpgm
        zero:
        global_load_lds_dword v8, s[8:9]
        s_waitcnt vmcnt(0)
    """, waves=2),
)

NOTHING = (
    Planted("a plain load beside one with scope bits", G, f"""
        v_mov_b32 v5, 2
        {PART}
        global_load_dword v6, v3, s[8:9]
        s_endpgm
        zero:
        + global_load_dword v6, v3, s[8:9] sc1
        - global_store_dword v3, v5, s[8:9] sc1
    """, waves=2),
    Planted("a load with scope bits beside atomics", G, f"""
        v_mov_b32 v5, 2
        {PART}
        + global_load_dword v6, v3, s[8:9] sc0
        - global_load_dword v6, v3, s[8:9]
        s_endpgm
        zero:
        global_atomic_add v3, v5, s[8:9]
        global_store_dword v3, v5, s[8:9] offset:4 sc1
    """, waves=2),
    Planted("a wave that loads and adds, and one that only looks", G, f"""
        v_mov_b32 v5, 2
        {PART}
        + global_load_dword v6, v3, s[8:9] sc1
        - global_load_dword v6, v3, s[8:9]
        s_endpgm
        zero:
        global_load_dword v6, v3, s[8:9]
        global_atomic_add v3, v5, s[8:9]
    """, waves=2),
    Planted("a compare-and-swap loop in LDS", L, """
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v6, v3
        again:
        s_waitcnt lgkmcnt(0)
        v_add_u32 v7, 1, v6
        + ds_cmpst_rtn_b32 v8, v3, v6, v7
        - ds_add_rtn_u32 v8, v3, v7
        s_waitcnt lgkmcnt(0)
        v_cmp_ne_u32 vcc, v8, v6
        v_mov_b32 v6, v8
        + s_and_b64 exec, exec, vcc
        + s_cbranch_execnz again
    """, waves=3),
    Planted("a read at another place than the swap's", L, """
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        - ds_read_b32 v6, v3 offset:4
        + ds_read_b32 v6, v3
        s_waitcnt lgkmcnt(0)
        v_add_u32 v7, 1, v6
        ds_cmpst_rtn_b32 v8, v3, v6, v7
        ds_add_u32 v3, v7 offset:4
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a flat load with scope bits, as of a volatile variable", L, """
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        s_mov_b64 s[12:13], src_shared_base
        v_mov_b32 v5, s13
        v_mov_b32 v4, v3
        + flat_load_dword v6, v[4:5] sc0 sc1
        - flat_load_dword v6, v[4:5]
        s_waitcnt vmcnt(0) lgkmcnt(0)
        ds_add_u32 v3, v1
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a flat guess and a flat swap", L, """
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        s_mov_b64 s[12:13], src_shared_base
        v_mov_b32 v5, s13
        v_mov_b32 v4, v3
        flat_load_dword v7, v[4:5]
        s_waitcnt vmcnt(0) lgkmcnt(0)
        v_add_u32 v6, 1, v7
        + flat_atomic_cmpswap v8, v[4:5], v[6:7] sc0
        - flat_atomic_swap v8, v[4:5], v6 sc0
        s_waitcnt vmcnt(0) lgkmcnt(0)
    """, waves=2),
    Planted("a loop that waits for the other waves' swaps", L, f"""
        ds_write_b32 v2, v3
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_mov_b32 v7, 1
        {PART}
        ds_cmpst_b32 v3, v3, v7
        s_waitcnt lgkmcnt(0)
        s_endpgm
        zero:
        ds_read_b32 v6, v3
        s_waitcnt lgkmcnt(0)
        v_readfirstlane_b32 s22, v6
        s_nop 4
        s_cmp_eq_u32 s22, 0
        + s_cbranch_scc1 zero
    """, waves=2),
    Planted("a guess, and a plain write", L, f"""
        ds_write_b32 v2, v1
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_mov_b32 v7, 9
        {PART}
        ds_read_b32 v6, v3
        s_waitcnt lgkmcnt(0)
        ds_cmpst_rtn_b32 v8, v3, v6, v7
        s_waitcnt lgkmcnt(0)
        s_endpgm
        zero:
        + ds_wrxchg_rtn_b32 v6, v3, v7
        - ds_write_b32 v3, v7
        s_waitcnt lgkmcnt(0)
    """, waves=2),
    Planted("a guess that a swap compares, and a plain load", G, f"""
        v_mov_b32 v5, 2
        v_mov_b32 v4, 1
        {PART}
        + global_load_dword v6, v2, s[8:9]
        - global_load_dword v6, v3, s[8:9]
        s_endpgm
        zero:
        global_load_dword v6, v2, s[8:9]
        s_waitcnt vmcnt(0)
        global_atomic_cmpswap v6, v3, v[4:5], s[8:9] sc0
    """, waves=2),
)


def run(text: str, waves: int, order: str = "lockstep") -> Launched:
    (program,) = read_text(text, "gfx950")
    buffers = [np.arange(1024, dtype=np.uint32) * 3 + 1, np.zeros(1024, np.uint32)]
    return launch("gfx950", program, (1, 1, 1), (64 * waves, 1, 1), buffers, lds=8192, vgprs=256, options=Options(order=order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", HARMLESS + IN_LDS + NOTHING, ids=lambda case: case.name)
def test_reads_beside_writes(case: Planted, order: str) -> None:
    faulty = [finding for finding in run(case.text(False)[0], case.waves, order).findings if finding.check not in case.also]
    assert [(finding.check, finding.severity) for finding in faulty if finding.severity == "error"], [one.sentence() for one in faulty]
    assert {finding.check for finding in faulty} == {case.check}
    harmless = run(case.text(True)[0], case.waves, order).findings
    assert len(harmless) == (case not in NOTHING), [finding.sentence() for finding in harmless]
    for finding in harmless:
        assert (finding.check, finding.severity) == (case.check, "warning") and "leaves it as it was" in finding.message


@pytest.mark.parametrize("order", ORDERS)
def test_one_pair_in_many_places_does_not_hide_another(order: str) -> None:
    """64 places apart from each other in low memory, and more after them."""
    case = Planted("", G, f"""
        v_mov_b32 v5, 2
        v_and_b32 v4, 63, v1
        v_lshlrev_b32 v4, 3, v4
        {PART}
        global_load_dword v6, v4, s[8:9]
        global_load_dword v7, v4, s[8:9] offset:1024
        s_endpgm
        zero:
        global_store_dword v4, v5, s[8:9]
        global_store_byte v4, v5, s[8:9] offset:1025
    """, waves=2)
    found = run(case.text(False)[0], 2, order).findings
    assert {frozenset((finding.producer.name, finding.consumer.name)) for finding in found if finding.producer and finding.consumer} == {
        frozenset(("global_load_dword", "global_store_dword")), frozenset(("global_load_dword", "global_store_byte"))}
    assert all(finding.severity == "error" and finding.count > 1 for finding in found)


@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes_are_found_exactly(seed: int) -> None:
    """Compiled and not, against bytes one by one."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([1, 2, 4, 16]))
    memory = rng.integers(0, 3, 400).astype(np.uint8)
    addresses, lengths = rng.integers(0, 380, (3, 5)), rng.integers(0, size + 1, (3, 5))
    data = rng.integers(0, 3, (3, 5, size)).astype(np.uint8)
    expected = [[[int(byte < lengths[wave, lane] and memory[addresses[wave, lane] + byte] != data[wave, lane, byte])
                  for byte in range(size)] for lane in range(5)] for wave in range(3)]
    assert changes_of(memory, addresses, lengths, data).tolist() == expected
    assert compiled_changes_of(memory, addresses, lengths, data).tolist() == expected


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_lanes_that_change_lds_are_found_exactly(size: int) -> None:
    """Compiled and not, against bytes one by one; of three workgroups that do the same any one counts."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        lds = rng.integers(0, 2, 3 * 256).astype(np.uint8)
        at = np.where(rng.random((2, 8)) < 0.8, rng.integers(0, 240 // size, (2, 8)) * (size if seed % 2 else 1), -16)
        words = rng.integers(0, 2, (max(1, size // 4), 6, 8, 4)).astype(np.uint8).view(np.uint32)[..., 0]
        data = [words[byte // 4] >> 8 * (byte % 4) & 255 for byte in range(size)]
        expected = [[start >= 0 and any(lds[start + 256 * home + byte] != data[byte][2 * home + wave, lane]
                                        for home in range(3) for byte in range(size))
                     for lane, start in enumerate(row)] for wave, row in enumerate(at.tolist())]
        assert changes(lds, at, words, size, 256).tolist() == expected
        assert lanes_change(lds, at, words, size, 256).tolist() == expected
