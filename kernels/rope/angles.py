"""Cosines and sines of a wave's tokens, in the lanes that have their columns, and what they do to a head."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rope.shape import HeadShape

_DWORD = 4  # bytes
_LOADS = {1: "buffer_load_dword", 2: "buffer_load_dwordx2", 4: "buffer_load_dwordx4"}


class Angles:
    """`cos`, `sin` and the negative of `sin` in float32"""

    def __init__(self, k: ag.TileBuilder, shape: HeadShape) -> None:
        self.k, self.shape = k, shape
        self.type = k.p.table
        self.size = ag.element_bits(self.type) // 8
        self.cos, self.sin, self.opposite = (self._tile(name) for name in ("COS", "SIN", "OPPOSITE"))
        with k.scratch("angle_bytes") as at:
            self._find(at)
            for name, tile in (("cos", self.cos), ("sin", self.sin)):
                self._load(name, tile, at)
        first, second = (self.opposite, self.sin) if not k.p.backward else (self.sin, self.opposite)
        self.of_first, self.of_second = first, second
        ag.neg(k, self.opposite, self.sin)

    def _tile(self, name: str) -> ag.Tile:
        k, shape = self.k, self.shape
        tile: ag.Tile = k.tile(name, shape.wave_tokens, shape.pairs, k.lanes("f32", shape.angles, shape.across))
        return tile

    def _find(self, at: ag.Reg) -> None:
        """The byte of each lane's first angle: that of its token's row, and of its first pair. A token that does not exist has row 0."""
        k, shape = self.k, self.shape
        with k.scratch("token_of_lane") as token, k.scratch("first_token", file="s") as first:
            k.s_mul_i32(first, k.wave.register, shape.wave_tokens)
            k.v_lshrrev_b32(token, shape.across.bit_length() - 1, k.lane)
            k.v_add_u32(token, first, token)
            k.s_mul_i32(first, k.ids["x"], shape.tokens)
            k.v_add_u32(token, first, token)
            if k.p.positions == "given":
                self._given(token)
            k.s_mul_i32(first, k.argument("angle_stride"), self.size)
            k.v_mul_lo_u32(token, first, token)
            k.v_and_b32(at, shape.across - 1, k.lane)
            k.v_mul_u32_u24(at, shape.angles * self.size, at)
            k.v_add_u32(at, token, at)

    def _given(self, token: ag.Reg) -> None:
        """positions[batch, token] in its place, or what lies beyond all angles where that is negative or too large."""
        k = self.k
        d = k.registers.sgprs(4, "positions_of_batch", note="descriptor")
        with k.scratch("batch_bytes", 2, "s") as far:
            k.s_mul_i32(far[0], k.ids["y"], k.argument("position_stride"))
            k.s_mul_hi_u32(far[1], k.ids["y"], k.argument("position_stride"))
            k.s_lshl_b64(far, far, 2)
            pointer = k.argument("positions")
            k.s_add_u32(d[0], pointer[0], far[0])
            k.s_addc_u32(d[1], pointer[1], far[1])
        k.s_lshl_b32(d[2], k.argument("s"), 2)
        k.s_mov_b32(d[3], ag.RAW_BUFFER)
        k.v_lshlrev_b32(token, 2, token)
        k.buffer_load_dword(token, token, d, 0, offen=True)
        k.v_min_u32(token, k.argument("angles"), token)
        k.registers.release("positions_of_batch")

    def _load(self, name: str, tile: ag.Tile, at: ag.Reg) -> None:
        """The angles of a lane, in float32."""
        k, shape = self.k, self.shape
        d = k.registers.sgprs(4, f"{name}_rows", note="descriptor")
        pointer = k.argument(name)
        k.s_mov_b64(d[0:1], pointer)
        k.s_mul_i32(d[2], k.argument("angles"), k.argument("angle_stride"))
        k.s_sub_u32(d[2], d[2], k.argument("angle_stride"))
        k.s_add_u32(d[2], d[2], shape.pairs)
        k.s_lshl_b32(d[2], d[2], self.size.bit_length() - 1)
        k.s_mov_b32(d[3], ag.RAW_BUFFER)
        raw = tile if self.type == "f32" else k.tile(f"{name}_raw", tile.rows, tile.columns, k.lanes(self.type, shape.angles, shape.across))
        self._load_run(raw, at, d)
        if raw is not tile:
            ag.convert(k, tile, raw)
            k.registers.release(raw.name)
        k.registers.release(f"{name}_rows")

    def _load_run(self, raw: ag.Tile, at: ag.Reg, descriptor: ag.Reg) -> None:
        apart = self.shape.across * self.shape.angles * self.size
        for number in range(raw.across):
            registers = raw.base(0, number)
            step = min(raw.fragment.registers, max(_LOADS))
            for first in range(0, raw.fragment.registers, step):
                self.k.emit(_LOADS[step], registers[first:first + step - 1], at, descriptor, 0, offen=True,
                            offset=number * apart + _DWORD * first)

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
