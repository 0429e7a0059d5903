"""What looks like a fault and is none: waves that write one value, full counters that hold back issue, guesses that a swap compares.

Each case has a neighbour, as close to it as can be, that is a fault.
"""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.arrival.ldsvalues import bytes_of, first_differing
from asmgen.emulator.scheduling.run import Options
from asmgen.reader.assembly import read_text
from tests.emulator_launch import Launched, launch
from tests.planted_faults import Planted

ORDERS = ("lockstep", "serial", "random:5")
LDS_RACE, GLOBAL_RACE = "lds-race", "global-race"

ALIKE = (
    Planted("every wave stores one value", LDS_RACE, """
        - v_mov_b32 v5, s20
        + v_mov_b32 v5, 7
        ds_write_b32 v3, v5
    """, waves=3),
    Planted("two instructions of two waves", LDS_RACE, """
        v_mov_b32 v5, 7
        v_lshlrev_b32 v6, 3, v1
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 zero
        - v_mov_b32 v5, 8
        v_and_b32 v6, 0x1f8, v6
        ds_write_b32 v6, v5
        s_endpgm
        zero:
        ds_write_b32 v6, v5
    """, waves=2),
    Planted("stores that overlap by one dword of two", LDS_RACE, """
        v_mov_b32 v4, 5
        v_mov_b32 v5, 7
        v_lshlrev_b32 v7, 4, v1
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 zero
        - v_mov_b32 v4, 6
        + v_mov_b32 v4, 7
        v_mov_b32 v5, 9
        v_and_b32 v7, 0x3ff, v7
        v_add_u32 v7, 4, v7
        ds_write2_b32 v7, v4, v5 offset1:1
        s_endpgm
        zero:
        ds_write2_b32 v7, v4, v5 offset1:1
    """, waves=2),
    Planted("one byte of two in a half store", LDS_RACE, """
        v_mov_b32 v5, 0x1234
        v_mov_b32 v6, 0x12
        - v_add_u32 v6, s20, v6
        v_lshlrev_b32 v7, 1, v1
        v_and_b32 v7, 0x7f, v7
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 zero
        ds_write_b8 v7, v6 offset:1
        s_endpgm
        zero:
        ds_write_b16 v7, v5
    """, waves=2),
    Planted("of one wave's lanes the highest decides", LDS_RACE, """
        - v_add_u32 v1, s20, v1
        v_and_b32 v5, 63, v1
        ds_write_b32 v3, v5
    """, waves=2),
    Planted("both places of a write2", LDS_RACE, """
        v_mov_b32 v5, 7
        v_mov_b32 v6, 8
        - v_add_u32 v6, s20, v6
        ds_write2_b32 v3, v5, v6 offset0:1 offset1:4
    """, waves=2),
    Planted("every wave loads one row into LDS", LDS_RACE, """
        s_mov_b32 m0, 0x100
        v_and_b32 v6, 63, v1
        v_lshlrev_b32 v6, 2, v6
        - v_lshl_add_u32 v6, s20, 8, v6
        s_nop 4
        global_load_lds_dword v6, s[8:9]
        s_waitcnt vmcnt(0)
    """, waves=2),
    Planted("a read between the stores is none of them", LDS_RACE, """
        v_mov_b32 v5, 7
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 zero
        ds_write_b32 v3, v5
        s_waitcnt lgkmcnt(0)
        + s_barrier
        s_endpgm
        zero:
        ds_write_b32 v3, v5 offset:16
        + s_waitcnt lgkmcnt(0)
        + s_barrier
        ds_read_b32 v8, v3
        s_waitcnt lgkmcnt(0)
    """, waves=2, also=("uninitialised-lds-read",)),
    Planted("every wave stores one value to memory", GLOBAL_RACE, """
        - v_mov_b32 v5, s20
        + v_mov_b32 v5, 7
        global_store_dword v3, v5, s[10:11]
    """, waves=3),
    Planted("one half of two in memory", GLOBAL_RACE, """
        v_mov_b32 v4, 0x12345678
        v_mov_b32 v5, 9
        v_mov_b32 v6, 0x1234
        - v_mov_b32 v6, 0x1235
        v_and_b32 v7, 63, v1
        v_lshlrev_b32 v7, 4, v7
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 zero
        global_store_short v7, v6, s[10:11] offset:2
        global_store_byte_d16_hi v7, v4, s[10:11] offset:8
        s_endpgm
        zero:
        global_store_dwordx2 v7, v[4:5], s[10:11]
    """, waves=2),
    Planted("the last of a wave's stores decides", GLOBAL_RACE, """
        v_mov_b32 v4, s20
        v_mov_b32 v5, 7
        - v_add_u32 v5, s20, v5
        global_store_dword v3, v4, s[10:11]
        global_store_dword v3, v5, s[10:11]
    """, waves=2),
    Planted("a guess that the swap compares", GLOBAL_RACE, """
        global_load_dword v7, v3, s[8:9]
        s_waitcnt vmcnt(0)
        v_add_u32 v6, 1, v7
        - global_atomic_swap v8, v3, v6, s[8:9] sc0
        + global_atomic_cmpswap v8, v3, v[6:7], s[8:9] sc0
        s_waitcnt vmcnt(0)
    """, waves=2),
    Planted("a guess of a place that the swap leaves alone", GLOBAL_RACE, """
        - global_load_dwordx2 v[6:7], v3, s[8:9]
        + global_load_dword v7, v3, s[8:9] offset:4
        s_waitcnt vmcnt(0)
        v_mov_b32 v6, 1
        global_atomic_cmpswap v8, v3, v[6:7], s[8:9] offset:4 sc0
        s_waitcnt vmcnt(0)
    """, waves=2),
)


