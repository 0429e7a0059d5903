"""Slots of a workspace: the sums of a tile in float32, as the registers of its workgroup hold them.

A slot has a wave's lines after the other's, for one corner of the tile after the other. A line is what a wave moves at once: 1 KiB, 16
bytes a lane.
"""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.products.persistent import persistent_grid
from asmgen.kernels.products.streams import SHARED_PARTS

_F32 = 4  # bytes
_PER_LANE = 4  # sums that a lane moves at once: 16 bytes
LINE = _PER_LANE * ag.LANES
"""Sums that a wave moves at once."""
_LINE_BYTES = _F32 * LINE


def store_slot(k: ag.TileBuilder, corners: Sequence[ag.Corner], slot: ag.Reg) -> None:
    """The sums into a slot: a wave's corner after the other, 1 KiB at a time. Changes SCC."""
    one, lines = ag.WaveIndex("one", 0, 1), lines_of(corners[0].tile.registers.count)
    held = [ag.Corner(_in_lines(k, corner), number * lines * k.wave.count, 0) for number, corner in enumerate(corners)]
    with k.scratch("slot_buffer", 4, "s") as descriptor:
        rows = _slot_rows_of(k, descriptor, slot, 0, tile_bytes(k) // _LINE_BYTES)
        with k.scratch("no_column", file="s") as none:
            k.s_mov_b32(none, 0)
            ag.store_whole(k, rows, none, held, k.wave, one)


def add_slot(k: ag.TileBuilder, corners: Sequence[ag.Corner], slot: ag.Reg) -> None:
    """Add what `store_slot` has put into a slot to the sums, in the wave that stored it. As many lines are on their way as far memory
    serves a compute unit at once. Changes SCC."""
    lines, waves = lines_of(corners[0].tile.registers.count), k.wave.count
    held = [tile.part(line, 0, 1, LINE) for tile in (_in_lines(k, corner) for corner in corners) for line in range(lines)]
    in_flight = ag.timing(ag.DEFAULT_GPU[k.arch]).clocks("vmem_in_flight")  # bytes of a compute unit
    on_way = min(len(held), max(1, in_flight // _LINE_BYTES // waves))
    with k.scratch("slot_buffer", 4, "s") as descriptor:
        with k.scratch("own_lines", file="s") as own:
            k.s_mul_i32(own, k.wave.register, lines)
            line = _slot_rows_of(k, descriptor, slot, own, 1)
        asked = k.tile("Stored", 1, LINE, lanes(k), grid=(on_way,), note="lines of a slot")
        for number in range(len(held) + on_way):
            if number >= on_way:
                ag.add(k, held[number - on_way], held[number - on_way], asked[number % on_way])
            if number < len(held):
                ag.load(k, asked[number % on_way], line)
                further = 1 if (number + 1) % lines else 1 + (waves - 1) * lines  # beside what other waves have of a corner
                k.s_add_u32(descriptor[0], descriptor[0], further * _LINE_BYTES)
                k.s_addc_u32(descriptor[1], descriptor[1], 0)


def _in_lines(k: ag.TileBuilder, corner: ag.Corner) -> ag.Tile:
    """The accumulators of a corner as lines of a slot."""
    tile = corner.tile
    return ag.Tile(tile.name, lines_of(tile.registers.count), LINE, lanes(k), tile.registers)


def _slot_rows_of(k: ag.TileBuilder, descriptor: ag.Reg, slot: ag.Reg, first: ag.Reg | int, count: int) -> ag.Rows:
    """`slot_rows` of the workspace that the kernel's arguments name. Changes SCC."""
    (at,) = (row.offset for row in k.table if row.name == "parts")
    k.emit("s_load_dwordx2", descriptor[0:1], k.kernarg, at)
    return slot_rows(k, descriptor, descriptor[0:1], slot, first, count)


def lines_of(registers: int) -> int:
    """The lines that so many registers of a wave are."""
    return registers // _PER_LANE


def lanes(k: ag.TileBuilder) -> ag.Fragment:
    """Four sums side by side in each lane."""
    like = k.matrix_shape("f32_16x16x16_bf16" if k.arch == "gfx942" else "f32_16x16x32_bf16").d
    return ag.block_fragment(like, 1, _PER_LANE, ag.LANES)


def slot_rows(k: ag.TileBuilder, descriptor: ag.Reg, parts: ag.Reg, slot: ag.Reg, first: ag.Reg | int, count: int) -> ag.Rows:
    """Lines of a slot of the workspace at `parts` from number `first` on, in a descriptor of the caller's. Changes SCC."""
    with k.scratch("slot_bytes", 2, "s") as bytes_:
        k.s_mul_hi_u32(bytes_[1], slot, tile_bytes(k))
        k.s_mul_i32(bytes_[0], slot, tile_bytes(k))
        k.s_add_u32(descriptor[0], parts[0], bytes_[0])
        k.s_addc_u32(descriptor[1], parts[1], bytes_[1])
        if first != 0:
            k.s_mul_i32(bytes_[0], first, _LINE_BYTES)
            k.s_add_u32(descriptor[0], descriptor[0], bytes_[0])
            k.s_addc_u32(descriptor[1], descriptor[1], 0)
    k.s_mov_b32(descriptor[2], count * _LINE_BYTES)
    k.s_mov_b32(descriptor[3], ag.RAW_BUFFER)
    rows = ag.Matrix("parts", "f32", parts, count, LINE, LINE).rows(0, count)
    rows.shown_by(k, descriptor)
    return rows


def tile_bytes(k: ag.TileBuilder) -> int:
    """Of a slot."""
    return _F32 * k.variant.tile[0] * k.variant.tile[1]


def slots_of_workgroups(variant: ag.Variant) -> tuple[ag.Workspace, ...]:
    """A slot for each workgroup."""
    area = variant.tile[0] * variant.tile[1]
    size = ag.Formula(f"{_F32 * area} * min(tiles, workgroups): a tile's sums for each workgroup",
                      lambda p: _F32 * area * persistent_grid(p, variant)[0])
    return (ag.Workspace("parts", SHARED_PARTS.doc, size, zeroed=False),)
