"""Blocks of 32 elements as 8-bit numbers with float32 scales: one scale that is given, or one for 128 elements, which four lanes of a row,
or four waves of columns, have together."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.quantize.formats import GROUP, group_of
from asmgen.kernels.quantize.strips import IN_WAVE, Strip
from asmgen.kernels.rows.blockscales import BLOCK
from asmgen.kernels.rows.eightbits import LARGEST, keep_below_largest, reciprocal, scale_of_largest
from asmgen.kernels.rows.rowsums import largest_magnitude
from asmgen.kernels.rows.rowtensors import parts_of

_F32 = 4  # bytes


class EightBits:
    """What makes them: registers for two blocks in float32 and their scales. `part` is an SGPR with the wave's number among those that
    share the rows of a column's group."""

    def __init__(self, k: ag.TileBuilder, strip: Strip, lanes: ag.Fragment, part: ag.Reg | None) -> None:
        self.k, self.strip = k, strip
        self.in_groups, self.largest = group_of(k.parameters) == str(GROUP), LARGEST[k.p.to, k.p.encoding]
        wide, blocks = ag.with_dtype(lanes, "f32"), 0 if lanes.dtype == "f32" else 2
        self.wide: list[ag.Tile] = [k.tile(f"WIDE{number}", 1, BLOCK * ag.LANES, wide) for number in range(blocks)]
        like: ag.Tile = self.wide[0] if self.wide else k.tile("LIKE", 1, BLOCK * ag.LANES, wide)
        self.scales = [ag.row_vector(k, f"scale{number}", like, apart=True) for number in range(2)]
        self.inverse = ag.row_vector(k, "inverse", like, apart=True)
        if not self.wide:
            k.registers.release("LIKE")
        if part is not None:
            self._take_words(part)
        else:
            self._given()

    def _given(self) -> None:
        k, (scale,) = self.k, self.scales[0].registers.items
        with k.scratch("given", file="s") as given:
            k.s_load_dword(given, k.argument("scale"), 0)
            k.v_mov_b32(scale, given)
        reciprocal(k, self.inverse, self.scales[0])
        if k.p.to != "int8":
            keep_below_largest(k)

    def _take_words(self, part: ag.Reg) -> None:
        """Words of LDS for two columns of each lane, of all waves that share a group."""
        k, strip = self.k, self.strip
        self.words = k.lds.take("largest_of_parts", _F32 * strip.parts * strip.wide, align=16)
        self.to_words, self.from_words = (k.registers.vgprs(1, name) for name in ("own_largest", "all_largest"))
        with k.scratch("first_word", file="s") as first:
            k.s_and_b32(first, k.wave.register, strip.waves // strip.parts - 1)
            k.s_mul_i32(first, first, _F32 * IN_WAVE)
            k.v_lshlrev_b32(self.from_words, 3, k.lane)
            k.v_add_u32(self.from_words, first, self.from_words)
            k.s_mul_i32(first, part, _F32 * strip.wide)
            k.v_add_u32(self.to_words, first, self.from_words)

    def along(self, held: ag.Tile, made: ag.Tile) -> None:
        """Blocks of rows, one after the other; neighbours among lanes have one group."""
        k = self.k
        for number, (block, out) in enumerate(zip(parts_of(held), parts_of(made), strict=True)):
            wide = self._widened(block, number)
            if self.in_groups:
                scale = self.scales[number]
                largest_magnitude(k, scale, wide)
                ag.over_lanes(k, "v_max_f32", list(scale.registers.items), range((GROUP // BLOCK).bit_length() - 1))
                scale_of_largest(k, scale, self.inverse, self.largest)
            ag.mul(k, wide, wide, self.inverse)
            ag.convert(k, out, wide)

    def down(self, held: ag.Tile, made: ag.Tile) -> None:
        """Blocks of two columns; waves that have other rows of the columns' groups meet here."""
        k = self.k
        wide = [self._widened(block, number) for number, block in enumerate(parts_of(held))]
        if self.in_groups:
            self._find_largest(wide)
        for number, out in enumerate(parts_of(made)):
            if self.in_groups:
                scale_of_largest(k, self.scales[number], self.inverse, self.largest)
            ag.mul(k, wide[number], wide[number], self.inverse)
            ag.convert(k, out, wide[number])

    def _find_largest(self, wide: list[ag.Tile]) -> None:
        k, strip, words = self.k, self.strip, self.words
        with k.scratch("of_part", 2) as own:
            for number, block in enumerate(wide):
                largest_magnitude(k, self.scales[number], block)
                k.v_mov_b32(own[number], self.scales[number].registers.items[0])
            k.s_barrier()  # all have read what the band before left
            k.ds_write_b64(self.to_words, own, offset=words.low, fills=words)
            k.s_barrier()
        with k.scratch("of_parts", 2 * strip.parts) as found:
            for part in range(strip.parts):
                k.ds_read_b64(found[2 * part:2 * part + 1], self.from_words, offset=words.low + part * _F32 * strip.wide, uses=words)
            for number, scale in enumerate(self.scales):
                (total,) = scale.registers.items
                k.v_max_f32(total, found[number], found[2 + number])
                for part in range(2, strip.parts):
                    k.v_max_f32(total, total, found[2 * part + number])

    def _widened(self, block: ag.Tile, number: int) -> ag.Tile:
        if not self.wide:
            return block
        ag.convert(self.k, self.wide[number], block)
        return self.wide[number]
