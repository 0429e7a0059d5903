"""LDS phases and bank conflicts: figures derived by hand from docs/facts/microarchitecture.md section 2.4."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.isa import lds, lds_arrays
from asmgen.isa.errors import AsmgenError

LANE = np.arange(64)
ROW, GROUP = LANE % 16, LANE // 16


def extra(arch: str, op: str, addresses: np.ndarray, width: int, active: np.ndarray | None = None) -> int:
    """Conflict cycles of one wave."""
    mask = None if active is None else active[np.newaxis]
    return int(lds_arrays.conflicts(arch, op, addresses[np.newaxis], width, mask)[0])


def test_phases_are_those_of_the_paper() -> None:
    """HipKittens table 5, typed as it is printed."""
    def lanes(text: str) -> tuple[int, ...]:
        ends = [tuple(map(int, part.split("-"))) for part in text.split()]
        return tuple(lane for first, last in ends for lane in range(first, last + 1))

    table = {
        "ds_read_b128": (64, ["0-3 12-15 20-27", "4-11 16-19 28-31", "32-35 44-47 52-59", "36-43 48-51 60-63"]),
        "ds_read_b96": (32, ["0-3 20-23", "4-7 16-19", "8-11 28-31", "12-15 24-27",
                             "32-35 52-55", "36-39 48-51", "40-43 60-63", "44-47 56-59"]),
        "ds_write_b64": (32, ["0-15", "16-31", "32-47", "48-63"]),
        "ds_read_b64": (64, ["0-31", "32-63"]),
        "ds_read_b64_tr_b16": (64, ["0-31", "32-63"]),
    }
    for op, (banks, phases) in table.items():
        row = lds.rule("gfx950", op)
        assert (row.banks, row.phases, row.assumed) == (banks, tuple(map(lanes, phases)), False)


@pytest.mark.parametrize(("arch", "op", "banks", "phases", "assumed"), [
    ("gfx950", "ds_read_b32", 32, 1, False), ("gfx942", "ds_read_b32", 32, 2, False), ("gfx942", "ds_read_b64", 32, 4, False),
    ("gfx942", "ds_read_b128", 32, 8, False), ("gfx942", "ds_write_b128", 32, 8, False), ("gfx950", "ds_write_b128", 32, 8, False),
    ("gfx942", "ds_read2_b64", 32, 8, True), ("gfx950", "ds_read_b64_tr_b8", 64, 2, True), ("gfx950", "ds_read_b96_tr_b6", 64, 2, True),
    ("gfx942", "ds_write_b32", 32, 1, True), ("gfx950", "ds_write_b96", 32, 4, True), ("gfx942", "ds_read2_b32", 32, 2, True),
    ("gfx942", "ds_write_b64", 32, 2, True), ("gfx950", "ds_read2st64_b64", 32, 4, True), ("gfx950", "ds_add_f32", 32, 1, True),
    ("gfx950", "ds_read_u16_d16_hi", 32, 1, True), ("gfx942", "ds_pk_add_rtn_bf16", 32, 1, True), ("gfx942", "ds_add_rtn_u64", 32, 2, True),
])
def test_banks_and_number_of_phases(arch: str, op: str, banks: int, phases: int, assumed: bool) -> None:
    row = lds.rule(arch, op)
    assert (row.banks, len(row.phases), row.assumed) == (banks, phases, assumed)


@pytest.mark.parametrize("row", lds.RULES, ids=lambda row: f"{row.arch}-{row.op}")
def test_phases_serve_every_lane_once(row: lds.PhaseRule) -> None:
    assert sorted(lane for phase in row.phases for lane in phase) == list(range(64))
    assert len({len(phase) for phase in row.phases}) == 1
    assert row.source and lds.rule(row.arch, row.op) is row


# arch, op, width in bits, a pattern without conflicts, one with, its extra cycles. Patterns are byte strides between lanes,
# worked out by hand: stride 128 puts all lanes into one bank of 32, 256 into one of 64.
STRIDES = [
    ("gfx950", "ds_read_b32", 32, 4, 128, 62),  # one phase: 64 dwords in a bank, of which 2 would be had anyway
    ("gfx950", "ds_read_b32", 32, 4, 8, 2),  # 64 dwords in 16 banks: 4 instead of 2
    ("gfx950", "ds_read_b64", 64, 8, 256, 62),  # 2 phases of 32 lanes
    ("gfx950", "ds_read_b64", 64, 8, 128, 30),  # even lanes banks 0 and 1, odd lanes 32 and 33
    ("gfx950", "ds_read_b96", 96, 16, 12, 8),  # packed triples overlap between the two quarters of each of 8 phases
    ("gfx950", "ds_read_b96", 96, 16, 128, 56),
    ("gfx950", "ds_read_b128", 128, 16, 256, 60),  # 4 phases of 16 lanes
    ("gfx950", "ds_read_b64_tr_b16", 64, 8, 256, 62),
    ("gfx950", "ds_read_b64_tr_b8", 64, 8, 256, 62),
    ("gfx950", "ds_read_b64_tr_b4", 64, 8, 256, 62),
    ("gfx950", "ds_read_b96_tr_b6", 96, 12, 256, 60),  # 96 dwords a phase need 2 in any case
    ("gfx950", "ds_write_b64", 64, 8, 128, 60),
    ("gfx950", "ds_write_b128", 128, 16, 128, 56),
    ("gfx942", "ds_read_b32", 32, 4, 128, 62),
    ("gfx942", "ds_read_b32", 32, 4, 8, 2),
    ("gfx942", "ds_read_b64", 64, 8, 128, 60),
    ("gfx942", "ds_read_b96", 96, 16, 12, 8),
    ("gfx942", "ds_read_b128", 128, 16, 128, 56),
    ("gfx942", "ds_write_b128", 128, 16, 128, 56),
    ("gfx942", "ds_write_b32", 32, 4, 128, 62),
    ("gfx950", "ds_write_b32", 32, 4, 128, 62),
    ("gfx942", "ds_write_b64", 64, 8, 128, 60),
    ("gfx942", "ds_write_b96", 96, 12, 128, 56),
    ("gfx950", "ds_read_u8", 8, 1, 128, 62),
]


@pytest.mark.parametrize(("arch", "op", "width", "good", "bad", "cycles"), STRIDES)
def test_strides(arch: str, op: str, width: int, good: int, bad: int, cycles: int) -> None:
    assert extra(arch, op, LANE * good, width) == 0
    assert extra(arch, op, LANE * bad, width) == cycles
    assert extra(arch, op, LANE * 0 + 512, width) == 0  # every lane the same dwords: broadcast


def test_every_row_has_a_pattern_of_each_kind() -> None:
    two_addresses = {("gfx942", "ds_read2_b64")}  # test_two_addresses
    assert {(row.arch, row.op) for row in lds.RULES} <= {(arch, op) for arch, op, *_ in STRIDES} | two_addresses


@pytest.mark.parametrize(("op", "width", "conflicts"), [("ds_read_b32", 32, 3968), ("ds_read_b64", 64, 3840), ("ds_read_b128", 128, 3584)])
def test_mi300x_counters(op: str, width: int, conflicts: int) -> None:
    """AMD counted these conflicts on MI300X in blocks of 64 reads whose lanes all hit one bank."""
    assert 64 * extra("gfx942", op, LANE * 128, width) == conflicts


@pytest.mark.parametrize("kstep", [0, 1])
@pytest.mark.parametrize(("arch", "plain_cycles"), [("gfx950", 12), ("gfx942", 24)])
def test_xor_swizzle_of_128_byte_rows(arch: str, plain_cycles: int, kstep: int) -> None:
    """Rows of 64 bf16; lane l reads chunk 4 kstep + l/16 of row l%16 for a 16x16x32 MFMA.

    Without a swizzle, gfx950's phases have 8 lanes a chunk in rows of both parities: 4 rows in a bank, 4 phases, 4 * 3. gfx942's have
    4 lanes a chunk, all rows in the same banks: 8 phases, 8 * 3.
    """
    chunk = 4 * kstep + GROUP
    assert extra(arch, "ds_read_b128", ROW * 128 + 16 * (chunk ^ (ROW & 7)), 128) == 0
    assert extra(arch, "ds_read_b128", ROW * 128 + 16 * chunk, 128) == plain_cycles
    # A swizzle that forgets the upper rows does not do.
    assert extra(arch, "ds_read_b128", ROW * 128 + 16 * (chunk ^ (ROW & 3)), 128) > 0


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_swizzle_of_256_byte_rows(step: int) -> None:
    """The MXFP4 article: an 8-way conflict, and the XOR that its author measured to be free of conflicts on MI355X.

    A lane needs 32 consecutive bf16 of its row (the K of one fp4 lane), a fourth of them with each read.
    """
    plain = ROW * 256 + 64 * GROUP + 16 * step
    assert extra("gfx950", "ds_read_b128", plain, 128) == 4 * 7
    assert extra("gfx950", "ds_read_b128", plain ^ (((plain >> 4) & 0x30) | ((plain >> 3) & 0x80)), 128) == 0
    assert extra("gfx950", "ds_read_b128", plain ^ ((plain >> 4) & 0x30), 128) == 4 * 1  # its first half: "2-way" remains


@pytest.mark.parametrize("half", [0, 1])
def test_swizzle_of_the_fp8_article(half: int) -> None:
    """The FP8 article: 128-byte rows of fp8, XOR with row / 2."""
    plain = ROW * 128 + 64 * half + 16 * GROUP
    assert extra("gfx950", "ds_read_b128", plain ^ ((ROW >> 1) << 4), 128) == 0
    assert extra("gfx950", "ds_read_b128", plain, 128) == 12


def test_swizzle_of_the_paper_for_ds_write_b64() -> None:
    """HipKittens appendix D.1: a 16x16 bf16 tile, offset ^= ((offset % 512) >> 7) << 3; without it 4 rows share a bank."""
    plain = ROW * 32 + 8 * GROUP
    assert extra("gfx950", "ds_write_b64", plain ^ (((plain % 512) >> 7) << 3), 64) == 0
    assert extra("gfx950", "ds_write_b64", plain, 64) == 4 * 3


def test_two_addresses() -> None:
    """The second address 16 banks further is free; in the same banks it costs each of 8 phases one cycle."""
    both = np.stack([LANE * 8, LANE * 8 + 512], axis=-1)
    assert extra("gfx942", "ds_read2_b64", both, 64) == 8
    both[:, 1] += 64
    assert extra("gfx942", "ds_read2_b64", both, 64) == 0
    assert extra("gfx942", "ds_read2_b32", np.stack([LANE * 4, LANE * 4 + 256], axis=-1), 32) == 0
    assert extra("gfx950", "ds_read2_b32", np.stack([LANE * 128, LANE * 128 + 4], axis=-1), 32) == 60


def test_broadcast_is_by_dword_not_by_bank() -> None:
    pairs = (LANE // 2) * 4
    assert extra("gfx942", "ds_read_b32", pairs, 32) == 0
    assert extra("gfx942", "ds_read_b32", (LANE % 2) * 128, 32) == 2  # dwords 0 and 32, both in bank 0, in both phases
    assert extra("gfx942", "ds_read_u8", LANE, 8) == 0


def test_inactive_lanes_cost_nothing() -> None:
    addresses = np.where(LANE < 40, LANE * 128, -4)  # nonsense in inactive lanes is legal
    assert extra("gfx942", "ds_read_b32", addresses, 32, LANE < 4) == 3
    assert extra("gfx942", "ds_read_b32", addresses, 32, (LANE == 0) | (LANE == 35)) == 0  # different phases
    assert extra("gfx942", "ds_read_b32", addresses, 32, LANE < 0) == 0


def test_an_unaligned_access_touches_one_dword_more() -> None:
    lanes = LANE < 2
    assert extra("gfx942", "ds_read_b32", np.where(LANE == 0, 124, 0), 32, lanes) == 0
    assert extra("gfx942", "ds_read_b32", np.where(LANE == 0, 126, 0), 32, lanes) == 1  # dwords 31 and 32, and 0


def test_waves_are_counted_apart() -> None:
    patterns = np.stack([LANE * 4, LANE * 128, LANE * 8, LANE * 0])
    assert lds_arrays.conflicts("gfx942", "ds_read_b32", patterns, 32).tolist() == [0, 62, 2, 0]
    mask = np.stack([LANE >= 0, LANE < 2, LANE < 0, LANE >= 0])
    assert lds_arrays.conflicts("gfx942", "ds_read_b32", patterns, 32, mask).tolist() == [0, 1, 0, 0]
    assert lds_arrays.conflicts("gfx942", "ds_read_b32", patterns[:0], 32).shape == (0,)


def test_loads_say_which_bank() -> None:
    loads = lds_arrays.bank_loads("gfx942", "ds_read_b64", (LANE * 32)[np.newaxis], 64)
    assert loads.shape == (1, 4, 32)
    # 16 lanes, 8 dwords apart: 4 in each of banks 0, 1, 8, 9, 16, 17, 24, 25.
    assert loads[0, 2].tolist() == [4, 4, 0, 0, 0, 0, 0, 0] * 4


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from([("gfx950", "ds_read_b128", 128), ("gfx950", "ds_read_b32", 32), ("gfx942", "ds_read_b96", 96),
                        ("gfx942", "ds_write_b16", 16)]),
       st.lists(st.integers(0, 700), min_size=64, max_size=64), st.integers(0, 2**64 - 1))
def test_against_sets(what: tuple[str, str, int], addresses: list[int], mask: int) -> None:
    """The definition once more, with Python sets."""
    arch, op, width = what
    row = lds.rule(arch, op)
    total = 0
    for phase in row.phases:
        dwords = {byte // 4 for lane in phase if mask >> lane & 1 for byte in range(addresses[lane], addresses[lane] + width // 8)}
        in_bank = [sum(dword % row.banks == bank for dword in dwords) for bank in range(row.banks)]
        total += max(in_bank) - (len(dwords) + row.banks - 1) // row.banks
    active = np.array([mask >> lane & 1 for lane in range(64)], bool)
    assert extra(arch, op, np.array(addresses), width, active) == total


@pytest.mark.parametrize("op", ["ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32", "ds_append", "ds_nop", "buffer_load_dword"])
def test_no_rule_without_lane_addresses(op: str) -> None:
    with pytest.raises(AsmgenError, match="no bank conflicts"):
        lds.rule("gfx942", op)


def test_errors() -> None:
    with pytest.raises(AsmgenError, match="does not exist on gfx942"):
        lds.rule("gfx942", "ds_read_b64_tr_b16")
    with pytest.raises(ValueError, match="unknown architecture"):
        lds.rule("gfx90a", "ds_read_b32")
    with pytest.raises(ValueError, match=r"shape \[waves, 64, 2\]"):
        lds_arrays.conflicts("gfx942", "ds_read2_b64", LANE[np.newaxis], 64)
    with pytest.raises(ValueError, match=r"shape \[waves, 64\]"):
        lds_arrays.conflicts("gfx942", "ds_read_b64", LANE, 64)
    with pytest.raises(ValueError, match="whole bytes"):
        lds_arrays.conflicts("gfx942", "ds_read_b64", LANE[np.newaxis], 12)
    with pytest.raises(ValueError, match="negative"):
        lds_arrays.conflicts("gfx942", "ds_read_b64", LANE[np.newaxis] - 1, 64)
    with pytest.raises(ValueError, match="mask"):
        lds_arrays.conflicts("gfx942", "ds_read_b64", LANE[np.newaxis], 64, LANE > 0)
