"""Heads normalised in float32 before they are rotated: x / sqrt(mean(x^2) + eps) w."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rope.headcolumns import byte_of_lane, load_columns, parts_of_heads, release, rest_of_heads
from asmgen.kernels.rope.shape import HeadShape


class HeadNorm:
    """The weights at pointer argument `w` and a number, in the lanes that have their columns."""

    def __init__(self, k: ag.TileBuilder, shape: HeadShape, number: str) -> None:
        self.k, self.shape = k, shape
        self.tiles = [*parts_of_heads(k, shape, f"WEIGHT{number}", "f32"), *rest_of_heads(k, shape, f"WEIGHT_REST{number}", "f32")]
        dtype, name = k.p.dtype, f"w{number}"
        raw = self.tiles if dtype == "f32" else [*parts_of_heads(k, shape, f"WEIGHT_RAW{number}", dtype),
                                                 *rest_of_heads(k, shape, f"WEIGHT_RAW_REST{number}", dtype)]
        size = ag.element_bits(dtype) // 8
        d = k.registers.sgprs(4, f"{name}_line", note="descriptor")
        k.s_mov_b64(d[0:1], k.argument(name))
        k.s_mov_b32(d[2], shape.d * size)
        k.s_mov_b32(d[3], ag.RAW_BUFFER)
        starts = [*shape.starts, *((shape.rest_start,) if shape.rest else ())]
        for tile, column in zip(raw, starts, strict=True):
            with k.scratch("column_byte") as at:
                byte_of_lane(k, at, shape, tile.fragment.items, size)
                load_columns(k, tile, at, d, shape.across, column)
        if raw is not self.tiles:
            for tile, source in zip(self.tiles, raw, strict=True):
                ag.convert(k, tile, source)
            release(k, raw)
        k.registers.release(f"{name}_line")

    def apply(self, tiles: Sequence[ag.Tile]) -> None:
        """All columns of a head, in place. Lanes that share a head add their squares up."""
        k = self.k
        pairs = [ag.joined(*items[at:at + 2]) for items in (tile.registers.items for tile in tiles) for at in range(0, len(items), 2)]
        with k.scratch("squares", 2) as squares, k.scratch("factor", 2) as factor:
            for number, pair in enumerate(pairs):
                if number:
                    k.v_pk_fma_f32(squares, pair, pair, squares)
                else:
                    k.v_pk_mul_f32(squares, pair, pair)
            total = factor[0]
            k.v_add_f32(total, squares[0], squares[1])
            ag.over_lanes(k, "v_add_f32", [total], range(self.shape.across.bit_length() - 1))
            k.v_mul_f32(total, 1.0 / self.shape.d, total)
            k.v_add_f32(total, k.argument("eps"), total)
            k.v_rsq_f32(total, total)
            k.v_mov_b32(factor[1], total)
            for pair in pairs:
                k.v_pk_mul_f32(pair, pair, factor)
        for tile, weights in zip(tiles, self.tiles, strict=True):
            ag.mul(k, tile, tile, weights)

    def release(self) -> None:
        """Give its registers back."""
        release(self.k, self.tiles)
