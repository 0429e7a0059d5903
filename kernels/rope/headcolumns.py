"""Numbers of a head's columns in the lanes that have those columns."""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.rope.shape import HeadShape

_DWORD = 4  # bytes
_LOADS = {1: "buffer_load_dword", 2: "buffer_load_dwordx2", 4: "buffer_load_dwordx4"}


def tile_of(k: ag.TileBuilder, shape: HeadShape, name: str, dtype: str, columns: int, run: int) -> ag.Tile:
    """So many columns of a wave's tokens, `run` neighbours a lane."""
    tile: ag.Tile = k.tile(name, shape.wave_tokens, columns, k.lanes(dtype, run, shape.across))
    return tile


def parts_of_heads(k: ag.TileBuilder, shape: HeadShape, name: str, dtype: str) -> list[ag.Tile]:
    """The rotated columns of a wave's tokens: the two halves of neox, or all of gptj."""
    return [tile_of(k, shape, f"{name}_{part}", dtype, shape.part, shape.run) for part in range(shape.parts)]


def rest_of_heads(k: ag.TileBuilder, shape: HeadShape, name: str, dtype: str) -> list[ag.Tile]:
    """The columns that are not rotated: a tile, or none."""
    return [tile_of(k, shape, name, dtype, shape.rest, shape.rest_run)] if shape.rest else []


def load_columns(k: ag.TileBuilder, tile: ag.Tile, at: ag.Reg, descriptor: ag.Reg, across: int, column: int = 0) -> None:
    """The columns of each lane from `column` on, by the byte of its first one. Of types with another name in memory by way of that."""
    size = ag.element_bits(tile.dtype) // 8
    apart = across * tile.fragment.items * size
    for number in range(tile.across):
        registers = tile.base(0, number)
        step = min(tile.fragment.registers, max(_LOADS))
        for first in range(0, tile.fragment.registers, step):
            k.emit(_LOADS[step], registers[first:first + step - 1], at, descriptor, 0, offen=True,
                   offset=column * size + number * apart + _DWORD * first)


def byte_of_lane(k: ag.TileBuilder, at: ag.Reg, shape: HeadShape, run: int, size: int) -> None:
    """The byte of a lane's first column among `run` neighbours a lane."""
    k.v_and_b32(at, shape.across - 1, k.lane)
    k.v_mul_u32_u24(at, run * size, at)


def release(k: ag.TileBuilder, tiles: Sequence[ag.Tile]) -> None:
    """Give the registers of tiles back."""
    for name in dict.fromkeys(tile.name for tile in tiles):
        k.registers.release(name)
