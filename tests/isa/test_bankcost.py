"""LDS bank conflicts from layouts alone: published swizzles and pads, rank against enumeration, the pure count against the arrays'."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.isa import lds, lds_arrays
from asmgen.isa.bankcost import bank_cost, ways_by_rank
from asmgen.isa.errors import AsmgenError
from asmgen.isa.layout import Layout, LayoutError, from_bits, identity
from asmgen.isa.layouts_lds import PUBLISHED, transposing_read
from asmgen.isa.layouts_mfma import operand_layout
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.placement import Pads, Placement, Swizzle, row_major
from tests.placement_addresses import address_of, addresses

LANES = [{"lane": lane} for lane in range(64)]


def rows_of(name: str, code: int = 0) -> Layout:
    """Lane -> row and column of the first item of an A operand."""
    return operand_layout(MFMA[name], "a", code).only(["lane"], ["i", "k"]).renamed(i="row", k="column")


# Lanes, columns of the tile, bits of an element, instruction, its width, columns of its reads or writes, swizzle, ways without and with it.
PUBLISHED_CASES = {
    # HipKittens E.1 and figure 4: "2-way bank conflicts", none with the swizzle.
    "paper": (rows_of("v_mfma_f32_16x16x32_bf16"), 32, 16, "ds_read_b128", 128, (0,), "st_16x32", 2),
    # HipKittens D.1: ds_write_b64 of a row-layout 16x16 tile.
    "paper, writes": (rows_of("v_mfma_f32_16x16x16_bf16"), 16, 16, "ds_write_b64", 64, (0,), "st_16x16", 4),
    # The FP8 article: rows of 128 fp8; it says 8-way, the phase table says 4.
    "002": (rows_of("v_mfma_f32_16x16x128_f8f6f4", 0), 128, 8, "ds_read_b128", 128, (0, 64), "fp8_128", 4),
    # The MXFP4 article: a lane quantises 32 consecutive bf16 of a row of 128 for an fp4 operand, 8 of them a read.
    "001": (rows_of("v_mfma_scale_f32_16x16x128_f8f6f4", 4), 128, 16, "ds_read_b128", 128, (0, 8, 16, 24), "bf16_256", 8),
    "gemm-bf16": (rows_of("v_mfma_f32_16x16x32_bf16"), 64, 16, "ds_read_b128", 128, (0, 32), "rows_128", 4),
}


@pytest.mark.parametrize("case", PUBLISHED_CASES)
def test_published_swizzles(case: str) -> None:
    lanes, columns, bits, op, width, starts, name, ways = PUBLISHED_CASES[case]
    dense = row_major(columns, 16, bits)
    for swizzle, expected in ((Swizzle(), ways), (PUBLISHED[name], 1)):
        for start in starts:
            places = addresses(address_of(Placement(dense, swizzle), lanes, {"column": start}), LANES)
            found = bank_cost("gfx950", op, places, width)
            assert found.ways == expected
            assert (found.extra == 0) == (expected == 1) == (found.lanes is None)
        whole = lanes.then(dense).then(swizzle.layout(dense.output_sizes["offset"]))
        assert ways_by_rank("gfx950", op, whole, width) == expected


def test_half_of_a_swizzle_leaves_two_ways() -> None:
    """The MXFP4 article on its way: XOR of bits 4 and 5 only."""
    lanes = PUBLISHED_CASES["001"][0]
    whole = lanes.then(row_major(128, 16, 16)).then(Swizzle(((4, 0x30),)).layout(4096))
    assert ways_by_rank("gfx950", "ds_read_b128", whole, 128) == 2


@pytest.mark.parametrize("name", ["", "st_16x32"])
def test_the_papers_tile_is_free_for_column_reads_with_and_without_swizzle(name: str) -> None:
    """The 16x32 tile read by columns with ds_read_b64_tr_b16 for a 32x32x16 operand (appendix D.1, figure 20)."""
    swizzle = PUBLISHED[name] if name else Swizzle()
    operand = operand_layout(MFMA["v_mfma_f32_32x32x16_bf16"], "a").only(None, ["i", "k"]).renamed(i="column", k="row")
    sources = transposing_read("ds_read_b64_tr_b16").inverse().then(operand).only(["source_lane"])
    whole = sources.then(row_major(32, 16, 16)).then(swizzle.layout(1024)).renamed(source_lane="lane")
    assert ways_by_rank("gfx950", "ds_read_b64_tr_b16", whole, 64) == 1
    assert bank_cost("gfx950", "ds_read_b64_tr_b16", [whole(lane=lane)["offset"] for lane in range(64)], 64).extra == 0


def test_pads_between_dma_lines_do_what_a_swizzle_does() -> None:
    """AITER's fp4 tile: lines of 8 rows of 128 bytes, 32 bytes between lines, rows of a fragment spread over lines by global addresses."""
    bits = {"lane": [{"offset": 128}, {"offset": 1024}, {"offset": 256}, {"offset": 2048}, {"offset": 16}, {"offset": 32}]}
    spread = from_bits(bits, {"offset": 4096})
    plain = from_bits({"lane": [{"offset": 128 << bit} for bit in range(4)] + [{"offset": 16}, {"offset": 32}]}, {"offset": 2048})
    for layout, pads, ways in ((spread, Pads(((1024, 32),)), 1), (spread, Pads(), 4), (plain, Pads(((1024, 32),)), 2), (plain, Pads(), 4)):
        places = [pads(layout(lane=lane)["offset"]) for lane in range(64)]
        assert bank_cost("gfx950", "ds_read_b128", places, 128).ways == ways


