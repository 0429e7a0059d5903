"""The search for placements: tiles read by rows and by columns, all XORs by linear algebra, what is refused and how it is accepted.

Conflicts are counted here from addresses and the phases of docs/facts/microarchitecture.md section 2.4, and by the emulator.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

import asmgen as ag
from asmgen.author.ops.movement import fill, read, write
from asmgen.author.ops.tilememory import load
from asmgen.author.ops.transposed import read_transposed
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.globals import Matrix, Slice
from asmgen.author.tiles.linearswizzles import linear_swizzles
from asmgen.author.tiles.placementsearch import choose
from asmgen.author.tiles.swizzles import Access, DmaFill, FragmentRead, LaneAccess, TileAddresses, plain
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.author.tiles.views import transposed, with_dtype
from asmgen.isa.placement import Pads, Placement, Swizzle, subtiled
from tests.tile_harness import TileRun, rounded

SMALL, LARGE = mfma("f32_16x16x32_bf16", "gfx950"), mfma("f32_32x32x16_bf16", "gfx950")
NARROW = with_dtype(SMALL.d, "bf16")
B128 = ((0, 1, 2, 3, 12, 13, 14, 15, *range(20, 28)), (*range(4, 12), 16, 17, 18, 19, 28, 29, 30, 31))
PHASES = {  # instruction: (banks, phases)
    "ds_read_b128": (64, (*B128, *(tuple(lane + 32 for lane in phase) for phase in B128))),
    "ds_read_b64": (64, (tuple(range(32)), tuple(range(32, 64)))),
    "ds_read_b64_tr_b16": (64, (tuple(range(32)), tuple(range(32, 64)))),
    "ds_write_b64": (32, tuple(tuple(range(first, first + 16)) for first in range(0, 64, 16))),
    "ds_write_b128": (32, tuple(tuple(range(first, first + 8)) for first in range(0, 64, 8)))}


def conflicts(one: LaneAccess) -> int:
    """Cycles of one access beyond the least."""
    banks, phases = PHASES[one.op]
    extra = 0
    for phase in phases:
        dwords = {one.addresses[lane] // 4 + part for lane in phase for part in range(one.bits // 32)}
        loads: defaultdict[int, int] = defaultdict(int)
        for dword in dwords:
            loads[dword % banks] += 1
        extra += max(loads.values()) - -(-len(dwords) // banks)
    return extra


def extra_cycles(placement: Placement, rows: int, columns: int, serves: Sequence[Access]) -> int:
    at = TileAddresses(placement, rows, columns)
    return sum(conflicts(one) for access in serves for one in access.instructions(at))


TILES: dict[str, tuple[int, int, tuple[Access, ...]]] = {
    "queries of attention backward": (16, 128, (FragmentRead(SMALL.a), TransposedRead(LARGE.a), DmaFill())),
    "more of them": (64, 128, (FragmentRead(SMALL.a), TransposedRead(LARGE.a), DmaFill())),
    "its keys": (1024, 32, (FragmentRead(SMALL.b, write=True), FragmentRead(SMALL.b), TransposedRead(SMALL.b))),
    "its keys, wide": (256, 128, (FragmentRead(SMALL.b), TransposedRead(SMALL.b))),
    "its dS": (256, 16, (FragmentRead(NARROW.T, write=True), TransposedRead(SMALL.a))),
    "read by 16 and by 32 rows": (32, 48, (FragmentRead(SMALL.a), FragmentRead(LARGE.a))),
    "rows of no power of two": (48, 96, (FragmentRead(SMALL.a), TransposedRead(SMALL.b))),
    "three times 64 columns": (64, 192, (FragmentRead(SMALL.a), TransposedRead(LARGE.a)))}


@pytest.mark.parametrize("name", TILES)
def test_tiles_by_rows_and_columns(name: str) -> None:
    rows, columns, serves = TILES[name]
    placement = choose("gfx950", name, rows, columns, 16, serves)
    assert extra_cycles(placement, rows, columns, serves) == 0
    at = TileAddresses(placement, rows, columns)
    assert len({at(row, column) for row in range(rows) for column in range(columns)}) == rows * columns
    assert extra_cycles(Placement(plain(rows, columns, 16)), rows, columns, serves) > 0


def test_queries_lie_as_in_hipkittens() -> None:
    """16 x 32 subtiles, bit 5 inverted by bit 9: one base register."""
    rows, columns, serves = TILES["queries of attention backward"]
    assert choose("gfx950", "Q", rows, columns, 16, serves) == Placement(subtiled(16, 128, 16, 16, 32), Swizzle(((4, 32),)))
    dense = subtiled(4, 8, 16, 2, 4)  # 2 x 4 elements of two bytes, side by side first
    assert [dense(row=row, column=column)["offset"] for row, column in ((0, 1), (1, 0), (0, 4), (1, 5), (2, 0), (3, 7))] == \
        [2, 8, 16, 26, 32, 62]


def test_pads_and_xor_stand_together() -> None:
    rows, columns, serves = TILES["read by 16 and by 32 rows"]
    placement = choose("gfx950", "both", rows, columns, 16, serves)
    assert placement.swizzle != Swizzle() and placement.pads != Pads()
    assert extra_cycles(replace(placement, swizzle=Swizzle()), rows, columns, serves) > 0


@pytest.mark.parametrize("serves", [
    (FragmentRead(SMALL.a), TransposedRead(SMALL.b)),
    (FragmentRead(NARROW.T, write=True), TransposedRead(SMALL.a)),
    (FragmentRead(SMALL.a, write=True), FragmentRead(NARROW.T, write=True), TransposedRead(LARGE.b)),
    (FragmentRead(SMALL.a), FragmentRead(with_dtype(SMALL.d, "bf16").T, write=True), TransposedRead(LARGE.a))])
@pytest.mark.parametrize("order", ["plain", "16x32", "16x4"])
@pytest.mark.slow_after_first
def test_the_search_is_exhaustive(serves: tuple[Access, ...], order: str) -> None:
    """32 x 32, 2 KiB: each of bits 8 to 10 inverts any of bits 4 (of 8-byte accesses 3) to 7. Where the search finds none, none is free (of
    8-byte accesses every 29th is tried)."""
    dense = plain(32, 32, 16) if order == "plain" else subtiled(32, 32, 16, 16, 32 if order == "16x32" else 4)
    found = list(itertools.islice(linear_swizzles("gfx950", dense, 32, 32, serves), 1))
    at = {one: [tuple(access.addresses) for access in one.instructions(TileAddresses(Placement(dense), 32, 32))] for one in serves}
    kinds = {one: next(iter(one.instructions(TileAddresses(Placement(dense), 32, 32)))) for one in serves}
    granule = (max(kind.bits for kind in kinds.values()) // 8).bit_length() - 1
    images = [sum(1 << bit for number, bit in enumerate(range(granule, 8)) if chosen >> number & 1) for chosen in range(1 << 8 - granule)]

    def free(chosen: tuple[int, ...]) -> bool:
        for one in serves:
            for addresses in at[one][:8]:
                moved = tuple(address ^ (chosen[0] if address >> 8 & 1 else 0) ^ (chosen[1] if address >> 9 & 1 else 0)
                              ^ (chosen[2] if address >> 10 & 1 else 0) for address in addresses)
                if conflicts(LaneAccess(kinds[one].op, moved, kinds[one].bits)):
                    return False
        return True

    if found:
        assert extra_cycles(Placement(dense, found[0]), 32, 32, serves) == 0
        return
    sample = itertools.product(images, repeat=3) if granule == 4 else itertools.islice(itertools.product(images, repeat=3), 0, None, 29)
    assert not any(free(chosen) for chosen in sample)


@dataclass(frozen=True)
class Stuck:
    """Lanes 32 bytes apart wherever elements lie: eight of 16 lanes in one bank. Fragments of the tile are read besides."""

    line: int = 0

    def instructions(self, addresses: TileAddresses) -> Iterator[LaneAccess]:
        """One access."""
        yield LaneAccess("ds_write_b64", tuple(32 * lane for lane in range(64)), 64)


REFUSED: tuple[Access, ...] = (FragmentRead(SMALL.a), Stuck())


def test_a_refusal_names_the_best_one_and_what_accepts_it() -> None:
    with pytest.raises(TileError) as refused:
        choose("gfx950", "stuck", 32, 32, 16, REFUSED)
    sentence = refused.value.sentence
    cycles = int(sentence.partition("conflicts=")[2].split()[0])
    named = eval(sentence.partition("placement=")[2], {"ag": ag})  # what an author would paste
    assert cycles == 12  # 4 phases of 16 lanes take 4 cycles, and 1 would do
    assert f"costs {cycles} cycles more: ds_write_b64 is 4-way, lanes (0, 4) collide" in sentence
    assert extra_cycles(named, 32, 32, REFUSED) == cycles
    assert choose("gfx950", "stuck", 32, 32, 16, REFUSED, conflicts=cycles) == named
    with pytest.raises(TileError, match="conflicts=12 accepts"):
        choose("gfx950", "stuck", 32, 32, 16, REFUSED, conflicts=cycles - 1)
    k = TileRun("gfx950").k
    assert k.shared("accepted", "bf16", 32, 32, serves=REFUSED, conflicts=cycles).placement == named
    assert k.shared("given", "bf16", 32, 32, placement=named).placement == named


def test_named_placements_are_what_they_name() -> None:
    from asmgen.author.tiles.placementsearch import placement_text

    for name, (rows, columns, serves) in TILES.items():
        if rows & rows - 1 or columns & columns - 1:
            continue
        placement = choose("gfx950", name, rows, columns, 16, serves)
        assert eval(placement_text(rows, columns, 16, placement), {"ag": ag}) == placement
    spread = choose("gfx950", "spread", 64, 64, 16, (FragmentRead(SMALL.a), DmaFill()))
    assert eval(placement_text(64, 64, 16, spread), {"ag": ag}) == spread


# ---- in the emulator ----


def matrix(run: TileRun, values: np.ndarray, dtype: str = "bf16") -> Matrix:
    name = run.matrix(values, dtype)
    return Matrix(name, dtype, run.k.argument(name), *values.shape, values.shape[1])  # type: ignore[arg-type]


def test_queries_filled_and_read_both_ways() -> None:
    """NaN and infinities included; the emulator counts no conflict."""
    values = np.random.default_rng(1).uniform(-4, 4, (16, 128))
    values[3, 7], values[15, 127], values[0, 64] = np.nan, np.inf, -np.inf
    run = TileRun("gfx950")
    k = run.k
    Qs = k.shared("Qs", "bf16", 16, 128, serves=TILES["queries of attention backward"][2])
    Q, Qt = k.tile("Q", 16, 128, SMALL.a), k.tile("Qt", 128, 16, LARGE.a)
    fill(k, Qs[()], Slice(matrix(run, values).rows(0, 16), None))
    read(k, Q, Qs[()])
    read_transposed(k, Qt, Qs[()])
    run.give(Q)
    run.give(Qt)
    by_rows, by_columns = run.finish()
    np.testing.assert_array_equal(by_rows, rounded(values, "bf16", "gfx950"))
    np.testing.assert_array_equal(by_columns, rounded(values, "bf16", "gfx950").T)
    assert sum(run.done.result.bank_conflicts.values()) == 0


def test_ds_written_by_four_columns_and_read_transposed() -> None:
    values = np.random.default_rng(2).uniform(-4, 4, (16, 64))
    values[3, 7], values[15, 63] = np.nan, -np.inf
    run = TileRun("gfx950")
    k = run.k
    dSs = k.shared("dSs", "bf16", 64, 16, serves=TILES["its dS"][2])
    dS = run.tile("dS", (16, 64), NARROW, values)
    out = k.tile("out", 16, 64, SMALL.a)
    write(k, dSs[()], transposed(dS))
    read_transposed(k, out, dSs[()])
    run.give(out)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, "bf16", "gfx950"))
    assert sum(run.done.result.bank_conflicts.values()) == 0


def test_subtiles_of_gfx942_through_registers() -> None:
    """48 x 48, which no XOR of plain rows serves."""
    f = mfma("f32_16x16x16_bf16", "gfx942").a
    values = np.random.default_rng(3).uniform(-4, 4, (48, 48))
    run = TileRun("gfx942")
    k = run.k
    shared = k.shared("shared", "bf16", 48, 48, serves=(FragmentRead(f),), pads=False)
    x, y = k.tile("x", 48, 48, f), k.tile("y", 48, 48, f)
    load(k, x, matrix(run, values).rows(0, 48))
    write(k, shared[()], x)
    read(k, y, shared[()])
    run.give(y)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, "bf16", "gfx942"))
    reads = {number for number, item in enumerate(run.program.instructions) if item.name.startswith("ds_read")}
    assert sum(cost for at, cost in run.done.result.bank_conflicts.items() if at in reads) == 0