def run(text: str, waves: int, order: str = "lockstep") -> Launched:
    (program,) = read_text(text, "gfx950")
    buffers = [np.arange(1024, dtype=np.uint32) * 3 + 1, np.zeros(1024, np.uint32)]
    return launch("gfx950", program, (2, 1, 1), (64 * waves, 1, 1), buffers, lds=8192, vgprs=256, options=Options(order=order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.name)
def test_only_what_depends_on_the_order_is_a_fault(case: Planted, order: str) -> None:
    faulty = run(case.text(False)[0], case.waves, order)
    said = [finding.sentence() for finding in faulty.findings]
    assert case.check in {finding.check for finding in faulty.findings}, said
    assert {finding.check for finding in faulty.findings} <= {case.check, *case.also}, said
    harmless = run(case.text(True)[0], case.waves, order).findings
    assert all(finding.severity == "warning" and "the same value" in finding.message for finding in harmless), \
        [finding.sentence() for finding in harmless]
    assert len(harmless) == (case.check == LDS_RACE and "s_barrier" not in case.body or "global_store" in case.body)  # one, not each


@pytest.mark.parametrize("newer, faults", [(62, True), (63, False), (70, False)])
def test_a_full_vmcnt_holds_back_issue(newer: int, faults: bool) -> None:
    """The counter counts to 63: before one more load is issued the oldest has arrived (docs/facts/semantics.md section 13)."""
    loads = [f"global_load_dword v{40 + number}, v2, s[8:9]" for number in range(newer)]
    body = ["global_load_dword v4, v2, s[8:9] offset:4", *loads, "v_add_u32 v5, 1, v4", "global_store_dword v2, v5, s[10:11]",
            "s_waitcnt vmcnt(0)"]
    found = run(Planted("", "", "\n".join(body)).text(False)[0], 1)
    assert [finding.check for finding in found.findings] == ["read-before-wait"] * faults
    assert found.buffers[1][:64].tolist() == [3 * (number + 1) + 2 for number in range(64)]


@pytest.mark.parametrize("newer, faults", [(14, True), (15, False)])
def test_a_full_lgkmcnt_holds_back_issue(newer: int, faults: bool) -> None:
    body = ["ds_write_b32 v2, v1", "s_waitcnt lgkmcnt(0)", "ds_read_b32 v4, v2", *[f"ds_read_b32 v{40 + n}, v2" for n in range(newer)],
            "v_add_u32 v5, 1, v4", "s_waitcnt lgkmcnt(0)"]
    found = run(Planted("", "", "\n".join(body)).text(False)[0], 1)
    assert [finding.check for finding in found.findings] == ["read-before-wait"] * faults


@pytest.mark.parametrize("newer, faults", [(62, True), (63, False)])
def test_a_full_vmcnt_delivers_into_lds(newer: int, faults: bool) -> None:
    """Data of LDS-DMA is there when its load must have finished, with nobody waiting for it."""
    body = ["s_mov_b32 m0, 0", "s_nop 4", "global_load_lds_dword v2, s[8:9]",
            *[f"global_load_dword v{40 + number}, v2, s[8:9]" for number in range(newer)],
            "ds_read_b32 v5, v2", "s_waitcnt lgkmcnt(0)", "global_store_dword v2, v5, s[10:11]", "s_waitcnt vmcnt(0)"]
    found = run(Planted("", "", "\n".join(body)).text(False)[0], 1)
    assert ("lds-dma-before-wait" in {finding.check for finding in found.findings}) is faults
    assert (found.buffers[1][:64].tolist() == [3 * number + 1 for number in range(64)]) is not faults


@pytest.mark.parametrize("seed", range(12))
def test_differing_bytes_are_found_exactly(seed: int) -> None:
    """Against bytes one by one: some cell in which a wave leaves another value than the one before it, and None where there is none."""
    rng = np.random.default_rng(seed)
    size, granule, waves = int(rng.choice([1, 2, 4, 8])), int(rng.choice([1, 2, 4])), 3
    granule = min(granule, size)
    at = rng.integers(0, 6, (waves, 4)) * size
    at = np.where(rng.random(at.shape) < 0.8, at, -16)
    words = rng.integers(0, 2, (max(1, size // 4), waves, 4)) * 0x01010101
    data = bytes_of(words, size)
    image = rng.integers(0, 2, 64).astype(np.uint8)
    left: dict[int, dict[int, int]] = {}
    for wave in range(waves):
        for lane in range(4):
            for byte in range(size if at[wave, lane] >= 0 else 0):
                left.setdefault(int(at[wave, lane]) + byte, {})[wave] = int(data[wave, lane, byte])
    hits = np.array([[place, wave, 9] for place in range(64 // granule) for wave in range(waves) if rng.random() < 0.5], np.int64)
    wrong = []
    for cell, wave, _ in hits.tolist():
        for place in range(cell * granule, (cell + 1) * granule):
            writers = sorted(left.get(place, {}))
            if wave in writers:
                before = int(image[place]) if wave == writers[0] else left[place][writers[0]]
                wrong.append((cell, wave) if left[place][wave] != before else None)
    expected = [pair for pair in wrong if pair is not None]
    found = first_differing(at, data, hits, granule, lambda places: image[places])
    assert (tuple(found[:2].tolist()) in expected) if expected else found is None


@pytest.mark.parametrize("text, faults", [
    ("v_pk_fma_f32 v[12:13], v[8:9], v[10:11], v[8:9] op_sel_hi:[1,0,1]", False),
    ("v_pk_fma_f32 v[12:13], v[8:9], v[10:11], v[8:9]", True),
    ("v_pk_mul_f32 v[12:13], v[8:9], v[10:11] op_sel:[0,1]", True),
    ("v_pk_add_f32 v[12:13], v[10:11], v[8:9] op_sel_hi:[0,1]", False),
    ("v_pk_mov_b32 v[12:13], v[8:9], v[10:11] op_sel:[0,0]", False),
    ("v_pk_mov_b32 v[12:13], v[8:9], v[10:11] op_sel:[0,1]", True),
])
def test_packed_sources_are_read_as_op_sel_says(text: str, faults: bool) -> None:
    """v11, which nobody writes, is the upper register of a pair of which op_sel may take the lower one for both results."""
    body = ["v_mov_b32 v8, 1.0", "v_mov_b32 v9, 2.0", "v_mov_b32 v10, 4.0", text, "global_store_dwordx2 v2, v[12:13], s[10:11]"]
    found = run(Planted("", "", "\n".join(body)).text(False)[0], 1)
    assert ("uninitialised-use" in {finding.check for finding in found.findings}) is faults
    assert faults or not found.findings


@pytest.mark.parametrize(("first", "at"), [("ds_read_b32 v5, v2", 0), ("ds_write_b32 v2, v1", 0), ("ds_read_b32 v5, v2 offset:256", 64)])
@pytest.mark.parametrize("wait", ["", "s_waitcnt lgkmcnt(1)", "s_waitcnt lgkmcnt(0)"])
def test_a_load_into_lds_waits_for_the_waves_own_lds_operations(first: str, at: int, wait: str) -> None:
    """They are in no order with it (docs/facts/instructions.md section 4), whether the workgroup has barriers or not."""
    body = ["s_mov_b32 m0, 0", "ds_write_b32 v2, v1 offset:256", "s_waitcnt lgkmcnt(0)", first, wait, "global_load_lds_dword v2, s[8:9]",
            "s_waitcnt vmcnt(0) lgkmcnt(0)", "ds_read_b32 v5, v2", "s_waitcnt lgkmcnt(0)", "global_store_dword v2, v5, s[10:11]"]
    if first.startswith("ds_read") and not at:
        body[1] = body[1].replace(" offset:256", "")
    found = run(Planted("", "", "\n".join(body)).text(False)[0], 1)
    assert [finding.check for finding in found.findings] == ["lds-dma-before-wait"] * (not at and wait != "s_waitcnt lgkmcnt(0)")
