"""The affine steps after a layout: packing, swizzles, pads and bases; transposing reads and LDS-DMA against the emulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.emulator.memory.ldslanes import transposed
from asmgen.isa.layout import LayoutError, identity, product
from asmgen.isa.layouts_lds import PUBLISHED, TRANSPOSING, dma_order, transposing_items, transposing_packing, transposing_read
from asmgen.isa.placement import Packing, Pads, Placement, Swizzle, row_major


def test_packing_of_six_bit_items() -> None:
    """32 items in 192 bits: item 5 begins in the last two bits of register 0 and goes on in register 1."""
    six = Packing(6)
    assert [six.place(item) for item in (0, 4, 5, 6, 10, 16, 31)] == [(0, 0), (0, 24), (0, 30), (1, 4), (1, 28), (3, 0), (5, 26)]
    assert (six.item(1, 0), six.item(1, 4), six.item(5, 31)) == (5, 6, 31)
    assert (six.registers(32), six.together, Packing(4).together, Packing(16).together, Packing(64).together) == (6, 16, 8, 2, 1)
    assert (Packing(2, 16).place(3), Packing(64).place(3), Packing(2, 16).item(0, 21)) == ((0, 22), (6, 0), 2)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.sampled_from([2, 4, 6, 8, 16, 32, 64]), st.integers(0, 3), st.integers(0, 100))
def test_packing_finds_its_items(bits: int, start: int, item: int) -> None:
    packing = Packing(bits, 8 * start)
    assert packing.item(*packing.place(item)) == item


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_swizzles_are_permutations(name: str) -> None:
    swizzle = PUBLISHED[name]
    period = swizzle.period
    assert sorted(map(swizzle, range(period))) == list(range(period))
    layout = swizzle.layout(3 * period)
    for offset in range(3 * period):
        assert swizzle(swizzle(offset)) == offset
        assert swizzle(offset) // swizzle.reach == offset // swizzle.reach
        assert layout(offset=offset) == {"offset": swizzle(offset)}
        assert swizzle(offset + 5 * period) == swizzle(offset) + 5 * period
        assert swizzle(offset) % swizzle.granule == offset % swizzle.granule


def test_published_swizzles_by_value() -> None:
    """By hand: the paper swaps halves of a 64-byte row from row 8 on; the MXFP4 and FP8 articles XOR row bits onto the chunk."""
    assert [PUBLISHED["st_16x32"](row * 64 + 16) for row in (0, 7, 8, 15)] == [16, 464, 560, 1008]
    assert [PUBLISHED["fp8_128"](row * 128) for row in (0, 1, 2, 5, 15)] == [0, 128, 272, 672, 2032]
    assert [PUBLISHED["bf16_256"](row * 256) for row in (1, 3, 4, 7)] == [272, 816, 1152, 1968]
    assert (PUBLISHED["st_16x32"].period, PUBLISHED["fp8_128"].period, PUBLISHED["st_16x32"].granule) == (1024, 2048, 32)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from([16, 64, 96, 256, 1024]), st.sampled_from([0, 4, 16, 32])), max_size=3), st.integers(0, 20000))
def test_pads_grow_and_are_undone(pads: list[tuple[int, int]], offset: int) -> None:
    pad = Pads(tuple(pads))
    assert pad(offset) == offset + sum(add * (offset // every) for every, add in pads)
    assert pad.dense(pad(offset)) == offset
    assert pad(offset + pad.period) - pad(offset) == pad(pad.period)
    assert pad.size(offset) == (pad(offset - 1) + 1 if offset else 0)


def test_inside_a_pad_is_nothing() -> None:
    pad = Pads(((1024, 16), (2048, 32)))  # a published pad of bf8 tiles
    assert (pad(1024), pad(2048), pad(4096)) == (1040, 2112, 4224)
    assert [pad.dense(offset) for offset in (1023, 1024, 1039, 1040, 2064, 2111, 2112)] == [1023, None, None, 1024, None, None, 2048]


def test_a_placement_of_a_tile_of_192_columns() -> None:
    """64 rows of 192 bf16 with a pad of 16 bytes after each row: every element has a place of its own, and back."""
    placement = Placement(row_major(192, 64, 16), pads=Pads(((384, 16),)), bases=(("stage", 64 * 384),))
    assert placement.size == 64 * 400 - 16
    places = {placement.address({"row": row, "column": column}) for row in range(64) for column in range(192)}
    assert len(places) == 64 * 192 and max(places) == placement.size - 2
    assert placement.address({"row": 3, "column": 5}, stage=2) == 3 * 400 + 10 + 2 * 64 * 400
    assert placement.coordinates(3 * 400 + 11) == {"byte": 1, "column": 5, "row": 3}
    assert placement.coordinates(3 * 400 + 390) is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(PUBLISHED)), st.sampled_from([(), ((1024, 16),), ((2048, 32), (4096, 64))]), st.integers(0, 4095),
       st.integers(0, 3))
def test_placements_are_undone(name: str, pads: tuple[tuple[int, int], ...], element: int, stage: int) -> None:
    dense = row_major(64, 64, 16)
    placement = Placement(dense, PUBLISHED[name], Pads(pads), (("stage", 8192),))
    where = {"row": element // 64, "column": element % 64, "byte": 0}
    assert placement.coordinates(placement.address(where)) == where
    # A base moves the pattern as it is.
    assert placement.address(where, stage=stage) - placement.address(where) == stage * Pads(pads)(8192)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: Placement(row_major(32, 32, 16), PUBLISHED["st_16x32"], bases=(("stage", 512),)), "period of 1024.*next multiple is 1024"),
    (lambda: Placement(row_major(64, 64, 16), pads=Pads(((384, 8),)), bases=(("wave", 4096),)), "period of 384.*4224"),
    (lambda: Placement(row_major(24, 1, 16), PUBLISHED["st_16x32"]), "reach beyond the tile"),
    (lambda: Placement(row_major(64, 64, 16)).address({"row": 0}, stage=1), "no base stage"),
    (lambda: Placement(row_major(64, 64, 16)).address({"row": 64}), "row 64 does not exist"),
    (lambda: Placement(identity("lane", "bytes", 4)), "gives an offset"),
    (lambda: row_major(3, 4, 4), "no whole bytes"),
    (lambda: Swizzle(((4, 0x70), (3, 0x100))), "also reads"),
    (lambda: Swizzle(((0, 1),)), "positive shift"),
    (lambda: PUBLISHED["st_16x32"].layout(1000), "no multiple of the swizzle's period"),
    (lambda: Pads(((0, 4),)), "means nothing"),
    (lambda: Packing(8, 8).item(0, 3), "before the first item"),
    (lambda: transposing_read("ds_read_b64"), "does not transpose"),
    (lambda: dma_order("gfx942", 16), "gfx942 moves 1, 2, 4 bytes"),
    (lambda: dma_order("gfx950", 8), "not 8"),
])
def test_errors_are_sentences(call: Callable[[], object], words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        call()


@pytest.mark.parametrize("op", TRANSPOSING)
def test_transposing_reads_are_what_the_emulator_does(op: str) -> None:
    """Each element of each lane is marked in turn by random bits; the emulator's transposition moves them on its own."""
    layout, packing, count = transposing_read(op), transposing_packing(op), transposing_items(op)
    assert layout.is_bijective()
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 1 << packing.bits, (64, count))
    registers = packing.registers(count)
    named = [sum(int(code) << packing.bits * item for item, code in enumerate(lane)) for lane in codes]
    words = np.array([[[lane >> 32 * register & 0xFFFFFFFF for lane in named]] for register in range(registers)], np.uint32)
    got = transposed(words, packing.bits)
    for lane in range(64):
        string = sum(int(got[register, 0, lane]) << 32 * register for register in range(registers))
        for item in range(count):
            source = layout(item=item, lane=lane)
            assert string >> packing.bits * item & (1 << packing.bits) - 1 == codes[source["source_lane"], source["source_item"]]


