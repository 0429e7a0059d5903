"""What integer code does to floats and keeps as numbers: one test for each rule, and a twin for which it must not hold."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.emulator.algebra.residues import Residues
from tests.algebra_harness import Followed, same

VALUES = np.where(np.arange(64) % 3 == 0, -1.75, 2.5) * (1 + np.arange(64) / 64)

KEPT = {
    # f32 in v0 to bf16
    "truncation by a shift": ("v_lshrrev_b32 v4, 16, v0", "bf16", 0),
    "truncation by a mask": ("v_and_b32 v4, 0xffff0000, v0", "f32", 0),
    "truncation in the upper half": ("v_and_b32 v4, 0xffff0000, v0", "bf16", 16),
    "rounding by v_bfe and v_add3": ("v_bfe_u32 v8, v0, 16, 1\nv_add3_u32 v4, v0, v8, 0x7fff", "bf16", 16),
    "rounding by two sums": ("v_lshrrev_b32 v8, 16, v0\nv_and_b32 v8, 1, v8\nv_add_u32 v8, 0x7fff, v8\nv_add_u32 v4, v0, v8\n"
                             "v_lshrrev_b32 v4, 16, v4", "bf16", 0),
    "packing by v_perm": ("v_perm_b32 v4, v0, v1, 0x07060302", "bf16", 16),
    "packing by v_and_or": ("v_lshrrev_b32 v8, 16, v1\nv_and_b32 v9, 0xffff0000, v0\nv_or_b32 v4, v9, v8", "bf16", 16),
    "packing by v_lshl_or": ("v_lshrrev_b32 v8, 16, v0\nv_lshrrev_b32 v9, 16, v1\nv_lshl_or_b32 v4, v8, 16, v9", "bf16", 16),
    "packing by v_alignbit": ("v_alignbit_b32 v4, v1, v0, 16", "bf16", 0),
    "packing by v_bfi": ("v_lshrrev_b32 v8, 16, v1\nv_mov_b32 v9, 0xffff0000\nv_bfi_b32 v4, v9, v0, v8", "bf16", 16),
    "packing by a sum of words without common ones": ("v_lshrrev_b32 v8, 16, v1\nv_and_b32 v9, 0xffff0000, v0\nv_add_u32 v4, v9, v8",
                                                      "bf16", 16),
    "a field by v_bfe": ("v_bfe_u32 v4, v0, 16, 16", "bf16", 0),
    "a product with a power of two": ("v_lshrrev_b32 v8, 16, v0\nv_mul_u32_u24 v4, 0x10000, v8", "f32", 0),
    "a select": ("v_cmp_gt_i32 vcc, 100, v31\nv_cndmask_b32 v4, v1, v0, vcc", "f32", 0),
    "an integer maximum": ("v_mov_b32 v8, 0x80000000\nv_max_i32 v4, v8, v0", "f32", 0),
    "two signs by xor": ("v_xor_b32 v4, 0x80000000, v0\nv_xor_b32 v4, 0x80000000, v4", "f32", 0),
    "v_bitop3 that copies": ("v_bitop3_b32 v4, v0, v1, v2 bitop3:0xf0", "f32", 0),
    "v_mov": ("v_mov_b32 v4, v0", "f32", 0),
    "an accumulation register": ("v_accvgpr_write_b32 a0, v0\nv_accvgpr_read_b32 v4, a0", "f32", 0),
    "SDWA of the upper half": ("v_mov_b32_sdwa v4, v0 dst_sel:WORD_0 dst_unused:UNUSED_PAD src0_sel:WORD_1", "bf16", 0),
    "v_pack_b32_f16": ("v_lshrrev_b32 v8, 16, v0\nv_pack_b32_f16 v4, v8, v1 op_sel:[0,1]", "bf16", 0),
    "a swap": ("v_mov_b32 v4, v1\nv_swap_b32 v4, v0", "f32", 0),
    "LDS and back": ("v_lshlrev_b32 v8, 2, v31\nds_write_b32 v8, v0\nds_read_b32 v4, v8", "f32", 0),
    "halves through LDS": ("v_lshlrev_b32 v8, 1, v31\nds_write_b16_d16_hi v8, v0\nds_read_u16 v4, v8", "bf16", 0),
    "a half into a register by d16": ("v_lshlrev_b32 v8, 1, v31\nds_write_b16_d16_hi v8, v0\nds_read_u16_d16_hi v4, v8", "bf16", 16),
}
GONE = {
    "a mask without the lowest bit of the exponent": ("v_and_b32 v4, 0xff7fffff, v0", "f32", 0),
    "a shift by no whole nibbles": ("v_lshrrev_b32 v4, 15, v0", "bf16", 0),
    "the lower half as bf16": ("v_and_b32 v4, 0xffff, v0", "bf16", 0),
    "bf16 read as f16": ("v_lshrrev_b32 v4, 16, v0", "f16", 0),
    "a sum of more than a rounding": ("v_add_u32 v4, 0x10000, v0", "f32", 0),
    "a sum of two floats' patterns": ("v_add_u32 v4, v0, v1", "f32", 0),
    "a bit of the mantissa that bf16 has": ("v_or_b32 v4, 0x00010000, v0", "f32", 0),
    "a bit in the exponent": ("v_or_b32 v4, 0x00800000, v0", "f32", 0),
    "inverted": ("v_not_b32 v4, v0", "f32", 0),
    "exclusive or of two floats": ("v_xor_b32 v4, v0, v1", "f32", 0),
    "a difference": ("v_sub_u32 v4, v0, v1", "f32", 0),
    "a half that a packing covers": ("v_perm_b32 v4, v1, v0, 0x05040302", "bf16", 16),
}


def prepared() -> tuple[Followed, Residues]:
    run = Followed()
    run.machine.vector[31] = np.arange(64)
    number = run.give(0, VALUES)
    run.give(1, VALUES[::-1])
    run.give(2, 3.0)
    return run, number


@pytest.mark.parametrize("name", KEPT)
def test_numbers_are_kept(name: str) -> None:
    text, kind, low = KEPT[name]
    run, number = prepared()
    run.text(text)
    assert same(run.number(4, kind, low), number)


@pytest.mark.parametrize("name", GONE)
def test_numbers_are_lost(name: str) -> None:
    """What is left is a pattern of the run, or an element that is none of this format."""
    text, kind, low = GONE[name]
    run, _number = prepared()
    run.text(text)
    ids = run.ids(4, kind, low)
    assert (ids == 0).all() or not run.algebra.table.numbers(ids, kind, lambda: 0.0).has.any()


def test_signs() -> None:
    run, number = prepared()
    size = (-number).where(VALUES < 0, number)
    run.text("v_xor_b32 v4, 0x80000000, v0\nv_and_b32 v5, 0x7fffffff, v0\nv_or_b32 v6, 0x80000000, v0\n"
             "v_mov_b32 v8, 0x7fffffff\nv_bfi_b32 v7, v8, v0, v1\nv_and_b32 v9, 0xffff0000, v0\nv_xor_b32 v9, 0x80000000, v9")
    assert same(run.number(4), -number) and same(run.number(5), size) and same(run.number(6), -size)
    assert same(run.number(7), (-size).where(VALUES[::-1] < 0, size)), "the sign of another"
    assert same(run.number(9, "bf16", 16), -number)


def test_both_halves_of_a_packed_word_are_numbers() -> None:
    run, number = prepared()
    other = run.number(1)
    run.text("v_perm_b32 v4, v0, v1, 0x07060302\nv_lshlrev_b32 v5, 16, v4\nv_and_b32 v6, 0xffff0000, v4\nv_xor_b32 v7, 0x80008000, v4")
    assert same(run.number(5), other) and same(run.number(6), number), "back to f32"
    assert same(run.number(7, "bf16", 0), -other) and same(run.number(7, "bf16", 16), -number)


def test_lanes_that_are_not_active_keep_theirs() -> None:
    run, number = prepared()
    old = run.give(4, 7.0)
    run.text("s_mov_b64 exec, 0xff\nv_mov_b32 v4, v0\nv_lshlrev_b32 v5, 16, v0\ns_mov_b64 exec, -1")
    assert same(run.number(4), number.where(np.arange(64) < 8, old))


def test_other_lanes() -> None:
    run, number = prepared()
    run.text("v_mov_b32_dpp v4, v0 row_ror:3 row_mask:0xf bank_mask:0xf\nv_readlane_b32 s20, v0, 7\nv_mov_b32 v5, s20\n"
             "v_xor_b32 v8, 5, v31\nv_lshlrev_b32 v8, 2, v8\nds_bpermute_b32 v6, v8, v0\ns_mov_b32 s21, s20\nv_add_f32 v7, s21, 0")
    lane = np.arange(64)
    assert same(run.number(4), number[:, lane & 48 | (lane - 3) & 15])
    assert same(run.number(5), number[:, np.full(64, 7)]) and same(run.number(6), number[:, lane ^ 5])
    assert same(run.number(7), number[:, np.full(64, 7)])


def test_transposed_reads_of_lds() -> None:
    """ds_read_b64_tr_b16: element j of lane l is element l of row j of its 16 lanes."""
    run = Followed()
    run.machine.vector[31] = np.arange(64)
    numbers = {}
    for register in (0, 1):
        for low in (0, 16):
            numbers[2 * register + low // 16] = run.give(register, VALUES, "bf16", low)
    run.text("v_lshlrev_b32 v8, 3, v31\nds_write_b64 v8, v[0:1]\nds_read_b64_tr_b16 v[4:5], v8")
    lane = np.arange(64)
    for element in range(4):
        found = run.number(4 + element // 2, "bf16", 16 * (element % 2))
        within = lane & 15
        source = (lane & 48) + 4 * element + within // 4
        for part in range(4):
            here = within % 4 == part
            assert same(found[:, here], numbers[part][:, source[here]])


def test_dead_elements_are_dropped_and_live_ones_stay() -> None:
    run, number = prepared()
    run.text("v_perm_b32 v4, v0, v1, 0x07060302\nv_mul_f32 v5, v0, v1\nv_mul_f32 v6, v0, v1\nv_mov_b32 v5, 0")
    before = [run.number(register) for register in (0, 6)], run.number(4, "bf16", 16), run.algebra.table.used
    tracker = run.algebra.tracker
    tracker.limit = 0
    tracker.tidy()
    assert run.algebra.table.used < before[2]
    assert all(same(run.number(register), old) for register, old in zip((0, 6), before[0], strict=True))
    assert same(run.number(4, "bf16", 16), before[1]) and same(before[1], number)