@pytest.mark.parametrize(("name", "op", "width", "swizzle", "extra"), [
    ("v_mfma_f32_16x16x32_bf16", "ds_read_b128", 128, "", 24), ("v_mfma_f32_16x16x32_bf16", "ds_read_b128", 128, "rows_128", 0),
    # Chunks of 16 bytes cannot part the 16 rows of a b64 phase: rows r and r + 8 still meet.
    ("v_mfma_f32_16x16x16_bf16", "ds_read_b64", 64, "", 60), ("v_mfma_f32_16x16x16_bf16", "ds_read_b64", 64, "rows_128", 4),
])
def test_gfx942_rows_of_128_bytes(name: str, op: str, width: int, swizzle: str, extra: int) -> None:
    placement = Placement(row_major(64, 16, 16), PUBLISHED[swizzle] if swizzle else Swizzle())
    assert bank_cost("gfx942", op, addresses(address_of(placement, rows_of(name), {}), LANES), width).extra == extra


# Where a phase serves a coset of lanes: every row of the table but none of the assumed widths that are no power of two.
BY_RANK = [(row.arch, row.op, width) for row in lds.RULES for width in (32, 64, 128)
           if str(width) in row.op.replace("tr_b16", "") and "read2" not in row.op and "b96" not in row.op]


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.sampled_from(BY_RANK), st.lists(st.integers(0, 1023), min_size=6, max_size=6))
def test_rank_counts_what_enumeration_counts(what: tuple[str, str, int], numbers: list[int]) -> None:
    arch, op, width = what
    layout = from_bits({"lane": [{"offset": number * width // 8} for number in numbers]}, {"offset": 1024 * width // 8})
    places = [layout(lane=lane)["offset"] for lane in range(64)]
    assert ways_by_rank(arch, op, layout, width) == bank_cost(arch, op, places, width).ways


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.sampled_from([("gfx950", "ds_read_b128", 128), ("gfx950", "ds_read_b96", 96), ("gfx950", "ds_read_b32", 32),
                        ("gfx942", "ds_write_b16", 16), ("gfx942", "ds_write_b64", 64)]),
       st.lists(st.integers(0, 900), min_size=64, max_size=64), st.integers(0, 2**64 - 1))
def test_the_count_without_numpy_is_the_arrays(what: tuple[str, str, int], places: list[int], active: int) -> None:
    arch, op, width = what
    mask = np.array([[active >> lane & 1 for lane in range(64)]], bool)
    found = bank_cost(arch, op, places, width, active)
    loads = lds_arrays.bank_loads(arch, op, [places], width, mask)
    assert found.cycles == loads.max(axis=-1).sum()
    assert found.extra == lds_arrays.conflicts(arch, op, [places], width, mask)[0]
    if found.lanes is not None and found.lanes[0] != found.lanes[1]:
        banks = [{dword % lds.rule(arch, op).banks for dword in range(places[lane] // 4, (places[lane] + width // 8 - 1) // 4 + 1)}
                 for lane in found.lanes]
        assert banks[0] & banks[1] and all(active >> lane & 1 for lane in found.lanes)


def test_two_addresses_and_ideal() -> None:
    pairs = [(8 * lane, 8 * lane + 512) for lane in range(64)]
    found = bank_cost("gfx942", "ds_read2_b64", pairs, 64)
    assert (found.cycles, found.ideal, found.ways) == (16, 8, 2)
    assert bank_cost("gfx942", "ds_read2_b64", [(first, second + 64) for first, second in pairs], 64).extra == 0
    full = bank_cost("gfx950", "ds_read_b32", [4 * lane for lane in range(64)], 32)
    assert (full.cycles, full.ideal, full.ways, full.lanes) == (2, 2, 1, None)


def test_errors() -> None:
    plain = identity("lane", "offset", 64)
    with pytest.raises(LayoutError, match="counted by enumeration"):
        ways_by_rank("gfx950", "ds_read_b128", plain, 128)
    with pytest.raises(LayoutError, match="adds to offset"):
        ways_by_rank("gfx950", "ds_read_b32", identity("byte", "offset", 12) * identity("lane", "offset", 64), 32)
    with pytest.raises(LayoutError, match="an address from each of 64 lanes, not 3"):
        bank_cost("gfx950", "ds_read_b32", [0, 4, 8], 32)
    with pytest.raises(LayoutError, match="not negative"):
        bank_cost("gfx950", "ds_read_b32", [-4] * 64, 32)
    with pytest.raises(AsmgenError, match="no bank conflicts"):
        bank_cost("gfx950", "ds_bpermute_b32", [0] * 64, 32)
