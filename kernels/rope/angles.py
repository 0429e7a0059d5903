"""Cosines and sines of a wave's tokens, in the lanes that have their columns, and what they do to a head."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rope.computedangles import compute_angles
from asmgen.kernels.rope.headcolumns import byte_of_lane, load_columns, tile_of
from asmgen.kernels.rope.shape import HeadShape
from asmgen.kernels.rope.tokens import position_of_lane, token_of_lane


class Angles:
    """`cos`, `sin` and the negative of `sin` in float32"""

    def __init__(self, k: ag.TileBuilder, shape: HeadShape) -> None:
        self.k, self.shape = k, shape
        self.cos, self.sin, self.opposite = (tile_of(k, shape, name, "f32", shape.pairs, shape.angles)
                                             for name in ("COS", "SIN", "OPPOSITE"))
        with k.scratch("position") as position:
            token_of_lane(k, shape, position)
            position_of_lane(k, position)
            if k.p.computed:
                compute_angles(k, shape, (self.cos, self.sin, self.opposite), position)
            else:
                self._load(position)
        first, second = (self.opposite, self.sin) if not k.p.backward else (self.sin, self.opposite)
        self.of_first, self.of_second = first, second
        ag.neg(k, self.opposite, self.sin)

    def _load(self, position: ag.Reg) -> None:
        """The rows of cos and sin at each lane's position. Those of negative or too large ones lie beyond the table."""
        k, shape, size = self.k, self.shape, ag.element_bits(self.k.p.table) // 8
        with k.scratch("angle_bytes") as at, k.scratch("row_bytes", file="s") as row:
            k.v_min_u32(position, k.argument("angles"), position)
            k.s_mul_i32(row, k.argument("angle_stride"), size)
            k.v_mul_lo_u32(position, row, position)
            byte_of_lane(k, at, shape, shape.angles, size)
            k.v_add_u32(at, position, at)
            for name, tile in (("cos", self.cos), ("sin", self.sin)):
                self._load_table(name, tile, at, size)

    def _load_table(self, name: str, tile: ag.Tile, at: ag.Reg, size: int) -> None:
        """The angles of a lane, in float32."""
        k, shape = self.k, self.shape
        d = k.registers.sgprs(4, f"{name}_rows", note="descriptor")
        k.s_mov_b64(d[0:1], k.argument(name))
        k.s_mul_i32(d[2], k.argument("angles"), k.argument("angle_stride"))
        k.s_sub_u32(d[2], d[2], k.argument("angle_stride"))
        k.s_add_u32(d[2], d[2], shape.pairs)
        k.s_lshl_b32(d[2], d[2], size.bit_length() - 1)
        k.s_mov_b32(d[3], ag.RAW_BUFFER)
        raw = tile if k.p.table == "f32" else tile_of(k, shape, f"{name}_raw", k.p.table, shape.pairs, shape.angles)
        load_columns(k, raw, at, d, shape.across)
        if raw is not tile:
            ag.convert(k, tile, raw)
            k.registers.release(raw.name)
        k.registers.release(f"{name}_rows")

    def rotate(self, out: Sequence[ag.Tile], x: Sequence[ag.Tile]) -> None:
        """out = (a cos - b sin, b cos + a sin) of the pairs (a, b) in x, with the opposite angles in a build that goes backward."""
        k = self.k
        if self.shape.style == "neox":
            for target, own, other, factor in ((out[0], x[0], x[1], self.of_first), (out[1], x[1], x[0], self.of_second)):
                ag.mul(k, target, other, factor)
                ag.fma(k, target, own, self.cos, target)
            return
        columns = [tile.registers.items for tile in (out[0], x[0])]
        factors = [tile.registers.items for tile in (self.cos, self.of_first, self.of_second)]
        for pair, (cos, first, second) in enumerate(zip(*factors, strict=True)):
            made, source = ((items[2 * pair], items[2 * pair + 1]) for items in columns)
            k.v_mul_f32(made[0], source[1], first)
            k.v_mul_f32(made[1], source[0], second)
            k.v_fma_f32(made[0], source[0], cos, made[0])
            k.v_fma_f32(made[1], source[1], cos, made[1])
