"""Quantisation along rows and along columns in one launch: d and scale of x, d_t and scale_t of its transpose.

A workgroup goes down a strip of columns, a band of 32 rows, or of 128 that share scales of columns, at a time. A lane first has blocks of
32 columns of a row, or its part of blocks that four lanes share; then, with the band in L2, it has two neighbouring columns of 32 rows.
Lanes beyond the columns name offsets that no descriptor shows.
"""

from __future__ import annotations

from collections.abc import Mapping

import asmgen as ag
from asmgen.kernels.quantize.blockwise import set_modes
from asmgen.kernels.quantize.eightways import EightBits
from asmgen.kernels.quantize.formats import BLOCKS, BYTES, is_blocks, least_scale_stride, row_bytes
from asmgen.kernels.quantize.strips import IN_WAVE, strip_of
from asmgen.kernels.rows.blockscales import BLOCK, FAR, PAD, least_scales

_SHOWN = 0x7FFFFFFF
"""Bytes that a descriptor shows where offsets of lanes decide alone."""
_LOWER, _UPPER = 0x05040100, 0x07060302
"""v_perm_b32: the lower, or upper, halves of both sources, the second source's below."""
_STORES = {1: "buffer_store_dword", 2: "buffer_store_dwordx2", 4: "buffer_store_dwordx4"}
_LOADS = {1: "buffer_load_dword", 4: "buffer_load_dwordx4"}


Tiles = tuple[ag.Tile, ag.Tile, ag.Tile | None]
_F32 = 4  # bytes


