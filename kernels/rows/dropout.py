"""Dropout of rows by Philox 4x32: which random bits belong to which element, and the code that draws them.

Eight neighbours share a call. Its counter is (column // 8, row, offset's low word, offset's high word), its key the seed's low and high
word. Of the eight elements, number i has 16 bits of result word i // 2: the lower ones where i is even. An element is kept where they are
at least round(65536 p). So a mask depends on seed, offset, row and column alone, and not on how a kernel deals rows to lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, parts_of

_DRAWS = 1 << 16
_TOGETHER = 4  # comparisons that are made before the first selection, and bytes of a register


class DropoutMask:
    """The bytes that say which elements are kept: 1, or 0 for what is dropped."""

    def __init__(self, walk: RowWalk) -> None:
        self.tensor = RowTensor(walk, "mask", "i8")
        self.tile = self.tensor.raw("MASK")


class Dropout:
    """Draws for the rows of a walk. `together` are the calls that a lane makes at once; each takes 5 or 6 VGPRs, and 8 on its way. `idle`
    is a tile of rows in float32 of which nothing is needed while elements are dropped: its registers serve then."""

    def __init__(self, walk: RowWalk, rounds: int, together: int, idle: ag.Tile | None = None) -> None:
        k, shape = walk.k, walk.shape
        self.k, self.walk, self.rounds, self.together = k, walk, rounds, together
        one, size = k.lanes("i32", 1, shape.across), (shape.wave_rows, together * shape.across)
        free = iter(idle.registers.items if idle is not None else ())

        def tile(name: str, note: str = "") -> ag.Tile:
            some = ag.RegisterSet(tuple(islice(free, together)))
            made: ag.Tile = k.tile(name, *size, one, note=note, shares=ag.Tile(name, *size, one, some) if idle is not None else None)
            return made

        self.words = [tile(f"draws{number}") for number in range(4)]
        self.group = tile("group", "column // 8")
        self.row: ag.Tile | ag.Reg = tile("row") if shape.wave_rows > 1 else k.registers.sgprs(1, "row")
        self.low, self.high = k.registers.sgprs(1, "threshold"), k.registers.sgprs(1, "threshold_high")
        self.scale = k.registers.sgprs(1, "keep_scale", note="1 / (1 - p)")
        with k.scratch("p") as p, k.scratch("draws_of_p") as draws:
            k.v_mov_b32(p, k.argument("p"))
            k.v_mul_f32(draws, float(_DRAWS), p)
            k.v_rndne_f32(draws, draws)
            k.v_cvt_u32_f32(draws, draws)
            k.v_readfirstlane_b32(self.low, draws)
            k.v_sub_f32(p, 1.0, p)
            k.v_rcp_f32(p, p)
            k.v_readfirstlane_b32(self.scale, p)
        k.s_lshl_b32(self.high, self.low, 16)
        self.at_once = together >= shape.fragments and idle is None
        if self.at_once:
            self._count_groups(0)

    def apply(self, R: ag.Tile, mask: DropoutMask | None = None) -> None:
        """Zeros for what is dropped of the rows, whose mask is stored if it is asked for. What is kept is not scaled. Changes SCC and
        VCC."""
        kept = parts_of(mask.tile) if mask is not None else []
        self._count_rows()
        for first in range(0, R.across, self.together):
            self._draw(parts_of(R)[first:first + self.together], first, kept[first:first + self.together])
        if mask is not None:
            mask.tensor.store(mask.tile)

    def _draw(self, tiles: Sequence[ag.Tile], first: int, kept: Sequence[ag.Tile]) -> None:
        """Runs number `first` and following, as many as are drawn together at most."""
        k = self.k
        if not self.at_once:
            self._count_groups(first)
        offset, seed = k.argument("offset"), k.argument("seed")
        ag.philox(k, self.words, (self.group, self.row, offset[0], offset[1]), (seed[0], seed[1]), rounds=self.rounds)
        for number, tile in enumerate(tiles):
            self._drop(tile, [word.base(0, number) for word in self.words], kept[number].base(0, 0) if kept else None)

    def _count_groups(self, first: int) -> None:
        """The numbers of groups of columns, which are words of counters."""
        k, shape = self.k, self.walk.shape
        with k.scratch("from", file="s") as start, k.scratch("of_wave", file="s") as of_wave:
            k.s_mov_b32(start, first * shape.across)
            if shape.shares_waves:
                k.s_mul_i32(of_wave, k.wave.register, shape.fragments * shape.across)
                k.s_add_u32(start, start, of_wave)
            ag.indices(k, self.group, columns=1, first=start)

    def _count_rows(self) -> None:
        """The same of rows."""
        k, walk, shape = self.k, self.walk, self.walk.shape
        own = 0 if shape.shares_waves else shape.wave_rows
        if isinstance(self.row, ag.Tile):
            with k.scratch("of_wave", file="s") as of_wave:
                k.s_mul_i32(of_wave, k.wave.register, own)
                k.s_add_u32(of_wave, of_wave, walk.first)
                ag.indices(k, self.row, rows=1, columns=0, first=of_wave)
        elif own:
            k.s_add_u32(self.row, k.wave.register, walk.first)
        else:
            k.s_mov_b32(self.row, walk.first)

    def _drop(self, tile: ag.Tile, words: Sequence[ag.Reg], bytes_: ag.Reg | None) -> None:
        k = self.k
        elements = tile.registers.items
        for first in range(0, len(elements), _TOGETHER):
            some = range(first, min(first + _TOGETHER, len(elements)))
            with k.scratch("kept", 2 * _TOGETHER, "s") as kept:
                masks = {number: kept[2 * (number - first):2 * (number - first) + 1] for number in some}
                for number, mask in masks.items():
                    if number % 2:
                        k.v_cmp_le_u32(mask, self.high, words[number // 2])
                    else:
                        k.v_cmp_le_u16(mask, self.low, words[number // 2])
                for number, mask in masks.items():
                    k.v_cndmask_b32(elements[number], 0, elements[number], mask)
                if bytes_ is not None:
                    self._as_bytes(bytes_[first // _TOGETHER], list(masks.values()))

    def _as_bytes(self, out: ag.Reg, masks: Sequence[ag.Reg]) -> None:
        """1 for each of four masks that has the lane, the first one lowest."""
        k = self.k
        with k.scratch("ones", len(masks)) as ones:
            for number, mask in enumerate(masks):
                k.v_cndmask_b32(ones[number], 0, 1, mask)
            k.v_lshl_or_b32(ones[2], ones[3], 8, ones[2])
            k.v_lshl_or_b32(ones[0], ones[1], 8, ones[0])
            k.v_lshl_or_b32(out, ones[2], 16, ones[0])
