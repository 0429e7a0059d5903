"""Orders of attention's heads and tiles over workgroups: scalar code against numbers, for all small grids."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cache

import numpy as np
import pytest

from asmgen.author.address.headorder import HeadTile, heads_in_order, place_head, tiles_in_order
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.emit.kernel import KernelBuilder
from asmgen.program.program import Program
from tests.emulator_launch import launch

BATCHES, KV_HEADS, GROUPS, TILES = (1, 2, 3), range(1, 17), range(1, 17), (1, 2, 5)
GRIDS = [(b, kv, group, tiles) for b, kv, group, tiles in itertools.product(BATCHES, KV_HEADS, GROUPS, TILES) if kv * group <= 16]
GRIDS += [(33, 1, 1, 1), (9, 16, 1, 4), (1, 9, 7, 70), (4, 16, 1, 33)]


def expected(number: int, b: int, kv_heads: int, group: int, tiles: int, longest_first: bool) -> tuple[int, int, int, int]:
    """(batch, head, KV head, tile), written down as windows one after the other."""
    members, units = group * tiles, b * kv_heads
    window = 8 * max(1, 64 >> members.bit_length() - 1) if longest_first else 8
    whole, even = units // window * window, units // 8 * 8
    sizes = [window] * (units // window) + [even - whole] * (even > whole) + [units - even] * (units > even)
    first = 0
    while number >= sizes[0] * members:
        number -= sizes[0] * members
        first += sizes.pop(0)
    place, unit = divmod(number, sizes[0])
    batch, kv_head = divmod(first + unit, kv_heads)
    tile, within = divmod(place, group)
    return batch, kv_head * group + within, kv_head, tiles - 1 - tile if longest_first else tile


@cache
def kernel(longest_first: bool) -> Program:
    """A workgroup stores the place of a workgroup of a grid: its number, batches, heads, KV heads and tiles stand in memory."""
    table = tuple(ContractArgument(name, "pointer", "") for name in ("out", "asked"))
    contract = KernelContract("order", "orders", ("gfx950",), (), table, (64, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    k = KernelBuilder(contract, "gfx950", {})
    out = HeadTile(*(k.registers.sgprs(1, name) for name in ("batch", "head", "kv_head", "tile")))
    asked, offset = k.registers.sgprs(8, "asked", align=4), k.registers.sgprs(1, "offset")
    k.s_lshl_b32(offset, k.ids["x"], 5)
    k.s_load_dwordx8(asked, k.argument("asked"), offset)
    place_head(k, out, asked[0], asked[1], asked[2], asked[3], asked[4], longest_first)
    data, at = k.registers.vgprs(4, "data"), k.registers.vgprs(1, "at")
    k.s_lshr_b32(offset, offset, 1)
    k.v_mov_b32(at, offset)
    for number, register in enumerate((out.batch, out.head, out.kv_head, out.tile)):
        k.v_mov_b32(data[number], register)
    k.global_store_dwordx4(at, data, k.argument("out"))
    k.s_endpgm()
    return k.finish().program


@pytest.mark.parametrize("longest_first", [False, True])
def test_every_workgroup_has_a_place_of_its_own(longest_first: bool) -> None:
    asked = [(number, b, kv * group, kv, tiles, 0, 0, 0) for b, kv, group, tiles in GRIDS for number in range(b * kv * group * tiles)]
    data = np.array(asked, np.uint32)
    done = launch("gfx950", kernel(longest_first), (len(asked), 1, 1), (64, 1, 1), [np.full((len(asked), 4), -1, np.int32), data])
    assert not done.findings
    found = [tuple(row) for row in done.buffers[0].tolist()]
    first = 0
    for b, kv, group, tiles in GRIDS:
        count = b * kv * group * tiles
        places = found[first:first + count]
        first += count
        assert places == [expected(number, b, kv, group, tiles, longest_first) for number in range(count)], (b, kv, group, tiles)
        assert len(set(places)) == count and max(places)[0] == b - 1


@pytest.mark.parametrize("longest_first", [False, True])
def test_tiles_in_the_order_of_workgroups(longest_first: bool) -> None:
    for b, kv, group, tiles in GRIDS:
        order = [expected(number, b, kv, group, tiles, longest_first) for number in range(b * kv * group * tiles)]
        assert tiles_in_order(b * kv, group, tiles, longest_first) == [tile for *_, tile in order], (b, kv, group, tiles)
        assert heads_in_order(b * kv, group, tiles, longest_first) == [
            (batch * kv + kv_head, head - kv_head * group, tile) for batch, head, kv_head, tile in order], (b, kv, group, tiles)


@pytest.mark.parametrize("longest_first", [False, True])
def test_what_reads_the_same_keys_shares_an_xcd(longest_first: bool) -> None:
    """All of a KV head where their number is a multiple of 8, else all but the last few; the XCDs have equal numbers of workgroups."""
    for b, kv, group, tiles in GRIDS:
        count = b * kv * group * tiles
        xcds: dict[tuple[int, int], set[int]] = {}
        load: Counter[int] = Counter()
        for number in range(count):
            batch, _, kv_head, _ = expected(number, b, kv, group, tiles, longest_first)
            xcds.setdefault((batch, kv_head), set()).add(number % 8)
            load[number % 8] += 1
        assert sum(len(found) > 1 for found in xcds.values()) <= b * kv % 8, (b, kv, group, tiles)
        assert max(load.values()) - min(load[xcd] for xcd in range(8)) <= 1


def test_an_xcd_begins_with_its_longest_tiles() -> None:
    """MHA of 16 x 16 heads, 4 tiles: each XCD's 128 workgroups are 4 runs of 16 of one length, twice."""
    tiles = [expected(number, 16, 16, 1, 4, True)[3] for number in range(3, 1024, 8)]
    assert tiles == ([3] * 16 + [2] * 16 + [1] * 16 + [0] * 16) * 2