class _Sides:
    """What both ways share: the band in work, `row` its first row, `left` rows from it on (signed), and the strip's first column."""

    def __init__(self, k: ag.TileBuilder) -> None:
        self.k, self.strip = k, strip_of(k.variant, k.parameters)
        self.to, self.source = {**BYTES, **BLOCKS}[k.p.to], str(k.parameters["from"])
        self.size = ag.element_bits(self.source) // 8
        self.out_bytes = BLOCK * ag.element_bits(self.to) // 8
        self.shuffled = k.p.layout == "shuffled"
        self.band, self.end, self.row, self.left, self.column = (k.registers.sgprs(1, name) for name in (
            "band", "bands_end", "first_row", "rows_left", "first_column"))
        k.s_mul_i32(self.column, k.ids["x"], self.strip.wide)
        k.s_mul_i32(self.band, k.ids["y"], k.argument("each"))
        with k.scratch("bands", file="s") as bands:
            k.s_add_u32(bands, k.argument("rows"), self.strip.band - 1)
            k.s_lshr_b32(bands, bands, self.strip.band.bit_length() - 1)
            if self.shuffled:
                k.s_add_u32(bands, bands, PAD - 1)
                k.s_and_b32(bands, bands, -PAD)
            k.s_add_u32(self.end, self.band, k.argument("each"))
            k.s_min_u32(self.end, self.end, bands)
        self.x = k.registers.sgprs(4, "x_band", align=4, note="descriptor")
        self.bytes = k.registers.sgprs(1, "x_stride_bytes")
        k.s_mul_i32(self.bytes, k.argument("x_stride"), self.size)
        k.s_mov_b32(self.x[3], ag.RAW_BUFFER)
        self.lanes = k.lanes(self.source, BLOCK, ag.LANES)
        self.part: ag.Reg | None = None
        if self.strip.parts > 1:
            self.part = k.registers.sgprs(1, "part", note="of the band, which the wave has of its columns")
            k.s_lshr_b32(self.part, k.wave.register, (self.strip.waves // self.strip.parts).bit_length() - 1)
        self.scale_size = 1 if is_blocks(k.parameters) else _F32 if self.strip.parts > 1 else 0
        self.eight = None if is_blocks(k.parameters) else EightBits(k, self.strip, self.lanes, self.part)

    def tiles(self, name: str, count: int, sharing: int = 1) -> Tiles:
        """So many blocks of a lane, or of as many as share them: as they are, quantised, and their scales, of MX types."""
        k, run = self.k, BLOCK // sharing
        wide, lanes = count * run * ag.LANES, self.lanes if sharing == 1 else k.lanes(self.source, run, ag.LANES)
        held: ag.Tile = k.tile(name, 1, wide, lanes)
        made: ag.Tile = k.tile(f"{name}_made", 1, wide, ag.with_dtype(lanes, self.to))
        if self.eight is not None:
            return held, made, None
        scales: ag.Tile = k.tile(f"{name}_scales", 1, wide // BLOCK, ag.exponent_fragment(held.fragment))
        ag.fill_with(k, made, 0)  # which the parts of its registers are written into
        return held, made, scales

    def find_band(self) -> None:
        """x from the band on. Changes SCC."""
        k = self.k
        k.s_mul_i32(self.row, self.band, self.strip.band)
        k.s_sub_u32(self.left, k.argument("rows"), self.row)
        self.show(self.x, k.argument("x"), self.bytes, k.p.columns * self.size)

    def show(self, d: ag.Reg, pointer: ag.Reg, stride: ag.Reg, shown: int) -> None:
        """The rows of the band that exist, of a tensor with so many bytes from row to row, of which `shown` are shown. Changes SCC."""
        k = self.k
        k.s_mul_i32(d[0], self.row, stride)
        k.s_mul_hi_u32(d[1], self.row, stride)
        k.s_add_u32(d[0], d[0], pointer[0])
        k.s_addc_u32(d[1], d[1], pointer[1])
        with k.scratch("rows_shown", file="s") as rows:
            k.s_min_i32(rows, self.left, self.strip.band)
            k.s_sub_u32(rows, rows, 1)
            k.s_mul_i32(d[2], rows, stride)
            k.s_add_u32(d[2], d[2], shown)
        k.s_cmp_gt_i32(self.left, 0)
        k.s_cselect_b32(d[2], d[2], 0)

    def quantise(self, tiles: Tiles, down: bool = False) -> None:
        """Blocks, of rows or of columns, into elements and scales."""
        held, made, scales = tiles
        if scales is None:
            if self.eight is not None:
                (self.eight.down if down else self.eight.along)(held, made)
            return
        ag.quantise(self.k, made, scales, held, rounding=self.k.p.rounding,
                    shortcuts=ag.Shortcuts(branch=True, saturating=True, begun=True))

    def in_bytes(self, name: str) -> ag.Reg:
        """The stride of scales in bytes, in a register of its own where that is another number."""
        k, stride = self.k, self.k.argument(f"{name}_stride")
        if self.scale_size == 1:
            return stride
        made = k.registers.sgprs(1, f"{name}_stride_bytes")
        k.s_mul_i32(made, stride, self.scale_size)
        return made

    def store_scale(self, tiles: Tiles, number: int, at: ag.Reg, descriptor: ag.Reg) -> None:
        """The scale of a block, or of the group that it is part of."""
        scales = tiles[2]
        if scales is not None:
            self.k.buffer_store_byte(scales.base(0, number), at, descriptor, 0, offen=True)
        elif self.eight is not None:
            self.k.buffer_store_dword(self.eight.scales[number].registers.items[0], at, descriptor, 0, offen=True)

    def store(self, made: ag.Reg, at: ag.Reg, descriptor: ag.Reg) -> None:
        """The bytes of a block."""
        first = 0
        while first < made.count:
            step = max(one for one in _STORES if one <= made.count - first)
            self.k.emit(_STORES[step], made[first:first + step - 1], at, descriptor, 0, offen=True, offset=4 * first)
            first += step

    def where(self, out: ag.Reg, condition: str, number: ag.Reg, limit: int | ag.Reg) -> None:
        """`out` stays where the comparison of the limit with a number holds, else it becomes an offset that no descriptor shows."""
        k = self.k
        with k.scratch("far") as far:
            k.v_mov_b32(far, FAR)
            k.emit(f"v_cmp_{condition}_u32", ag.vcc, limit, number)
            k.v_cndmask_b32(out, far, out, ag.vcc)


class _Along:
    """Blocks along rows."""

    def __init__(self, sides: _Sides) -> None:
        k, strip = sides.k, sides.strip
        self.k, self.sides = k, sides
        self.tiles = sides.tiles("ALONG", strip.fragments, strip.sharing)
        named = ("d", "scale") if sides.scale_size else ("d",)
        self.descriptors = {name: k.registers.sgprs(4, f"{name}_band", align=4, note="descriptor") for name in named}
        for name, descriptor in self.descriptors.items():
            k.s_mov_b32(descriptor[3], ag.RAW_BUFFER)
            k.shows(descriptor, k.argument(name))
        self.scale_bytes = sides.in_bytes("scale") if sides.scale_size else None
        self.row = k.registers.vgprs(1, "row_of_lane", note="of its first block, in the band")
        self.from_x, self.to_d = (k.registers.vgprs(strip.fragments, f"{name}_at") for name in ("x", "d"))
        self.to_scale = k.registers.vgprs(strip.fragments, "scale_at") if sides.scale_size else None
        with k.scratch("block") as block, k.scratch("row") as row, k.scratch("first", file="s") as first:
            k.s_mul_i32(first, k.wave.register, ag.LANES // strip.sharing)
            k.v_lshrrev_b32(block, strip.sharing.bit_length() - 1, k.lane)
            k.v_add_u32(block, first, block)
            k.v_lshrrev_b32(self.row, strip.blocks.bit_length() - 1, block)
            k.v_and_b32(block, strip.blocks - 1, block)
            k.s_lshr_b32(first, sides.column, BLOCK.bit_length() - 1)
            k.v_add_u32(block, first, block)
            for number in range(strip.fragments):
                k.v_add_u32(row, number * strip.rows_between, self.row)
                for out, stride, each in ((self.from_x, sides.bytes, BLOCK * sides.size), (self.to_d, k.argument("d_stride"),
                                                                                          sides.out_bytes)):
                    k.v_mul_lo_u32(out[number], stride, row)
                    with k.scratch("inside") as inside:
                        k.v_mul_u32_u24(inside, each, block)
                        k.v_add_u32(out[number], inside, out[number])
                        if strip.sharing > 1:
                            k.v_and_b32(inside, strip.sharing - 1, k.lane)
                            k.v_mul_u32_u24(inside, each // strip.sharing, inside)
                            k.v_add_u32(out[number], inside, out[number])
                    sides.where(out[number], "gt", block, k.p.columns // BLOCK)
                if self.to_scale is not None:
                    self._scale_byte(self.to_scale[number], row, block)

    def _scale_byte(self, out: ag.Reg, row: ag.Reg, block: ag.Reg) -> None:
        k, sides = self.k, self.sides
        if sides.shuffled:
            shuffled_byte(k, out, row, block)
        else:
            k.v_mul_lo_u32(out, self.scale_bytes, row)
        if sides.eight is not None:  # the first of the lanes of a group, whose scale is number block // 4
            with k.scratch("piece") as piece:
                k.v_and_b32(piece, -_F32, block)
                k.v_add_u32(out, piece, out)
                k.v_and_b32(piece, _F32 - 1, block)
                sides.where(out, "eq", piece, 0)
        elif not sides.shuffled:
            k.v_add_u32(out, block, out)
        if sides.strip.sharing > 1:  # the first of the lanes that share a block
            with k.scratch("piece") as piece:
                k.v_and_b32(piece, sides.strip.sharing - 1, k.lane)
                sides.where(out, "eq", piece, 0)
        sides.where(out, "gt", block, k.p.columns // BLOCK if sides.eight is not None else least_scales(k.p.columns, k.p.layout))

    def load(self) -> None:
        """A band, if it exists."""
        held = self.tiles[0]
        for number in range(held.across):
            registers = held.base(0, number)
            for first in range(0, held.fragment.registers, 4):
                self.k.emit(_LOADS[4], registers[first:first + 3], self.from_x[number], self.sides.x, 0, offen=True, offset=4 * first)

    def find(self) -> None:
        """The band's rows of d and scale. Changes SCC."""
        k, sides = self.k, self.sides
        sides.show(self.descriptors["d"], k.argument("d"), k.argument("d_stride"), row_bytes(k.parameters))
        scale = self.descriptors.get("scale")
        if scale is None or self.scale_bytes is None:
            return
        if not sides.shuffled:
            sides.show(scale, k.argument("scale"), self.scale_bytes, sides.scale_size * least_scale_stride(k.parameters))
            return
        pointer = k.argument("scale")
        for op, target in (("s_mul_i32", scale[0]), ("s_mul_hi_u32", scale[1])):
            k.emit(op, target, sides.row, k.argument("scale_stride"))
        k.s_add_u32(scale[0], scale[0], pointer[0])
        k.s_addc_u32(scale[1], scale[1], pointer[1])
        k.s_mov_b32(scale[2], _SHOWN)

    def make(self) -> None:
        """Elements and scales of the band."""
        k, sides = self.k, self.sides
        sides.quantise(self.tiles)
        made, scale = self.tiles[1], self.descriptors.get("scale")
        for number in range(made.across):
            sides.store(made.base(0, number), self.to_d[number], self.descriptors["d"])
            if scale is None or self.to_scale is None:
                continue
            if not sides.shuffled:
                sides.store_scale(self.tiles, number, self.to_scale[number], scale)
                continue
            with k.scratch("row") as row, k.scratch("at") as at:  # of rows beyond the last one scales are not written
                k.v_add_u32(row, number * sides.strip.rows_between, self.row)
                k.v_mov_b32(at, self.to_scale[number])
                k.s_max_i32(sides.left, sides.left, 0)
                sides.where(at, "gt", row, sides.left)
                sides.store_scale(self.tiles, number, at, scale)


class _Down:
    """Blocks along columns: two columns of a lane, whose elements are halves of the same dwords."""

    def __init__(self, sides: _Sides) -> None:
        k = sides.k
        self.k, self.sides = k, sides
        self.tiles = sides.tiles("DOWN", 2)
        self.raw = None if sides.source == "f32" else k.registers.vgprs(BLOCK, "raw_columns")
        named = ("d_t", "scale_t") if sides.scale_size else ("d_t",)
        self.descriptors = {name: k.registers.sgprs(4, f"{name}_strip", align=4, note="descriptor") for name in named}
        strides = {name: k.argument("d_t_stride") if name == "d_t" else sides.in_bytes(name) for name in named}
        for name, descriptor in self.descriptors.items():
            pointer = k.argument(name)
            for op, target in (("s_mul_i32", descriptor[0]), ("s_mul_hi_u32", descriptor[1])):
                k.emit(op, target, sides.column, strides[name])
            k.s_add_u32(descriptor[0], descriptor[0], pointer[0])
            k.s_addc_u32(descriptor[1], descriptor[1], pointer[1])
            k.s_mov_b32(descriptor[2], _SHOWN)
            k.s_mov_b32(descriptor[3], ag.RAW_BUFFER)
            k.shows(descriptor, pointer)
        self.from_x = k.registers.vgprs(1, "column_at")
        self.at = {name: k.registers.vgprs(2, f"{name}_at") for name in named}
        with k.scratch("column") as column, k.scratch("in_x") as in_x, k.scratch("first", file="s") as first:
            own = k.wave.register
            if sides.part is not None:
                k.s_and_b32(first, own, sides.strip.waves // sides.strip.parts - 1)
                own = first
            k.s_mul_i32(first, own, IN_WAVE)
            k.v_lshlrev_b32(column, 1, k.lane)
            k.v_add_u32(column, first, column)
            k.v_add_u32(in_x, sides.column, column)
            k.v_mul_lo_u32(self.from_x, sides.size, in_x)
            if sides.part is not None:
                k.s_mul_i32(first, sides.part, BLOCK)
                k.s_mul_i32(first, first, sides.bytes)
                k.v_add_u32(self.from_x, first, self.from_x)
            sides.where(self.from_x, "gt", in_x, k.p.columns)
            for item in range(2):
                if item:
                    k.v_add_u32(column, 1, column)
                for name, at in self.at.items():
                    if name == "scale_t" and sides.shuffled:
                        with k.scratch("no_block") as zero:
                            k.v_mov_b32(zero, 0)
                            shuffled_byte(k, at[item], column, zero, strides[name])
                    else:
                        k.v_mul_lo_u32(at[item], strides[name], column)
                if sides.part is not None:
                    self._find_part(item)
                for at in self.at.values():
                    sides.where(at[item], "gt", in_x, k.p.columns)

    def _find_part(self, item: int) -> None:
        """The wave's part of a band in rows of the transpose; waves of the first one store the scales."""
        k, part = self.k, self.sides.part
        with k.scratch("part_byte") as byte:
            k.v_mov_b32(byte, part)
            self.sides.where(self.at["scale_t"][item], "eq", byte, 0)
            k.v_lshlrev_b32(byte, self.sides.out_bytes.bit_length() - 1, byte)
            k.v_add_u32(self.at["d_t"][item], byte, self.at["d_t"][item])

    def load(self) -> None:
        """The band's columns."""
        k, sides = self.k, self.sides
        with k.scratch("row_at") as at:
            k.v_mov_b32(at, self.from_x)
            for row in range(BLOCK):
                if self.raw is not None:
                    k.emit(_LOADS[1], self.raw[row], at, sides.x, 0, offen=True)
                else:
                    for item in range(2):
                        k.emit(_LOADS[1], self.tiles[0].base(0, item)[row], at, sides.x, 0, offen=True, offset=sides.size * item)
                if row + 1 < BLOCK:
                    k.v_add_u32(at, sides.bytes, at)

    def make(self) -> None:
        """Elements and scales of the band's columns; of a band beyond the rows scales alone, which are pads. Changes SCC."""
        k, sides = self.k, self.sides
        held = self.tiles[0]
        if self.raw is not None:
            with k.scratch("halves", file="s") as select:
                for item, pattern in enumerate((_LOWER, _UPPER)):
                    k.s_mov_b32(select, pattern)
                    registers = held.base(0, item)
                    for number in range(registers.count):
                        k.v_perm_b32(registers[number], self.raw[2 * number + 1], self.raw[2 * number], select)
        sides.quantise(self.tiles, down=True)
        with k.scratch("of_band", 2, "s") as offset:
            k.s_mul_i32(offset[0], sides.band, sides.out_bytes * sides.strip.parts)
            if sides.scale_size > 1:
                k.s_mul_i32(offset[1], sides.band, sides.scale_size)
            else:
                k.s_mov_b32(offset[1], sides.band)
            if sides.shuffled:
                self._shuffled_band(offset[1])
            self._store({"d_t": offset[0], "scale_t": offset[1]})

    def _shuffled_band(self, out: ag.Reg) -> None:
        """The byte of block `band` of rows of shuffled scales."""
        k, band = self.k, self.sides.band
        with k.scratch("part", file="s") as part:
            k.s_lshr_b32(out, band, 3)
            k.s_lshl_b32(out, out, 8)
            for mask, shift in ((3, 6), (4, -1)):
                k.s_and_b32(part, band, mask)
                k.emit("s_lshl_b32" if shift > 0 else "s_lshr_b32", part, part, abs(shift))
                k.s_add_u32(out, out, part)

    def _store(self, offsets: Mapping[str, ag.Reg]) -> None:
        k, sides = self.k, self.sides
        with k.scratch("target", 4, "s") as target:
            for name, descriptor in self.descriptors.items():
                k.s_add_u32(target[0], descriptor[0], offsets[name])
                k.s_addc_u32(target[1], descriptor[1], 0)
                k.s_mov_b64(target[2:3], descriptor[2:3])
                if name == "d_t":
                    self._hide_absent(target)
                for item in range(2):
                    if name == "d_t":
                        sides.store(self.tiles[1].base(0, item), self.at[name][item], target)
                    else:
                        sides.store_scale(self.tiles, item, self.at[name][item], target)

    def _hide_absent(self, target: ag.Reg) -> None:
        """Show nothing to a wave whose part of the band has no row. Changes SCC."""
        k, sides = self.k, self.sides
        if sides.part is not None:
            with k.scratch("rows_before", file="s") as before:
                k.s_mul_i32(before, sides.part, BLOCK)
                k.s_cmp_gt_i32(sides.left, before)
        elif sides.shuffled:
            k.s_cmp_gt_i32(sides.left, 0)
        else:
            return
        k.s_cselect_b32(target[2], target[2], 0)


def shuffled_byte(k: ag.TileBuilder, out: ag.Reg, row: ag.Reg, block: ag.Reg, stride: ag.Reg | None = None) -> None:
    """Where the scale of a row and a block lies from the first row of 32 on (docs/facts/blockscales.md section 2); with a stride, from
    row 0 on."""
    with k.scratch("piece") as piece:
        k.v_lshrrev_b32(out, 3, block)
        k.v_lshlrev_b32(out, 8, out)
        for source, mask, shift in ((block, 3, 6), (block, 4, -1), (row, 15, 2), (row, 16, -4)):
            k.v_and_b32(piece, mask, source)
            k.emit("v_lshlrev_b32" if shift > 0 else "v_lshrrev_b32", piece, abs(shift), piece)
            k.v_add_u32(out, piece, out)
        if stride is not None:
            k.v_and_b32(piece, -BLOCK, row)
            k.v_mul_lo_u32(piece, stride, piece)
            k.v_add_u32(out, piece, out)


def both_ways(k: ag.TileBuilder) -> None:
    """Band by band: load, quantise along rows, store; load columns, quantise along them, store."""
    if is_blocks(k.parameters):
        set_modes(k, BLOCKS[k.p.to])
    # register plan
    sides = _Sides(k)
    along, down = _Along(sides), _Down(sides)
    sides.find_band()
    along.load()
    k.label("bands")
    along.find()
    down.load()
    along.make()
    down.make()
    k.s_add_u32(sides.band, sides.band, 1)
    sides.find_band()
    along.load()
    k.s_cmp_lt_u32(sides.band, sides.end)
    k.s_cbranch_scc1("bands")
