"""Rows of MX elements in the order that gemm-mx takes B in: 16 rows x 16 bytes lie together (docs/facts/blockscales.md section 3)."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.quantize.formats import TILE_ROWS, row_bytes
from asmgen.kernels.rows.blockscales import BLOCK
from asmgen.kernels.rows.rowtensors import RowWalk

CHUNK = 16
"""Bytes of a row that lie together."""
_TILE = TILE_ROWS * CHUNK
_STORE = 4  # registers


class ShuffledRows:
    """The rows of the walk in d, of which a wave has one at most. A lane has a block of elements of a type in each fragment, a wave `wide`
    columns."""

    def __init__(self, walk: RowWalk, dtype: str, wide: int) -> None:
        k = walk.k
        self.k, self.walk = k, walk
        self.descriptor = k.registers.sgprs(4, "d_row", align=4, note="descriptor")
        self.pointer = k.argument("d")
        k.s_mov_b32(self.descriptor[3], ag.RAW_BUFFER)
        k.shows(self.descriptor, self.pointer)
        waves = (k.wave,) if walk.shape.shares_waves else ()
        each = BLOCK * ag.element_bits(dtype) // 8 // CHUNK * _TILE
        self.apart = each * ag.LANES
        self.at = ag.emit_address(k, "d_at", lambda lane, **wave: each * (lane + wide // BLOCK * sum(wave.values())), k.lane, waves)

    def go_on(self) -> None:
        """The row of the group in work, before the walk looks ahead. Changes SCC."""
        k, d, walk, stride = self.k, self.descriptor, self.walk, self.k.argument("d_stride")
        with k.scratch("d_row_number", file="s") as row, k.scratch("inside", file="s") as inside:
            k.s_add_u32(row, walk.first, k.wave.register if walk.shape.has_own_row else 0)
            k.s_and_b32(inside, row, TILE_ROWS - 1)
            k.s_sub_u32(row, row, inside)
            k.s_lshl_b32(inside, inside, CHUNK.bit_length() - 1)
            k.s_mul_i32(d[0], row, stride)
            k.s_mul_hi_u32(d[1], row, stride)
            k.s_add_u32(d[0], d[0], inside)
            k.s_addc_u32(d[1], d[1], 0)
            k.s_add_u32(d[0], d[0], self.pointer[0])
            k.s_addc_u32(d[1], d[1], self.pointer[1])
        k.s_mov_b32(d[2], (row_bytes(k.parameters) // CHUNK - 1) * _TILE + CHUNK)
        k.s_cmp_gt_i32(walk.left, 0)
        k.s_cselect_b32(d[2], d[2], 0)

    def store(self, tile: ag.Tile) -> None:
        """The bytes of a row."""
        k = self.k
        for number in range(tile.across):
            registers = tile.base(0, number)
            with k.scratch("fragment_bytes", file="s") as far:
                if number:
                    k.s_mov_b32(far, number * self.apart)
                for first in range(0, registers.count, _STORE):
                    k.buffer_store_dwordx4(registers[first:first + _STORE - 1], self.at, self.descriptor, far if number else 0, offen=True,
                                           offset=first // _STORE * _TILE)
