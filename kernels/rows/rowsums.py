"""Sums over rows in float32: over a lane's items, over lanes, over waves by LDS; the same bits in any order of waves."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowWalk

_F32 = 4  # bytes


class RowSums:
    """Sums over the rows of a walk. Where waves share a row, each `over_waves` has words of LDS and a barrier of its own; the next group
    writes them again, so that a loop has at least two of those barriers, or ends with `guard`."""

    def __init__(self, walk: RowWalk) -> None:
        self.k, self.shape = walk.k, walk.shape
        self.made = 0
        if not self.shape.shares_waves:
            return
        k, waves = self.k, self.shape.waves
        self.own = ag.emit_address(k, "own_sum", lambda lane, wave: _F32 * wave, k.lane, (k.wave,))
        self.all = ag.emit_address(k, "all_sums", lambda lane: _F32 * (lane % waves), k.lane)

    def sum(self, out: ag.Vector, tile: ag.Tile) -> None:
        """The sum of each row."""
        ag.row_sum(self.k, out, tile)
        self._over_waves(out)

    def sum_of_squares(self, out: ag.Vector, tile: ag.Tile) -> None:
        """The sum of the squares of each row. A lane has one row, in pairs of registers: two of them are in work at a time."""
        k = self.k
        (total,) = out.registers.items
        pairs = [ag.joined(one, other) for one, other in zip(tile.registers.items[::2], tile.registers.items[1::2], strict=True)]
        with k.scratch("squares", 4) as squares:
            halves = squares[0:1], squares[2:3]
            for number, pair in enumerate(pairs):
                assert pair is not None
                half = halves[number % 2]
                if number < 2:
                    k.v_pk_mul_f32(half, pair, pair)
                else:
                    k.v_pk_fma_f32(half, pair, pair, half)
            k.v_pk_add_f32(halves[0], halves[0], halves[1])
            k.v_add_f32(total, squares[0], squares[1])
        ag.reduce_lanes(k, "sum", out)
        self._over_waves(out)

    def guard(self) -> None:
        """At the end of a loop with a single sum: no wave writes its next one before all have read this one."""
        if self.shape.shares_waves and self.made < 2:
            self.k.s_barrier()

    def _over_waves(self, out: ag.Vector) -> None:
        if not self.shape.shares_waves:
            return
        k = self.k
        words = k.lds.take(f"sums{self.made}", _F32 * self.shape.waves)
        self.made += 1
        (total,) = out.registers.items
        k.s_mov_b64(ag.exec_, 1)
        k.ds_write_b32(self.own, total, offset=words.low, fills=words)
        k.s_mov_b64(ag.exec_, -1)
        k.s_barrier()
        k.ds_read_b32(total, self.all, offset=words.low, uses=words)
        ag.over_lanes(k, "v_add_f32", [total], range((self.shape.waves - 1).bit_length()))
