"""The scales of MX blocks in memory: a byte for 32 columns, row after row, or 32 rows x 8 scales as 64 dwords."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowWalk

BLOCK = 32
"""Columns that share a scale."""
PAD, SHUFFLED_ROWS = 8, 32
"""Columns and rows of scales that lie together where they are shuffled (docs/facts/blockscales.md section 2)."""
FAR = 0x80000000
"""An offset that no descriptor of rows shows."""
_AROUND = 61
"""Of the bytes of 32 shuffled rows, those that the last ones of a row lie before: scale 7 of row 0 is byte 194 of 256, and rows begin at
bytes up to 61."""


class BlockScales:
    """The scales of the walk's rows. A wave has one row at most: `run` neighbours a lane, `wide` columns."""

    def __init__(self, walk: RowWalk, run: int, wide: int, layout: str) -> None:
        k = walk.k
        self.k, self.walk, self.shuffled = k, walk, layout == "shuffled"
        self.count = least_scales(walk.shape.columns, layout)
        self.apart = run * ag.LANES // BLOCK  # blocks from a fragment to the next
        self.descriptor = k.registers.sgprs(4, "scales_row", align=4, note="descriptor")
        self.pointer = k.argument("scale")
        k.s_mov_b32(self.descriptor[3], ag.RAW_BUFFER)
        k.shows(self.descriptor, self.pointer)
        waves = (k.wave,) if walk.shape.shares_waves else ()
        self.at = ag.emit_address(k, "scale_at", lambda lane, **wave: self._byte((run * lane + wide * sum(wave.values())) // BLOCK)
                                  , k.lane, waves)
        with k.scratch("first_lane") as own, k.scratch("first_lanes", 2, "s") as first, k.scratch("far") as far:
            k.v_and_b32(own, BLOCK // run - 1, k.lane)
            k.v_cmp_eq_u32(first, 0, own)
            k.v_mov_b32(far, FAR)
            k.v_cndmask_b32(self.at, far, self.at, first)

    def _byte(self, block: int) -> int:
        return (block >> 3) * 256 + (block & 3) * 64 + (block >> 2 & 1) * 2 if self.shuffled else block

    def find(self) -> None:
        """The row of the group in work, before the walk looks ahead. Changes SCC."""
        k, d, walk, stride = self.k, self.descriptor, self.walk, self.k.argument("scale_stride")
        with k.scratch("scale_row", file="s") as row, k.scratch("inside", file="s") as inside:
            k.s_add_u32(row, walk.first, k.wave.register if walk.shape.has_own_row else 0)
            if self.shuffled:
                k.s_lshr_b32(inside, row, 4)
                k.s_and_b32(inside, inside, 1)
                k.s_and_b32(d[2], row, 15)
                k.s_lshl_b32(d[2], d[2], 2)
                k.s_add_u32(inside, inside, d[2])
                k.s_and_b32(row, row, -SHUFFLED_ROWS)
            k.s_mul_i32(d[0], row, stride)
            k.s_mul_hi_u32(d[1], row, stride)
            for one in (self.pointer, *((inside,) if self.shuffled else ())):
                k.s_add_u32(d[0], d[0], one[0] if one.count > 1 else one)
                k.s_addc_u32(d[1], d[1], one[1] if one.count > 1 else 0)
        k.s_mov_b32(d[2], self.count * SHUFFLED_ROWS - _AROUND if self.shuffled else self.count)
        k.s_cmp_gt_i32(walk.left, 0)
        k.s_cselect_b32(d[2], d[2], 0)

    def store(self, exponents: ag.Tile) -> None:
        """Those of the row that was found, by the first of the lanes that have a block."""
        k = self.k
        for number in range(exponents.across):
            step = number * self.apart
            k.buffer_store_byte(exponents.base(0, number), self.at, self.descriptor, 0, offen=True,
                                offset=step // PAD * 256 if self.shuffled else step)


def least_scales(columns: int, layout: str) -> int:
    """Scales from a row of so many columns to the next without gaps."""
    scales = -(-columns // BLOCK)
    return scales if layout == "plain" else -(-scales // PAD) * PAD
