"""Dropout of P in steps of 16 queries, for MFMA's D of 16x16 on gfx942: a step takes half of a tile of masks.

Lane l of D has queries 4 (l / 16) to 4 (l / 16) + 3 and key l % 16 of a fragment. By docs/facts/draws.md section 2 their bytes are a whole
word, 2 h + l / 16 % 2, of the lane with that key in the same half of the wave, where h is the half of the tile. So two words of a Philox
serve, and lanes 16 apart exchange one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import asmgen as ag
from asmgen.kernels.sequences.dropout import BLOCK, Scalars, StepMasks, keep_bytes, new_draws, number_columns

QUERIES = 16
"""Of a step."""
_ODD_ROWS = 0xFFFF0000
"""Of 32 lanes those of the second 16."""
_FLIP_16 = 0x401F
"""ds_swizzle_b32: lane ^ 16."""


@dataclass(frozen=True)
class HalfTiles(StepMasks):
    """As `QueriesByKeys`, half of a tile at a time."""

    queries: ClassVar[int] = QUERIES

    def draw(self, k: ag.TileBuilder, at: ag.StepIndex) -> None:
        """`kept` is that of a step. Changes SCC and VCC."""
        share = self.kept.count // len(self.columns)
        for number, column in enumerate(self.columns):
            with k.at(at), k.scratch("tile_row", file="s") as tile:
                k.s_lshr_b32(tile, self.row, 1)
                self.draws.draw(k, self.words, tile, column, at)
            with k.at(at):
                self._exchange(k)
                kept = [self.kept[number * share + pair] for pair in range(share)]
                keep_bytes(k, kept, self.words, self.below)
        with k.at(at):
            k.s_add_u32(self.row, self.row, 1)

    def _exchange(self, k: ag.TileBuilder) -> None:
        """The words of a lane's keys, of the first 16 and the second ones, become the first two. Changes SCC."""
        first, second, third, last = (self.words[number] for number in range(4))
        with k.scratch("half", 2, "s") as half, k.scratch("odd", 2, "s") as odd:
            k.s_bitcmp1_b32(self.row, 0)
            k.s_cselect_b64(half, -1, 0)
            k.v_cndmask_b32(first, first, third, half)
            k.v_cndmask_b32(second, second, last, half)
            for part in (odd[0], odd[1]):
                k.s_mov_b32(part, _ODD_ROWS)
            k.v_cndmask_b32(third, second, first, odd)  # what the other lane wants
            k.ds_swizzle_b32(last, third, offset=_FLIP_16)
            k.v_cndmask_b32(first, first, last, odd)
            k.v_cndmask_b32(second, last, second, odd)


def half_tiles(k: ag.TileBuilder, key0: ag.Reg, keys: int, scalar: Scalars) -> HalfTiles:
    """That of a wave with so many keys from `key0` on, a multiple of 32; of no head yet. Changes SCC and VCC."""
    draws, count = new_draws(k, scalar), keys // BLOCK
    words = k.registers.vgprs(4, "drawn_words", align=2)
    kept = k.registers.vgprs(QUERIES * keys // ag.LANES // 2, "kept_pairs", note="-1 and 0: what dropout keeps")
    block, below = scalar("query_block"), scalar("below")
    columns = tuple(scalar(f"tile_column{number or ''}") for number in range(count))
    with k.operation("dropout"):
        number_columns(k, columns, key0)
        k.s_add_u32(below, draws.most, 1)
        k.s_pack_ll_b32_b16(below, below, below)
    return HalfTiles(draws, block, columns, words, kept, below)
