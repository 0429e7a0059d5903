"""Layouts of the matrix instructions against tables typed from docs/facts/instructions.md section 2 and the CDNA4 ISA's figures.

The tables here are literals in the form of the ISA's figures: a line a register, a column a group of 16 lanes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from asmgen.isa import mfma_arrays, mfmaoperands
from asmgen.isa.errors import OperandError
from asmgen.isa.opcodes.mfma import F8F6F4_WIDTHS, MFMA, MfmaRow

ON = [(name, arch) for name, row in MFMA.items() for arch in sorted(row.archs)]

# First k of each register for lanes 0, 16, 32, 48. A register holds 32/bits consecutive k.
FIRST_K = {
    "v_mfma_f32_16x16x4_f32": ["0 1 2 3"],
    "v_mfma_f32_32x32x2_f32": ["0 0 1 1"],
    "v_mfma_f32_16x16x8_xf32": ["0 2 4 6", "1 3 5 7"],
    "v_mfma_f32_32x32x4_xf32": ["0 0 2 2", "1 1 3 3"],
    "v_mfma_f32_16x16x16_f16": ["0 4 8 12", "2 6 10 14"],
    "v_mfma_f32_16x16x16_bf16": ["0 4 8 12", "2 6 10 14"],
    "v_mfma_f32_32x32x8_f16": ["0 0 4 4", "2 2 6 6"],
    "v_mfma_f32_32x32x8_bf16": ["0 0 4 4", "2 2 6 6"],
    "v_mfma_f32_16x16x32_bf16": ["0 8 16 24", "2 10 18 26", "4 12 20 28", "6 14 22 30"],
    "v_mfma_f32_16x16x32_f16": ["0 8 16 24", "2 10 18 26", "4 12 20 28", "6 14 22 30"],
    "v_mfma_f32_32x32x16_bf16": ["0 0 8 8", "2 2 10 10", "4 4 12 12", "6 6 14 14"],
    "v_mfma_f32_32x32x16_f16": ["0 0 8 8", "2 2 10 10", "4 4 12 12", "6 6 14 14"],
    "v_mfma_f32_16x16x32_fp8_bf8": ["0 8 16 24", "4 12 20 28"],
    "v_mfma_i32_16x16x32_i8": ["0 8 16 24", "4 12 20 28"],
    "v_mfma_f32_32x32x16_bf8_fp8": ["0 0 8 8", "4 4 12 12"],
    "v_mfma_i32_32x32x16_i8": ["0 0 8 8", "4 4 12 12"],
    "v_mfma_i32_16x16x64_i8": ["0 16 32 48", "4 20 36 52", "8 24 40 56", "12 28 44 60"],
    "v_mfma_i32_32x32x32_i8": ["0 0 16 16", "4 4 20 20", "8 8 24 24", "12 12 28 28"],
}
# The same for the f8f6f4 formats, keyed by (name, format).
FIRST_K_F8F6F4 = {
    ("v_mfma_f32_16x16x128_f8f6f4", 0): ["0 16 32 48", "4 20 36 52", "8 24 40 56", "12 28 44 60",
                                         "64 80 96 112", "68 84 100 116", "72 88 104 120", "76 92 108 124"],
    ("v_mfma_f32_32x32x64_f8f6f4", 1): ["0 0 16 16", "4 4 20 20", "8 8 24 24", "12 12 28 28",
                                        "32 32 48 48", "36 36 52 52", "40 40 56 56", "44 44 60 60"],
    ("v_mfma_scale_f32_16x16x128_f8f6f4", 4): ["0 32 64 96", "8 40 72 104", "16 48 80 112", "24 56 88 120"],
    ("v_mfma_scale_f32_32x32x64_f8f6f4", 4): ["0 0 32 32", "8 8 40 40", "16 16 48 48", "24 24 56 56"],
}
# B of the sparse instructions: tables 34 and 36 and the figures of section 7.5.1.3 of the CDNA4 ISA.
FIRST_K_SPARSE_B = {
    "v_smfmac_f32_16x16x32_f16": ["0 8 16 24", "2 10 18 26", "4 12 20 28", "6 14 22 30"],
    "v_smfmac_f32_32x32x16_bf16": ["0 0 8 8", "2 2 10 10", "4 4 12 12", "6 6 14 14"],
    "v_smfmac_i32_16x16x64_i8": ["0 16 32 48", "4 20 36 52", "8 24 40 56", "12 28 44 60"],
    "v_smfmac_f32_32x32x32_fp8_bf8": ["0 0 16 16", "4 4 20 20", "8 8 24 24", "12 12 28 28"],
    "v_smfmac_f32_16x16x64_bf16": ["0 8 16 24", "2 10 18 26", "4 12 20 28", "6 14 22 30",
                                   "32 40 48 56", "34 42 50 58", "36 44 52 60", "38 46 54 62"],
    "v_smfmac_f32_32x32x32_f16": ["0 0 8 8", "2 2 10 10", "4 4 12 12", "6 6 14 14",
                                  "16 16 24 24", "18 18 26 26", "20 20 28 28", "22 22 30 30"],
    "v_smfmac_f32_16x16x128_bf8_fp8": ["0 16 32 48", "4 20 36 52", "8 24 40 56", "12 28 44 60",
                                       "64 80 96 112", "68 84 100 116", "72 88 104 120", "76 92 108 124"],
    "v_smfmac_i32_32x32x64_i8": ["0 0 16 16", "4 4 20 20", "8 8 24 24", "12 12 28 28",
                                 "32 32 48 48", "36 36 52 52", "40 40 56 56", "44 44 60 60"],
}
# Packed A of the sparse instructions: the first packed p. A lane's p are consecutive, those of doubled K too.
FIRST_P_SPARSE_A = {
    "v_smfmac_f32_16x16x32_f16": ["0 4 8 12", "2 6 10 14"],
    "v_smfmac_f32_32x32x16_bf16": ["0 0 4 4", "2 2 6 6"],
    "v_smfmac_i32_16x16x64_i8": ["0 8 16 24", "4 12 20 28"],
    "v_smfmac_f32_32x32x32_fp8_bf8": ["0 0 8 8", "4 4 12 12"],
    "v_smfmac_f32_16x16x64_bf16": ["0 8 16 24", "2 10 18 26", "4 12 20 28", "6 14 22 30"],
    "v_smfmac_f32_32x32x32_f16": ["0 0 8 8", "2 2 10 10", "4 4 12 12", "6 6 14 14"],
    "v_smfmac_f32_16x16x128_bf8_fp8": ["0 16 32 48", "4 20 36 52", "8 24 40 56", "12 28 44 60"],
    "v_smfmac_i32_32x32x64_i8": ["0 0 16 16", "4 4 20 20", "8 8 24 24", "12 12 28 28"],
}


def points(edge: int, bits: int, lines: list[str]) -> dict[tuple[int, int], tuple[int, int, int]]:
    """{(row, k): (lane, register, bit)} of a table above. Of 32 rows, lanes 16 to 31 and 48 to 63 hold rows 16 to 31."""
    rows = (0, 0, 0, 0) if edge == 16 else (0, 16, 0, 16)
    found = {}
    for register, line in enumerate(lines):
        for group, first in enumerate(map(int, line.split())):
            for x in range(16):
                for item in range(32 // bits):
                    found[rows[group] + x, first + item] = 16 * group + x, register, item * bits
    return found


def got(places: mfma_arrays.OperandSlots, index: tuple[int, int, int]) -> tuple[int, int, int]:
    return int(places.lane[index]), int(places.register[index]), int(places.bit[index])


def bits_of(name: str) -> int:
    for text, bits in (("fp8", 8), ("bf8", 8), ("i8", 8), ("bf16", 16), ("f16", 16), ("xf32", 32)):
        if name.endswith(text):
            return bits
    return 32


@pytest.mark.parametrize("name", FIRST_K)
def test_dense_a_and_b(name: str) -> None:
    row = MFMA[name]
    table = points(row.m, bits_of(name), FIRST_K[name])
    assert len(table) == row.m * row.k
    for (x, k), place in table.items():
        assert got(mfma_arrays.a_map(row), (0, x, k)) == place
        assert got(mfma_arrays.b_map(row), (0, k, x)) == place


@pytest.mark.parametrize(("name", "code"), FIRST_K_F8F6F4)
def test_f8f6f4_a_and_b(name: str, code: int) -> None:
    row = MFMA[name]
    table = points(row.m, 4 if code == 4 else 8, FIRST_K_F8F6F4[name, code])
    assert len(table) == row.m * row.k
    for (x, k), place in table.items():
        assert got(mfma_arrays.a_map(row, code), (0, x, k)) == place
        assert got(mfma_arrays.b_map(row, code), (0, k, x)) == place


# The sixteen 6-bit items of three registers; the sixth and the eleventh go on in the next register.
SIX_BIT = [(0, 0), (0, 6), (0, 12), (0, 18), (0, 24), (0, 30), (1, 4), (1, 10), (1, 16), (1, 22), (1, 28),
           (2, 2), (2, 8), (2, 14), (2, 20), (2, 26)]


@pytest.mark.parametrize(("name", "first"), [("v_mfma_f32_16x16x128_f8f6f4", "0 32 64 96"), ("v_mfma_f32_32x32x64_f8f6f4", "0 0 32 32")])
@pytest.mark.parametrize("code", [2, 3])
def test_six_bit_items_cross_registers(name: str, first: str, code: int) -> None:
    row = MFMA[name]
    for group, start in enumerate(map(int, first.split())):
        x = 16 * (group % 2) + 7 if row.m == 32 else 7
        for item in range(32):
            register, bit = SIX_BIT[item % 16]
            place = 16 * group + 7, register + 3 * (item // 16), bit
            assert got(mfma_arrays.a_map(row, code), (0, x, start + item)) == place
            assert got(mfma_arrays.b_map(row, code), (0, start + item, x)) == place


def test_mixed_formats_put_one_k_into_different_lanes() -> None:
    """fp8 x fp4: k = 20 is in lane group 1 of A, but in lane group 0 of B."""
    row = MFMA["v_mfma_f32_16x16x128_f8f6f4"]
    assert got(mfma_arrays.a_map(row, 0), (0, 3, 20)) == (19, 1, 0)
    assert got(mfma_arrays.b_map(row, 4), (0, 20, 3)) == (3, 2, 16)


@pytest.mark.parametrize("name", FIRST_K_SPARSE_B)
def test_sparse_a_and_b(name: str) -> None:
    row = MFMA[name]
    b_table = points(row.n, bits_of(name), FIRST_K_SPARSE_B[name])
    a_table = points(row.m, bits_of(name), FIRST_P_SPARSE_A[name])
    assert len(b_table) == row.n * row.k and len(a_table) == row.m * row.k // 2
    for (x, k), place in b_table.items():
        assert got(mfma_arrays.b_map(row), (0, k, x)) == place
    for (x, p), place in a_table.items():
        assert got(mfma_arrays.a_map(row), (0, x, p)) == place
        if row.b_regs == 4:  # the packed value meets its four k of B in its own lane
            assert got(mfma_arrays.b_map(row), (0, 4 * (p // 2), x))[0] == place[0]


# (block, i, k) or (block, k, j) -> lane, register, bit: lane i + 32b, i + 16b, 4b + i.
MULTI_BLOCK_A = {
    "v_mfma_f32_32x32x1_2b_f32": [((0, 0, 0), (0, 0, 0)), ((0, 31, 0), (31, 0, 0)), ((1, 0, 0), (32, 0, 0)), ((1, 17, 0), (49, 0, 0))],
    "v_mfma_f32_16x16x1_4b_f32": [((0, 3, 0), (3, 0, 0)), ((1, 0, 0), (16, 0, 0)), ((2, 5, 0), (37, 0, 0)), ((3, 15, 0), (63, 0, 0))],
    "v_mfma_f32_4x4x1_16b_f32": [((0, 3, 0), (3, 0, 0)), ((1, 0, 0), (4, 0, 0)), ((7, 2, 0), (30, 0, 0)), ((15, 3, 0), (63, 0, 0))],
    "v_mfma_f32_32x32x4_2b_f16": [((0, 9, 0), (9, 0, 0)), ((0, 9, 1), (9, 0, 16)), ((1, 9, 2), (41, 1, 0)), ((1, 31, 3), (63, 1, 16))],
    "v_mfma_f32_32x32x4_2b_bf16": [((1, 0, 3), (32, 1, 16)), ((0, 30, 2), (30, 1, 0))],
    "v_mfma_f32_16x16x4_4b_bf16": [((0, 9, 1), (9, 0, 16)), ((1, 9, 2), (25, 1, 0)), ((2, 0, 3), (32, 1, 16)), ((3, 4, 0), (52, 0, 0))],
    "v_mfma_f32_16x16x4_4b_f16": [((1, 0, 3), (16, 1, 16)), ((3, 15, 2), (63, 1, 0))],
    "v_mfma_f32_4x4x4_16b_f16": [((0, 2, 1), (2, 0, 16)), ((5, 1, 2), (21, 1, 0)), ((9, 3, 3), (39, 1, 16)), ((15, 0, 0), (60, 0, 0))],
    "v_mfma_f32_4x4x4_16b_bf16": [((2, 3, 3), (11, 1, 16))],
    "v_mfma_i32_32x32x4_2b_i8": [((0, 31, 1), (31, 0, 8)), ((1, 2, 3), (34, 0, 24)), ((1, 31, 2), (63, 0, 16))],
    "v_mfma_i32_16x16x4_4b_i8": [((0, 15, 1), (15, 0, 8)), ((2, 2, 3), (34, 0, 24)), ((3, 0, 2), (48, 0, 16))],
    "v_mfma_i32_4x4x4_16b_i8": [((0, 3, 1), (3, 0, 8)), ((8, 2, 3), (34, 0, 24)), ((15, 3, 2), (63, 0, 16))],
    "v_mfma_f64_16x16x4_f64": [((0, 0, 0), (0, 0, 0)), ((0, 15, 0), (15, 0, 0)), ((0, 2, 1), (18, 0, 0)), ((0, 9, 3), (57, 0, 0))],
    "v_mfma_f64_4x4x4_4b_f64": [((0, 3, 0), (3, 0, 0)), ((1, 2, 0), (6, 0, 0)), ((0, 1, 1), (17, 0, 0)), ((3, 3, 3), (63, 0, 0)),
                                ((2, 0, 2), (40, 0, 0))],
}


@pytest.mark.parametrize("name", MULTI_BLOCK_A)
def test_blocks_and_f64_inputs(name: str) -> None:
    row = MFMA[name]
    for (block, x, k), place in MULTI_BLOCK_A[name]:
        assert got(mfma_arrays.a_map(row), (block, x, k)) == place
        assert got(mfma_arrays.b_map(row), (block, k, x)) == place


# Row of D in each register, for lanes 0-31 and 32-63 (32x32), or for the four groups of 16 lanes (16x16).
D_32 = ["0 4", "1 5", "2 6", "3 7", "8 12", "9 13", "10 14", "11 15",
        "16 20", "17 21", "18 22", "19 23", "24 28", "25 29", "26 30", "27 31"]
D_16 = ["0 4 8 12", "1 5 9 13", "2 6 10 14", "3 7 11 15"]
D_F64 = ["0 1 2 3", "4 5 6 7", "8 9 10 11", "12 13 14 15"]


@pytest.mark.parametrize("name", [name for name in MFMA if "f64" not in name])
def test_d_of_every_32_bit_instruction(name: str) -> None:
    row = MFMA[name]
    places = mfma_arrays.d_map(row)
    assert not places.bit.any()
    for block in range(row.blocks):
        if row.m == 4:
            for i in range(4):
                for j in range(4):
                    assert got(places, (block, i, j)) == (4 * block + j, i, 0)
            continue
        lines, width = (D_32, 32) if row.m == 32 else (D_16, 16)
        for register, line in enumerate(lines):
            for group, i in enumerate(map(int, line.split())):
                for j in range(width):
                    assert got(places, (block, i, j)) == (width * group + j, len(lines) * block + register, 0)


def test_d_of_f64() -> None:
    places = mfma_arrays.d_map(MFMA["v_mfma_f64_16x16x4_f64"])
    for pair, line in enumerate(D_F64):
        for group, i in enumerate(map(int, line.split())):
            for j in range(16):
                assert got(places, (0, i, j)) == (16 * group + j, 2 * pair, 0)
    places = mfma_arrays.d_map(MFMA["v_mfma_f64_4x4x4_4b_f64"])
    # [block, i, j] -> lane: 16 i + 4 b + j, from the calculator; the ISA's formula would give j + 4 i + 16 b.
    for index, lane in {(0, 0, 0): 0, (0, 0, 3): 3, (1, 0, 0): 4, (3, 0, 2): 14, (0, 1, 0): 16, (2, 1, 1): 25, (1, 2, 3): 39,
                        (0, 3, 0): 48, (3, 3, 3): 63}.items():
        assert got(places, index) == (lane, 0, 0)


@pytest.mark.parametrize(("name", "lane_of"), [
    ("v_mfma_scale_f32_16x16x128_f8f6f4", {(0, 0): 0, (15, 0): 15, (0, 1): 16, (6, 2): 38, (0, 3): 48, (15, 3): 63}),
    ("v_mfma_scale_f32_32x32x64_f8f6f4", {(0, 0): 0, (15, 0): 15, (16, 0): 16, (31, 0): 31, (0, 1): 32, (31, 1): 63}),
])
def test_scale_lanes(name: str, lane_of: dict[tuple[int, int], int]) -> None:
    lanes = mfma_arrays.scale_map(MFMA[name])
    for index, lane in lane_of.items():
        assert lanes[index] == lane
    for operand, spot in (("scale_a", (0, 3, 1)), ("scale_b", (0, 1, 3))):
        for op_sel, bit in enumerate((0, 8, 16, 24)):
            (element,) = [e for e in mfmaoperands.layout(name, operand, "gfx950", op_sel=op_sel) if e.index == spot]
            assert (element.lane, element.register, element.bit, element.bits) == (MFMA[name].m + 3, 0, bit, 8)


def test_an_8_bit_scale_block_lies_in_two_lane_groups() -> None:
    """16x16x128: scale groups 0 and 1 are in registers 0-3, 2 and 3 in 4-7, group s in lane groups 2s and 2s+1 of the half."""
    row = MFMA["v_mfma_scale_f32_16x16x128_f8f6f4"]
    places = mfma_arrays.a_map(row, 0)
    low, high = {0, 1, 2, 3}, {4, 5, 6, 7}
    for block, groups, registers in ((0, {0, 1}, low), (1, {2, 3}, low), (2, {0, 1}, high), (3, {2, 3}, high)):
        part = np.s_[0, 5, 32 * block: 32 * block + 32]
        assert set((places.lane[part] // 16).tolist()) == groups
        assert set(places.register[part].tolist()) == registers


# (name, cbsz, abid) -> lowest bit of the indices of p = 0, 1, 2, 3, which are all in lane 0.
INDEX_BITS = {
    ("v_smfmac_f32_16x16x32_f16", 0, 0): [0, 2, 4, 6],
    ("v_smfmac_f32_16x16x32_f16", 0, 1): [8, 10, 12, 14],
    ("v_smfmac_f32_16x16x32_f16", 0, 3): [24, 26, 28, 30],
    ("v_smfmac_f32_16x16x32_f16", 1, 3): [0, 2, 4, 6],
    ("v_smfmac_f32_32x32x16_bf16", 0, 2): [16, 18, 20, 22],
    ("v_smfmac_i32_16x16x64_i8", 0, 0): [0, 2, 4, 6],
    ("v_smfmac_i32_16x16x64_i8", 0, 1): [16, 18, 20, 22],
    ("v_smfmac_f32_32x32x32_fp8_bf8", 2, 1): [0, 2, 4, 6],
    ("v_smfmac_f32_16x16x64_bf16", 0, 1): [16, 18, 20, 22],
    ("v_smfmac_f32_32x32x32_f16", 0, 0): [0, 2, 4, 6],
    ("v_smfmac_i32_32x32x64_i8", 0, 1): [0, 2, 4, 6],
    ("v_smfmac_f32_16x16x128_bf8_fp8", 1, 1): [0, 2, 4, 6],
}


@pytest.mark.parametrize(("name", "cbsz", "abid"), INDEX_BITS)
def test_index_sets(name: str, cbsz: int, abid: int) -> None:
    places = mfma_arrays.index_map(MFMA[name], cbsz, abid)
    for p, bit in enumerate(INDEX_BITS[name, cbsz, abid]):
        assert got(places, (0, 0, p)) == (0, 0, bit)
    assert not places.register.any()


def test_indices_of_doubled_k_follow_the_values_of_the_lane() -> None:
    """Registers 2 and 3 of A go on where 0 and 1 end, and so do their indices in the one set."""
    places = mfma_arrays.index_map(MFMA["v_smfmac_f32_16x16x64_bf16"], 0, 1)
    assert [got(places, (0, 2, p)) for p in (20, 21, 22, 23)] == [(34, 0, 24), (34, 0, 26), (34, 0, 28), (34, 0, 30)]
    places = mfma_arrays.index_map(MFMA["v_smfmac_i32_32x32x64_i8"])
    assert [got(places, (0, 2, p)) for p in (8, 15, 16, 24, 31)] == [(2, 0, 16), (2, 0, 30), (34, 0, 0), (34, 0, 16), (34, 0, 30)]


def owned(row: MfmaRow, operand: str, code: int) -> int:
    """Registers that the operand has, from the instruction table."""
    widths = {"a": row.a_regs, "b": row.b_regs, "c": row.cd_regs, "d": row.cd_regs}
    return F8F6F4_WIDTHS[code] if row.f8f6f4 and operand in "ab" else widths[operand]


@pytest.mark.parametrize(("name", "arch"), ON)
def test_every_layout_fills_every_bit_once(name: str, arch: str) -> None:
    row = MFMA[name]
    for code in range(5) if row.f8f6f4 else (0,):
        for operand in "abd":
            if operand == "d" and code:
                continue
            elements = mfmaoperands.layout(name, operand, arch, cbsz=code, blgp=code)
            used = np.zeros((64, 32 * owned(row, operand, code)), int)
            for e in elements:
                assert 0 <= e.bit < 32
                used[e.lane, 32 * e.register + e.bit: 32 * e.register + e.bit + e.bits] += 1
            assert (used == 1).all()
            assert len({e.index for e in elements}) == len(elements)


@pytest.mark.parametrize("name", [name for name, row in MFMA.items() if row.sparse])
def test_index_sets_do_not_overlap(name: str) -> None:
    """All sets together fill the register; each holds one pair for each packed value of the lane."""
    row = MFMA[name]
    used = np.zeros((64, 32), int)
    sets = {"16x16x32": 4, "32x32x16": 4, "16x16x128": 1, "32x32x64": 1}.get(f"{row.m}x{row.n}x{row.k}", 2)
    for abid in range(sets):
        for e in mfmaoperands.layout(name, "index", sorted(row.archs)[0], abid=abid):
            used[e.lane, e.bit: e.bit + e.bits] += 1
    assert (used == 1).all()


def test_c_is_where_d_is() -> None:
    assert mfmaoperands.layout("v_mfma_f32_16x16x16_f16", "c", "gfx942") == mfmaoperands.layout("v_mfma_f32_16x16x16_f16", "d", "gfx942")


def test_layout_elements_of_b_are_k_by_j() -> None:
    elements = {e.index: e for e in mfmaoperands.layout("v_mfma_f32_32x32x8_f16", "b", "gfx950")}
    assert elements[0, 7, 31] == mfmaoperands.Element((0, 7, 31), lane=63, register=1, bit=16, bits=16)
    assert elements[0, 2, 31] == mfmaoperands.Element((0, 2, 31), lane=31, register=1, bit=0, bits=16)


@pytest.mark.parametrize(("cbsz", "abid", "first_lanes"), [
    (0, 0, {0: 0, 17: 17, 63: 63}),
    (1, 1, {0: 32, 31: 63, 32: 32, 63: 63}),  # the ISA's example: both blocks take the second one's A
    (2, 1, {0: 16, 15: 31, 16: 16, 40: 24, 63: 31}),  # the ISA's example: lanes 16 to 31 for all
    (2, 3, {0: 48, 63: 63, 17: 49}),
    (3, 5, {0: 40, 7: 47, 8: 40, 63: 47}),
    (4, 15, {0: 60, 3: 63, 4: 60, 62: 62}),
])
def test_broadcast(cbsz: int, abid: int, first_lanes: dict[int, int]) -> None:
    lanes = mfma_arrays.broadcast_lanes(cbsz, abid)
    assert {lane: lanes[lane] for lane in first_lanes} == first_lanes


@pytest.mark.parametrize(("blgp", "lane_of"), [
    (0, {0: 0, 37: 37}), (1, {5: 5, 37: 5, 63: 31}), (2, {5: 37, 37: 37, 0: 32}), (3, {0: 16, 47: 63, 48: 0, 63: 15}),
    (4, {3: 3, 19: 3, 63: 15}), (5, {3: 19, 19: 19, 51: 19}), (6, {0: 32, 20: 36, 63: 47}), (7, {0: 48, 20: 52, 63: 63}),
])
def test_permute(blgp: int, lane_of: dict[int, int]) -> None:
    lanes = mfma_arrays.permute_lanes(blgp)
    assert {lane: lanes[lane] for lane in lane_of} == lane_of


def test_arrays_are_shared_and_read_only() -> None:
    row = MFMA["v_smfmac_f32_16x16x32_f16"]
    arrays = [*mfma_arrays.a_map(row), *mfma_arrays.b_map(row), *mfma_arrays.d_map(row), *mfma_arrays.index_map(row),
              mfma_arrays.broadcast_lanes(1, 0), mfma_arrays.permute_lanes(3),
              mfma_arrays.scale_map(MFMA["v_mfma_scale_f32_32x32x64_f8f6f4"])]
    assert mfma_arrays.a_map(row) is mfma_arrays.a_map(row)
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize(("call", "words"), [
    (lambda: mfmaoperands.layout("v_mfma_f32_16x16x16f16", "a", "gfx942"), "no matrix instruction"),
    (lambda: mfmaoperands.layout("v_mfma_f32_16x16x8_xf32", "a", "gfx950"), "does not exist on gfx950, only on gfx942"),
    (lambda: mfmaoperands.layout("v_mfma_f32_16x16x16_f16", "e", "gfx942"), "no operand 'e'"),
    (lambda: mfmaoperands.layout("v_mfma_f32_16x16x16_f16", "scale_a", "gfx942"), "no scales"),
    (lambda: mfmaoperands.layout("v_mfma_f32_16x16x16_f16", "index", "gfx942"), "not sparse"),
    (lambda: mfmaoperands.layout("v_mfma_f32_16x16x128_f8f6f4", "a", "gfx950", cbsz=5), "no format 5"),
    (lambda: mfmaoperands.layout("v_mfma_scale_f32_16x16x128_f8f6f4", "scale_b", "gfx950", op_sel=4), "scale byte 4"),
    (lambda: mfma_arrays.broadcast_lanes(2, 0, blocks=2), "instruction has 2"),
    (lambda: mfma_arrays.broadcast_lanes(5, 0), "instruction has 16"),
    (lambda: mfma_arrays.broadcast_lanes(1, 2), "there are 2"),
    (lambda: mfma_arrays.broadcast_lanes(0, 1), "there are 1"),
    (lambda: mfma_arrays.permute_lanes(8), "blgp:8"),
])
def test_errors_are_sentences(call: Callable[[], object], words: str) -> None:
    with pytest.raises(OperandError, match=words):
        call()