def test_tr_b16_as_production_kernels_have_it() -> None:
    """Element j of lane l is element l % 4 of lane 4 j + l / 4, within 16 lanes."""
    layout = transposing_read("ds_read_b64_tr_b16")
    for lane in range(64):
        for j in range(4):
            assert layout(item=j, lane=lane) == {"source_item": lane % 4, "source_lane": lane // 16 * 16 + 4 * j + lane % 16 // 4}


def test_addresses_of_a_transposing_read_follow_from_the_operand() -> None:
    """A column tile for 32x32x16 (A[i, k] with rows k in LDS): lane s names row s % 16 / 4 (+ 8 for the upper half), 4 columns."""
    operand = product(identity("item", "k", 8), identity("lane", "i", 32), identity("lane", "k", 2))
    sources = transposing_read("ds_read_b64_tr_b16").inverse().then(operand)
    for lane in range(64):
        for item in range(4):
            assert sources(source_lane=lane, source_item=item) == {
                "k": 8 * (lane // 32) + lane % 16 // 4, "i": 16 * (lane // 16 % 2) + 4 * (lane % 4) + item}


def test_dma_order() -> None:
    """Lane l at 4 l for a dword and less, at 16 l for three and four; of three the fourth dword stays."""
    assert dma_order("gfx942", 4)(lane=63, byte=3) == {"offset": 255}
    assert dma_order("gfx942", 1)(lane=5) == {"offset": 20}
    assert dma_order("gfx950", 16)(lane=63, byte=15) == {"offset": 1023}
    twelve = dma_order("gfx950", 12)
    assert (twelve(lane=3, byte=11), twelve.input_sizes["byte"]) == ({"offset": 59}, 12)
    assert dma_order("gfx950", 16).is_bijective() and not twelve.is_bijective()
